"""From a JSONL file to a batch: open it, find out what its requests are for, upload it, create the batch."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from ebbtide.cli.gateway import Gateway, Refused, Unreachable
from ebbtide.cli.output import tell
from ebbtide.cli.watching import Patience
from ebbtide.cli.wire import Batch
from ebbtide.errors import SetupError

_LONGEST_LINE = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Submission:
    """A batch to be made from a file of requests, one JSON object a line."""

    file: BinaryIO
    name: str
    endpoint: str
    metadata: dict[str, str]
    idempotency_key: str | None


class _FirstLine(msgspec.Struct):
    url: str | None = None


@contextmanager
def opened(source: str) -> Iterator[tuple[BinaryIO, str]]:
    """The file `source`, or standard input for `-`, and a name for it. Raises SetupError."""
    if source == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            yield copy, "stdin.jsonl"
        return
    path = Path(source)
    try:
        file = path.open("rb")
    except OSError as error:
        raise SetupError(f"Cannot read {source}: {error.strerror}") from error
    with file:
        yield file, path.name


def endpoint_of(file: BinaryIO, given: str | None) -> str:
    """What the requests are for: `given`, or the `url` of the first line. Raises SetupError."""
    line = _first_line(file)
    if given is not None:
        return given
    try:
        url = msgspec.json.decode(line, type=_FirstLine).url
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SetupError(f"The first request is not a JSON object as a batch file has them: {error}") from error
    if url is None:
        raise SetupError("The first request has no url; name what the requests are for with --endpoint")
    return url


def read_metadata(pairs: Sequence[str] | None) -> dict[str, str]:
    """`k=v` pairs as a mapping. Raises SetupError."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise SetupError(f"--metadata takes name=value; {pair!r} is not that")
        found[name] = value
    return found


def new_key() -> str:
    """An idempotency key that nobody else has."""
    return f"ebbtide-{secrets.token_hex(16)}"


async def submit(gateway: Gateway, submission: Submission, patience: float) -> Batch:
    """Upload the file and create its batch; a file whose batch was refused is deleted again.

    A create whose answer was lost is sent again for `patience` seconds: its key keeps it from making a second batch.
    """
    file_id = await gateway.upload(submission.file, submission.name)
    body: dict[str, object] = {
        "input_file_id": file_id,
        "endpoint": submission.endpoint,
        "completion_window": "24h",
    }
    if submission.metadata:
        body["metadata"] = submission.metadata
    key = submission.idempotency_key or new_key()
    try:
        return await Patience(patience, tell, when_busy=False).until_answered(lambda: gateway.create(body, key))
    except Refused:
        with suppress(Refused, Unreachable):  # the refusal of the batch is what there is to tell
            await gateway.delete_file(file_id)
        raise


def _first_line(file: BinaryIO) -> bytes:
    """The first line that is not blank; the file is rewound after it."""
    while line := file.readline(_LONGEST_LINE):
        line = line.removeprefix(_BOM)
        if line.strip():
            file.seek(0)
            return line
    raise SetupError("The file holds no requests")
