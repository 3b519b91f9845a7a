"""Each table is written by one room alone, so that every rule about its rows is found there."""

import re
from collections import defaultdict
from pathlib import Path

import ebbtide

_SOURCE = Path(ebbtide.__file__).parent
# Tables that more than one room may write, each with the reason. Keep it empty.
EXCEPTIONS: dict[str, set[str]] = {}

_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_TARGET = re.compile(
    r"""\b(?: insert\s+into | delete\s+from | merge\s+into | truncate(?:\s+table)? | copy ) \s+ (?:only\s+)? "?(\w+)
      | \bupdate \s+ (?:only\s+)? "?(\w+)"? (?:\s+(?:as\s+)? (?!set\b)\w+)? \s+ set\b""",
    re.IGNORECASE | re.VERBOSE,
)
_COPY_CALL = re.compile(r"""copy_(?:records_)?to_table\(\s*["'](\w+)["']""")


def written_tables(sql: str) -> set[str]:
    """The tables that `sql` inserts into, updates, deletes from, truncates or copies to."""
    return {found[1] or found[2] for found in _TARGET.finditer(_COMMENT_OR_TEXT.sub(" ", sql))}


def writers(source: Path) -> dict[str, set[str]]:
    """Which rooms write which table."""
    rooms: defaultdict[str, set[str]] = defaultdict(set)
    for path in source.rglob("*"):
        if path.suffix not in (".sql", ".py") or (source / "storage") in path.parents:
            continue
        text = path.read_text(encoding="utf-8")
        for table in written_tables(text) if path.suffix == ".sql" else _COPY_CALL.findall(text):
            rooms[table].add(path.relative_to(source).parts[0])
    return rooms


def test_each_table_is_written_by_one_room() -> None:
    shared = {table: rooms for table, rooms in writers(_SOURCE).items() if len(rooms) > 1}
    assert shared == EXCEPTIONS


def test_every_kind_of_write_is_seen() -> None:
    sql = """
        -- insert into commented values (1)
        with gone as (delete from a where x = 'update quoted set y' returning *), more as (
            update b as bee set n = 1 from c where c.n = bee.n returning 1)
        insert into d (n) select n from e for update of e skip locked on conflict (n) do update set n = 2;
        update only f set n = 1; UPDATE g SET n = 2; truncate table h; copy i (n) from stdin;
        merge into j using k on true; select * from l for no key update; select updated, copy_of from m
    """
    assert written_tables(sql) == {"a", "b", "d", "f", "g", "h", "i", "j"}
    assert _COPY_CALL.findall('await connection.copy_records_to_table(\n    "items", records=rows)') == ["items"]
