"""Boot settings: flag over environment over default, and refusals in words that give away no password."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ebbtide.config import OPTIONS, Config, as_environment, load_config
from ebbtide.errors import SetupError

HOME = {"HOME": "/home/someone", "XDG_DATA_HOME": ""}


def test_defaults(tmp_path: Path) -> None:
    config = load_config({"EBBTIDE_DATA_DIR": str(tmp_path)}, {})
    assert config == Config(data_dir=tmp_path)
    assert (config.host, config.port, config.role, config.processes) == ("127.0.0.1", 8080, "all", 1)


def test_a_data_folder_is_always_named() -> None:
    assert load_config(HOME, {}).data_dir.is_absolute()


def test_every_field_has_its_option() -> None:
    assert {option.field for option in OPTIONS} == {field.name for field in dataclasses.fields(Config)}


def test_flag_wins_over_environment() -> None:
    environ = {**HOME, "EBBTIDE_PORT": "9000", "EBBTIDE_HOST": "::1"}
    config = load_config(environ, {"port": "9001", "host": None})
    assert (config.port, config.host) == (9001, "::1")


def test_lists_and_switches() -> None:
    environ = {**HOME, "EBBTIDE_UPSTREAMS": "http://a:1/v1/, http://b:2/v1,http://a:1/v1", "EBBTIDE_SELF_HOSTED": "on"}
    config = load_config(environ, {"embedding_upstreams": ["https://c/v1"]})
    assert config.upstreams == ("http://a:1/v1", "http://b:2/v1")
    assert config.embedding_upstreams == ("https://c/v1",)
    assert config.self_hosted
    assert not load_config(environ, {"self_hosted": False}).self_hosted


def test_a_child_reads_the_same(tmp_path: Path) -> None:
    config = Config(
        data_dir=tmp_path,
        database_url="postgresql://u:p@h/d",
        host="::1",
        port=0,
        role="worker",
        upstreams=("http://a:1/v1", "http://b:2/v1"),
        upstream_key_env="KEY",
        self_hosted=True,
        worker_lease_seconds=3.0,
        worker_heartbeat_seconds=0.5,
        socket_fd=7,
        parent_fd=8,
    )
    assert load_config(as_environment(config), {}) == config


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"EBBTIDE_PORT": "65536"}, ["EBBTIDE_PORT", "65536", "0 to 65535"]),
        ({"EBBTIDE_PORT": "http"}, ["EBBTIDE_PORT", "'http'"]),
        ({"EBBTIDE_ROLE": "boss"}, ["EBBTIDE_ROLE", "'boss'", "api, worker or all"]),
        ({"EBBTIDE_PROCESSES": "0"}, ["EBBTIDE_PROCESSES", "'0'"]),
        ({"EBBTIDE_SELF_HOSTED": "perhaps"}, ["EBBTIDE_SELF_HOSTED", "on or off"]),
        ({"EBBTIDE_UPSTREAMS": "localhost:8000"}, ["EBBTIDE_UPSTREAMS", "http://"]),
        ({"EBBTIDE_UPSTREAMS": "http://h:99999"}, ["EBBTIDE_UPSTREAMS"]),
        ({"EBBTIDE_DATABASE_URL": "mysql://h/d"}, ["EBBTIDE_DATABASE_URL", "postgresql://"]),
        ({"EBBTIDE_MODELS": "m.yaml", "EBBTIDE_UPSTREAM_KEY_ENV": "KEY"}, ["--models", "--upstream-key-env"]),
        ({"EBBTIDE_UPSTREAM_KEY_ENV": "sk-1"}, ["EBBTIDE_UPSTREAM_KEY_ENV", "name of an environment variable"]),
        ({"EBBTIDE_LOG_LEVEL": "loud"}, ["EBBTIDE_LOG_LEVEL", "debug"]),
        ({"EBBTIDE_MODELS": "m.yaml", "EBBTIDE_UPSTREAMS": "http://h/v1"}, ["--models", "--upstream", "not from both"]),
    ],
)
def test_refusals_say_what_is_accepted(environ: dict[str, str], words: list[str]) -> None:
    with pytest.raises(SetupError) as refused:
        load_config({**HOME, **environ}, {})
    for word in words:
        assert word in refused.value.message


def test_a_flag_is_refused_by_its_own_name() -> None:
    with pytest.raises(SetupError, match=r"^--port takes"):
        load_config({**HOME, "EBBTIDE_PORT": "80"}, {"port": "-1"})


@pytest.mark.parametrize(
    "environ", [{"EBBTIDE_DATABASE_URL": "http://me:s3cret@h/d"}, {"EBBTIDE_UPSTREAMS": "ftp://me:s3cret@h"}]
)
def test_a_password_is_not_repeated(environ: dict[str, str]) -> None:
    with pytest.raises(SetupError) as refused:
        load_config({**HOME, **environ}, {})
    assert "s3cret" not in refused.value.message


def test_a_lease_lasts_for_three_heartbeats() -> None:
    environ = {**HOME, "EBBTIDE_WORKER_LEASE_SECONDS": "30"}
    assert load_config({**environ, "EBBTIDE_WORKER_HEARTBEAT_SECONDS": "10"}, {}).worker_heartbeat_seconds == 10
    with pytest.raises(SetupError, match="EBBTIDE_WORKER_HEARTBEAT_SECONDS"):
        load_config({**environ, "EBBTIDE_WORKER_HEARTBEAT_SECONDS": "10.5"}, {})
