"""Contents that wait to be stored hold a bounded number of bytes, and give all of them back."""

from __future__ import annotations

from ebbtide.records.capture import LONGEST_STREAM_BYTES, Captures, pack_captures
from ebbtide.records.content import LONGEST_BYTES, open_content


def test_nothing_is_held_while_nothing_is_wanted() -> None:
    assert Captures(lambda: False).begin(b"x", streamed=False) is None


def test_a_request_without_room_is_let_go_whole() -> None:
    captures = Captures(lambda: True, most=100)
    first = captures.begin(b"x" * 40, streamed=False)
    second = captures.begin(b"y" * 40, streamed=False)
    assert first is not None
    assert second is not None
    second.add(b"z" * 30)
    assert second.is_lost
    assert captures.held == 40
    first.add(b"a" * 60)
    second.add(b"z")
    third = captures.begin(b"more", streamed=False)
    assert third is not None
    assert (first.is_lost, third.is_lost, captures.held) == (False, True, 100)
    for one in (first, second, third, first):
        one.drop()
    assert captures.held == 0


def test_only_the_beginnings_are_held_and_the_sizes_are_those_of_the_whole() -> None:
    captures = Captures(lambda: True)
    plain = captures.begin(b"q" * (LONGEST_BYTES + 9), streamed=False)
    stream = captures.begin(b"q", streamed=True)
    assert plain is not None
    assert stream is not None
    for _ in range(5):
        plain.add(b"a" * LONGEST_BYTES)
        stream.add(b"b" * LONGEST_BYTES)
    assert captures.held == 2 * LONGEST_BYTES + LONGEST_STREAM_BYTES + 1
    whole, events = pack_captures([plain, stream])
    assert (whole.request_bytes, whole.answer_bytes) == (LONGEST_BYTES + 9, 5 * LONGEST_BYTES)
    assert [len(said) for said in open_content(whole)] == [LONGEST_BYTES, LONGEST_BYTES]
    assert open_content(events)[1] == b"b" * LONGEST_BYTES  # not a stream of ours: as it came
    assert whole.truncated
    assert events.truncated
