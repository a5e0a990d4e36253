"""`sluice lake-demo`: see `gateway/demo/lake.py`."""

from __future__ import annotations

import argparse

from gateway.cli.demo import run_demo
from gateway.cli.terminal import Terminal
from gateway.demo.lake import LakeDemoOptions, lake_demo


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
    return run_demo(options.directory, lake_demo(options, terminal), terminal)
