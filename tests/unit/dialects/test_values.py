"""JSON from outside: what is refused, what passes, and what one line means."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.dialects.values import check_json, is_crowded, members_replaced, one_line
from ebbtide.errors import InvalidRequest

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"{} x",
        b'{"a": NaN}',
        b'{"a": [{"b": Infinity}]}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"tools": [{"schema": {"maximum": -1e999}}]}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"\xff": 1}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": "x\ny"}',
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_what_json_cannot_be_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        check_json(raw)
    with pytest.raises(InvalidRequest):
        check_json(memoryview(raw))


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_sixty_four_levels_pass_and_one_more_does_not(opening: bytes, closing: bytes) -> None:
    def nested(levels: int) -> bytes:
        inner = b"1" if opening != b"[" else b""
        return opening * levels + inner + closing * levels

    assert check_json(nested(64)) is not None
    with pytest.raises(InvalidRequest, match="at most 64 levels"):
        check_json(nested(65))
    assert check_json(nested(65), max_depth=65) is not None


def test_brackets_that_do_not_nest_are_not_depth() -> None:
    flat = json.dumps({"input": [[1, 2]] * 200, "text": "[{" * 200}).encode()
    assert check_json(flat) == json.loads(flat)


@pytest.mark.parametrize(
    ("raw", "refused"),
    [
        (b"[" + b"{}," * 600_000 + b"{}]", True),
        (b"[" + b"[]," * 600_000 + b"[]]", True),
        (b"[" + b"1," * 1_100_000 + b"1]", True),
        (b'["' + b"{}," * 600_000 + b'"]', False),
        (b'["' + b'\\",[' * 600_000 + b'\\\\"]', False),
        (b"[" + b'"{,",' * 450_000 + b'""]', False),
        (b"[" + b'"\\\\\\"{{{,","a",' * 300_000 + b'""]', False),
        (b"[" + b'"\\\\",{},' * 400_000 + b'""]', True),
    ],
    ids=["objects", "arrays", "numbers", "text", "escapes", "strings", "escaped strings", "escapes that end"],
)
def test_a_crowd_of_values_is_refused_and_what_stands_in_strings_is_none(raw: bytes, refused: bool) -> None:
    assert is_crowded(raw) is refused
    if refused:
        with pytest.raises(InvalidRequest, match="too much"):
            check_json(raw)
    else:
        assert check_json(raw) == json.loads(raw)


def test_a_nul_inside_a_string_passes() -> None:
    assert check_json(b'{"a": "x\\u0000y"}') == {"a": "x\0y"}


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b" ", "it is empty"),
        (b'{"a": "\\ud83d"}', "half of a surrogate pair"),
        (b'{"a": 1e999}', "Number out of range"),
        (b'{"a": 1', "truncated"),
    ],
)
def test_the_message_helps(raw: bytes, told: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^Not parseable as valid JSON: .*{told}$"):
        check_json(raw)


def test_the_message_tells_the_place_and_not_the_content() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_json(b'{"secret prompt": "something private", "b": NaN}')
    assert "private" not in refused.value.message
    assert "prompt" not in refused.value.message


@given(JSON)
def test_checked_json_reads_as_any_reader_does(value: object) -> None:
    assert check_json(json.dumps(value).encode()) == value


@given(JSON, st.sampled_from([None, 2]))
def test_one_line_means_the_same_and_survives_splitlines(value: object, indent: int | None) -> None:
    raw = json.dumps({"a": value, "b": "\u2028\u2029\x85\n"}, ensure_ascii=False, indent=indent)
    if indent:
        raw = raw.replace("\n", "\r\n")
    line = one_line(raw.encode("utf-8", "surrogatepass"))
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == json.loads(raw)


@given(st.dictionaries(st.text(), JSON), JSON)
def test_replacing_a_member_keeps_the_bytes_of_every_other(members: dict[str, object], value: object) -> None:
    raw = json.dumps(members, indent=1).encode()
    before = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    after = msgspec.json.decode(members_replaced(raw, {"model": value}), type=dict[str, msgspec.Raw])
    assert json.loads(bytes(after.pop("model"))) == value
    before.pop("model", None)
    assert {key: bytes(raw) for key, raw in after.items()} == {key: bytes(raw) for key, raw in before.items()}
