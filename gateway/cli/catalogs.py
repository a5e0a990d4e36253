"""`sluice catalogs`: the catalogs of the settings; list, show, test, and what Spark must be told of them.

Databases are made and dropped here for setting up; tables are made by statements, which are judged.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gateway.app.catalog_access import CatalogAccess, entry_named
from gateway.app.explaining import named_spark_home
from gateway.app.metalakes import MetalakeState, asked_metalake, kept_metalakes
from gateway.app.opening_catalogs import HIDDEN, revealed
from gateway.catalog.providers import is_secret
from gateway.catalog.readable import (
    DatabaseEntry,
    NoSuchDatabase,
    NoSuchFunction,
    NoSuchTable,
    ReadableCatalog,
)
from gateway.catalog.spark_settings import start_settings
from gateway.cli import exit_codes
from gateway.cli.settings import settings_of
from gateway.cli.terminal import DIM, GREEN, RED, Terminal
from gateway.errors import Faults, SluiceError
from gateway.files.looking import UnfitFiles
from gateway.files.walking import Walking
from gateway.model.catalog import split_name
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.model.spark_minors import Minor, supported_minor
from gateway.reader.java_runtime import spark_version
from gateway.session.ports import BackendError
from gateway.session.redact import redact
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogEntry


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, show or test catalogs, or print Spark's configuration. No secret is printed."""
    settings = settings_of(arguments)
    match arguments.action:
        case "list":
            return _list(settings, arguments, terminal)
        case "show":
            return asyncio.run(_show(settings, arguments, terminal))
        case "create-database" | "drop-database":
            return asyncio.run(_change(settings, arguments, terminal))
        case "spark-conf":
            return _spark_conf(settings, arguments, terminal)
        case _:
            return asyncio.run(_test(settings, arguments, terminal))


def _named(settings: Settings, names: Sequence[str]) -> tuple[CatalogEntry, ...]:
    found = {name: entry_named(settings, name) for name in names}
    unknown = [name for name, entry in found.items() if entry is None]
    sources = {source.name for source in settings.file_sources()}
    of_files = [name for name in unknown if name.lower() in sources]
    if of_files:
        raise Faults(
            [f"`{name}` is a source of files; `sluice datasets list` has its tables" for name in of_files]
        )
    if unknown:
        listed = dict.fromkeys([*(entry.name for entry in settings.catalogs), *settings.policies.catalogs])
        known = ", ".join(f"`{name}`" for name in listed) or "none"
        raise Faults([f"there is no catalog `{name}` in `catalogs`; there is {known}" for name in unknown])
    return tuple(entry for entry in found.values() if entry is not None) or settings.catalogs


def _list(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    default = settings.default_catalog
    listed = {entry.name.lower(): entry for entry in settings.catalogs}
    rows = [
        _Row(
            entry.name, entry.catalog.type, entry.policies, entry.catalog.default_db, default=entry is default
        )
        for entry in settings.catalogs
    ]
    # Those that only `policies.catalogs` names: Spark has them by its own configuration.
    rows += [
        _Row(name, "spark", service, default=default is None and name == SESSION_CATALOG)
        for name, service in settings.policies.catalogs.items()
        if name.lower() not in listed
    ]
    # Tables of files are in Spark's own catalog, and policies for it speak of them.
    own = {name.lower(): service for name, service in settings.policies.catalogs.items()}
    rows += [
        _Row(one.name, "files", own.get(SESSION_CATALOG, ""), one.database, note=one.root)
        for one in settings.file_sources()
    ]
    for entry, state in asyncio.run(_metalakes(settings)):
        of, service = f"in {entry.name}", entry.policies
        rows += [_Row(one.name, one.type, service, note=of) for one in state.catalogs]
        rows += [
            _Row(one.name, one.provider or "none", service, note=f"{of}, left out: {one.why}")
            for one in state.left_out
        ]
    rows.sort(key=lambda row: (row.name, row.note))
    if arguments.json:
        terminal.json(
            [
                {
                    "name": row.name,
                    "type": row.type,
                    "policies": row.service,
                    "default_db": row.database,
                    "default": row.default,
                    **({"note": row.note} if row.note else {}),
                }
                for row in rows
            ]
        )
    else:
        shown = [
            (row.name, row.type, row.service, row.database, "default" if row.default else row.note)
            for row in rows
        ]
        terminal.table(("name", "type", "policies", "database", ""), shown, max_cell=80)
    return exit_codes.OK


class _Row(NamedTuple):
    """One catalog of the list."""

    name: str
    type: str
    service: str
    database: str = "default"
    note: str = ""
    default: bool = False


def _minor(settings: Settings) -> Minor:
    """Return the minor of the Spark that the settings name, or else of the one that is installed."""
    return supported_minor(spark_version(named_spark_home(settings.reader)))


async def _metalakes(settings: Settings) -> list[tuple[CatalogEntry, MetalakeState]]:
    """Return the entries that are metalakes, with what the gateway has of each, by its files."""
    if not any(entry.catalog.kind.lists for entry in settings.catalogs):
        return []
    states = {state.name: state for state in await kept_metalakes(settings, _minor(settings))}
    return [(entry, states[entry.name]) for entry in settings.catalogs if entry.name in states]


async def _show(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    names = [_parts(name) for name in arguments.names] or [(entry.name,) for entry in settings.catalogs]
    entries = _named(settings, [parts[0] for parts in names])
    by_name = {entry.name.lower(): entry for entry in entries}
    states = {state.name: state for _, state in await _metalakes(settings)}
    told: list[dict[str, Any]] = []
    async with CatalogAccess(settings) as access:
        for catalog, *below in names:
            entry = by_name[catalog.lower()]
            if below:
                told += await shown(await access.open(entry), entry.name, below)
            else:
                told.append(
                    {**_as_json(entry, states.get(entry.name)), **await _databases(access, entry)},
                )
    if arguments.json:
        terminal.json(told)
        return exit_codes.OK
    for one in told:
        terminal.table(("key", "value"), _rows(one), max_cell=200)
    return exit_codes.OK


def _rows(told: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is told of one thing line by line."""
    rows: list[tuple[str, str]] = []
    for key, value in told.items():
        if key == "metalake":
            rows += [("catalog", str(catalog["name"])) for catalog in value["catalogs"]]
            rows += [("left out", f"{left['name']}: {left['why']}") for left in value["left_out"]]
            rows += [
                ("cannot be mapped", f"{what}, {times} times") for what, times in value["not_mapped"].items()
            ]
        elif key in ("parameters", "properties"):
            rows += list(value.items())
        elif key == "columns":
            rows += [
                ("column", f"{c['name']} {c['type']}" + (f", {c['comment']}" if c["comment"] else ""))
                for c in value
            ]
        elif isinstance(value, list):
            rows += [(_ONE_OF.get(key, key), str(one)) for one in value]
        elif value not in (None, ""):
            rows.append((key, str(value)))
    return rows


_ONE_OF = {"databases": "database", "tables": "table", "views": "view", "functions": "function"}


def _parts(written: str) -> tuple[str, ...]:
    parts = split_name(written)
    if not parts:
        raise Faults([f"`{written}` is no name such as `lake`, `lake.sales` or `lake.sales.orders`"])
    return parts


async def _databases(access: CatalogAccess, entry: CatalogEntry) -> dict[str, Any]:
    """Return a catalog's databases, or why they are not known."""
    if entry.catalog.kind.lists:
        return {}
    try:
        return {"databases": list(await (await access.open(entry)).databases())}
    except SluiceError as error:
        return {"databases": [], "trouble": _message(error)}


async def _change(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make or drop databases; one that is not empty is not dropped."""
    names = [_parts(name) for name in arguments.names]
    if not names or any(len(parts) < 2 for parts in names):
        raise Faults([f"`{arguments.action}` takes databases with their catalogs, such as `lake.sales`"])
    entries = _named(settings, [parts[0] for parts in names])
    by_name = {entry.name.lower(): entry for entry in entries}
    async with CatalogAccess(settings) as access:
        for catalog, *below in names:
            entry = by_name[catalog.lower()]
            opened, database = await access.open(entry), ".".join(below)
            if arguments.action == "create-database":
                await opened.create_database(DatabaseEntry(name=database))
            else:
                await opened.drop_database(database)
            done = "is there" if arguments.action == "create-database" else "is dropped"
            terminal.line(f"{entry.name}.{database} {done}")
    return exit_codes.OK


def _message(error: SluiceError) -> str:
    return "; ".join(error.faults) if isinstance(error, Faults) else error.message


def _as_json(entry: CatalogEntry, state: MetalakeState | None) -> dict[str, Any]:
    shown = revealed(entry, hidden=True)
    told = {} if state is None else {"metalake": _state_as_json(state)}
    return {
        "name": entry.name,
        "type": entry.catalog.type,
        "policies": entry.policies,
        "default": entry.catalog.is_default,
        "default_db": entry.catalog.default_db,
        "on_spark": entry.on_spark,
        "parameters": dict(shown.parameters),
        **told,
    }


def _state_as_json(state: MetalakeState) -> dict[str, Any]:
    return {
        "catalogs": [{"name": one.name, "type": one.type} for one in state.catalogs],
        "left_out": [{"name": one.name, "provider": one.provider, "why": one.why} for one in state.left_out],
        "not_mapped": dict(state.not_mapped),
        "age_s": None if state.age_s is None else round(state.age_s),
        "stale": state.stale,
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
    asked = {name.lower() for name in arguments.names}
    sources = [source for source in settings.file_sources() if not asked or source.name in asked]
    of_catalogs = [name for name in arguments.names if name.lower() not in {one.name for one in sources}]
    entries = _named(settings, of_catalogs) if of_catalogs or not asked else ()
    async with CatalogAccess(settings) as access:
        results = [await _tested(settings, access, entry) for entry in entries]
        results += [await _reached(access, source) for source in sources]
    if arguments.json:
        terminal.json(results)
    else:
        for one in results:
            said = terminal.style(str(one["said"]), GREEN if one["ok"] else RED)
            terminal.line(f"{one['name']}: {said}")
    return exit_codes.UNAVAILABLE if any(not one["ok"] for one in results) else exit_codes.OK


async def _tested(settings: Settings, access: CatalogAccess, entry: CatalogEntry) -> dict[str, Any]:
    try:
        if entry.catalog.kind.lists:
            return {"name": entry.name, "ok": True, **(await _metalake(settings, entry))}
        databases = await (await access.open(entry)).databases()
    except SluiceError as error:
        return {"name": entry.name, "ok": False, "said": _message(error)}
    return {"name": entry.name, "ok": True, "said": f"answers, with {len(databases)} databases"}


async def _reached(access: CatalogAccess, source: FileSource) -> dict[str, Any]:
    try:
        files = await Walking((await access.spark()).query, BackendError).reach(source)
    except UnfitFiles as why:
        cause = why.__cause__
        said = f": {redact(cause.message, cause.sqlstate)}" if isinstance(cause, BackendError) else ""
        return {"name": source.name, "ok": False, "said": f"{source.root}: {why}{said}"}
    except SluiceError as error:
        return {"name": source.name, "ok": False, "said": _message(error)}
    return {"name": source.name, "ok": True, "said": f"{source.root} is a directory, with {files} files"}


async def _metalake(settings: Settings, entry: CatalogEntry) -> dict[str, Any]:
    state = await asked_metalake(settings, _minor(settings), entry)
    if state.trouble:
        return {"ok": False, "said": state.trouble}
    told = [{"name": one.name, "provider": one.type, "left_out": ""} for one in state.catalogs]
    told += [{"name": one.name, "provider": one.provider, "left_out": one.why} for one in state.left_out]
    said = f"answers, with {len(told)} catalogs, {len(state.catalogs)} of them for Spark"
    return {"said": said, "catalogs": sorted(told, key=lambda one: one["name"])}


# What a catalog has under a name, for `sluice catalogs show`: no property that may hold a secret is told.


async def shown(catalog: ReadableCatalog, name: str, below: Sequence[str]) -> list[dict[str, Any]]:
    """Return the database and the table that a name means below a catalog: both, where there are both, since
    databases may lie in one another. Raises NoSuchDatabase, NoSuchTable."""
    told = []
    whole, above = ".".join(below), ".".join(below[:-1])
    try:
        told.append(await _database(catalog, name, whole))
    except NoSuchDatabase:
        if not above:
            raise
    if above:
        try:
            told.append(await _table(catalog, name, above, below[-1]))
        except NoSuchTable:
            told += await _function(catalog, name, above, below[-1])
            if not told:
                raise NoSuchTable(f"`{name}` has no table, function or database `{whole}`") from None
    return told


async def _database(catalog: ReadableCatalog, name: str, database: str) -> dict[str, Any]:
    found = await catalog.database(database)
    return {
        "catalog": name,
        "database": found.name,
        "comment": found.comment,
        "owner": found.owner,
        "location": found.location,
        "properties": _properties(found.properties),
        "tables": list(await catalog.tables(database)),
        "views": list(await catalog.views(database)),
        "functions": list(await catalog.functions(database)),
    }


async def _function(
    catalog: ReadableCatalog, name: str, database: str, function: str
) -> list[dict[str, Any]]:
    try:
        found = await catalog.function(database, function)
    except (NoSuchDatabase, NoSuchFunction):
        return []
    return [
        {
            "catalog": name,
            "database": database,
            "function": found.name,
            "class": found.class_name,
            "owner": found.owner,
            "text": found.text,
        }
    ]


async def _table(catalog: ReadableCatalog, name: str, database: str, table: str) -> dict[str, Any]:
    found = await catalog.table(database, table)
    return {
        "catalog": name,
        "database": database,
        found.kind.value: found.name,
        "comment": found.comment,
        "owner": found.owner,
        "provider": found.provider,
        "location": found.location,
        "columns": [{"name": one.name, "type": one.type, "comment": one.comment} for one in found.columns],
        "partitioning": list(found.partitioning),
        "rows": found.rows,
        "text": found.text,
        "properties": _properties(found.properties),
    }


def _properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: HIDDEN if is_secret(key, value) else value for key, value in sorted(properties.items())}
