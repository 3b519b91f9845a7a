"""What requests hold: the most they may cost, then what they cost, until a later reading of the database has it."""

from decimal import Decimal

from ebbtide.proxy.holds import Holds
from ebbtide.proxy.pool import Pool

ADA = ("ada", "key-1")


def told(amounts: tuple[Decimal, Decimal]) -> tuple[int, ...]:
    return tuple(map(int, amounts))


def test_a_request_counts_until_its_charge_has_been_read() -> None:
    holds = Holds()
    hold = holds.hold(ADA, Decimal(5))
    assert told(holds.of(ADA, 0.0)) == (5, 5)
    assert told(holds.of(("ada", "key-2"), 0.0)) == (5, 0)
    assert told(holds.of(("bob", "key-3"), 0.0)) == (0, 0)
    hold.settle(Decimal(2))
    assert told(holds.of(ADA, 10.0)) == (2, 2)
    hold.written(20.0)
    assert holds.amounts() == {ADA: 0}
    assert told(holds.of(ADA, 19.5)) == (2, 2)  # read before it was written
    assert told(holds.of(ADA, 20.5)) == (0, 0)


def test_what_is_not_known_is_not_charged() -> None:
    holds = Holds()
    holds.hold(ADA, Decimal(5)).settle(None)
    assert told(holds.of(ADA, 0.0)) == (0, 0)


def test_nothing_is_kept_of_owners_of_whom_nothing_runs() -> None:
    holds = Holds()
    hold = holds.hold(ADA, Decimal(5))
    hold.settle(Decimal(1))
    hold.written(1.0)
    assert told(holds.of(ADA, 9.0)) == (0, 0)
    holds.forget(ADA)
    assert holds.amounts() == {}


def test_a_pool_takes_a_few_more_where_many_are_free_and_never_more_than_the_cap_leaves() -> None:
    pool = Pool("ada", cap=64, in_use=1)
    assert pool.target(0) == 1 + 7
    assert pool.target(60) == 1
    pool.in_use = 4
    assert pool.target(62) == 2


def test_idle_slots_go_back_after_a_while_and_at_once_when_wanted() -> None:
    pool = Pool("ada", cap=8, granted=5, in_use=1, peak=3)
    assert pool.keep(0.5, wanted=False, every=1.0) == 5
    assert pool.keep(1.0, wanted=False, every=1.0) == 3
    assert pool.keep(1.5, wanted=True, every=1.0) == 1
    assert pool.keep(2.0, wanted=False, every=1.0) == 1


def test_a_lapsed_lease_gives_nothing() -> None:
    pool = Pool("ada", cap=8, granted=5, valid_until=10.0)
    assert pool.take(9.9)
    assert not pool.take(10.0)
