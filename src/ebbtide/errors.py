"""One tree for everything that can be refused or go wrong, free of HTTP.

A room raises the narrowest kind; each dialect has one table that renders a kind as a status and a body.
Messages are written for the caller: they name the field and never carry prompts, answers or secrets.
"""

from __future__ import annotations

from collections.abc import Sequence


class EbbtideError(Exception):
    """A failure that the caller may be told about.

    `code` is the machine-readable code where the API names one, `param` the field at fault.
    """

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param


class InvalidRequest(EbbtideError):
    """The request is malformed or not allowed as written."""


class Unauthenticated(EbbtideError):
    """No key, or one that is unknown, expired or revoked."""


class Forbidden(EbbtideError):
    """The principal is known, but may not do this."""


class NotFound(EbbtideError):
    """Does not exist, was deleted, or belongs to somebody else."""


class MethodNotAllowed(EbbtideError):
    """The path is there, the method is not; `allowed` are the methods that are."""

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"This path does not answer {method}, only {', '.join(allowed)}", code="method_not_allowed")
        self.allowed = allowed


class Conflict(EbbtideError):
    """The thing's present state does not allow this; trying again as it is cannot help."""


class Gone(EbbtideError):
    """Was here, and is not coming back."""


class TooLarge(EbbtideError):
    """A body, file or store is over its size limit."""


class LimitReached(EbbtideError):
    """A count or rate limit is reached; `retry_after` seconds when known."""

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Unavailable(EbbtideError):
    """Cannot be served at the moment (database away, no route up); `retry_after` seconds when known."""

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class UpstreamFailed(EbbtideError):
    """The upstream answered with an error, or not at all.

    `status` is the HTTP status the caller gets: the upstream's own for a refusal, 502 or 504 otherwise; `retry_after`
    the seconds that it asked to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param)
        self.status = status
        self.retry_after = retry_after


class SetupError(EbbtideError):
    """The deployment is set up wrongly: a setting, a file, the database. Ends a command with its message."""
