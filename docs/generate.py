"""Write the generated parts of docs/ again, or with --check only say which are out of date (and exit with 1).

A page is generated whole, or between `<!-- generated: NAME -->` and `<!-- end -->` in a page written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ebbtide.batches.states import BATCH_MOVES, ITEM_MOVES, Moves, final_states
from ebbtide.cli.app import app
from ebbtide.cli.reference import reference_page
from ebbtide.records.metrics import reference_page as metrics_page

DOCS = Path(__file__).parent


def states_part() -> str:
    """The diagrams of an item's states and a batch's phases."""
    items = _diagram(ITEM_MOVES, "queued")
    phases = _diagram(BATCH_MOVES, "validating", "open")
    return f"An item:\n\n{items}\n\nA batch's phases:\n\n{phases}"


def _diagram(moves: Moves, *starts: str) -> str:
    """A Mermaid state diagram of a table of moves, every arrow with its verbs."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for verb, move in moves.items():
        for pair in move.items():
            arrows.setdefault(pair, []).append(verb)
    lines = [f"    [*] --> {state}" for state in starts]
    lines += [f"    {source} --> {target}: {', '.join(verbs)}" for (source, target), verbs in arrows.items()]
    lines += [f"    {state} --> [*]" for state in sorted(final_states(moves))]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


_CLI = """\
# Command line

This page is made from the commands themselves (`make docs`); `ebbtide COMMAND --help` says the same.

`accounts`, `keys`, `settings` and `migrate` work on the database directly and run where the gateway does; `batch` and
`models list` talk to any gateway over HTTP, with `EBBTIDE_URL` and `EBBTIDE_API_KEY` or `--url` and `--key`. Everything
that is meant for a person goes to standard error, so that standard output can be piped.
"""


def cli_page() -> str:
    """Every command with its flags."""
    reference = app.generate_docs(usage_name="ebbtide", heading_level=2).rstrip()
    # Lines without their trailing blanks, so that the page passes whitespace checks.
    return "\n".join(line.rstrip() for line in f"{_CLI}\n{reference}\n".split("\n"))


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/settings.md": reference_page,
    "reference/metrics.md": metrics_page,
    "cli.md": cli_page,
}
PARTS: Mapping[str, Mapping[str, Callable[[], str]]] = {"architecture.md": {"states": states_part}}


def generated(docs: Path) -> dict[Path, str]:
    """What every page with something generated in it should hold."""
    pages = {docs / name: page() for name, page in PAGES.items()}
    for name, parts in PARTS.items():
        text = (docs / name).read_text(encoding="utf-8")
        for part, body in parts.items():
            text = _with_part(text, part, body())
        pages[docs / name] = text
    return pages


def _with_part(text: str, part: str, body: str) -> str:
    marked = re.compile(rf"(<!-- generated: {part} -->\n).*?(<!-- end -->)", re.DOTALL)
    new, found = marked.subn(lambda match: f"{match[1]}{body}\n{match[2]}", text)
    if found != 1:
        raise ValueError(f"expected one part marked 'generated: {part}', found {found}")
    return new


def stale(docs: Path) -> list[Path]:
    """The pages that do not hold what they should."""
    return [
        page for page, text in generated(docs).items() if not page.is_file() or page.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        pages = stale(DOCS)
        for page in pages:
            sys.stderr.write(f"docs/{page.relative_to(DOCS)} is out of date: run `make docs`\n")
        return 1 if pages else 0
    for page, text in generated(DOCS).items():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
