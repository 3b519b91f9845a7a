"""Query parameters: defaults, bounds, and errors that name the parameter."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from starlette.requests import Request

from ebbtide.api.parameters import ChoiceParameter, IntegerParameter, TextParameter
from ebbtide.errors import InvalidRequest

LIMIT = IntegerParameter("limit", 20, 1, 100, "")
ORDER = ChoiceParameter("order", "desc", ("asc", "desc"), "")
AFTER = TextParameter("after", "")


def request(**parameters: str) -> Request:
    query = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return Request({"type": "http", "headers": [], "query_string": query.encode()})


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("100", 100), ("007", 7), ("", 20)])
def test_a_whole_number_in_bounds(text: str, value: int) -> None:
    assert LIMIT.read(request(limit=text)) == value


@pytest.mark.parametrize("text", ["0", "101", "-1", "1.5", "x", "1e2", "+5", " 5", "\u0665", "9" * 5000, "--1"])
def test_any_other_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match="'limit'") as refused:
        LIMIT.read(request(limit=text))
    assert refused.value.param == "limit"


def test_a_choice() -> None:
    assert ORDER.read(request()) == "desc"
    assert ORDER.read(request(order="asc")) == "asc"
    with pytest.raises(InvalidRequest, match="'order'"):
        ORDER.read(request(order="ASC"))


def test_text_without_nul() -> None:
    assert AFTER.read(request()) is None
    assert AFTER.read(request(after="")) is None
    assert AFTER.read(request(after="batch_1")) == "batch_1"
    with pytest.raises(InvalidRequest, match="'after'"):
        AFTER.read(request(after="a\0b"))


def test_unknown_parameters_are_ignored() -> None:
    assert LIMIT.read(request(page="7", include="x")) == 20
