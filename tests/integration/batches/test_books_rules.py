"""The books while rules let work wait or refuse it: quotas, budgets, roles, rests, full batches, repeated creates.

Whatever happens in whatever order, every count is right, no row says what cannot be, and once nothing stands in the way
any more everything comes to its end.
"""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.domain import Hands, World, answered, failed, request
from tests.integration.batches.test_books import CAP, Play

from ebbtide.accounts.quotas import Amounts, set_budgets, set_quotas
from ebbtide.batches import closing
from ebbtide.batches.idempotency import Once, find_replay, forget_keys
from ebbtide.batches.intake import create_batch
from ebbtide.batches.progress import Moment
from ebbtide.dialects.openai.requests import parse_create
from ebbtide.dispatch.outcome import Outcome
from ebbtide.errors import Conflict, Gone, LimitReached

FULL_MB = 1
NO_LIMIT = Amounts(None, None)
LITTLE = Decimal("0.00003")  # less than what two requests cost
AMOUNTS = (None, LITTLE, LITTLE * 3, LITTLE * 9)

# Rows that no order of events may leave behind.
IMPOSSIBLE = {
    "rests at no level": """
        select * from batch_model_state where failures < 0 or rest_reason = 'model_paused' and rest_level < 1""",
    "holds more than it may": f"""
        select * from batch_jobs where result_bytes > {FULL_MB << 20}""",
    "one batch under two keys": """
        select batch_id from batch_idempotency group by 1 having count(*) > 1""",
    "a key that is never forgotten, or too early": """
        select * from batch_idempotency k left join batch_jobs j on j.id = k.batch_id
        where (k.forget_at is null) <> coalesce(j.phase <> 'sealed' and j.deleted_at is null, false)""",
    "a key's second batch before its first one's time is over": """
        select j.id, k.* from batch_jobs j join batch_idempotency k
            on k.account_id = j.account_id and k.key = j.metadata ->> 'key' and k.batch_id <> j.id
        where j.deleted_at is null and (j.sealed_at is null or k.created_at < j.sealed_at + interval '1 day')""",
}


class RulesPlay(Play):
    """A play with whatever makes work wait. What a full quota refuses was not created."""

    async def create(self, number: int) -> None:
        try:
            await super().create(number)
        except LimitReached:
            return

    async def create_once(self, number: int) -> None:
        """A create under one of three keys, of one of two bodies: new, the batch from before, or refused."""
        key, size = f"k{number % 3}", 1 + number // 3 % 2
        create = parse_create(_body(size, key), 50_000)
        once = Once(key, bytes([size]) * 32)
        world, owner = self.world, self.world.owner
        moment = Moment(world.clock.now(), "internal")
        try:
            job = await find_replay(world.database, owner.account_id, once, moment)
            job = job or await create_batch(world.intake, owner, create, once)
        except (Conflict, Gone, LimitReached):
            return
        assert job.total == size
        if all(job.id != known.id for known in self.jobs):
            self.jobs.append(job)

    async def forget(self, number: int) -> None:
        await forget_keys(self.world.database, self.world.clock.now())

    async def quota(self, number: int) -> None:
        await self.set_quota(Amounts(AMOUNTS[number % 4], AMOUNTS[2] if number % 7 == 0 else None))

    async def budget(self, number: int) -> None:
        await self.set_budget(Amounts(AMOUNTS[number % 4], AMOUNTS[2] if number % 7 == 0 else None))

    async def set_quota(self, amounts: Amounts) -> None:
        await set_quotas(self.world.database, self.world.owner.account_id, amounts, "test", self.world.clock.now())

    async def set_budget(self, amounts: Amounts) -> None:
        await set_budgets(self.world.database, self.world.owner.key_id, amounts, "test", self.world.clock.now())

    async def midnight(self, number: int) -> None:
        now = self.world.clock.now()
        self.world.clock.move(
            seconds=(now.replace(hour=0, minute=0, second=1) + timedelta(days=1) - now).total_seconds()
        )

    async def close(self, number: int) -> None:
        await closing.expire_batches(self.world.database, self.world.clock.now())
        await super().close(number)

    async def role(self, number: int) -> None:
        await self.set_role("free" if number % 2 else "internal")

    async def set_role(self, role: str) -> None:
        async with self.world.database.transaction() as conn:
            await conn.execute("update accounts set role = $2 where id = $1", self.world.owner.account_id, role)

    async def break_down(self, number: int) -> None:
        await self._end_all(number, failed(502, "reset"))

    async def wait_for_capacity(self, number: int) -> None:
        await self._end_all(number, failed(503, "model_queued", retry_after=float(number)))

    async def fill(self, number: int) -> None:
        """Answers of which a few fill a batch."""
        await self._end_all(number, answered("x" * random.Random(number).randint(200 << 10, 600 << 10)))

    async def _end_all(self, number: int, outcome: Outcome) -> None:
        """Take what may be taken, and let everything that runs there end alike."""
        await self.claim(number)
        hands: Hands = self.pick(self.hands, number)
        await hands.settle(*((work, outcome) for work in list(hands.running)))

    async def look(self) -> None:
        await super().look()
        for what, sql in IMPOSSIBLE.items():
            assert await self.world.fetch(sql) == [], what

    async def wind_up(self) -> None:
        await self.set_quota(NO_LIMIT)
        await self.set_budget(NO_LIMIT)
        await self.set_role("internal")
        await super().wind_up()


def _body(size: int, key: str) -> bytes:
    return msgspec.json.encode({"requests": [request(f"r{n}") for n in range(size)], "metadata": {"key": key}})


STEPS = [
    *("create", "create", "create_once", "claim", "claim", "settle", "settle", "succeed", "wait", "close"),
    *("break_down", "break_down", "wait_for_capacity", "fill", "quota", "budget", "take_over", "die", "late_word"),
    *("hand_back", "cancel", "delete", "wait_long", "midnight", "role", "forget", "seal", "remove"),
]
EVENTS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 500)), min_size=25, max_size=45)


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a failing play is told as it is: making it smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(quota=st.sampled_from(AMOUNTS), budget=st.sampled_from(AMOUNTS), events=EVENTS)
async def test_no_order_of_events_leaves_an_impossible_row(
    world: World, quota: Decimal | None, budget: Decimal | None, events: list[tuple[str, int]]
) -> None:
    world.set(
        batch_model_concurrency=CAP,
        batch_role_concurrency_internal=0,
        batch_max_active_per_user=10_000,
        batch_max_results_mb_per_batch=FULL_MB,
    )
    play = RulesPlay(world)
    for number in (6, 13, 20):
        await play.create(number)
    await play.set_quota(Amounts(quota, None))
    await play.set_budget(Amounts(budget, None))
    for name, number in events:
        await play.step(name, number)
        await play.look()
    await play.wind_up()
    await play.look()
