"""Bytes at rest: zstd frames of about 1 MiB, cut only at the end of a line, so that a line lies in one chunk.

Finished chunks go to a temporary file, so memory stays flat; the caller decides when to store them.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import zstandard

CHUNK_BYTES = 1 << 20
# What a request may have, however large bodies may be: it lies in one chunk. BATCH_MAX_LINE_KB ends here as well.
LONGEST_LINE = 32 << 20
# A line longer than this is cut; no limit on lines reaches so far.
HARD_CUT = LONGEST_LINE + (1 << 16)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One compressed chunk: its number, how many raw bytes come before it, and how many it holds."""

    number: int
    raw_offset: int
    raw_length: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RawChunk:
    """One chunk as it came in: its number, how many raw bytes come before it, and its own."""

    number: int
    raw_offset: int
    data: bytes


class ChunkPacker:
    """Packs bytes into chunks as they come. `size` and `digest()` are of the raw bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._pending = bytearray()
        self._packed: list[tuple[int, int, int]] = []  # raw offset, raw length, compressed length
        self._raw_packed = 0
        self._taken = 0
        self._scanned = 0  # no end of line before this in what is pending
        self._spool = tempfile.SpooledTemporaryFile(max_size=4 << 20)  # noqa: SIM115  closed by close()
        self._zstd: zstandard.ZstdCompressor | None = zstandard.ZstdCompressor(level=3)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all that is large: a failed upload may hold the packer until the garbage collector comes,
        which is seldom.
        """
        self._spool.close()
        self._pending = bytearray()
        self._zstd = None

    def write(self, data: bytes | memoryview) -> None:
        """Add raw bytes; chunks are cut at the last end of line once a mebibyte is there."""
        self._pending += data
        self.size += len(data)
        self._hash.update(data)
        while len(self._pending) >= CHUNK_BYTES:
            cut = self._cut()
            if cut == 0:
                return
            self._pack(cut)

    def write_line(self, line: bytes | memoryview) -> tuple[int, int]:
        """Add one line and its end; returns (chunk number, offset in the chunk) of where it begins."""
        if len(self._pending) >= CHUNK_BYTES:
            self._pack(len(self._pending))
        place = (len(self._packed), len(self._pending))
        self._pending += line
        self._pending += b"\n"
        self.size += len(line) + 1
        self._hash.update(line)
        self._hash.update(b"\n")
        return place

    def finish(self) -> bytes:
        """Pack what is left and return the SHA-256 of everything written."""
        if self._pending:
            self._pack(len(self._pending))
        return self._hash.digest()

    def chunks(self) -> Iterator[Chunk]:
        """The packed chunks, in order, read back from the spool."""
        self._spool.seek(0)
        for number, (offset, length, packed) in enumerate(self._packed):
            yield Chunk(number, offset, length, self._spool.read(packed))

    def take(self) -> list[Chunk]:
        """The chunks packed since the last take, emptying the spool: for writers that store as they go."""
        self._spool.seek(0)
        fresh = enumerate(self._packed[self._taken :], start=self._taken)
        taken = [Chunk(number, offset, length, self._spool.read(packed)) for number, (offset, length, packed) in fresh]
        self._spool.seek(0)
        self._spool.truncate()
        self._taken = len(self._packed)
        return taken

    def _cut(self) -> int:
        end = self._pending.rfind(b"\n", self._scanned) + 1
        if end == 0:
            self._scanned = len(self._pending)
            if self._scanned >= HARD_CUT:
                return self._scanned
        return end

    def _pack(self, length: int) -> None:
        assert self._zstd is not None, "the packer is closed"
        view = memoryview(self._pending)
        packed = self._zstd.compress(view[:length])
        view.release()
        del self._pending[:length]
        self._scanned = 0
        self._spool.write(packed)
        self._packed.append((self._raw_packed, length, len(packed)))
        self._raw_packed += length


def unpack(data: bytes) -> bytes:
    """The raw bytes of one stored chunk or segment."""
    return zstandard.ZstdDecompressor().decompress(data)
