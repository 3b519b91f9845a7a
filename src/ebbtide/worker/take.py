"""Taking items in a claim round: of the batches that were chosen, as many as there is money for.

Under the locks of the round, which its caller holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.accounts.quotas import WAIT_FOR_RUNNING
from ebbtide.batches import claim_store as store
from ebbtide.batches import standing_store
from ebbtide.batches.claim_store import Candidate, ClaimedItem
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.prices import may_cost
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Connection
from ebbtide.worker.lanes import Work
from ebbtide.worker.money import ZERO, Money


@dataclass(frozen=True, slots=True)
class Round:
    """What one round works with: snapshots, so that it decides from one moment."""

    model: str
    worker_no: int
    settings: Settings
    now: datetime


@dataclass(frozen=True, slots=True)
class Offer:
    """What may be claimed from: batches with work whose owners may spend, and what they have left."""

    candidates: list[Candidate]
    money: Money


async def take_items(
    conn: Connection, work_round: Round, catalog: Catalog, takes: list[tuple[int, int]], offer: Offer
) -> list[Work]:
    """Claim items, `takes` being (batch, how many); a batch that may not start any more gives none."""
    locked = await store.lock_claimable(conn, sorted(no for no, _ in takes), work_round.now)
    batches = {batch.no: batch for batch in locked}
    asked = [(no, count) for no, count in takes if no in batches]
    if not asked:
        return []
    items = await store.claim_items(conn, work_round.model, asked, work_round.worker_no, work_round.now)
    order = {no: place for place, (no, _) in enumerate(asked)}
    items.sort(key=lambda item: (order[item.batch_no], item.id))
    works = await _afford(conn, work_round, _works(catalog, work_round.model, items, batches, offer), offer.money)
    claimed = Counter(work.batch.no for work in works)
    await store.count_claimed(conn, work_round.model, [(no, count, claimed[no]) for no, count in asked])
    if new := [no for no in claimed if not batches[no].has_begun]:
        await store.start_batches(conn, new, work_round.now)
    return works


def _works(
    catalog: Catalog,
    model: str,
    items: Sequence[ClaimedItem],
    batches: dict[int, store.ClaimableBatch],
    offer: Offer,
) -> list[Work]:
    roles = {c.batch_no: c.role for c in offer.candidates}
    known = catalog.resolve(model)
    return [
        Work(
            item,
            batches[item.batch_no],
            model,
            roles[item.batch_no],
            may_cost(known, item.line_length, item.max_tokens, known.batch_price_factor) if known else ZERO,
        )
        for item in items
    ]


async def _afford(conn: Connection, work_round: Round, works: list[Work], money: Money) -> list[Work]:
    """The works there is money for; the rest goes back at once, to be looked at when running ones have ended."""
    if not money.limited:
        return works
    kept: list[Work] = []
    left: list[Work] = []
    for work in works:
        paid = money.take(work.batch.account_id, work.batch.key_id, work.may_cost)
        (kept if paid else left).append(work)
    if left:
        rows = [(work.item.batch_no, work.item.id, work.item.claim_epoch) for work in left]
        await standing_store.put_back(conn, rows, work_round.now + WAIT_FOR_RUNNING)
    return kept
