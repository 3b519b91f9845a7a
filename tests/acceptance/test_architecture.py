"""The page on the architecture tells the truth about the layers and the tables that there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_it_names_the_layers_of_the_contract_in_their_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [sorted(layer.split(" | ")) for layer in contracts[0]["layers"] if layer != "__main__"]
    told = re.search(r"what stands below it in `([^`]+)`", PAGE)
    assert told is not None
    assert [sorted(re.split(r",\s+", layer)) for layer in re.split(r"\s+→\s+", told[1])] == layers


def test_it_names_every_table_once() -> None:
    schema = (ROOT / "src/ebbtide/storage/schema.sql").read_text(encoding="utf-8")
    tables = re.findall(r"^create (?:unlogged )?table (\w+)(?! partition of)\b", schema, re.MULTILINE)
    rows = re.findall(r"^\| (`[^|]+) \| [^|]+ \| [^|]+ \|$", PAGE[PAGE.index("## Tables") :], re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(tables) > 30
    assert [table for table in tables if told.count(table) != 1] == []
