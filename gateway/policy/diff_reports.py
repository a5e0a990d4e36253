"""Compares what two sets of policies decide: of whom and what they name, or of recorded accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gateway.errors import Faults
from gateway.model.audit import AuditEvent
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.policy import PolicySet, ServiceDef
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.differences import Pair, depends_on_context, list_unprobed, pairs_of, principals_of
from gateway.policy.diffing import (
    NOWHERE,
    Comparison,
    Group,
    compare,
    filter_levels,
    group_changes,
    is_column,
    questions_of,
)
from gateway.policy.diffing import AccessQuestion as Asked
from gateway.policy.engine import DEFAULT_SERVICE, engine_for
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.probing import Probe, resources_of
from gateway.policy.resource_names import NotAResource, resource_of_service, service_of_catalog

_Progress = Callable[[Comparison], None]
_ACCESS_COLUMN = "column"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """What differs, and what was asked to find out."""

    groups: tuple[Group, ...]
    people: int
    resources: int
    asked: int
    notes: tuple[str, ...] = ()
    """What was left out, for people."""

    def with_note(self, note: str) -> DiffReport:
        """Return the report with one more note."""
        return replace(self, notes=(*self.notes, note))


def diff(
    old: PolicySet,
    new: PolicySet,
    *,
    people: Sequence[Principal] = (),
    resources: Sequence[str] = (),
    context: AccessContext = NO_CONTEXT,
    progress: _Progress = lambda _: None,
) -> DiffReport:
    """Return which decisions differ for `people` on `resources`.

    Without people: somebody for each user, group and role that a difference concerns, and one who is in none.
    Without resources: those that either side names and a difference can concern. Raises Faults for a resource
    that neither side knows.
    """
    pairs = [pair for pair in pairs_of(old, new) if pair.policies or pair.everything]
    asked_people = list(people) or principals_of(pairs)
    speaking = {**old.catalog_services, **new.catalog_services}
    probes = _list_given_resources(pairs, resources, speaking) if resources else None
    comparison = Comparison()
    looked_at = 0
    groups: list[Group] = []
    roles = [name for pair in pairs for name in list_unprobed(pair)] if not resources else []
    for i, pair in enumerate(pairs):
        found = probes[i] if probes is not None else list(resources_of(pair, asked_people))
        looked_at += len(found)
        before = comparison.asked

        def report(state: Comparison, before: int = before) -> None:
            progress(replace(state, asked=before + state.asked))

        compared = compare(
            engine_for(old), engine_for(new), questions_of(pair, found, asked_people, context), report
        )
        comparison.asked += compared.asked
        groups += group_changes(compared.changes, (access.name for access in pair.definition.access_types))
    return DiffReport(
        groups=tuple(groups),
        people=len(asked_people),
        resources=looked_at,
        asked=comparison.asked,
        notes=tuple(
            f"policy `{name}` has values with `{{ROLES}}`, which were not compared" for name in roles
        ),
    )


def _list_given_resources(
    pairs: Sequence[Pair], resources: Iterable[str], speaking: Mapping[str, str]
) -> list[list[Probe]]:
    """Return the resources that were given, for each service that knows such a thing; `speaking` says which
    service speaks for which catalog."""
    found: list[list[Probe]] = [[] for _ in pairs]
    faults = []
    for text in resources:
        why = "neither side has policies"
        known = False
        for probes, pair in zip(found, pairs, strict=True):
            try:
                names = {service.name for service in pair.sides}
                catalogs = [catalog for catalog, name in speaking.items() if name in names]
                probes.append(Probe(resource_of_service(text, pair.definition, catalogs), text))
            except NotAResource as error:
                why = str(error)
            else:
                known = True
        if not known:
            faults.append(f"`{text}`: {why}")
    if faults:
        raise Faults(faults)
    return found


def diff_recorded(
    old: PolicySet,
    new: PolicySet,
    events: Iterable[AuditEvent],
    *,
    people: Mapping[str, Principal] | None = None,
    progress: _Progress = lambda _: None,
) -> DiffReport:
    """Return which of the recorded accesses would be decided differently.

    Users, groups, roles, times and addresses are those of the record; attributes, which it does not hold, are
    those of `people`.
    """
    replayed = _Replayed(old, new, people or {})
    for one in events:
        replayed.note_accesses(one)
    questions = [replace(asked, count=count) for asked, count in replayed.list_questions()]
    found = compare(engine_for(old), engine_for(new), questions, progress)
    accesses = {a.name for s in new.services.values() for a in s.definition.access_types}
    notes = []
    if replayed.unreadable:
        notes.append(f"{replayed.unreadable} recorded accesses are of resources that neither side has")
    return DiffReport(
        groups=tuple(group_changes(found.changes, accesses)),
        people=len({asked.principal for asked in questions}),
        resources=len({asked.resource for asked in questions}),
        asked=found.asked,
        notes=tuple(notes),
    )


class _Replayed:
    """Access requests of a record, equal ones counted once."""

    def __init__(self, old: PolicySet, new: PolicySet, people: Mapping[str, Principal]) -> None:
        self._old, self._new, self._people = old, new, people
        self._context = any(map(depends_on_context, (old, new)))
        self._counts: dict[tuple[Principal, Resource, str, AccessContext], int] = {}
        self.unreadable = 0

    def note_accesses(self, event: AuditEvent) -> None:
        """Note every access that one statement asked for."""
        body = event.body
        principal = Principal(
            user=event.user,
            groups=frozenset(_texts(body.get("groups"))),
            roles=frozenset(_texts(body.get("roles"))),
            attributes=self._people[event.user].attributes if event.user in self._people else (),
        )
        address = str(body.get("cliIP") or "")
        # Without conditions and periods a thousand accesses at different times are one question.
        context = NO_CONTEXT
        if self._context:
            context = AccessContext(
                time=datetime.fromisoformat(event.time), client_ip=_without_port(address) or None
            )
        decisions = body.get("decisions")
        for entry in decisions if isinstance(decisions, list) else ():
            for resource in self._resources(entry):
                key = (principal, resource, str(entry.get("action") or ""), context)
                self._counts[key] = self._counts.get(key, 0) + 1

    def _resources(self, entry: Mapping[str, object]) -> Iterator[Resource]:
        level = str(entry.get("resType") or "").removeprefix("@")
        path = str(entry.get("resource") or "")
        columns = _texts(entry.get("columns")) if level == _ACCESS_COLUMN else ()
        for policies in (self._new, self._old):
            for definition in _list_definitions(policies, path.split("/")[0]):
                way = hierarchy_to(level, definition.resources)
                if way is None:
                    continue
                names = [path] if len(way) == 1 else path.split("/")
                if len(names) + (1 if columns else 0) == len(way):
                    for column in columns or [""]:
                        values = [*names, column] if column else names
                        yield Resource(tuple((lv.name, v) for lv, v in zip(way, values, strict=True)))
                    return
        self.unreadable += 1

    def list_questions(self) -> Iterator[tuple[Asked, int]]:
        """Yield each question with how often it was asked."""
        for (principal, resource, access, context), count in self._counts.items():
            definition = self._definition(resource)
            kind = resource.kind
            select = access == "select"
            yield (
                Asked(
                    principal=principal,
                    resource=resource,
                    label=str(resource),
                    accesses=[(access,)],
                    old_service=_speaks_for(self._old, resource),
                    new_service=_speaks_for(self._new, resource),
                    masks=select and definition is not None and is_column(definition, kind),
                    context=context,
                ),
                count,
            )
        yield from self._filters()

    def _filters(self) -> Iterator[tuple[Asked, int]]:
        """Yield a question for the row filter of each table that was read, once for each statement."""
        tables: dict[tuple[Principal, Resource, AccessContext], int] = {}
        for (principal, resource, access, context), count in self._counts.items():
            if access != "select" or resource.kind != _ACCESS_COLUMN:
                continue
            key = (principal, Resource(resource.elements[:-1]), context)
            tables[key] = max(tables.get(key, 0), count)
        for (principal, table, context), count in tables.items():
            definition = self._definition(table)
            if definition is not None and table.kind in filter_levels(definition):
                yield (
                    Asked(
                        principal=principal,
                        resource=table,
                        label=str(table),
                        accesses=[],
                        old_service=_speaks_for(self._old, table),
                        new_service=_speaks_for(self._new, table),
                        filters=True,
                        context=context,
                    ),
                    count,
                )

    def _definition(self, resource: Resource) -> ServiceDef | None:
        for policies in (self._new, self._old):
            service = policies.services.get(_speaks_for(policies, resource) or DEFAULT_SERVICE)
            if service is not None:
                return service.definition
        return None


def _list_definitions(policies: PolicySet, first: str) -> Iterator[ServiceDef]:
    """Yield the definitions in which a recorded resource may be written; first that of the service that
    speaks for the catalog it begins with, since several may have as many levels."""
    speaking = policies.services.get(service_of_catalog(first, policies))
    if speaking is not None:
        yield speaking.definition
    yield from (service.definition for service in policies.services.values())


def _speaks_for(policies: PolicySet, resource: Resource) -> str | None:
    """Return None, the service of the catalog, where the side has one; else its only service, or nowhere."""
    catalog = resource.level("catalog")
    named = service_of_catalog(catalog or "", policies)
    if named in policies.services:
        return None
    return next(iter(policies.services)) if len(policies.services) == 1 else NOWHERE


def _texts(value: object) -> list[str]:
    return [str(entry) for entry in value] if isinstance(value, list | tuple) else []


def _without_port(address: str) -> str:
    """Return the host of `10.0.0.1:5000`, `[::1]:5000` or an address alone."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, port = address.rpartition(":")
    return host if host and ":" not in host and port.isdecimal() else address
