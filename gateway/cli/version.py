"""`sluice version`: what a bug report needs to know."""

from __future__ import annotations

import argparse

from gateway.app.versions import versions
from gateway.cli.terminal import Terminal


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the versions."""
    found = versions()
    if arguments.json:
        terminal.json(found)
    else:
        terminal.line(" ".join(f"{name} {number}" for name, number in found.items()))
    return 0
