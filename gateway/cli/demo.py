"""`sluice demo`: see `gateway/demo/run.py`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from gateway.app import exit_codes, logs
from gateway.app.signals import until_signalled
from gateway.cli.terminal import Terminal
from gateway.demo.run import DemoOptions, demo
from gateway.settings.models import LogSettings


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Run the demo until Ctrl-C, or until the tour is over."""
    options = DemoOptions(
        directory=arguments.directory.absolute(),
        port=arguments.port,
        connect_port=arguments.connect_port,
        admin_port=arguments.admin_port,
        heap=arguments.heap,
        with_tour=not arguments.no_tour,
        exit_after_tour=arguments.exit_after_tour,
    )
    return run_demo(options.directory, demo(options, terminal), terminal)


def run_demo(directory: Path, work: Coroutine[Any, Any, None], terminal: Terminal) -> int:
    """Run a demo that keeps its state in a directory, until it ends or Ctrl-C."""
    directory.mkdir(parents=True, exist_ok=True)
    # The terminal shows the tour; what an operator would read goes into a file beside it.
    with (directory / "gateway.log").open("w", encoding="utf-8") as log:
        logs.configure(LogSettings(format="json"), log)
        asyncio.run(until_signalled(work))
    terminal.line("Stopped; nothing is left running.")
    return exit_codes.OK
