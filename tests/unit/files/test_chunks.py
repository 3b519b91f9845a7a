"""Chunks: however bytes come in, they come out the same, cut at line ends only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.files import chunks
from ebbtide.files.chunks import HARD_CUT, LONGEST_LINE, Chunk, ChunkPacker, unpack
from ebbtide.settings.registry import SETTINGS

SMALL = 64


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    """Chunks of 64 bytes and a hard cut at 256, so that small inputs have many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", SMALL)
        patch.setattr(chunks, "HARD_CUT", 4 * SMALL)
        yield


def packed(pieces: list[bytes]) -> tuple[list[Chunk], bytes, int]:
    with ChunkPacker() as packer:
        for piece in pieces:
            packer.write(piece)
        digest = packer.finish()
        return list(packer.chunks()), digest, packer.size


def check_shape(found: list[Chunk], content: bytes) -> None:
    """Numbers and offsets in order; every cut but the last at a line end, unless the line is too long for any chunk."""
    at = 0
    for number, chunk in enumerate(found):
        raw = unpack(chunk.data)
        assert (chunk.number, chunk.raw_offset, chunk.raw_length) == (number, at, len(raw))
        assert raw
        if number < len(found) - 1 and not raw.endswith(b"\n"):
            assert b"\n" not in raw
            assert len(raw) >= 4 * SMALL
        at += len(raw)
    assert b"".join(unpack(chunk.data) for chunk in found) == content


LINES = st.lists(st.integers(0, 400).map(lambda n: b"x" * n + b"\n"), max_size=20).map(b"".join)
TAILS = st.integers(0, 300).map(lambda n: b"y" * n)


@settings(max_examples=150, deadline=None)
@given(LINES, TAILS, st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_any_split_of_the_writes_gives_the_same_bytes(lines: bytes, tail: bytes, sizes: list[int]) -> None:
    content = lines + tail
    pieces, at, turn = [], 0, 0
    while at < len(content):
        size = sizes[turn % len(sizes)]
        pieces.append(content[at : at + size])
        at, turn = at + size, turn + 1
    found, digest, size = packed(pieces)
    check_shape(found, content)
    assert (digest, size) == (hashlib.sha256(content).digest(), len(content))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=40))
def test_taking_as_it_goes_gives_the_same_chunks(steps: list[tuple[int, bool]]) -> None:
    lines = [b"x" * size + b"\n" for size, _ in steps]
    with ChunkPacker() as packer:
        taken = []
        for line, (_, take) in zip(lines, steps, strict=True):
            packer.write(line)
            if take:
                taken += packer.take()
        digest = packer.finish()
        taken += packer.take()
        assert packer.take() == []
    whole, same, _ = packed(lines)
    assert taken == whole
    assert digest == same


@settings(max_examples=80, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=40))
def test_a_line_lies_whole_where_it_was_said_to_lie(lines: list[bytes]) -> None:
    with ChunkPacker() as packer:
        places = [packer.write_line(memoryview(line)) for line in lines]
        digest = packer.finish()
        raw = [unpack(chunk.data) for chunk in packer.chunks()]
    for line, (number, offset) in zip(lines, places, strict=True):
        assert raw[number][offset : offset + len(line) + 1] == line + b"\n"
    content = b"".join(line + b"\n" for line in lines)
    assert b"".join(raw) == content
    assert digest == hashlib.sha256(content).digest()


def test_nothing_written_is_no_chunk() -> None:
    assert packed([]) == ([], hashlib.sha256(b"").digest(), 0)
    assert packed([b"", b""])[0] == []


def test_an_endless_line_is_cut_only_at_the_hard_cut() -> None:
    found, _, _ = packed([b"x"] * (9 * SMALL))
    assert [chunk.raw_length for chunk in found] == [4 * SMALL, 4 * SMALL, SMALL]
    found, _, _ = packed([b"x" * (3 * SMALL) + b"\n" + b"y"])
    assert [chunk.raw_length for chunk in found] == [3 * SMALL + 1, 1]


def test_no_line_that_a_setting_allows_is_cut() -> None:
    (setting,) = [setting for setting in SETTINGS if setting.name == "BATCH_MAX_LINE_KB"]
    assert setting.maximum * 1024 == LONGEST_LINE < HARD_CUT
