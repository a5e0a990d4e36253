"""What a command line is made of: commands whose modules are imported when they run, and shared arguments."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from gateway.cli.terminal import Terminal

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"
CONFIG_HELP = "settings file; by default $SLUICE_CONFIG, then config/gateway.yaml"
MOST = 1_000_000_000


def count(text: str) -> int:
    """Return how many of something, from 1 on; argparse tells of whatever is no such number."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to {MOST:,}")
    return int(text)


class CommandParser(argparse.ArgumentParser):
    """Takes options between an action and its name, `users add --group analysts dana`, which argparse does by
    itself from Python 3.12 on."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, which calls this for a command."""
        with_name = any(action.nargs == "?" and not action.option_strings for action in self._actions)
        alone = any(group.required for group in self._mutually_exclusive_groups)
        if self._mixing or alone or not with_name:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def flag(self, name: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=text)

    def value(self, name: str, metavar: str, text: str, **more: Any) -> None:
        """Add an option with a value."""
        self.add_argument(name, metavar=metavar, help=text, **more)

    def several(self, name: str, metavar: str, text: str, **more: Any) -> None:
        """Add an option that may repeat."""
        self.value(name, metavar, text, action="append", default=[], **more)

    def path(self, name: str, metavar: str, text: str, **more: Any) -> None:
        """Add an option that names a file."""
        self.value(name, metavar, text, type=Path, **more)


def command(commands: Commands, name: str, summary: str, examples: str, module: str) -> CommandParser:
    """Add a command whose module is imported only when it runs, so that `--help` is quick."""

    def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
        code: int = import_module(f"gateway.cli.{module}").run(arguments, terminal)
        return code

    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def with_config(parser: argparse.ArgumentParser) -> None:
    default = default_config()
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", default=default, help=CONFIG_HELP)


def default_config() -> Path:
    return Path(os.environ.get("SLUICE_CONFIG") or "config/gateway.yaml")
