"""The two state machines of the domain, as tables: verb → {from: to}. Pure.

Every verb is a guarded statement in this room's SQL, and a test runs every verb from every state. Those of items have
the verbs' names (`claim` is claim_items); those of batches are open_batch, reject_batch, cancel_batch of one that is
still unread, finish_batches for both ways to finish, and seal. What a lapsed worker held moves by `retry` and `fail`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Moves = Mapping[str, Mapping[str, str]]

# An item waits, runs, and ends once. Only a running item can succeed.
ITEM_MOVES: Final[Moves] = {
    "claim": {"queued": "running"},
    "complete": {"running": "completed"},
    "fail": {"running": "failed"},
    "retry": {"running": "queued"},
    "hand_back": {"running": "queued"},
    "cancel": {"queued": "cancelled"},
    "expire": {"queued": "expired"},
    "run_out": {"queued": "failed"},
    "give_up": {"queued": "failed"},
}

# A batch's phase only ever goes forward. A direct batch is checked before it is stored, so it begins open.
BATCH_MOVES: Final[Moves] = {
    "open": {"validating": "open"},
    "reject": {"validating": "sealed"},
    "cancel_unread": {"validating": "sealed"},
    "finish": {"open": "sealing"},
    "finish_direct": {"open": "sealed"},
    "seal": {"sealing": "sealed"},
}

ITEM_STATES: Final = frozenset(s for move in ITEM_MOVES.values() for pair in move.items() for s in pair)
BATCH_PHASES: Final = frozenset(s for move in BATCH_MOVES.values() for pair in move.items() for s in pair)


def final_states(moves: Moves) -> frozenset[str]:
    """The states that nothing leaves."""
    left = {state for move in moves.values() for state in move}
    return frozenset(to for move in moves.values() for to in move.values() if to not in left)


FINAL_ITEMS: Final = final_states(ITEM_MOVES)
CLOSINGS: Final = frozenset({"cancelled", "expired", "failed"})  # why nothing more of a batch starts
FINAL_STATUSES: Final = CLOSINGS | {"completed"}
