"""Waiting for a batch and fetching its results, through restarts of the gateway."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from ebbtide.cli import exits
from ebbtide.cli.gateway import Gateway, Refused, Unreachable
from ebbtide.cli.progress import Display, display
from ebbtide.cli.wire import Batch
from ebbtide.errors import SetupError

T = TypeVar("T")

_FIRST_LOOK: Final = 0.25  # seconds between looks, growing while the batch runs
_LAST_LOOK: Final = 5.0
_LONGEST_RETRY: Final = 5.0


@dataclass(frozen=True)
class Patience:
    """How long a gateway may stay away before waiting for it ends; `when_busy` waits for one that says 429, too."""

    seconds: float
    say: Callable[[str], None]
    when_busy: bool = True

    async def until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` returns, tried again while no gateway answers. Raises Unreachable when patience ends."""
        start, pause = time.monotonic(), _FIRST_LOOK
        while True:
            try:
                return await call()
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and not (self.when_busy and error.status == 429):
                    raise
                if time.monotonic() - start + pause > self.seconds:
                    raise
                if pause == _FIRST_LOOK:
                    self.say(f"{error.message} Trying again.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_RETRY)


async def watch_batch(gateway: Gateway, batch_id: str, patience: float) -> Batch:
    """Show the batch until it is final, and return it then."""
    with display(sys.stderr, time.monotonic) as shown:
        return await _follow(gateway, batch_id, shown, Patience(patience, shown.say))


async def _follow(gateway: Gateway, batch_id: str, shown: Display, patience: Patience) -> Batch:
    """By the gateway's own stream of progress where it has one, else by looking now and then."""
    pause, streams = _FIRST_LOOK, True
    while True:
        batch = await patience.until_answered(lambda: gateway.batch(batch_id))
        shown.show(batch)
        if batch.is_final:
            return batch
        if streams:
            streams = await _show_progress(gateway, batch_id, shown)
        await asyncio.sleep(pause)
        pause = min(pause * 1.1, _LAST_LOOK)


async def _show_progress(gateway: Gateway, batch_id: str, shown: Display) -> bool:
    """Show what the stream tells until it ends. False when there is none to listen to."""
    try:
        async for batch in gateway.progress(batch_id):
            shown.show(batch)
    except Refused:
        return False
    except Unreachable:
        pass  # the next look says so, and waits
    return True


async def fetch_results(gateway: Gateway, batch_id: str, output: str | None, patience: float) -> None:
    """Write the results to the file `output`, whole or not at all; None and `-` mean standard output."""
    if output is None or output == "-":
        await _copy(gateway.results(batch_id), sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return

    async def fetch() -> None:
        with whole_file(Path(output)) as file:
            await _copy(gateway.results(batch_id), file)

    await Patience(patience, lambda message: print(message, file=sys.stderr)).until_answered(fetch)


async def _copy(pieces: AsyncIterator[bytes], file: BinaryIO) -> None:
    async for piece in pieces:
        file.write(piece)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and leaves no trace when it does not.

    What is no regular file (a pipe, a device) is written as it is. Raises SetupError when it cannot be written.
    """
    try:
        path = path.resolve()
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            with path.open("wb") as file:
                yield file
            return
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with part.open("wb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SetupError(f"Cannot write {path}: {error.strerror or error}") from error


def exit_status(batch: Batch) -> int:
    """The exit status that tells how a final batch ended."""
    if batch.status != "completed":
        return exits.BATCH_ENDED
    return exits.OK if batch.all_succeeded else exits.SOME_FAILED


def summary(batch: Batch) -> Iterator[str]:
    """What is to be said of a final batch, a line each."""
    for problem in batch.errors.data if batch.errors else []:
        yield str(problem)
    if batch.error is not None:
        yield batch.error if isinstance(batch.error, str) else batch.error.message
    counts = batch.counts
    parts = [f"{counts.completed} of {counts.total} succeeded"]
    parts += [f"{counts.failed} failed"] if counts.failed else []
    parts += [f"{counts.cancelled} cancelled"] if counts.cancelled else []
    parts += [f"{batch.cost_usd:.6f} USD"] if batch.cost_usd else []
    yield f"{batch.id} {batch.status}: {', '.join(parts)}."
