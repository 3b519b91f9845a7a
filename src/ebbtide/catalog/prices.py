"""What an answer costs, exactly: USD as Decimal with twelve decimals (one picodollar), never a float."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal

from ebbtide.catalog.model import Model, Pricing
from ebbtide.dialects.values import Usage

MAX_PRICE_DECIMALS = 6
_EXACT = Context(prec=80)
_ONE = Decimal(1)
_BYTES_PER_TOKEN = 3


def cost(pricing: Pricing, usage: Usage, factor: Decimal = _ONE) -> Decimal:
    """USD for `usage`: input tokens read from a cache and written to one at their own rates, all times `factor`.

    Exact for prices of up to six decimals; a factor that leaves fractions of a picodollar rounds half to even.
    """
    rates = pricing.rates
    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    picodollars = Decimal(
        (usage.input_tokens - cached - written) * rates.input
        + cached * rates.cached_input
        + written * rates.cache_write
        + usage.output_tokens * rates.output
    )
    if factor != _ONE:
        picodollars = _EXACT.multiply(picodollars, factor).to_integral_value(ROUND_HALF_EVEN)
    return _EXACT.scaleb(picodollars, -12)


def may_cost(model: Model, request_bytes: int, max_tokens: int | None, factor: Decimal = _ONE) -> Decimal:
    """The most a request may cost, in USD: a token for each three bytes, and all the output that it allows."""
    output = max_tokens if max_tokens is not None else model.max_output_tokens or 0
    return cost(model.pricing, Usage(-(-request_bytes // _BYTES_PER_TOKEN), 0, output, 0), factor)


def is_price(value: Decimal) -> bool:
    """Whether `value` can be priced exactly: finite, not negative, at most six decimals and six digits before them."""
    if not value.is_finite() or value < 0 or value >= 1_000_000:
        return False
    exponent = value.normalize().as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -MAX_PRICE_DECIMALS
