"""How batch work gives way: interactive requests rise from none to the cap and fall again, over two gateway processes.

One process works on a batch, the other takes the interactive requests. Draws bench/yielding.svg, and tells how long
batch starts go on after the load has reached the cap, and how long they take to begin again once it has left it.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from tests.fake_upstream import Behaviour, FakeUpstream, Received

from bench.bodies import MODEL, request_lines
from bench.figures import Figure, main
from bench.plot import Curve, Plot
from bench.stage import Gateway, Stage, stage

SVG = Path(__file__).with_name("yielding.svg")
_NOW = "now "
_LEAD, _HOLD, _TAIL = 3.0, 6.0, 4.0  # seconds before the rise, at the top, after the fall


async def measure(options: argparse.Namespace) -> list[Figure]:
    async with FakeUpstream() as upstream, stage() as on:
        upstream.decide = _behave
        models = on.models(upstream.url.removesuffix("/v1"))
        settings = {"batch_model_concurrency": options.cap}
        async with on.gateway("all", models, **settings), on.gateway("api", models, **settings) as front:
            await on.submit(await on.intake(models), request_lines(5_000))
            while upstream.in_flight < options.cap:  # noqa: ASYNC110  the batch begins
                await asyncio.sleep(0.01)
            began = time.monotonic()
            await _rise_and_fall(on, front, options)
            await asyncio.sleep(_TAIL)
            seen = _Seen(upstream.requests, began, options.cap)
            SVG.write_text(seen.plot(time.monotonic() - began).svg())
    return [
        Figure("yielding: batch starts go on after the load reached the cap", seen.stop, "s", 2.0, "at most"),
        Figure("yielding: until batch starts begin again", seen.resume, "s", 2.0, "at most"),
    ]


def _behave(received: Received) -> Behaviour:
    text = received.text
    return Behaviour(latency=float(text.removeprefix(_NOW)) if text.startswith(_NOW) else 0.2)


async def _rise_and_fall(on: Stage, front: Gateway, options: argparse.Namespace) -> None:
    """One more interactive request each step until there are as many as the cap; then they end, the last one first."""
    headers = {"Authorization": f"Bearer {on.key}"}
    async with aiohttp.ClientSession(front.url, headers=headers) as http:

        async def ask(place: int) -> None:
            await asyncio.sleep(_LEAD + place * options.step)
            lasts = _HOLD + 2 * (options.cap - 1 - place) * options.step
            body = {"model": MODEL, "messages": [{"role": "user", "content": f"{_NOW}{lasts}"}]}
            async with http.post("/v1/chat/completions", json=body) as response:
                response.raise_for_status()

        await asyncio.gather(*map(ask, range(options.cap)))


class _Seen:
    """What the upstream saw, in seconds since `began`."""

    def __init__(self, requests: Sequence[Received], began: float, cap: int) -> None:
        self._began = began
        self._cap = cap
        self._interactive = [r for r in requests if r.text.startswith(_NOW)]
        self._batch = [r for r in requests if not r.text.startswith(_NOW)]
        at_cap = max(r.at for r in self._interactive)
        left = min(r.done_at or 0.0 for r in self._interactive)
        self.stop = max([r.at for r in self._batch if r.at < left], default=at_cap) - at_cap
        self.resume = min(r.at for r in self._batch if r.at > left) - left

    def plot(self, seconds: float) -> Plot:
        title = f"Batch work gives way to interactive requests: one model, cap {self._cap}, two gateway processes"
        return Plot(
            title,
            [
                Curve("interactive in flight", "#c2410c", self._in_flight(self._interactive)),
                Curve("batch in flight", "#1d4ed8", self._in_flight(self._batch), is_filled=True),
                Curve("cap", "#555555", [(0.0, self._cap)], is_dashed=True),
            ],
            seconds,
            self._cap + 2,
        )

    def _in_flight(self, requests: Sequence[Received]) -> list[tuple[float, float]]:
        """How many are in flight, at each moment when that changes; those of before are counted at 0."""
        moves = [(r.at, 1) for r in requests] + [(r.done_at, -1) for r in requests if r.done_at is not None]
        points, count = [(0.0, 0.0)], 0
        for at, change in sorted(moves):
            count += change
            second = max(at - self._began, 0.0)
            if second == points[-1][0]:
                points[-1] = (second, count)
            else:
                points.append((second, count))
        return points


if __name__ == "__main__":
    main(__doc__ or "", measure, cap=8, step=0.75)
