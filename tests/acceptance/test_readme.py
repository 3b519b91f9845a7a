"""The README's first batch, done as it says, against a gateway with the demo's models."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.gateway import TestGateway, start_gateway

from ebbtide.accounts.roles import Role

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Section:
    """The section 'Your first batch': its fenced blocks in order, each with its language."""

    blocks: tuple[tuple[str, str], ...]

    def holding(self, text: str) -> str:
        """The one block with `text` in it."""
        (found,) = [body for _, body in self.blocks if text in body]
        return found


@dataclass(frozen=True)
class Checkout:
    folder: Path
    exports: str

    async def shell(self, script: str) -> str:
        """What the script prints after the exports. Every command of it has to succeed."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("EBBTIDE_")}
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", self.exports + script),
            cwd=self.folder,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()


@pytest.fixture
def section() -> Section:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, rest = readme.partition("## Your first batch\n")
    text, _, _ = rest.partition("\n## ")
    return Section(tuple(re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)))


@pytest.fixture
async def gateway(database_url: str, listen_url: str, tmp_path: Path) -> AsyncIterator[TestGateway]:
    """A gateway with the demo's models, without their wait."""
    models = tmp_path / "models.yaml"
    models.write_text(re.sub(r"latency: .*", "latency: 0", (ROOT / "demo/models.yaml").read_text(encoding="utf-8")))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


@pytest.fixture
async def checkout(gateway: TestGateway, section: Section, tmp_path: Path) -> Checkout:
    """A folder that looks like the checkout after `make demo`, and what the README has people export in it."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "demo").symlink_to(ROOT / "demo")
    exports = section.holding("export EBBTIDE_URL")
    key = await gateway.new_key("readme", Role.INTERNAL)
    return Checkout(folder, exports.replace("http://127.0.0.1:8080", gateway.url).replace("ebb-...", key))


async def test_with_the_command(section: Section, checkout: Checkout) -> None:
    await checkout.shell(section.holding("ebbtide batch submit"))
    lines = [json.loads(line) for line in (checkout.folder / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 200
    assert all(line["response"]["status_code"] == 200 for line in lines)


async def test_with_the_openai_sdk(section: Section, checkout: Checkout) -> None:
    (checkout.folder / "first.py").write_text(section.holding("from openai import OpenAI"))
    said = await checkout.shell(".venv/bin/python first.py")
    assert said.startswith("completed ")
    assert "completed=200" in said
    assert "batch_req_" in said


async def test_with_curl(section: Section, checkout: Checkout) -> None:
    said = await checkout.shell(section.holding('"custom_id": "river"'))
    assert [json.loads(line)["custom_id"] for line in said.splitlines()] == ["river", "lake"]


async def test_a_single_request(section: Section, checkout: Checkout) -> None:
    said = await checkout.shell(section.holding("Good morning!"))
    events = [line.removeprefix("data: ") for line in said.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert "".join(
        choice["delta"].get("content") or "" for event in events[:-1] for choice in json.loads(event)["choices"]
    )
