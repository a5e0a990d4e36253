"""Tables of files that are closed until somebody has looked at them: to all but their promoter and the
administrators of their source, whatever policies with wildcards say.

They are closed by a policy like any other, so explanations, the record and the order of evaluation know it. A
policy that names a table, by its name and not by a pattern, takes it out.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gateway.errors import Faults
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
    Service,
)
from gateway.policy.globs import NOT_LITERAL, glob, has_wildcard
from gateway.policy.matching import fold
from gateway.policy.subjects import OWNER, PUBLIC
from gateway.policy.zones import UNZONED

_FIRST_ID = 1 << 41
"""Ids of policies that are made here are above those of packs, of Ranger and of metalakes."""
_LEVELS = ("database", "table", "column")
_PROMOTE = "promote"


def close_tables(service: Service, sources: Iterable[FileSource]) -> Service:
    """Return the service that speaks for Spark's session catalog with the tables of sources closed in it.

    Raises Faults where policies of its kind cannot deny, or know no tables.
    """
    sources = tuple(sources)
    definition = service.definition
    known = {level.name for level in definition.resources}
    if sources and not (definition.deny_enabled and known.issuperset(_LEVELS)):
        names = ", ".join(f"`{source.name}`" for source in sources)
        raise Faults(
            [
                f"`files`: {names} cannot be closed: service `{service.name}` does not support deny items "
                "or tables; with `closed: false`, new tables are open to everybody whom policies allow"
            ]
        )
    zones = (UNZONED, *(zone.name for zone in service.zones))
    made = [_build_closing_policy(service, source, zone) for source in sources for zone in zones]
    return replace(service, policies=(*service.policies, *made)) if made else service


def list_opened_tables(policies: PolicySet) -> frozenset[tuple[str, str, str]]:
    """Return the tables that policies have taken out, behind what had closed them and their zone."""
    return frozenset(
        (policy.name, policy.zone, table)
        for policy in policies.policies()
        if policy.is_closing and policy.resources["table"].excludes
        for table in policy.resources["table"].values
    )


def build_opening_test(policies: PolicySet) -> Callable[[Policy], bool]:
    """Return what says whether a policy is one by which tables are taken out; it errs on the side of yes."""
    tables = {(zone, table) for _, zone, table in list_opened_tables(policies)}
    return lambda policy: (
        policy.type is PolicyType.ACCESS
        and any(
            (policy.zone, fold(value)) in tables
            for resources in (policy.resources, *policy.additional_resources)
            if "table" in resources
            for value in resources["table"].values
        )
    )


def _build_closing_policy(service: Service, source: FileSource, zone: str) -> Policy:
    named = sorted(set(_list_named_tables(service.policies, source, zone)))
    below: ResourceSet = {"database": ResourceValues(values=(source.database,))}
    if any(level.name == "catalog" for level in service.definition.resources):
        below = {"catalog": ResourceValues(values=(SESSION_CATALOG,)), **below}
    # With nothing to leave out, `excludes` would match nothing at all.
    tables = ResourceValues(values=tuple(named), excludes=True) if named else ResourceValues(values=("*",))
    of_tables: ResourceSet = {**below, "table": tables}
    of_columns: ResourceSet = {**of_tables, "column": ResourceValues(values=("*",))}
    accesses = frozenset(one.name for one in service.definition.access_types) - {"all", _PROMOTE}
    owner = frozenset({OWNER})
    title = f"files {source.name}: closed until a policy names a table"
    return Policy(
        id=_FIRST_ID + zlib.crc32(f"{title} {zone}".encode()),
        name=title,
        service=service.name,
        type=PolicyType.ACCESS,
        resources=of_tables,
        additional_resources=(of_columns,),
        zone=zone,
        allow=(PolicyItem(users=owner, accesses=accesses & {"select", "show"}),),
        deny=(PolicyItem(groups=frozenset({PUBLIC}), accesses=accesses),),
        deny_exceptions=(PolicyItem(users=owner, groups=source.administrators, accesses=accesses),),
        is_closing=True,
        description="made of `files` in the settings",
    )


def _list_named_tables(policies: Iterable[Policy], source: FileSource, zone: str) -> Iterator[str]:
    """Yield the tables of a source that policies of a zone name and let somebody see."""
    for policy in policies:
        opens = policy.type is PolicyType.ACCESS and policy.enabled and policy.zone == zone
        if opens and any(map(_opens, policy.allow)):
            for resources in (policy.resources, *policy.additional_resources):
                table = resources.get("table")
                if table is None or table.excludes or not _is_in(resources, source):
                    continue
                for value in table.values:
                    if _is_literal(value) and source.path(fold(value)) is not None:
                        yield fold(value)


def _opens(item: PolicyItem) -> bool:
    """Whether an item lets in somebody else than the promoter."""
    others = item.groups or item.roles or item.users - {OWNER}
    return bool(others and item.accesses - {_PROMOTE})


def _is_in(resources: ResourceSet, source: FileSource) -> bool:
    return all(
        values is None
        or (not values.excludes and any(re.fullmatch(glob([(fold(v), True)]), own) for v in values.values))
        for values, own in (
            (resources.get("catalog"), fold(SESSION_CATALOG)),
            (resources.get("database"), fold(source.database)),
        )
    )


def _is_literal(value: str) -> bool:
    return not has_wildcard(value) and NOT_LITERAL.search(value) is None
