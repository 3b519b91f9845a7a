"""The command line as a whole: its flags are those of the table, and what is wrong ends with status 2 and one line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from ebbtide.cli.app import run
from ebbtide.cli.bootflags import ServeFlags
from ebbtide.cli.doctor import check_environment, check_port, check_python
from ebbtide.cli.reference import reference_page
from ebbtide.config import OPTIONS, Config
from ebbtide.listening import listen


def test_every_boot_setting_is_a_flag() -> None:
    fields = {field.name for field in dataclasses.fields(ServeFlags)}
    assert fields == {option.field for option in OPTIONS if option.flag is not None}


def test_help_names_every_flag_and_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["serve", "--help"]) == 0
    said = capsys.readouterr().out
    for option in OPTIONS:
        assert (option.variable in said) is (option.flag is not None)
        assert option.flag is None or option.flag in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["serve", "--no-such-flag"],
        ["serve", "--port", "no"],
        ["serve", "--port", "99999"],
        ["accounts", "create"],
        ["accounts", "create", "ada", "--role", "king"],
        ["batch", "submit", "/no/such/file.jsonl"],
        ["batch", "list", "--url", "nowhere"],
        ["models", "check", "/no/such/file.yaml"],
        ["keys", "create", "ada", "--expires-in", "soon"],
    ],
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err
    assert "Traceback" not in captured.err


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == 0
    assert "Usage: ebbtide COMMAND" in capsys.readouterr().out
    assert run(["help", "batch", "submit"]) == 0
    assert "Usage: ebbtide batch submit" in capsys.readouterr().out


def test_version_and_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "reference"]) == 0
    assert capsys.readouterr().out == reference_page()
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip()


def test_the_committed_reference_is_the_one_that_the_tables_make() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"
    assert page.read_text(encoding="utf-8") == reference_page(), "run: make docs"
    assert "| `EBBTIDE_URL` | `--url` | `http://127.0.0.1:8080` |" in reference_page()
    assert "| `EBBTIDE_API_KEY` | `--key` | none |" in reference_page()


def test_a_models_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(
        "models:\n  - id: small\n    aliases: [s]\n    routes:\n      - {id: a, kind: vllm, base_url: http://gpu:8000/v1}\n"
    )
    assert run(["models", "check", str(file)]) == 0
    captured = capsys.readouterr()
    assert "small" in captured.out
    assert "no route is self-hosted" in captured.out
    assert run(["models", "check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "id": "small",
        "type": "chat",
        "aliases": ["s"],
        "min_role": "free",
        "routes": [{"id": "a", "batch_allowed": False}],
        "batches": False,
    }
    file.write_text("models:\n  - id: small\n    min_role: boss\n    routes: [{id: a, kind: standin}]\n")
    assert run(["models", "check", str(file)]) == 2
    assert "'boss'; it is one of free, pro, internal, admin" in capsys.readouterr().err
    file.write_text("models:\n  - id: small\n    rout: []\n")
    assert run(["models", "check", str(file)]) == 2
    assert "line 3" in capsys.readouterr().err


def test_doctor_knows_settings() -> None:
    environ = {
        "BATCH_MAX_REQUESTS": "5",
        "BATCH_MAX_REQUEST": "5",
        "EBBTIDE_PROT": "1",
        "EBBTIDE_URL": "http://h",
        "A": "",
    }
    found = [str(finding) for finding in check_environment(environ)]
    assert found[0].startswith("ok   settings: 1 set")
    assert [line.splitlines()[0] for line in found[1:]] == [
        "warn settings: BATCH_MAX_REQUEST is not a setting and does nothing",
        "warn settings: EBBTIDE_PROT is not a setting and does nothing",
    ]
    [refused] = check_environment({"BATCH_MAX_REQUESTS": "0"})
    assert refused.level == "bad"
    assert "BATCH_MAX_REQUESTS='0'" in refused.message


def test_doctor_knows_python() -> None:
    assert check_python((3, 10)).level == "bad"
    assert check_python((3, 11)).level == check_python((3, 14)).level == "ok"


def test_doctor_sees_a_taken_port(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as listener:
        config = Config(data_dir=tmp_path, port=listener.getsockname()[1])
        assert check_port(config).level == "bad"
    assert check_port(config).level == "ok"
