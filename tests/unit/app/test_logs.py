"""The log: JSON off a terminal, and tracebacks without the values of variables. In a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

_PROGRAM = """
import logging, structlog
from ebbtide.logs import set_up_logging
set_up_logging("info", pretty={pretty})
log = structlog.get_logger("ebbtide.test")
log.debug("not shown")
log.info("shown", count=3)
def fail(prompt):
    raise ValueError("no good")
try:
    fail("the " + "prompt")
except ValueError:
    log.exception("failed")
logging.getLogger("other").warning("from elsewhere")
"""


def logged(pretty: bool) -> str:
    program = [sys.executable, "-c", _PROGRAM.format(pretty=pretty)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    return done.stderr


def test_one_json_object_a_line() -> None:
    shown, failed, other = map(json.loads, logged(False).splitlines())
    assert (shown["event"], shown["count"], shown["level"], shown["logger"]) == ("shown", 3, "info", "ebbtide.test")
    assert failed["exception"][0]["exc_type"] == "ValueError"
    assert (other["event"], other["level"]) == ("from elsewhere", "warning")


@pytest.mark.parametrize("pretty", [True, False])
def test_tracebacks_carry_no_values(pretty: bool) -> None:
    text = logged(pretty)
    assert "no good" in text
    assert "the prompt" not in text


def test_a_command_tells_its_log_apart_from_its_answer() -> None:
    command = [sys.executable, "-m", "ebbtide", "accounts", "list"]
    environ = {**os.environ, "EBBTIDE_DATABASE_URL": "postgresql://ebbtide@127.0.0.1:1/x"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environ)
    logged, said = done.stderr.splitlines()
    assert (done.stdout, said) == (
        "",
        "ebbtide: The database cannot be reached at the moment; `ebbtide doctor`, given the same flags, says more",
    )
    assert json.loads(logged)["cause"] == "ConnectionRefusedError"
