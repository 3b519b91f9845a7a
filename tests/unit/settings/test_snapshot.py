"""The table and the class say the same, and a bad value is refused with its name, itself and what is accepted."""

from __future__ import annotations

import dataclasses
import typing
from decimal import Decimal

import pytest

from ebbtide.accounts.roles import Role
from ebbtide.errors import SetupError
from ebbtide.settings.registry import BY_NAME, ROLES, SETTINGS
from ebbtide.settings.setting import Setting
from ebbtide.settings.snapshot import RoleName, Settings, SettingsSource, load_settings


def _type_of(setting: Setting) -> object:
    if setting.choices == ROLES:
        return RoleName
    return Decimal | None if setting.kind is Decimal else setting.kind


def test_table_and_class_are_equal() -> None:
    types = typing.get_type_hints(Settings)
    fields = {field.name: (types[field.name], field.default) for field in dataclasses.fields(Settings)}
    table = {setting.attribute: (_type_of(setting), setting.default) for setting in SETTINGS}
    assert fields == table
    assert len(table) == len(SETTINGS)


def test_roles_are_those_of_accounts() -> None:
    assert tuple(role.value for role in Role) == ROLES == typing.get_args(RoleName)


def test_every_line_is_whole() -> None:
    for setting in SETTINGS:
        assert setting.name == setting.name.upper()
        assert setting.sentence.endswith(".")
        if setting.kind is int:
            assert setting.unit
            assert setting.minimum <= setting.default <= setting.maximum  # type: ignore[operator]  # an int by its kind


def test_defaults_are_those_of_the_table() -> None:
    assert load_settings({}) == Settings()
    assert load_settings({"BATCH_ENABLED": "", "PATH": "/bin"}) == Settings()


# The reference of the batch system: what an operator finds there is what is in force here.
REFERENCE = {
    "BATCH_ENABLED": True,
    "BATCH_MIN_ROLE": "internal",
    "BATCH_MODEL_CONCURRENCY": 64,
    "BATCH_YIELD_TO_INTERACTIVE": True,
    "BATCH_MAX_REQUESTS": 50_000,
    "BATCH_MAX_BODY_MB": 32,
    "BATCH_MAX_ACTIVE_PER_USER": 10,
    "BATCH_COMPLETION_WINDOW_HOURS": 24,
    "BATCH_RETENTION_DAYS": 7,
    "BATCH_MAX_QUEUED_REQUESTS_PER_USER": 100_000,
    "BATCH_ROLE_CONCURRENCY_FREE": 8,
    "BATCH_ROLE_CONCURRENCY_PRO": 16,
    "BATCH_ROLE_CONCURRENCY_INTERNAL": 64,
    "BATCH_ROLE_CONCURRENCY_ADMIN": 64,
    "BATCH_SHARED_INTERACTIVE_LOAD": True,
    "BATCH_INTERACTIVE_RESERVE": 0,
    "BATCH_MAX_LINE_KB": 4_096,
    "BATCH_MAX_RESULT_KB": 4_096,
    "BATCH_MAX_RESULTS_MB_PER_BATCH": 8_192,
    "BATCH_FILES_MAX_TOTAL_MB_PER_USER": 512,
    "BATCH_FILE_UPLOADS_PER_HOUR": 60,
    "BATCH_FILE_RETENTION_DAYS": 30,
    "BATCH_ANTHROPIC_VERSIONS": "2023-06-01,2026-10-21",
    "BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": False,
    "BATCH_QUEUED_ALERT_HOURS": 6,
    "STREAM_REQUEST_TIMEOUT_SECONDS": 3_600,
    "REQUEST_TIMEOUT_SECONDS": 120,
}


def test_names_and_defaults_are_those_of_the_reference() -> None:
    assert {name: BY_NAME[name].default for name in REFERENCE} == REFERENCE
    window = BY_NAME["BATCH_COMPLETION_WINDOW_HOURS"]
    assert (window.minimum, window.maximum) == (0, 168)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_each_setting_is_read_and_bounded(setting: Setting) -> None:
    if setting.kind is bool:
        good: list[tuple[str, object]] = [("off", False), ("TRUE", True), ("0", False), (" yes ", True)]
        bad = ["2", "maybe"]
    elif setting.several:
        first, second = setting.choices
        good = [(first, first), (f" {second} , {first} ", f"{first},{second}"), (str(setting.default), setting.default)]
        bad = ["2099-01-01", f"{first},2099-01-01", ",", f"{first},,"]
    elif setting.kind is Decimal:
        good = [("25", Decimal(25)), (" 0.50 ", Decimal("0.5")), ("0", Decimal(0)), ("", None)]
        bad = ["-1", "1e3", "NaN", "$5", "1" * 10, "0." + "1" * 13, "none", "٣"]
    elif setting.choices:
        good = [(choice.upper(), choice) for choice in setting.choices]
        bad = ["root"]
    elif setting.kind is str:
        good = [(url, url) for url in ("https://hooks.example.org/services/a?b=c", "http://[::1]:9000/")]
        bad = ["hooks.example.org", "ftp://h/", "https://:1", "https://h:0/", "http://h:x/", "http://a b/", "http://é/"]
    else:
        good = [(str(setting.minimum), setting.minimum), (str(setting.maximum), setting.maximum)]
        bad = [str(setting.maximum + 1), str(setting.minimum - 1), "1.5", "ten", "1e3", "٣", "9" * 30]
    for text, value in good:
        assert getattr(load_settings({setting.name: text}), setting.attribute) == value
    for text in bad:
        with pytest.raises(SetupError) as refused:
            load_settings({setting.name: text})
        assert setting.name in refused.value.message
        assert (text in refused.value.message) is not setting.secret
        assert setting.bounds in refused.value.message


def test_a_secret_is_in_no_printed_snapshot() -> None:
    settings = load_settings({"ALERT_WEBHOOK_URL": "https://hooks.example.org/s3cret"})
    assert settings.alert_webhook_url.endswith("s3cret")
    assert "s3cret" not in repr(settings)
    secrets = [setting for setting in SETTINGS if setting.secret]
    hidden = {field.name for field in dataclasses.fields(Settings) if not field.repr}
    assert hidden == {setting.attribute for setting in secrets}


def test_cap_of_each_role() -> None:
    settings = Settings(batch_role_concurrency_pro=3)
    assert {role.value: settings.batch_role_concurrency(role.value) for role in Role} == {
        "free": 8,
        "pro": 3,
        "internal": 64,
        "admin": 64,
    }


def test_source_swaps_whole_snapshots() -> None:
    source = SettingsSource(Settings())
    before = source.current
    source.swap(Settings(batch_enabled=False))
    assert before.batch_enabled
    assert not source.current.batch_enabled
