"""`sluice catalogs`: the catalogs of the settings; list, show, test, and what Spark must be told of them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.app import logs
from gateway.app.catalogs import HIDDEN, revealed
from gateway.app.opening_catalogs import open_catalog, open_metalake, taken
from gateway.catalog.spark_settings import start_settings
from gateway.cli import exit_codes
from gateway.cli.terminal import DIM, GREEN, RED, Terminal
from gateway.errors import Faults, SluiceError
from gateway.settings import Settings, load_settings
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.models import LogSettings

SESSION_CATALOG = "spark_catalog"


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, show or test catalogs, or print Spark's configuration. No secret is printed."""
    settings = load_settings(arguments.config)
    logs.configure(LogSettings(level="warning"))
    match arguments.action:
        case "list":
            return _list(settings, arguments, terminal)
        case "show":
            return _show(_named(settings, arguments.names), arguments, terminal)
        case "spark-conf":
            return _spark_conf(settings, arguments, terminal)
        case _:
            return asyncio.run(_test(settings, arguments, terminal))


def _named(settings: Settings, names: Sequence[str]) -> tuple[CatalogEntry, ...]:
    found = {entry.name.lower(): entry for entry in settings.catalogs}
    unknown = [name for name in names if name.lower() not in found]
    if unknown:
        known = ", ".join(f"`{entry.name}`" for entry in settings.catalogs) or "none"
        raise Faults([f"there is no catalog `{name}` in `catalogs`; there is {known}" for name in unknown])
    return tuple(found[name.lower()] for name in names) or settings.catalogs


def _list(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    default = settings.default_catalog
    listed = {entry.name.lower(): entry for entry in settings.catalogs}
    rows = [
        (entry.name, entry.catalog.type, entry.policies, entry.catalog.default_db, entry is default)
        for entry in settings.catalogs
    ]
    # Those that only `policies.catalogs` names: Spark has them by its own configuration.
    rows += [
        (name, "spark", service, "default", default is None and name == SESSION_CATALOG)
        for name, service in settings.policies.catalogs.items()
        if name.lower() not in listed
    ]
    rows.sort(key=lambda row: row[0])
    if arguments.json:
        keys = ("name", "type", "policies", "default_db", "default")
        terminal.json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        shown = [(*row[:4], "default" if row[4] else "") for row in rows]
        terminal.table(("name", "type", "policies", "database", ""), shown, max_cell=80)
    return exit_codes.OK


def _show(entries: Sequence[CatalogEntry], arguments: argparse.Namespace, terminal: Terminal) -> int:
    told = [_as_json(entry) for entry in entries]
    if arguments.json:
        terminal.json(told)
        return exit_codes.OK
    for one in told:
        rows = [(key, str(value)) for key, value in one.items() if key != "parameters"]
        rows += [(key, value) for key, value in one["parameters"].items()]
        terminal.table(("key", "value"), rows, max_cell=200)
    return exit_codes.OK


def _as_json(entry: CatalogEntry) -> dict[str, Any]:
    shown = revealed(entry, hidden=True)
    return {
        "name": entry.name,
        "type": entry.catalog.type,
        "policies": entry.policies,
        "default": entry.catalog.is_default,
        "default_db": entry.catalog.default_db,
        "on_spark": entry.on_spark,
        "parameters": dict(shown.parameters),
    }


def _spark_conf(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print what Spark must be told, in the form of spark-defaults.conf. A secret stands as `***`."""
    entries = [entry for entry in _named(settings, arguments.names) if entry.on_spark]
    told = start_settings(revealed(entry, hidden=True) for entry in entries)
    if arguments.json:
        terminal.json(told)
        return exit_codes.OK
    for key, value in told.items():
        note = terminal.style("   # put the secret here", DIM) if value == HIDDEN else ""
        terminal.line(f"{key} {value}{note}")
    return exit_codes.OK


async def _test(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    entries = _named(settings, arguments.names)
    results = [await _tested(settings, entry) for entry in entries]
    if arguments.json:
        terminal.json(results)
    else:
        for one in results:
            said = terminal.style(
                str(one["said"]), RED if one["ok"] is False else GREEN if one["ok"] else DIM
            )
            terminal.line(f"{one['name']}: {said}")
    return exit_codes.UNAVAILABLE if any(one["ok"] is False for one in results) else exit_codes.OK


async def _tested(settings: Settings, entry: CatalogEntry) -> dict[str, Any]:
    try:
        if entry.catalog.type == "gravitino":
            return {"name": entry.name, "ok": True, **await _metalake(settings, entry)}
        opening = open_catalog(entry)
        if opening is None:
            said = "kept where only Spark can look; ask it with `sluice check`"
            return {"name": entry.name, "ok": None, "said": said}
        async with opening as catalog:
            databases = await catalog.databases()
    except SluiceError as error:
        faults = "; ".join(error.faults) if isinstance(error, Faults) else error.message
        return {"name": entry.name, "ok": False, "said": faults}
    return {"name": entry.name, "ok": True, "said": f"answers, with {len(databases)} databases"}


async def _metalake(settings: Settings, entry: CatalogEntry) -> dict[str, Any]:
    async with open_metalake(entry) as metalake:
        found = await metalake.catalogs()
    iceberg = entry.catalog.parameter("iceberg") == "true"
    names = [*settings.policies.catalogs, *(one.name for one in settings.catalogs)]
    why = taken(found, names, iceberg=iceberg)
    fit = sum(1 for reason in why.values() if not reason)
    told = [{"name": one.name, "provider": one.provider, "left_out": why[one.name]} for one in found]
    said = f"answers, with {len(found)} catalogs, {fit} of them with tables that Spark could have"
    return {"said": said, "catalogs": told}
