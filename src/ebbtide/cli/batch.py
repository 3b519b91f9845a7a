"""`ebbtide batch …`: submit, watch, collect and remove batches of any gateway, over HTTP with a key."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from ebbtide.cli import exits
from ebbtide.cli.gateway import HERE, Gateway, GatewayOptions, open_gateway, read_batch
from ebbtide.cli.output import AsJson, print_rows, tell
from ebbtide.cli.submitting import Submission, endpoint_of, new_key, opened, read_metadata, submit
from ebbtide.cli.watching import Patience as Waiting
from ebbtide.cli.watching import check_output, exit_status, fetch_results, summary, watch_batch
from ebbtide.cli.wire import Batch

app = App(name="batch", help="Batches of a gateway.")
_COLUMNS = ("id", "status", "endpoint", "done", "failed", "created_at", "expires_at")
_PAGE = 100

Source = Annotated[str, Parameter(allow_leading_hyphen=True, help="A JSONL file, a request a line; - for stdin.")]
Output = Annotated[
    str | None,
    Parameter(name=["--output", "-o"], allow_leading_hyphen=True, help="Where the results go; - for stdout."),
]
Patience = Annotated[float, Parameter(help="Seconds that the gateway may stay away before the wait is given up.")]
IdempotencyKey = Annotated[
    str | None, Parameter(help="Sent with the call, so that repeating it makes no second batch; made up when left out.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SubmitFlags:
    """How a file becomes a batch."""

    endpoint: Annotated[str | None, Parameter(help="What the requests are for; without it, the first line's url.")] = (
        None
    )
    metadata: Annotated[list[str] | None, Parameter(negative=(), help="name=value; may be repeated.")] = None
    idempotency_key: Annotated[
        str | None,
        Parameter(
            help="Makes the command safe to repeat: run again with the same file, it prints the first run's batch. "
            "A file with the same content that you uploaded before is used, not uploaded again. Made up when left out."
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FollowFlags:
    """What is done once a batch is made."""

    wait: Annotated[bool, Parameter(negative=(), help="Wait until the batch has ended.")] = False
    output: Output = None
    give_up_after: Patience = 600.0


@app.command(name="submit")
async def submit_(
    file: Source,
    /,
    *,
    then: FollowFlags = FollowFlags(),
    flags: SubmitFlags = SubmitFlags(),
    options: GatewayOptions = HERE,
) -> int:
    """Upload a JSONL file, create a batch from it and print the batch's id.

    With --wait, or -o, which implies it: show the progress until the batch has ended, write the results to the file
    given, and end with status 0 only if every request succeeded.
    """
    check_output(then.output)
    async with open_gateway(options) as gateway:
        with opened(file) as (content, name):
            endpoint = endpoint_of(content, flags.endpoint)
            metadata = read_metadata(flags.metadata)
            submission = Submission(content, name, endpoint, metadata, flags.idempotency_key)
            batch = await submit(gateway, submission, then.give_up_after)
        return await _follow(gateway, batch, then)


@app.command
async def watch(
    batch_id: str, /, *, output: Output = None, give_up_after: Patience = 600.0, options: GatewayOptions = HERE
) -> int:
    """Show a batch's progress until it has ended; the exit status tells how."""
    check_output(output)
    async with open_gateway(options) as gateway:
        return await _finish(gateway, batch_id, output, give_up_after)


@app.command
async def retry(
    batch_id: str,
    /,
    *,
    then: FollowFlags = FollowFlags(),
    idempotency_key: IdempotencyKey = None,
    options: GatewayOptions = HERE,
) -> int:
    """Create a batch of an ended batch's failed, expired and cancelled requests and print its id.

    --wait and -o do what they do for submit.
    """
    check_output(then.output)
    key = idempotency_key or new_key()
    async with open_gateway(options) as gateway:
        patience = Waiting(then.give_up_after, tell, when_busy=False)
        batch = await patience.until_answered(lambda: gateway.retry(batch_id, key))
        return await _follow(gateway, batch, then)


@app.command
async def results(
    batch_id: str, /, *, output: Output = None, give_up_after: Patience = 600.0, options: GatewayOptions = HERE
) -> None:
    """Write an ended batch's results as JSONL, in the order of submission, to a file or to standard output."""
    check_output(output)
    async with open_gateway(options) as gateway:
        await fetch_results(gateway, batch_id, output, give_up_after)


@app.command
async def cancel(batch_id: str, /, *, options: GatewayOptions = HERE) -> None:
    """Start no more of a batch's requests; running ones finish."""
    async with open_gateway(options) as gateway:
        batch = await gateway.cancel(batch_id)
    tell(f"{batch.id} is {batch.status}.")


@app.command(name="list")
async def list_(
    *,
    limit: Annotated[int, Parameter(help="How many at most, newest first; 0 for all.")] = 20,
    json: AsJson = False,
    options: GatewayOptions = HERE,
) -> None:
    """List the batches of the key's account, newest first."""
    async with open_gateway(options) as gateway:
        found = await _list(gateway, limit)
    rows = found if json else [_row(read_batch(batch)) for batch in found]
    print_rows(rows, _COLUMNS, as_json=json, empty="There are no batches yet.")


@app.command
async def delete(batch_id: str, /, *, options: GatewayOptions = HERE) -> None:
    """Delete a batch with its requests and results."""
    async with open_gateway(options) as gateway:
        await gateway.delete(batch_id)
    tell(f"{batch_id} is deleted.")


async def _follow(gateway: Gateway, batch: Batch, then: FollowFlags) -> int:
    """Tell the new batch's id, where it does not go between results, and wait for its end where that is wanted."""
    print(batch.id, file=sys.stderr if then.output == "-" else sys.stdout, flush=True)
    if not then.wait and then.output is None:
        return exits.OK
    return await _finish(gateway, batch.id, then.output, then.give_up_after)


async def _finish(gateway: Gateway, batch_id: str, output: str | None, patience: float) -> int:
    try:
        batch = await watch_batch(gateway, batch_id, patience)
    except asyncio.CancelledError:
        tell(f"The batch goes on. `ebbtide batch watch {batch_id}` looks again, `ebbtide batch cancel …` stops it.")
        raise
    if output is not None and batch.counts.total:
        await fetch_results(gateway, batch_id, output, patience)
    for line in summary(batch):
        tell(line)
    return exit_status(batch)


async def _list(gateway: Gateway, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    more = True
    while more and (limit <= 0 or len(found) < limit):
        size = _PAGE if limit <= 0 else min(_PAGE, limit - len(found))
        page, more = await gateway.batches(size, str(found[-1]["id"]) if found else None)
        found += page
        more = more and bool(page)
    return found


def _row(batch: Batch) -> dict[str, object]:
    counts = batch.counts
    return {
        "id": batch.id,
        "status": batch.status,
        "endpoint": batch.endpoint,
        "done": f"{counts.done}/{counts.total}",
        "failed": counts.failed,
        "created_at": _moment(batch.created_at),
        "expires_at": _moment(batch.expires_at),
    }


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
