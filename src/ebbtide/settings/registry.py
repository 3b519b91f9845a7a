"""The one table of run-time settings; the snapshot, the command line, the docs page and the checks come from it.

A name here is the environment variable's own name, without a prefix. Boot settings are elsewhere (ebbtide.config).
"""

from __future__ import annotations

from typing import Final

from ebbtide.settings.setting import Setting

ROLES: Final = ("free", "pro", "internal", "admin")
ANTHROPIC_VERSIONS: Final = ("2023-06-01", "2026-10-21")
_DAY = 24 * 60 * 60


def _switch(name: str, default: bool, sentence: str) -> Setting:
    return Setting(name, default, sentence)


def _choice(name: str, default: str, choices: tuple[str, ...], sentence: str) -> Setting:
    return Setting(name, default, sentence, choices=choices)


def _some(name: str, choices: tuple[str, ...], sentence: str) -> Setting:
    return Setting(name, ",".join(choices), sentence, choices=choices, several=True)


def _number(name: str, default: int, bounds: tuple[int, int], unit: str, sentence: str) -> Setting:
    return Setting(name, default, sentence, unit, *bounds)


def _size(what: str, default: int, unit: str, sentence: str) -> Setting:
    return _number(f"REQUEST_MAX_{what}", default, (1, 1_000_000), unit, sentence)


def _secret_url(name: str, sentence: str) -> Setting:
    return Setting(name, "", sentence, secret=True)


def _amount(name: str, sentence: str) -> Setting:
    return Setting(name, None, sentence, "USD")


def _user_cap(role: str, default: int) -> Setting:
    sentence = (
        f"Interactive requests that one account of the role {role} may have running at once, counted over all gateway "
        "processes, unless the account has a cap of its own; 0 lifts this cap."
    )
    return _number(f"USER_CONCURRENCY_{role.upper()}", default, (0, 100_000), "requests", sentence)


def _role_quota(period: str, role: str) -> Setting:
    word = {"DAILY": "a day", "MONTHLY": "a month"}[period]
    return _amount(
        f"{period}_QUOTA_USD_{role.upper()}",
        f"What an account of the role {role} may spend in {word} (UTC), its batches included, unless it has a quota of "
        "its own. Empty: no limit.",
    )


def _role_cap(role: str, default: int) -> Setting:
    sentence = (
        f"Batch requests that one account of the role {role} may have running at once, over all models, "
        "counted over all gateway processes, not in each; 0 lifts this cap."
    )
    return _number(f"BATCH_ROLE_CONCURRENCY_{role.upper()}", default, (0, 100_000), "requests", sentence)


SETTINGS: Final[tuple[Setting, ...]] = (
    _switch(
        "BATCH_ENABLED",
        True,
        "Serves batch inference. Off: every batch, file and webhook route answers 404, no queued request starts, "
        "and what is stored stays stored.",
    ),
    _choice(
        "BATCH_MIN_ROLE",
        "internal",
        ROLES,
        "The lowest role that may create batches, upload files and set up a webhook; queued requests of an account "
        "below it wait.",
    ),
    _number(
        "BATCH_MODEL_CONCURRENCY",
        64,
        (0, 100_000),
        "requests",
        "Batch requests that a model without a cap of its own runs at once, counted over all gateway processes; "
        "0 pauses the batch work of those models.",
    ),
    _switch(
        "BATCH_YIELD_TO_INTERACTIVE",
        True,
        "Interactive requests in flight on a model take slots from its batch cap. Off: batch work fills the cap "
        "whatever the interactive load.",
    ),
    _switch(
        "BATCH_SHARED_INTERACTIVE_LOAD",
        True,
        "Batch work yields to the interactive requests of every gateway process, and starts nothing new while their "
        "counts cannot be read. Off: only to those of the worker's own process. "
        "Without effect while BATCH_YIELD_TO_INTERACTIVE is off.",
    ),
    _number(
        "BATCH_INTERACTIVE_RESERVE",
        0,
        (0, 100_000),
        "requests",
        "Slots of every model's batch cap that are kept free for interactive requests, on top of those in flight. "
        "Without effect while BATCH_YIELD_TO_INTERACTIVE is off.",
    ),
    _number(
        "BATCH_MIN_SHARE",
        0,
        (0, 100_000),
        "requests",
        "Slots of every model's batch cap that batch work keeps however heavy the interactive load, so that batches do "
        "not wait until they expire; never more than the cap. 0 keeps none.",
    ),
    _number(
        "BATCH_QUEUED_ALERT_HOURS",
        6,
        (0, 8_760),
        "hours",
        "How long a model's batch requests may wait for capacity before an alert; 0 sends none.",
    ),
    _number("BATCH_MAX_REQUESTS", 50_000, (1, 1_000_000), "requests", "Requests that one batch may hold."),
    _number(
        "BATCH_MAX_BODY_MB", 32, (1, 2_048), "MiB", "The largest body of a create call, and the largest input file."
    ),
    _number(
        "BATCH_MAX_ACTIVE_PER_USER",
        10,
        (1, 100_000),
        "batches",
        "Unfinished batches that one account may have at once.",
    ),
    _number(
        "BATCH_COMPLETION_WINDOW_HOURS",
        24,
        (0, 168),
        "hours",
        "How long a new batch may go on starting requests; 0 sets no limit, and it never expires. One from a file has "
        "24 hours or no limit. A batch keeps the value it was made with.",
    ),
    _number(
        "BATCH_RETENTION_DAYS",
        7,
        (1, 3_650),
        "days",
        "How long a finished batch and its results are kept. A batch keeps the value it was created with.",
    ),
    _number(
        "BATCH_MAX_QUEUED_REQUESTS_PER_USER",
        100_000,
        (1, 100_000_000),
        "requests",
        "Unfinished requests that one account may have, all its batches together.",
    ),
    _role_cap("free", 8),
    _role_cap("pro", 16),
    _role_cap("internal", 64),
    _role_cap("admin", 64),
    _number("BATCH_MAX_LINE_KB", 4_096, (1, 32_768), "KiB", "The longest line of an input file."),
    _number("BATCH_MAX_RESULT_KB", 4_096, (1, 65_536), "KiB", "The largest answer that one batch request may store."),
    _number(
        "BATCH_MAX_RESULTS_MB_PER_BATCH",
        8_192,
        (0, 16_777_216),
        "MiB",
        "Answers that one batch may store, all together; an answer beyond it fails, and what has not run fails unrun. "
        "0 sets no limit.",
    ),
    _number(
        "BATCH_FILES_MAX_TOTAL_MB_PER_USER",
        512,
        (1, 16_777_216),
        "MiB",
        "Uploaded input files that one account may keep, all together.",
    ),
    _number(
        "BATCH_FILE_UPLOADS_PER_HOUR",
        60,
        (1, 1_000_000),
        "files",
        "Input files that one account may upload in an hour, failed uploads included; those are counted in each "
        "gateway process on its own.",
    ),
    _number("BATCH_FILE_RETENTION_DAYS", 30, (1, 3_650), "days", "How long an uploaded input file is kept."),
    _some(
        "BATCH_ANTHROPIC_VERSIONS",
        ANTHROPIC_VERSIONS,
        "The anthropic-version values that a new batch of Messages requests may name; a stored batch keeps its own.",
    ),
    _switch(
        "BATCH_MESSAGE_BATCHES",
        False,
        "Serves Anthropic's own Message Batches. Off: every operation of theirs answers 410 with a pointer to "
        "/v1/batches, and such batches that were made before keep running and are managed there.",
    ),
    _switch(
        "BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS",
        False,
        "Lets webhooks reach private and loopback addresses, also by http://. For isolated test deployments only.",
    ),
    _secret_url(
        "ALERT_WEBHOOK_URL",
        "Where alerts are posted, besides the log and the metrics, in the form that Slack's incoming webhooks take. "
        "Empty: nowhere.",
    ),
    _number(
        "REQUEST_LOG_RETENTION_DAYS",
        90,
        (1, 3_650),
        "days",
        "How long rows of the request log and its figures are kept.",
    ),
    _switch(
        "DB_STORE_FULL_CONTENT",
        False,
        "Keeps what interactive requests say and are answered beside their rows in the request log, up to 1 MiB of "
        "each, and lets administrators read that and what is stored of batches. Off: nothing of interactive requests "
        "is kept or shown, and only their owners read batches.",
    ),
    _number(
        "ROUTING_BREAKER_FAILURES",
        5,
        (0, 10_000),
        "failures",
        "Failures in a row after which a route is left alone for a while, then tried with one request; 0: never.",
    ),
    _number(
        "ROUTING_BREAKER_SECONDS",
        5,
        (1, 3_600),
        "seconds",
        "How long such a route is left alone: doubled each time the trial fails, up to a minute or to this value.",
    ),
    _number(
        "ROUTING_AFFINITY_MINUTES",
        5,
        (0, 1_440),
        "minutes",
        "How long after an account's last interactive request to a model the next one prefers the same route, whose "
        "prompt cache may know the conversation; 0: not at all.",
    ),
    _number(
        "STREAM_REQUEST_TIMEOUT_SECONDS",
        3_600,
        (1, _DAY),
        "seconds",
        "How long a streamed answer or a download may take from beginning to end.",
    ),
    _user_cap("free", 4),
    _user_cap("pro", 16),
    _user_cap("internal", 64),
    _user_cap("admin", 64),
    *(_role_quota(period, role) for period in ("DAILY", "MONTHLY") for role in ROLES),
    _number("SESSION_LIFETIME_HOURS", 168, (1, 8_760), "hours", "How long a console session lasts that is opened now."),
    _number(
        "SESSION_IDLE_MINUTES", 720, (5, 525_600), "minutes", "How long a console session lasts while it is not used."
    ),
    _size("MESSAGES", 10_000, "messages", "Messages that one request may hold."),
    _size("CONTENT_PARTS", 10_000, "parts", "Parts of content that one request may hold, over all its messages."),
    _size("TOOLS", 512, "tools", "Tools that one request may describe."),
    _size("STOP_SEQUENCES", 64, "sequences", "Stop sequences that one request may name."),
    _number("REQUEST_TIMEOUT_SECONDS", 120, (1, _DAY), "seconds", "How long any other request may take."),
)
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
