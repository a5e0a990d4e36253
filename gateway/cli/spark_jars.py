"""`sluice spark-jars`: the jars that the parser is made of, of a Spark or of table formats, and servers of
catalogs, once for each machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from gateway.app.spark_jars import archive_classes, archive_spark, fetch, fetch_catalog_servers, fetch_format
from gateway.cli.terminal import Terminal
from gateway.model.spark_minors import Minor, find_supported_minor
from gateway.model.table_formats import format_named


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch what is not there yet, and print where it lies."""
    said = (lambda _: None) if arguments.json else terminal.line
    into = arguments.into.expanduser()
    if arguments.catalog_servers:
        return _servers(into, said, terminal, as_json=arguments.json)
    if arguments.archive:
        return _archive(arguments.archive, terminal, as_json=arguments.json)
    minor = find_supported_minor(arguments.minor)
    if arguments.formats:
        return _formats(minor, arguments.formats.split(","), into, said, terminal, as_json=arguments.json)
    home = fetch(minor, into, said)
    if arguments.json:
        terminal.json({"version": home.name, "directory": str(home)})
    else:
        terminal.line(f"Spark {home.name}: {home}")
    return 0


def _servers(into: Path, said: Callable[[str], None], terminal: Terminal, *, as_json: bool) -> int:
    directory = fetch_catalog_servers(into, said)
    if as_json:
        terminal.json({"directory": str(directory)})
    else:
        terminal.line(f"servers of catalogs: {directory}")
    return 0


def _archive(of: str, terminal: Terminal, *, as_json: bool) -> int:
    archive = archive_spark() if of == "spark" else archive_classes()
    if as_json:
        terminal.json({"archive": str(archive)})
    else:
        terminal.line(f"classes of the {of}: {archive} ({archive.stat().st_size >> 20} MB)")
    return 0


def _formats(
    minor: Minor,
    names: list[str],
    into: Path,
    said: Callable[[str], None],
    terminal: Terminal,
    *,
    as_json: bool,
) -> int:
    formats = [format_named(name.strip()) for name in names]
    jars = {one.name: fetch_format(one, minor, into, said) for one in formats}
    if as_json:
        terminal.json({"jars": {name: [str(jar) for jar in found] for name, found in jars.items()}})
    else:
        for name, found in jars.items():
            terminal.line(f"{name} for Spark {minor}: {' '.join(map(str, found))}")
    return 0
