"""Prices are exact: compared with whole fractions, whatever the tokens, prices and factors."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.catalog.model import Pricing
from ebbtide.catalog.prices import cost, is_price
from ebbtide.dialects.values import Usage

PRICES = st.integers(0, 999_999_999_999).map(lambda micro: Decimal(micro).scaleb(-6))
TOKENS = st.integers(0, 2**31 - 1)


@given(TOKENS, TOKENS, TOKENS, PRICES, PRICES, PRICES)
def test_cost_is_exact(
    given_tokens: int, cached: int, made: int, input_: Decimal, output: Decimal, hit: Decimal
) -> None:
    cached = min(cached, given_tokens)
    found = cost(Pricing(input_, output, hit, input_), Usage(given_tokens, cached, made, 0))
    exact = (given_tokens - cached) * Fraction(input_) + cached * Fraction(hit) + made * Fraction(output)
    assert Fraction(found) == exact / 1_000_000


@given(TOKENS, TOKENS, PRICES, PRICES, PRICES)
def test_a_factor_is_off_by_half_a_picodollar_at_most(
    given_tokens: int, made: int, input_: Decimal, output: Decimal, factor: Decimal
) -> None:
    found = cost(Pricing(input_, output, input_, input_), Usage(given_tokens, 0, made, 0), factor)
    exact = (given_tokens * Fraction(input_) + made * Fraction(output)) * Fraction(factor) / 1_000_000
    assert abs(Fraction(found) - exact) <= Fraction(1, 2 * 10**12)


def test_cached_tokens_are_charged_at_the_cached_rate_times_the_factor() -> None:
    pricing = Pricing(Decimal("0.05"), Decimal("0.08"), Decimal("0.01"), Decimal("0.06"))
    usage = Usage(input_tokens=1000, cached_tokens=400, output_tokens=100, reasoning_tokens=50)
    assert cost(pricing, usage) == Decimal("0.000042")
    assert cost(pricing, usage, Decimal("0.5")) == Decimal("0.000021")


@pytest.mark.parametrize("value", ["0", "0.000001", "999999.999999", "1e3"])
def test_what_a_price_may_be(value: str) -> None:
    assert is_price(Decimal(value))


@pytest.mark.parametrize("value", ["0.0000001", "-1", "NaN", "Infinity", "1000000"])
def test_what_a_price_may_not_be(value: str) -> None:
    assert not is_price(Decimal(value))


@given(TOKENS, TOKENS, TOKENS, PRICES, PRICES, PRICES)
def test_tokens_written_to_a_cache_have_their_own_price(
    plain: int, read: int, written: int, input_: Decimal, hit: Decimal, write: Decimal
) -> None:
    found = cost(Pricing(input_, input_, hit, write), Usage(plain + read + written, read, 0, 0, written))
    exact = plain * Fraction(input_) + read * Fraction(hit) + written * Fraction(write)
    assert Fraction(found) == exact / 1_000_000
