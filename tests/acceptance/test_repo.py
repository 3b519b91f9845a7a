"""What stands in the repository beside the code: documents, their links and examples, the demo, the build files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import ebbtide
from ebbtide.accounts.oidc.config import VARIABLES
from ebbtide.catalog.models_file import parse_models
from ebbtide.config import OPTIONS
from ebbtide.settings.registry import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> Iterator[str]:
    return (body for name, body in _BLOCK.findall(page.read_text(encoding="utf-8")) if name == language)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_pages_are_there() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert names >= {
        *(
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "docs/index.md",
            "docs/quickstart.md",
            "docs/architecture.md",
        ),
        *("docs/batch-api.md", "docs/models-file.md", "docs/operating.md", "docs/cli.md", "docs/reference/settings.md"),
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in _LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_every_page_of_the_docs_is_in_the_index() -> None:
    linked = set(_LINK.findall((ROOT / "docs/index.md").read_text(encoding="utf-8")))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob("**/*.md")} - {"index.md"}
    assert pages <= linked


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_named_in_the_docs_exist(page: Path) -> None:
    known = {setting.name for setting in SETTINGS} | {option.variable for option in OPTIONS} | VARIABLES
    others = {"EBBTIDE_URL", "EBBTIDE_API_KEY", "BATCH_ID", "BATCH_STATE_FAILED"}
    named = set(re.findall(r"\b(?:BATCH|EBBTIDE|STREAM|REQUEST)(?:_[A-Z]+)+\b", page.read_text(encoding="utf-8")))
    assert named <= known | others


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_can_be_read(page: Path) -> None:
    for body in blocks(page, "json"):
        whole = body.strip()
        for text in whole.splitlines() if whole.splitlines()[0].endswith("}") else [whole]:
            json.loads(text)
    for body in blocks(page, "yaml"):
        assert yaml.safe_load(body)
    for body in blocks(page, "sh"):
        done = subprocess.run(["bash", "-n"], input=body, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/models-file.md"])
def test_models_files_in_the_docs_are_sound(page: str) -> None:
    found = [parse_models(body, {"GPU_A_KEY": "secret"}) for body in blocks(ROOT / page, "yaml")]
    assert found
    assert all(catalog.models for catalog in found)


def test_the_demo_has_two_hundred_requests_for_its_own_models() -> None:
    lines = [json.loads(line) for line in (ROOT / "demo/requests.jsonl").read_text(encoding="utf-8").splitlines()]
    catalog = parse_models((ROOT / "demo/models.yaml").read_text(encoding="utf-8"), {})
    assert len(lines) == len({line["custom_id"] for line in lines}) == 200
    assert len({json.dumps(line["body"]) for line in lines}) == 200
    assert all(catalog.resolve(line["body"]["model"]) for line in lines)


def test_the_demo_file_is_what_its_script_makes() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import make_requests; print('\\n'.join(make_requests.lines()))"],
        cwd=ROOT / "demo",
        capture_output=True,
        check=True,
    )
    assert made.stdout == (ROOT / "demo/requests.jsonl").read_bytes()


def test_make_has_every_target_that_the_documents_name() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"\bmake (demo|test|check|[a-z]+)\b`", page.read_text())}
    assert {"demo", "test", "check", "bench", "docs", "clean"} <= targets
    assert named <= targets


def test_the_build_runs_the_command_that_the_readme_names() -> None:
    run = ROOT / ".ci/run"
    text = run.read_text(encoding="utf-8")
    assert run.stat().st_mode & 0o111
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^make test$", text, flags=re.MULTILINE)
    assert "set -euo pipefail" in text


def test_every_room_has_its_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(rule for rule in project["tool"]["importlinter"]["contracts"] if rule["type"] == "layers")
    placed = {room.strip() for layer in layers["layers"] for room in layer.split("|")}
    rooms = {path.stem for path in (ROOT / "src/ebbtide").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert layers["exhaustive"]
    assert rooms - {"__init__", "__pycache__"} == placed


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == ebbtide.__version__
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text(encoding="utf-8")
