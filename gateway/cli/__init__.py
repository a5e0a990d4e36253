"""The `sluice` command: reads its arguments, runs one subcommand, and turns every error into a sentence."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from gateway.app import exit_codes
from gateway.catalog.readable import CatalogUnavailable
from gateway.cli.arguments import parse_arguments
from gateway.cli.terminal import Terminal, complain
from gateway.errors import BackendUnavailable, Faults, LedgerUnavailable, SluiceError, members_of

_LATE = (
    "something that the command waits for did not answer in time, and which it was is not known: see what "
    "`sluice doctor` says, and try again when less else runs (SLUICE_TRACE=1 shows where)"
)
SERVE = "serve"
"""The command that runs until it is told to stop."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Prints errors without a trace."""
    argv = sys.argv[1:] if argv is None else argv
    if SERVE in argv:
        # Before anything: whoever has the gateway read its files again must not end one that has just begun.
        signal.signal(signal.SIGHUP, lambda *_: None)
    arguments = parse_arguments(argv)
    terminal = Terminal()
    try:
        code: int = arguments.run(arguments, terminal)
        return code
    except (SluiceError, CatalogUnavailable) as error:
        return _report_failure(arguments, terminal, *_describe_error(error))
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`sluice audit tail | head`): that is not an error. Python would
        # complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.OK
    except Exception as error:  # the command's root: a person reads this, the trace is for us
        if os.environ.get("SLUICE_TRACE"):
            raise
        members = [_describe_error(one) for one in members_of(error)]
        name, exit_code, _ = members[0]
        messages = dict.fromkeys(message for _, _, told in members for message in told)
        return _report_failure(arguments, terminal, name, exit_code, tuple(messages))


def _describe_error(error: BaseException) -> tuple[str, int, Sequence[str]]:
    """Return an error's code, the exit code, and what it says to whoever runs the command."""
    match error:
        case Faults():
            return error.code, exit_codes.FAULTS, error.faults
        case BackendUnavailable() | CatalogUnavailable() | LedgerUnavailable():
            return error.code, exit_codes.UNAVAILABLE, (error.for_operators,)
        case SluiceError():
            return error.code, exit_codes.ERROR, (error.for_operators,)
        case TimeoutError() if not str(error):
            return "TIMEOUT", exit_codes.UNAVAILABLE, (_LATE,)
        case _:
            why = f"internal error: {type(error).__name__}: {error} (SLUICE_TRACE=1 shows where)"
            return "INTERNAL", exit_codes.ERROR, (why,)


def _report_failure(
    arguments: argparse.Namespace, terminal: Terminal, code: str, exit_code: int, messages: Sequence[str]
) -> int:
    if arguments.json:
        terminal.json({"error": code, "messages": list(messages)})
    else:
        for message in messages:
            complain(message)
    trouble: int | None = getattr(arguments, "trouble", None)  # of a command whose 1 means something else
    return exit_code if trouble is None else trouble
