"""The console's pages of the record, of lineage and of requests, put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from gateway.admin.lineage.sight import Sight
from gateway.admin.ranger.access import Access, AdminRights
from gateway.admin.ranger.access_requests import AccessRequests, PlaceOfGrants
from gateway.admin.ranger.store import Store
from gateway.app.console_tools import ConsoleTools, find_person
from gateway.app.gateway_parts import GatewayParts
from gateway.app.lineage_admin import sight
from gateway.app.propagation_rules import propagation_rules
from gateway.app.ranger_admin import rights_of
from gateway.console.pages import lineage, record, requests
from gateway.console.routes import ConsolePart, Viewer
from gateway.database.migrate import LazyPool
from gateway.errors import BackendUnavailable, PoliciesStale
from gateway.lineage.laundering import LaunderingReport, find_laundering
from gateway.model.catalog import TableName
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.access_requests import ALL_COLUMNS, RequestedAccess
from gateway.policy.engine import engine_for
from gateway.policy.laundering import Sights, list_named_principals
from gateway.policy.tagged_names import list_tagged_names

PROTOCOL = "console"
_GUIDS: WeakKeyDictionary[PolicySet, frozenset[tuple[str, str]]] = WeakKeyDictionary()
"""Service and guid of each policy of a set: a page asks for those of many grants."""


def list_parts(parts: GatewayParts, tools: ConsoleTools) -> list[ConsolePart]:
    """Return the pages with what they need."""
    catalogs = list_catalogs(parts)
    store = tools.admin.store if tools.admin is not None else None
    made = AccessRequests(
        tools.pool.acquire,
        store=store,
        access=Access(_rights(parts)),
        place_of=partial(find_place, parts, store),
        find_person=partial(find_person, parts),
        owns=partial(owns_plainly, parts),
        look_up=partial(look_up_tables, parts),
        noted=lambda step, kind: parts.dependencies.metrics.access_requests.labels(step, kind).inc(),
    )
    return [
        record.part(
            record.RecordPages(
                tools.pool.acquire,
                tools.texts,
                catalogs=catalogs,
                names_of_tag=lambda tag: list_tagged_names(parts.rules.current, tag),
            )
        ),
        lineage.part(
            lineage.LineagePages(
                partial(_read_graph, tools), partial(_make_sight, parts), partial(_find_laundering, parts)
            )
        ),
        requests.part(requests.RequestPages(made, catalogs=catalogs, in_force=partial(are_in_force, parts))),
    ]


def list_catalogs(parts: GatewayParts) -> tuple[str, ...]:
    """Return the catalogs that names may begin with, the one of names without any first."""
    first = parts.dependencies.first_context.catalog
    return tuple(
        dict.fromkeys((first, *parts.settings.policies.catalogs, *sorted(parts.settings.named_catalogs)))
    )


# -- lineage -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _read_graph(tools: ConsoleTools) -> AsyncIterator[Any]:
    """Have a connection that sees one instant and writes nothing."""
    async with (
        tools.pool.acquire() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        yield connection


def _policies_now(parts: GatewayParts) -> PolicySet:
    """Return the policies in force. Raises PoliciesStale."""
    stale = parts.rules.stale() or parts.users.stale()
    if stale is not None:
        raise PoliciesStale(stale)
    return parts.rules.current


def _make_sight(parts: GatewayParts, connection: Any, viewer: Viewer) -> Sight:
    policies = _policies_now(parts)
    return sight(connection, viewer.principal, policies, parts.dependencies.catalog, viewer.address)


async def _find_laundering(parts: GatewayParts, connection: Any) -> LaunderingReport:
    policies = _policies_now(parts)
    people = await asyncio.to_thread(list_named_principals, policies, dict(parts.identities.principals))
    sights = Sights(engine_for(policies), people, AccessContext(time=datetime.now(UTC)))
    rules = propagation_rules(parts.settings.tag_propagation)
    return await find_laundering(connection, sights, rules)


# -- requests ------------------------------------------------------------------------------------------------


async def list_alarms(pool: LazyPool) -> list[str]:
    """Return a sentence for each grant of break-glass that holds now."""
    async with pool.acquire() as connection:
        rows = await connection.fetch(
            "SELECT id, asker, catalog, database, table_name, decided_by, expires FROM sluice.access_request"
            " WHERE state = 'granted' AND kind = 'break_glass' AND expires > clock_timestamp()"
            " ORDER BY id DESC LIMIT 20"
        )
    return [
        f"Break-glass: {row['asker']} sees {row['catalog']}.{row['database']}.{row['table_name']} as it is"
        f" until {row['expires']:%Y-%m-%d %H:%M} UTC, confirmed by {row['decided_by']} (request {row['id']})"
        for row in rows
    ]


def _rights(parts: GatewayParts) -> AdminRights:
    """Return who administers policies: of the store, or, where there is none, of the console."""
    listener = parts.settings.listeners.admin
    if listener.ranger is not None:
        return rights_of(listener.ranger)
    if listener.console is None:
        return AdminRights()
    return AdminRights(
        administrators=frozenset(listener.console.administrators),
        administrator_groups=frozenset(listener.console.administrator_groups),
    )


def find_place(parts: GatewayParts, store: Store | None, catalog: str) -> PlaceOfGrants:
    """Return where the policies on a catalog are made."""
    settings = parts.settings.policies
    folded = {name.lower(): service for name, service in settings.catalogs.items()}
    service = folded.get(catalog.lower(), "")
    ranger = next((one for one in settings.ranger if service in (one.adds_to, one.service)), None)
    if ranger is not None and store is not None:
        return PlaceOfGrants(
            service=ranger.service,
            where=f"A grant on `{catalog}` is a policy of the service `{ranger.service}`, made here.",
        )
    if ranger is not None:
        where = f"the service `{service}` of the Ranger Admin at {', '.join(ranger.urls)}"
    elif settings.paths:
        where = f"the packs of the gateway ({', '.join(path.name for path in settings.paths)})"
    else:
        where = "another source than this gateway"
    return PlaceOfGrants(
        service="", where=f"Policies on `{catalog}` are made in {where}: a grant has to be written there."
    )


def are_in_force(parts: GatewayParts, service: str, guids: Sequence[str]) -> bool:
    """Whether this gateway judges by policies of a service now."""
    policies = parts.rules.current
    if (known := _GUIDS.get(policies)) is None:
        known = _GUIDS[policies] = frozenset((policy.service, policy.guid) for policy in policies.policies())
    return bool(guids) and all((service, guid) in known for guid in guids)


async def look_up_tables(parts: GatewayParts, asked: Sequence[RequestedAccess]) -> None:
    """Look up the tables of requests together: one by one each would wait for Spark."""
    names = dict.fromkeys(TableName(one.catalog, one.database, one.table) for one in asked)
    with contextlib.suppress(BackendUnavailable):
        await parts.dependencies.catalog.look_up(list(names))


async def owns_plainly(parts: GatewayParts, principal: Principal, asked: RequestedAccess) -> bool:
    """Whether somebody owns a table and has all that is asked for, with nothing masked or filtered for him:
    nobody gives more than he has. Raises BackendUnavailable."""
    try:
        engine = engine_for(_policies_now(parts))
    except PoliciesStale:
        return False
    name = TableName(asked.catalog, asked.database, asked.table)
    catalog = parts.dependencies.catalog
    table = (await catalog.look_up([name])).table(name)
    if table is None or table.owner is None or table.owner != principal.user:  # RULE (owner-of-table)
        return False
    context = AccessContext(time=datetime.now(UTC), client_type=PROTOCOL)
    resource = Resource.table(name.catalog, name.database, name.table, table.owner)
    known = [column.name for column in table.columns]
    columns = known if asked.columns == (ALL_COLUMNS,) else list(asked.columns)
    if not {one.lower() for one in columns} <= {one.lower() for one in known}:
        return False
    if engine.row_filter(principal, resource, context) is not None:  # RULE (owner-sees-all-rows)
        return False
    for column in columns:
        below = resource.child("column", column)
        for access in asked.accesses:
            request = AccessRequest(principal=principal, resource=below, access=access, context=context)
            if not engine.decide(request).allowed:  # RULE (owner-has-access)
                return False
        if engine.mask(principal, below, "string", context) is not None:  # RULE (owner-sees-values)
            return False
    return True
