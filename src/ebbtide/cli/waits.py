"""What holds up a batch that does not move: which of its requests wait for another try, and after which error."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ebbtide.cli.gateway import Gateway
from ebbtide.cli.wire import UNFINISHED

_PAGE: Final = 1000
_PAGES: Final = 10  # a look reads no more; the next one goes on where everything before has ended


class Waits:
    """Looks through the results of one batch, each time from its first request on that has not ended."""

    def __init__(self, gateway: Gateway, batch_id: str) -> None:
        self._gateway = gateway
        self._batch_id = batch_id
        self._ended: str | None = None

    async def look(self) -> str:
        """In words; empty when no request is seen to wait for another try. Raises Refused or Unreachable."""
        codes: Counter[str] = Counter()
        after, more, ends = self._ended, True, True
        for _ in range(_PAGES):
            page, more = await self._gateway.outcomes(self._batch_id, after, _PAGE)
            for item in page:
                unfinished = item.status in UNFINISHED
                ends = ends and not unfinished
                after = item.id
                if ends:
                    self._ended = item.id
                if unfinished and item.error is not None:
                    codes[str(item.error.code)] += 1
            if not more:
                break
        return _in_words(codes, more=more)


def _in_words(codes: Counter[str], *, more: bool) -> str:
    if not codes:
        return ""
    [(code, _)] = codes.most_common(1)
    count = codes.total()
    waits = "waits" if count == 1 else "wait"
    return f"{'at least ' if more else ''}{count} {waits} for another try, the last one ended in {code}"
