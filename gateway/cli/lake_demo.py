"""`sluice lake-demo`: see `gateway/demo/lake.py`."""

from __future__ import annotations

import argparse
import asyncio

from gateway.app import logs
from gateway.app.signals import until_signalled
from gateway.cli import exit_codes
from gateway.cli.terminal import Terminal
from gateway.demo.lake import LakeDemoOptions, lake_demo
from gateway.settings.models import LogSettings


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Run the demo until Ctrl-C, or until the tour is over."""
    options = LakeDemoOptions(
        directory=arguments.directory.absolute(),
        port=arguments.port,
        heap=arguments.heap,
        kept=arguments.spark_jars,
        with_tour=not arguments.no_tour,
        exit_after_tour=arguments.exit_after_tour,
    )
    options.directory.mkdir(parents=True, exist_ok=True)
    with (options.directory / "gateway.log").open("w", encoding="utf-8") as log:
        logs.configure(LogSettings(format="json"), log)
        asyncio.run(until_signalled(lake_demo(options, terminal)))
    terminal.line("Stopped; nothing is left running.")
    return exit_codes.OK
