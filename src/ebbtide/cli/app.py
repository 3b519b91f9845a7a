"""The command line as a whole: which commands there are, and how each of them ends.

A command returns its exit status (None is 0). What can be told to a person is one line on standard error; a traceback
is a mistake of this program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ebbtide import __version__
from ebbtide.cli import accounts, batch, exits, keys, models, settings
from ebbtide.cli.doctor import doctor
from ebbtide.cli.gateway import Unreachable
from ebbtide.cli.migrate import migrate
from ebbtide.cli.serve import serve, worker
from ebbtide.errors import EbbtideError, SetupError, Unavailable

app = App(
    name="ebbtide",
    help="A self-hosted LLM inference gateway with batch inference.\n\nExit statuses:\n\n" + exits.as_list(),
    version=__version__,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
for command in (serve, worker, migrate, doctor):
    app.command(command)
for group in (accounts.app, keys.app, models.app, batch.app, settings.app):
    app.command(group)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    try:
        status = app(list(arguments), exit_on_error=False)
        sys.stdout.flush()
    except CycloptsError:
        return exits.USAGE  # cyclopts has said what is wrong
    except SetupError as error:
        return _end(error.message, exits.USAGE)
    except Unreachable as error:
        return _end(error.message, exits.UNREACHABLE)
    except Unavailable as error:
        return _end(f"{error.message}; `ebbtide doctor`, given the same flags, says more", exits.REFUSED)
    except EbbtideError as error:
        return _end(error.message, exits.REFUSED)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        return _quiet_pipe()
    return status if isinstance(status, int) else exits.OK


def _end(message: str, status: int) -> int:
    print(f"ebbtide: {message}", file=sys.stderr)
    return status


def _quiet_pipe() -> int:
    """The reader of our output has gone: nobody is left to tell, also not at the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.OK
