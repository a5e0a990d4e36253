"""`sluice datasets`: files that became tables; list, show, promote, refresh, forget."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from gateway.app import exit_codes
from gateway.app.accepted_tags import load_cached_tags
from gateway.app.explaining import asking, make_reader
from gateway.app.files import make_promotion
from gateway.app.metalakes import load_cached_metalakes
from gateway.app.rules import PolicyRegistry
from gateway.cli.audit import find_record
from gateway.cli.lineage import connect
from gateway.cli.settings import settings_of
from gateway.cli.terminal import BOLD, DIM, Terminal
from gateway.errors import Faults
from gateway.files import store, walk_results
from gateway.files.keeping import Keeper, Refreshed
from gateway.files.store import datasets
from gateway.frontends.users import read_users
from gateway.model.catalog import TableName
from gateway.model.files import SESSION_CATALOG
from gateway.model.principal import user_of
from gateway.policy.engine import engine_for
from gateway.policy.parts import build_closing_part
from gateway.session.ports import BackendError
from gateway.session.verdicts import RightsNow
from gateway.settings.models import Settings

_MAX_FOUND = 100
"""Directories of a source that are listed of those that are no tables."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, show, promote, refresh or forget datasets of the settings' gateway."""
    settings = settings_of(arguments)
    return asyncio.run(_run(settings, arguments, terminal))


async def _run(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    if (arguments.action == "list") != (arguments.what is None):
        raise Faults([f"`{arguments.action}` takes {'no' if arguments.what else 'one'} SOURCE/PATH"])
    if arguments.action == "promote":
        table = await _promote(settings, arguments.what, arguments.user)
        terminal.line(f"{arguments.what} is the table {table}")
        return exit_codes.OK
    async with connect(settings) as connection:
        rows = await datasets(connection)
        begun = await store.list_unfinished_promotions(connection)
        if arguments.action == "list":
            _list(rows, terminal)
            _list_begun(begun, terminal)
            await _list_found(connection, settings, terminal)
            return exit_codes.OK
        if arguments.action == "forget":
            rows = [*rows, *begun]
        one = next((row for row in rows if f"{row['source']}/{row['path']}" == arguments.what), None)
        if one is None:
            raise Faults([f"there is no dataset `{arguments.what}`; `sluice datasets list` shows them"])
        if arguments.action == "show":
            _show(one, terminal)
        elif arguments.action == "refresh":
            return _tell(await _refresh(connection, settings, one), arguments.what, terminal)
        else:
            await _forget(connection, settings, one)
            terminal.line(f"{arguments.what} is forgotten; its files are unchanged")
    return exit_codes.OK


def _list(rows: Any, terminal: Terminal) -> None:
    for row in rows:
        terminal.line(terminal.style(f"{row['source']}/{row['path']}", BOLD))
        made = f"{row['promoted_at']:%Y-%m-%d %H:%M:%S} by {user_of(row['promoted_by'])}"
        table = f"{SESSION_CATALOG}.{row['database']}.{row['table_name']}"
        terminal.line(terminal.style(f"  {table}  {row['format']}  {row['files']} files  {made}", DIM))
        if row["finding"]:
            terminal.line(f"  since {row['looked_at']:%Y-%m-%d %H:%M:%S}: {row['finding']}")


def _list_begun(rows: Any, terminal: Terminal) -> None:
    """List promotions that go on or were cut: their places are kept."""
    for row in rows:
        terminal.line(terminal.style(f"{row['source']}/{row['path']}", BOLD))
        began = f"{row['begun_at']:%Y-%m-%d %H:%M:%S} by {row['begun_by']}"
        terminal.line(terminal.style(f"  promotion begun {began}, not finished", DIM))


async def _list_found(connection: Any, settings: Settings, terminal: Terminal) -> None:
    """List what walks of the sources have found that is no table."""
    walks = {walk.source: walk for walk in await walk_results.walks(connection)}
    for source in settings.file_sources():
        walk = walks.get(source.name)
        if walk is None or not (source.refresh_s and source.walk):
            continue
        paths = await walk_results.no_tables(connection, source)
        for path, files in list(paths.items())[:_MAX_FOUND]:
            terminal.line(terminal.style(f"{source.name}/{path}", BOLD))
            terminal.line(terminal.style(f"  found, not promoted  {files} files", DIM))
        if len(paths) > _MAX_FOUND:
            terminal.line(f"{source.name}: {len(paths) - _MAX_FOUND} more, found and not promoted")
        if walk.trouble:
            terminal.line(f"{source.name}: scanned {walk.walked_at:%Y-%m-%d %H:%M:%S}: {walk.trouble}")


def _show(row: Mapping[str, Any], terminal: Terminal) -> None:
    shown = {key: json.loads(value) if key in ("options", "columns") else value for key, value in row.items()}
    terminal.line(json.dumps(shown, indent=2, ensure_ascii=False, default=str))


@asynccontextmanager
async def _keeper(settings: Settings) -> AsyncIterator[Keeper]:
    sources = settings.file_sources()
    async with await make_reader(settings) as reader, asking(settings, reader) as (queries, catalog):
        yield Keeper(sources, queries.query, refusal=BackendError, catalog=catalog)


async def _promote(settings: Settings, what: str, user: str | None) -> TableName:
    """Make a table of files as a user, whose privileges it takes; return the table's name."""
    users = read_users(settings.users.file) if settings.users.file.exists() else {}
    if user is None or user not in users:
        raise Faults(["`promote` needs `--user`, the user of the user file whose privileges are checked"])
    principal = users[user].principal
    name, *path = what.split("/")
    sources = {source.name: source for source in settings.file_sources()}
    if name not in sources:
        raise Faults([f"the settings have no source `{name}`"])
    try:
        table = sources[name].table(tuple(path))
    except ValueError as why:
        raise Faults([f"`{what}` {why}"]) from None
    dsn = find_record(settings)[0]
    async with (
        await make_reader(settings) as reader,
        PolicyRegistry(
            settings.policies,
            reader,
            accepted=load_cached_tags(settings),
            read_only=True,
            closed=build_closing_part(settings.file_sources()),
        ) as rules,
        asking(settings, reader) as (queries, catalog),
    ):
        lakes, _ = await load_cached_metalakes(settings)
        promoter = make_promotion(
            settings, queries, catalog, dsn, ledger=None, gateway="", metalakes=lakes.states
        )
        if promoter is None:
            raise Faults(["the settings have no `files`"])
        rights = RightsNow(engine_for(rules.current), principal)
        refused = await promoter.promote(table, principal, rights, asked=True)
        if refused is None and (await catalog.look_up([table])).table(table) is None:
            raise Faults([f"there are no files at `{what}`"])
    if refused is not None:
        raise Faults([refused.message])
    return table


def _name(row: Mapping[str, Any]) -> TableName:
    return TableName(SESSION_CATALOG, row["database"], row["table_name"])


async def _forget(connection: Any, settings: Settings, row: Mapping[str, Any]) -> None:
    async with _keeper(settings) as keeper:
        await keeper.forget(nullcontext(connection), _name(row))


async def _refresh(connection: Any, settings: Settings, row: Mapping[str, Any]) -> Refreshed:
    async with _keeper(settings) as keeper:
        return await keeper.refresh(nullcontext(connection), _name(row))


def _tell(found: Refreshed, what: str, terminal: Terminal) -> int:
    """Tell what has changed; a schema that was not learned is a finding."""
    if not found.is_changed:
        terminal.line(f"{what} is unchanged")
        return exit_codes.OK
    (files, files_now), (size, size_now) = found.files, found.bytes
    terminal.line(f"{what}: {files} → {files_now} files, {size} → {size_now} bytes")
    for line in found.drift:
        terminal.line(f"  {line}")
    if found.is_applied:
        return exit_codes.OK
    terminal.line("its table is unchanged: its source does not set `schema_learning`")
    return exit_codes.DRIFTED
