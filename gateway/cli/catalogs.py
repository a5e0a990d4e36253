"""`sluice catalogs`: the catalogs of the settings; list, show, test, and what Spark must be told of them.

Databases are made and dropped here for setting up; tables are made by statements, which are judged.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gateway.app import exit_codes
from gateway.app.catalog_access import CatalogAccess, FoundCatalog
from gateway.app.catalogs import connector_settings, leave_out_login, list_wished_kinds
from gateway.app.explaining import minor_of_spark
from gateway.app.metalakes import fetch_metalake, metalake_states
from gateway.app.revealing import reveal_secrets
from gateway.catalog.providers import is_secret
from gateway.catalog.readable import (
    NoSuchDatabase,
    NoSuchFunction,
    NoSuchTable,
    ReadableCatalog,
)
from gateway.catalog.spark_settings import EXTENSIONS, start_settings
from gateway.cli.audit import find_record
from gateway.cli.settings import settings_of
from gateway.cli.terminal import DIM, GREEN, RED, Terminal
from gateway.database.telling import tell_names_changed
from gateway.errors import Faults, LedgerUnavailable, SluiceError
from gateway.files.looking import UnfitFiles
from gateway.files.walking import Walking
from gateway.model.catalog import split_name
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.model.secret_values import HIDDEN
from gateway.model.spark_minors import Minor
from gateway.model.table_formats import APART, BY_EXTENSION, UnsupportedFormat
from gateway.session.ports import BackendError
from gateway.session.redact import redact
from gateway.settings import Settings
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import metalake_settings
from gateway.sources.metalakes import MetalakeState


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
            return asyncio.run(_spark_conf(settings, arguments, terminal))
        case _:
            return asyncio.run(_test(settings, arguments, terminal))


async def _resolve_names(
    settings: Settings, access: CatalogAccess, names: Sequence[str]
) -> tuple[FoundCatalog, ...]:
    """Return what names mean, all entries where there are none. Raises Faults."""
    if not names:
        return tuple(FoundCatalog(entry) for entry in settings.catalogs)
    sources = {source.name for source in settings.file_sources()}
    found: list[FoundCatalog] = []
    faults: list[str] = []
    for name in dict.fromkeys(names):
        if name.lower() in sources:
            faults.append(f"`{name}` is a source of files; `sluice datasets list` has its tables")
        elif (named := await access.find_catalog(name)) is not None:
            found.append(named)
        else:
            listed = dict.fromkeys(
                [*(entry.name for entry in settings.catalogs), *settings.policies.catalogs]
            )
            known = ", ".join(f"`{name}`" for name in listed) or "none"
            faults.append(f"`catalogs` has no catalog `{name}`; it has {known}")
    if faults:
        raise Faults(faults)
    return tuple(found)


def _list(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    default = settings.default_catalog
    listed = {entry.name.lower(): entry for entry in settings.catalogs}
    rows = [
        _Row(
            entry.name,
            entry.catalog.type,
            entry.policies if entry.catalog.kind.governed else "",
            entry.catalog.default_db,
            default=entry is default,
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
    for entry, state in asyncio.run(metalake_states(settings)):
        of, service = f"in {entry.name}", entry.policies
        rows += [_Row(one.name, one.type, service, note=of) for one in state.catalogs]
        rows += [
            _Row(one.name, one.provider or "none", service, note=f"{of}, skipped: {one.why}")
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
    name: str
    type: str
    service: str
    database: str = "default"
    note: str = ""
    default: bool = False


async def _show(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    names = [_parts(name) for name in arguments.names] or [(entry.name,) for entry in settings.catalogs]
    states = {state.name: state for _, state in await metalake_states(settings)}
    told: list[dict[str, Any]] = []
    async with CatalogAccess(settings) as access:
        places = await _resolve_names(settings, access, [parts[0] for parts in names])
        by_name = {place.name.lower(): place for place in places}
        for catalog, *below in names:
            place = by_name[catalog.lower()]
            if below:
                told += await resolve_below(await access.open(place), place.name, below)
            else:
                told.append(
                    {**_as_json(place, states.get(place.entry.name)), **await _databases(access, place)}
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
            rows += [("role that is not shown", role) for role in value["hidden_roles"]]
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
        raise Faults([f"`{written}` is not a name such as `lake`, `lake.sales` or `lake.sales.orders`"])
    return parts


async def _databases(access: CatalogAccess, place: FoundCatalog) -> dict[str, Any]:
    """Return a catalog's databases, or why they are not known."""
    if _is_list(place):
        return {}
    try:
        return {"databases": list(await (await access.open(place)).databases())}
    except SluiceError as error:
        return {"databases": [], "trouble": _message(error)}


async def _change(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make or drop databases; one that is not empty is not dropped."""
    names = [_parts(name) for name in arguments.names]
    if not names or any(len(parts) < 2 for parts in names):
        raise Faults([f"`{arguments.action}` takes databases with their catalogs, such as `lake.sales`"])
    async with CatalogAccess(settings) as access:
        places = await _resolve_names(settings, access, [parts[0] for parts in names])
        by_name = {place.name.lower(): place for place in places}
        for catalog, *below in names:
            place = by_name[catalog.lower()]
            opened, database = await access.open(place), ".".join(below)
            if arguments.action == "create-database":
                await opened.create_database(database)
            else:
                await opened.drop_database(database)
            done = "is there" if arguments.action == "create-database" else "is dropped"
            terminal.line(f"{place.name}.{database} {done}")
    await _tell_gateways(settings, terminal)
    return exit_codes.OK


async def _tell_gateways(settings: Settings, terminal: Terminal) -> None:
    """Have gateways that run forget what they know of names; there may be none, and no PostgreSQL."""
    try:
        dsn, _ = find_record(settings)
        is_told = await tell_names_changed(dsn)
    except (Faults, LedgerUnavailable):
        return
    if not is_told:
        terminal.line("PostgreSQL does not answer: gateways that run see the change within 30 seconds")


def _message(error: SluiceError) -> str:
    return "; ".join(error.faults) if isinstance(error, Faults) else error.for_operators


def _is_list(place: FoundCatalog) -> bool:
    return place.entry.catalog.kind.lists and not place.listed


def _as_json(place: FoundCatalog, state: MetalakeState | None) -> dict[str, Any]:
    entry = place.entry
    if place.listed:
        return _build_catalog_json(place, state)
    shown = reveal_secrets(entry, hidden=True)
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


def _build_catalog_json(place: FoundCatalog, state: MetalakeState | None) -> dict[str, Any]:
    """Return what the gateway has of a catalog of a metalake, by its file: what Spark is told, or why not."""
    known = {one.name: one for one in state.catalogs} if state is not None else {}
    left_out = {one.name: one.why for one in state.left_out} if state is not None else {}
    found = known.get(place.listed)
    parameters = dict(found.parameters) if found is not None else {}
    return {
        "name": place.listed,
        "of": place.entry.name,
        "type": found.type if found is not None else None,
        "policies": place.entry.policies,
        "on_spark": found is not None,
        "parameters": _properties(parameters),
        **({"left_out": left_out[place.listed]} if place.listed in left_out else {}),
    }


def _state_as_json(state: MetalakeState) -> dict[str, Any]:
    return {
        "catalogs": [{"name": one.name, "type": one.type} for one in state.catalogs],
        "left_out": [{"name": one.name, "provider": one.provider, "why": one.why} for one in state.left_out],
        "not_mapped": dict(state.unmapped_privileges),
        "hidden_roles": list(state.hidden_roles),
        "age_s": None if state.age_s is None else round(state.age_s),
        "stale": state.stale,
    }


async def _spark_conf(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print what Spark must be told, in the form of spark-defaults.conf. A secret stands as `***`."""
    async with CatalogAccess(settings) as access:
        places = await _resolve_names(settings, access, arguments.names)
    # Of one metalake there may be several catalogs.
    entries = list({place.entry.name: place.entry for place in places}.values())
    told, notes = await spark_conf(settings, entries)
    if arguments.json:
        terminal.json(told)
        return exit_codes.OK
    for key, value in told.items():
        note = terminal.style("   # put the secret here", DIM) if value == HIDDEN else ""
        terminal.line(f"{key} {value}{note}")
    for one in notes:
        terminal.line(terminal.style(f"# {one}", DIM))
    return exit_codes.OK


async def _test(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    asked = {name.lower() for name in arguments.names}
    sources = [source for source in settings.file_sources() if not asked or source.name in asked]
    of_catalogs = [name for name in arguments.names if name.lower() not in {one.name for one in sources}]
    async with CatalogAccess(settings) as access:
        places = await _resolve_names(settings, access, of_catalogs) if of_catalogs or not asked else ()
        results = [await _test_catalog(settings, access, place) for place in places]
        results += [await _check_reachable(access, source) for source in sources]
    if arguments.json:
        terminal.json(results)
    else:
        for one in results:
            said = terminal.style(str(one["said"]), GREEN if one["ok"] else RED)
            terminal.line(f"{one['name']}: {said}")
    return exit_codes.UNAVAILABLE if any(not one["ok"] for one in results) else exit_codes.OK


async def _test_catalog(settings: Settings, access: CatalogAccess, place: FoundCatalog) -> dict[str, Any]:
    try:
        if _is_list(place):
            return {"name": place.name, "ok": True, **(await _metalake(settings, place.entry))}
        databases = await (await access.open(place)).databases()
    except SluiceError as error:
        return {"name": place.name, "ok": False, "said": _message(error)}
    return {"name": place.name, "ok": True, "said": f"answers, with {len(databases)} databases"}


async def _check_reachable(access: CatalogAccess, source: FileSource) -> dict[str, Any]:
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
    state = await fetch_metalake(settings, minor_of_spark(settings), entry)
    if state.trouble:
        return {"ok": False, "said": state.trouble}
    told = [{"name": one.name, "provider": one.type, "left_out": ""} for one in state.catalogs]
    told += [{"name": one.name, "provider": one.provider, "left_out": one.why} for one in state.left_out]
    said = f"answers, with {len(told)} catalogs, {len(state.catalogs)} of them for Spark"
    return {"said": said, "catalogs": sorted(told, key=lambda one: one["name"])}


# What a catalog has under a name, for `sluice catalogs show`: no property that may hold a secret is told.


async def resolve_below(catalog: ReadableCatalog, name: str, below: Sequence[str]) -> list[dict[str, Any]]:
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


async def spark_conf(
    settings: Settings, entries: Sequence[CatalogEntry]
) -> tuple[dict[str, str], Sequence[str]]:
    """Return the settings of Spark for these entries, secrets as `***`, and what there is to say of what is
    missing in them. Raises Faults."""
    lakes = [entry for entry in entries if entry.catalog.kind.lists]
    minor: Minor | None = None
    notes: list[str] = []
    try:
        minor = minor_of_spark(settings)
    except SluiceError as error:
        notes.append(f"it is not known which jars Spark needs: {error.message}")
    kinds = await _kinds_of_metalakes(settings, lakes, minor) if minor is not None else []
    shown = [reveal_secrets(entry, hidden=True) for entry in entries if entry.on_spark]
    told = start_settings((leave_out_login(one, settings.audiences) for one in shown), kinds)
    for lake in lakes:
        plugged = connector_settings(lake)
        if plugged and "spark.plugins" in told:
            raise Faults(["Spark's Gravitino connector supports one metalake, and several catalogs need it"])
        told |= plugged
    if minor is not None:
        packages, notes = _packages(told.get(EXTENSIONS, ""), minor)
        told |= {"spark.jars.packages": ",".join(packages)} if packages else {}
    return told, notes


async def _kinds_of_metalakes(settings: Settings, lakes: Sequence[CatalogEntry], minor: Minor) -> list[str]:
    """Return the types of the catalogs that metalakes have, or may bring.

    Of two whose extensions exclude each other it is the one that the entries name.
    """
    wished = list_wished_kinds(lakes, minor)
    names = {
        lake.name for lake in lakes if not metalake_settings(lake.catalog.connection_params).own_connectors
    }
    held = [
        one.type
        for entry, state in await metalake_states(settings)
        for one in state.catalogs
        if entry.name in names
    ]
    apart = bool(APART & set(wished))
    return list(dict.fromkeys([*wished, *(kind for kind in held if not apart or kind not in APART)]))


def _packages(extensions: str, minor: Minor) -> tuple[list[str], list[str]]:
    """Return the artifacts of Maven's that have these extensions, those that `sluice spark-jars --formats`
    fetches; and what is to be said of extensions that have none."""
    packages: list[str] = []
    notes: list[str] = []
    for extension in filter(None, extensions.split(",")):
        try:
            packages += map(str, BY_EXTENSION[extension].artifacts_for(minor))
        except UnsupportedFormat as error:
            notes.append(error.message)
    return packages, notes
