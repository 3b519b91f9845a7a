"""The comments of schema.sql name the statements that an index serves, by room and name: each of them exists."""

import re
from collections import defaultdict
from pathlib import Path

import ebbtide
from ebbtide.storage.queries import parse_queries

_SOURCE = Path(ebbtide.__file__).parent
_NAMED = re.compile(r"\(((?:[a-z]+\.[a-z_]+(?:, )?)+)\)")


def named_statements(schema: str) -> set[str]:
    """What stands in parentheses in the comments, such as `(batches.claim_items, batches.cancel)`."""
    comments = [line.partition("--")[2] for line in schema.splitlines()]
    return {name for comment in comments for group in _NAMED.findall(comment) for name in group.split(", ")}


def statements(source: Path) -> set[str]:
    """Every statement of every room, as room.name."""
    rooms: defaultdict[str, set[str]] = defaultdict(set)
    for path in source.rglob("*.sql"):
        if path.parent.name != "migrations" and path.name != "schema.sql":
            rooms[path.relative_to(source).parts[0]] |= set(parse_queries(path.read_text(encoding="utf-8"), path.name))
    return {f"{room}.{name}" for room, names in rooms.items() for name in names}


def test_every_statement_that_the_schema_names_exists() -> None:
    named = named_statements((_SOURCE / "storage" / "schema.sql").read_text(encoding="utf-8"))
    assert len(named) > 20
    assert named - statements(_SOURCE) == set()


def test_names_are_found_in_comments_alone() -> None:
    schema = "-- Two (a.one, b.two), and (c.three).\ncheck (d.four) -- x (e.five_six) y (not one)"
    assert named_statements(schema) == {"a.one", "b.two", "c.three", "e.five_six"}
