"""The create call and the request lines of a batch."""

from __future__ import annotations

import hashlib
import json
import tracemalloc

import pytest

from ebbtide.dialects.lines import line_body
from ebbtide.dialects.openai.canonical import create_digest
from ebbtide.dialects.openai.faults import at_index
from ebbtide.dialects.openai.requests import CreateBatch, parse_create, parse_line
from ebbtide.errors import InvalidRequest

BODY = {"model": "llama", "messages": [{"role": "user", "content": "hello"}]}
FILE = {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}


def create(**members: object) -> CreateBatch:
    return parse_create(json.dumps(members).encode(), 50_000)


def create_refused(**members: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        create(**members)
    return caught.value


def line(**members: object) -> bytes:
    return json.dumps(
        {"custom_id": "q", "method": "POST", "url": "/v1/chat/completions", "body": BODY} | members
    ).encode()


def line_refused(raw: bytes, *, require_url: bool = True) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_line(raw, require_url=require_url)
    return caught.value


# Creating ------------------------------------------------------------------------------------------------------------


def test_direct_requests_stay_bytes() -> None:
    raw = b'\xef\xbb\xbf{"requests": [ {"custom_id" : "a"}, 5 ], "metadata": {"k": "v"}, "completion_window": 7}'
    made = parse_create(raw, 50_000)
    assert made.requests is not None
    assert [bytes(request) for request in made.requests] == [b'{"custom_id" : "a"}', b"5"]
    assert (made.input_file_id, made.endpoint, made.completion_window, made.metadata) == (None, None, None, {"k": "v"})


def test_direct_requests_have_no_files_to_expire() -> None:
    with pytest.raises(InvalidRequest) as caught:
        create(requests=[1], output_expires_after={"anchor": "created_at", "seconds": 3600})
    assert caught.value.param == "output_expires_after"


def test_what_clients_add_is_no_error() -> None:
    made = create(
        **FILE,
        requests=None,
        metadata=None,
        anthropic_version=None,
        output_expires_after={"anchor": "created_at", "seconds": 3600},
        include=[],
        stream=False,
        unknown={},
    )
    assert made == CreateBatch(None, "file-1", "/v1/chat/completions", "24h", None, 3600)
    assert create(**FILE, output_expires_after=None).output_seconds is None
    assert create(requests=[1], input_file_id=None, endpoint=None, completion_window=None).requests is not None


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"endpoint": None}, "endpoint"),
        ({"endpoint": "/v1/completions"}, "endpoint"),
        ({"endpoint": ["/v1/chat/completions"]}, "endpoint"),
        ({"completion_window": None}, "completion_window"),
        ({"completion_window": "48h"}, "completion_window"),
        ({"completion_window": 24}, "completion_window"),
        ({"output_expires_after": 3600}, "output_expires_after"),
        ({"output_expires_after": {"seconds": 3600}}, "output_expires_after.anchor"),
        ({"output_expires_after": {"anchor": "now", "seconds": 3600}}, "output_expires_after.anchor"),
        ({"output_expires_after": {"anchor": "created_at"}}, "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3599}}, "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 2592001}}, "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": True}}, "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3600.5}}, "output_expires_after.seconds"),
        ({"input_file_id": ""}, "input_file_id"),
        ({"input_file_id": 5}, "input_file_id"),
        ({"input_file_id": "file-\0"}, "input_file_id"),
        ({"anthropic_version": "2023-06-01"}, "anthropic_version"),
        ({"requests": [{}]}, None),
        ({"input_file_id": None}, None),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"k": 1}}, "metadata[...]"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: ""}}, "metadata"),
        ({"metadata": {"": ""}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"metadata": {"k": "\0"}}, "metadata"),
        ({"metadata": {"\0": "v"}}, "metadata"),
    ],
)
def test_a_create_from_a_file_names_what_is_wrong(changes: dict[str, object], param: str | None) -> None:
    error = create_refused(**{**FILE, **changes})
    assert error.param == param
    assert error.code is None


def test_metadata_at_its_limits_passes() -> None:
    full = {f"{n:02}" + "é" * 62: "v" * 512 for n in range(16)}
    assert create(**FILE, metadata=full).metadata == full


@pytest.mark.parametrize("members", [FILE, {"requests": [{"custom_id": "q"}]}])
@pytest.mark.parametrize("value", [1, True, "x", {"x": None}, [0]])
def test_a_member_that_nobody_knows_is_refused_by_name(members: dict[str, object], value: object) -> None:
    error = create_refused(**members, model=value)
    assert (error.param, error.message) == ("model", "model: not a member of a create call")


def test_the_endpoint_beside_direct_requests_is_theirs() -> None:
    embeddings = [{"url": "/v1/embeddings"}, {}]
    assert create(requests=embeddings, endpoint="/v1/embeddings").requests is not None
    assert create(requests=[{}], endpoint="/v1/chat/completions").requests is not None
    for requests, endpoint in (([{}], "/v1/embeddings"), (embeddings, "/v1/chat/completions"), ([5], 5)):
        assert create_refused(requests=requests, endpoint=endpoint).param == "endpoint"


def test_there_is_at_least_one_request() -> None:
    assert create_refused(requests=[]).param == "requests"
    assert create_refused(requests={}).param == "requests"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b"{", b'{"metadata": {"k": "\xff"}}', b'{"requests":' + b"[" * 9999]
)
def test_what_is_no_create_call_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_create(raw, 50_000)


NOT_JSON = [b"NaN", b"-Infinity", b'"\\ud800"', b"01", b'"\x01"', b"nul", b"[" * 100_000]


@pytest.mark.parametrize("value", NOT_JSON)
def test_a_request_that_is_no_json_is_named(value: bytes) -> None:
    good = line(custom_id="good", body=BODY | {"x": {"requests": [1, "]}"]}})
    bad = line(custom_id="bad", x="HERE").replace(b'"HERE"', value)
    raw = b' { "metadata" : {"a": "[,]"} ,\n"requests" : [ ' + b" ,\n".join([good, good, bad, good]) + b' ] , "x": 1}'
    with pytest.raises(InvalidRequest) as caught:
        parse_create(raw, 50_000)
    assert caught.value.param == "requests[2]"
    named = value in (b"NaN", b"-Infinity", b'"\\ud800"')
    assert caught.value.message.startswith("requests[2] (custom_id 'bad'): Not" if named else "requests[2]: N")


@pytest.mark.parametrize(
    "raw", [b'{"x":NaN,"requests":[{}]}', b'{"requests":[{}],"x":NaN}', b'{"requests":[{}', b"[NaN]"]
)
def test_a_fault_outside_of_the_requests_names_none(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(raw, 50_000)
    assert caught.value.param is None
    assert "requests[" not in caught.value.message


@pytest.mark.parametrize(
    "value", [b"1e999", b"-1e999", b'"\xff"', b'{"deep":[{"y":1e999}]}', b"9" * 5000, b"[" * 65 + b"]" * 65]
)
@pytest.mark.parametrize("name", ["x", "endpoint", "include"])
def test_members_beside_the_requests_are_checked_whole(name: str, value: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(b'{"requests":[{}],"%b":%b}' % (name.encode(), value), 50_000)
    assert caught.value.param == name


def test_members_beside_the_requests_are_small() -> None:
    assert create_refused(requests=[{}], x="y" * 1_000_000).param == "x"
    assert create_refused(requests=[{}], x="y" * 1_100_000).param is None
    with pytest.raises(InvalidRequest):
        parse_create(b'{"requests":[{}],"\xff":1}', 50_000)


# Lines ---------------------------------------------------------------------------------------------------------------


def test_a_line_of_a_file() -> None:
    raw = b'{"custom_id":"q","method":"POST","url":"/x","body":{"model":"m"}}\r\n'
    for given in (raw, memoryview(raw)):
        found = parse_line(given, require_url=True)
        assert (found.custom_id, found.url, found.body) == ("q", "/x", {"model": "m"})


def test_a_direct_request_has_defaults() -> None:
    for members in ({}, {"method": None, "url": None}, {"method": "POST"}):
        found = parse_line(json.dumps({"custom_id": "q", "body": {}, **members}).encode(), require_url=False)
        assert found.url == "/v1/chat/completions"


@pytest.mark.parametrize("custom_id", ["a\nb", 'say "hi"', "🌊" * 512, "x" * 512, " ", "\x85\u2028", "<script>"])
def test_any_custom_id_comes_back_unchanged(custom_id: str) -> None:
    assert parse_line(line(custom_id=custom_id), require_url=True).custom_id == custom_id


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"custom_id": None}, "custom_id"),
        ({"custom_id": ""}, "custom_id"),
        ({"custom_id": "x" * 513}, "custom_id"),
        ({"custom_id": "a\0b"}, "custom_id"),
        ({"custom_id": 7}, "custom_id"),
        ({"method": "GET"}, "method"),
        ({"method": None}, "method"),
        ({"method": 1}, "method"),
        ({"url": None}, "url"),
        ({"url": 5}, "url"),
        ({"body": None}, "body"),
        ({"body": []}, "body"),
        ({"body": "{}"}, "body"),
    ],
)
def test_a_line_names_the_field_at_fault(members: dict[str, object], param: str) -> None:
    error = line_refused(line(**members))
    assert (error.param, error.code) == (param, "invalid_request")


@pytest.mark.parametrize("members", [{"method": "GET"}, {"url": 5}, {"body": 7}, {"x": [[[1e400]]]}, {"x": "\ud800"}])
def test_what_is_wrong_with_a_direct_request_is_told_with_its_name(members: dict[str, object]) -> None:
    raw = line(custom_id="gut", **members).replace(b"Infinity", b"1e999")
    error = at_index(line_refused(raw, require_url=False), 3)
    assert error.message.startswith("requests[3] (custom_id 'gut'): ")
    assert error.param is not None
    assert error.param.startswith("requests[3]")


def test_a_name_that_cannot_be_read_is_not_told() -> None:
    for custom_id in ("x" * 513, "\ud800", "", "\0", 5):
        error = line_refused(line(custom_id=custom_id, x="\ud800"), require_url=False)
        assert at_index(error, 0).message.startswith("requests[0]: ")


def test_the_code_of_a_direct_request_is_the_status() -> None:
    assert line_refused(line(method="GET"), require_url=False).code is None
    assert line_refused(b"[]", require_url=False).code is None


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'"text"',
        b"null",
        b"{",
        b"",
        line() + b"{}",
        line(body={"model": "\xff"}).replace(b"\\u00ff", b"\xff"),
        line(body={"x": "LONE"}).replace(b"LONE", b"\\ud800"),
        line(body={"x": "N"}).replace(b'"N"', b"NaN"),
        line(body={"x": "N"}).replace(b'"N"', b"Infinity"),
        line(body={"x": "N"}).replace(b'"N"', b"1e999"),
        line(body={"x": "N"}).replace(b'"N"', b"9" * 5000),
        line(body={"x": "N"}).replace(b'"N"', b"[" * 100 + b"]" * 100),
        line(unknown="N").replace(b'"N"', b"NaN"),
        b"\xef\xbb\xbf" + line(),
    ],
)
def test_a_line_that_is_no_json_object_says_so(raw: bytes) -> None:
    error = line_refused(raw)
    assert (error.param, error.code) == (None, "invalid_json_line")


def test_a_line_of_four_mebibytes_is_read() -> None:
    raw = line(body={"model": "m", "messages": [{"role": "user", "content": "x" * (4 * 1024 * 1024)}]})
    assert parse_line(raw, require_url=True).custom_id == "q"


def test_a_body_may_nest_as_deep_in_a_line_as_on_its_own() -> None:
    deep: object = 1
    for _ in range(63):
        deep = [deep]
    assert parse_line(line(body={"x": deep}), require_url=True).custom_id == "q"
    refused = line_refused(line(body={"x": [deep]}))
    assert refused.code == "invalid_json_line"
    assert "at most 64 levels" in refused.message


def test_a_stored_line_gives_its_body_as_sent() -> None:
    stored = memoryview(b'{"body": {"model" : "m", "x": 1e0}, "custom_id": "q", "other": 1}\n')
    assert line_body(stored, "other") == b'{"model" : "m", "x": 1e0}'


# Bodies that would weigh many times their bytes -----------------------------------------------------------------------

MIB = 1024 * 1024


def heavy(requests: bytes, beside: bytes = b"") -> bytes:
    return b'{"requests":[' + requests + b"]" + beside + b"}"


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (heavy(b"0," * MIB + b"0"), "requests[0]"),
        (heavy(b"{}," * MIB + b"{}"), "requests[0].custom_id"),
        (heavy(b'{"custom_id":"a"},' * 70_000 + b"{}"), "requests[70000].custom_id"),
        (heavy(b'{"custom_id":"a"},' * 70_000 + b'{"custom_id":"a"}'), "requests"),
        (heavy(b"", b',"metadata":{' + b'"":"",' * MIB + b'"":""}'), None),
        (heavy(b"", b',"endpoint":[' + b"{}," * MIB + b"{}]"), None),
        (heavy(b"", b"".join(b',"%d":0' % n for n in range(200_000))), None),
    ],
)
def test_a_large_create_must_be_made_of_requests(raw: bytes, param: str | None) -> None:
    tracemalloc.start()
    with pytest.raises(InvalidRequest) as caught:
        parse_create(raw, 50_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.param == param
    assert peak < 8 * len(raw)
    assert create_digest(raw) == hashlib.sha256(raw).digest() or param == "requests"


def test_a_large_honest_create_passes() -> None:
    asked = [json.loads(line(custom_id=f"q{n}", body={**BODY, "x": ["y" * 300]})) for n in range(10_000)]
    made = create(requests=asked, metadata={"k": "v"})
    assert made.requests is not None
    assert [json.loads(bytes(request)) for request in made.requests] == asked
