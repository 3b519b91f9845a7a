"""Answers of the neutral form cut into the pieces that a stream may bring."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.json import encode

from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    End,
    Part,
    Piece,
    Text,
    TextPiece,
    Thought,
    ThoughtEnd,
    ThoughtPiece,
    ToolCall,
)


def pieces_of(parts: Sequence[Part]) -> list[Piece]:
    """The pieces that a stream of these parts may come in."""
    pieces: list[Piece] = []
    made = 0
    for part in parts:
        match part:
            case Text(text=text):
                pieces += [TextPiece(0, text[:1]), TextPiece(0, text[1:])]
            case Thought(redacted=None):
                pieces += [ThoughtPiece(0, part.text), ThoughtEnd(0, part)]
            case Thought():
                pieces.append(ThoughtEnd(0, part))
            case ToolCall():
                text = encode(part.arguments).decode()
                pieces += [CallStart(0, made, part.id, part.name, part.signature), CallPiece(0, made, text)]
                made += 1
    return [*pieces, End(0, "stop")]
