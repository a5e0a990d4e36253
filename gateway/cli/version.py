"""`sluice version`: what a bug report needs to know."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

import gateway
from gateway.cli.terminal import Terminal

PACKAGES = ("pyspark", "sqlglot", "thrift", "asyncpg", "pydantic")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the versions."""
    found = {"sluice": gateway.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    if arguments.json:
        terminal.json(found)
    else:
        terminal.line(" ".join(f"{name} {number}" for name, number in found.items()))
    return 0
