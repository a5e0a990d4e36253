"""`sluice spark-jars`: the jars of a Spark that the parser is made of, from PyPI, once for each machine."""

from __future__ import annotations

import argparse

from gateway.app.spark_jars import fetch
from gateway.cli.terminal import Terminal
from gateway.model.spark_minors import supported_minor


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch what is not there yet, and print where it lies."""
    minor = supported_minor(arguments.minor)
    said = (lambda _: None) if arguments.json else terminal.line
    home = fetch(minor, arguments.into.expanduser(), said)
    if arguments.json:
        terminal.json({"version": home.name, "directory": str(home)})
    else:
        terminal.line(f"Spark {home.name}: {home}")
    return 0
