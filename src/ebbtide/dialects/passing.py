"""A server's stream of events on its way to a caller who speaks the same form, whatever the form."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.dialects.pieces import EventReader


class EventPasser(EventReader[bytes]):
    """Bytes in, whole events out, each with its blank line, lines ended by `\\n`; a form says in `render` what becomes
    of one.

    The event that sets `error` is not passed on: the caller's form then writes the end.
    """

    def render(self, event: bytes) -> bytes:
        """What the caller gets of an event, which has no blank line; nothing where it is kept back."""
        raise NotImplementedError

    def take(self, event: bytes) -> Sequence[bytes]:
        told = self.render(event.strip(b"\n"))
        return (told,) if told and self.error is None else ()
