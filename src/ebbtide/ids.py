"""Public identifiers: a prefix that tells what the thing is, and 32 hex digits (128 random bits)."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Final

RESULT_PREFIX = "batch_req_"
AUDIT_PREFIX = "audit_"
LOG_PREFIX = "log_"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MICROSECOND: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def batch_id() -> str:
    return f"batch_{secrets.token_hex(16)}"


def message_batch_id() -> str:
    return f"msgbatch_{secrets.token_hex(16)}"


def file_id() -> str:
    return f"file-{secrets.token_hex(16)}"


def request_id() -> str:
    return f"req_{secrets.token_hex(16)}"


def account_id() -> str:
    return f"acct_{secrets.token_hex(16)}"


def key_id() -> str:
    return f"key_{secrets.token_hex(16)}"


def result_id(number: int) -> str:
    """The public id of a batch's item: `batch_req_<number>`, which is also the results cursor."""
    return f"{RESULT_PREFIX}{number}"


def result_number(value: str) -> int | None:
    """The item number in a results cursor, or None when it is not one."""
    return _number(value, RESULT_PREFIX)


def audit_id(number: int) -> str:
    """The public id of an entry of the audit log: `audit_<number>`, which is also its cursor."""
    return f"{AUDIT_PREFIX}{number}"


def audit_number(value: str) -> int | None:
    """The entry's number in a cursor of the audit log, or None when it is not one."""
    return _number(value, AUDIT_PREFIX)


def log_id(at: datetime, number: int) -> str:
    """The public id of a row of the request log, which is also its cursor: its time in microseconds, and its number."""
    return f"{LOG_PREFIX}{(at - _EPOCH) // timedelta(microseconds=1)}_{number}"


def log_place(value: str) -> tuple[datetime, int] | None:
    """Time and number in a cursor of the request log, or None when it is not one."""
    time, _, digits = value.removeprefix(LOG_PREFIX).partition("_")
    microseconds, number = _number(LOG_PREFIX + time, LOG_PREFIX), _number(LOG_PREFIX + digits, LOG_PREFIX)
    if not value.startswith(LOG_PREFIX) or microseconds is None or number is None or microseconds > _LAST_MICROSECOND:
        return None
    return _EPOCH + timedelta(microseconds=microseconds), number


def _number(value: str, prefix: str) -> int | None:
    digits = value.removeprefix(prefix)
    if digits == value or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        return None
    return int(digits)
