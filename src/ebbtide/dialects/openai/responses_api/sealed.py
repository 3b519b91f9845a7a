"""What only a model's maker can read of its reasoning, as a Responses item's `encrypted_content`: there and back.

The item has one member for two things that some makers keep apart, a signature of the text beside it and a thought
that is hidden whole; a word before the data tells which one it is.
"""

from __future__ import annotations

from typing import Final

from ebbtide.dialects.conversation import Thought, cannot

_SIGNED: Final = "signed:"
_HIDDEN: Final = "hidden:"


def seal(thought: Thought) -> str | None:
    """The thought's `encrypted_content`; None where there is nothing but text."""
    if thought.redacted is not None:
        return _HIDDEN + thought.redacted
    return None if thought.signature is None else _SIGNED + thought.signature


def open_sealed(path: str, sealed: str, text: str) -> Thought:
    """Raises InvalidRequest for what was not sealed here: no other model can read it."""
    if sealed.startswith(_SIGNED):
        return Thought(text, signature=sealed.removeprefix(_SIGNED), path=path)
    if sealed.startswith(_HIDDEN) and not text:
        return Thought(redacted=sealed.removeprefix(_HIDDEN), path=path)
    raise cannot(path, "the model's server did not make it and cannot read it")
