"""Named SQL files: what is accepted, and what is an error when the file is loaded."""

import pytest

from ebbtide.storage.queries import QueryFileError, load_queries, parse_queries

_GOOD = """-- What this file is for.

-- name: find_thing
-- The thing under its id.
-- Uses the primary key.
select *
-- why not
from things where id = $1;

-- name: drop_thing
-- Forgets it.
delete from things where id = $1
"""


def test_names_descriptions_and_statements_are_split() -> None:
    queries = parse_queries(_GOOD, "things.sql")
    assert list(queries) == ["find_thing", "drop_thing"]
    assert queries["find_thing"] == "select *\n-- why not\nfrom things where id = $1"
    assert queries["drop_thing"] == "delete from things where id = $1"
    assert queries.descriptions["find_thing"] == "The thing under its id. Uses the primary key."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\n-- d\nselect 1\n-- name: a\n-- d\nselect 2", "two queries named 'a'"),
        ("-- name: a\nselect 1", "no '-- description'"),
        ("-- name: a\n--\nselect 1", "no '-- description'"),
        ("-- name: a\n-- only words", "no statement"),
        ("-- name: a\n-- d\n;", "no statement"),
        ("-- name: Bad Name\n-- d\nselect 1", "is not a name"),
        ("select 1\n-- name: a\n-- d\nselect 1", "before its first"),
    ],
)
def test_a_file_that_breaks_the_rules_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(QueryFileError, match=complaint):
        parse_queries(text, "bad.sql")


def test_an_unknown_name_tells_the_known_ones() -> None:
    queries = parse_queries(_GOOD, "things.sql")
    assert "lose_thing" not in queries
    with pytest.raises(QueryFileError, match=r"things\.sql has no query 'lose_thing', only: find_thing, drop_thing"):
        queries["lose_thing"]


def test_files_are_found_beside_their_package() -> None:
    assert "lock_migrations" in load_queries("ebbtide.storage", "migrate.sql")
