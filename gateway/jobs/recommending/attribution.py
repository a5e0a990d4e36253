"""Which policies each use rests on, as the engine itself says; runs in Spark's Python workers.

Answers are those of the policies as they are now, at the time of the last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import islice
from typing import Any

from gateway.model.catalog import split_name
from gateway.model.context import AccessContext
from gateway.model.policy import MaskItem, Policy, PolicySet, PolicyType, Service, TaggedResource
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource, Scope
from gateway.policy.closing import build_opening_test
from gateway.policy.differences import depends_on_context, digest_of, pairs_of, principals_of
from gateway.policy.diffing import compare, questions_of
from gateway.policy.engine import Engine, engine_for
from gateway.policy.probing import resources_of
from gateway.policy.resource_names import service_of_catalog

SELECT = "select"
WHOLE = "*"
"""The column of a use of which it is not known which columns it was of."""
NO_COLUMN = ""
"""Stands for the column where a use is of the table alone."""
ALLOW, MASK, FILTER, DENIED, UNREADABLE = "allow", "mask", "filter", "denied", "unreadable"
USES = (
    "user_name string, groups array<string>, table_name string, column_name string,"
    " statements bigint, recent bigint, first_at timestamp, last_at timestamp"
)
ATTRIBUTED = f"part string, policy string, item int, {USES}"
KNOWN = "table_name string, column_name string"
SPOKEN = f"policy string, {KNOWN}"
MAX_PROBED = 200
"""Columns with masks of their own that a use of unknown columns counts for."""
CHUNK = 500

_Batches = Iterator[Any]
People = Mapping[str, Principal]


def key_of(policy: Policy) -> str:
    """Return what tells a policy from all others in one set."""
    return f"{policy.id} {policy.name}"


def build_attribution(policies: PolicySet, people: People) -> Callable[[_Batches], _Batches]:
    """Return what takes batches of `USES`, and gives a row of `ATTRIBUTED` for each item they rest on."""

    def attribute(batches: _Batches) -> _Batches:
        import pyarrow

        asking = _Asking(policies, people)
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                rows += [
                    {"part": part, "policy": policy, "item": item, **row}
                    for part, policy, item in sorted(asking.of(row))
                ]
            for some in _chunks(rows):
                schema = pyarrow.schema(
                    [
                        ("part", pyarrow.string()),
                        ("policy", pyarrow.string()),
                        ("item", pyarrow.int32()),
                        *batch.schema,
                    ]
                )
                yield pyarrow.RecordBatch.from_pylist(some, schema=schema)

    return attribute


def build_policy_matcher(policies: PolicySet) -> Callable[[_Batches], _Batches]:
    """Return what takes batches of `KNOWN`, and gives one row of `SPOKEN` for each policy that speaks of a
    column."""

    def speak(batches: _Batches) -> _Batches:
        import pyarrow

        engine = engine_for(policies)
        schema = pyarrow.schema(
            [(name, pyarrow.string()) for name in ("policy", "table_name", "column_name")]
        )
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                tables = readings_of(row["table_name"])
                if len(tables) != 1:
                    # No name of a table: nothing is said of it.
                    rows.append({"policy": "", **row})
                    continue
                table = tables[0]
                # A column that is not known is one that no policy names.
                found = engine.policies_on(table.child("column", row["column_name"] or WHOLE))
                found += engine.policies_on(table)
                rows += [{"policy": key, **row} for key in sorted({key_of(policy) for policy, _ in found})]
                if engine.shares(table):
                    rows.append({"policy": "", **row})
            for some in _chunks(rows):
                yield pyarrow.RecordBatch.from_pylist(some, schema=schema)

    return speak


def list_policies_about(policies: PolicySet, tables: Iterable[Resource]) -> dict[str, Policy]:
    """Return the policies that speak of tables or of something in them, by their digests; not those that
    close tables of files, which are others with each table that is opened."""
    engine = engine_for(policies)
    every = {id(one): one for table in tables for one, _ in engine.policies_on(table, within=True)}
    return {digest_of(one): one for one in every.values() if not one.is_closing}


def build_needless_finder(policies: PolicySet, most_asked: int) -> Callable[[_Batches], _Batches]:
    """Return what takes batches of the column `policy`, and gives those policies without which no answer is
    another; those are left out that take more than `most_asked` questions to tell."""

    def tell(batches: _Batches) -> _Batches:
        import pyarrow

        for batch in batches:
            keys = [
                key for key in batch.column("policy").to_pylist() if is_needless(policies, key, most_asked)
            ]
            yield pyarrow.RecordBatch.from_pydict({"policy": pyarrow.array(keys, pyarrow.string())})

    return tell


def is_needless(policies: PolicySet, key: str, most_asked: int) -> bool:
    """Say whether no answer is another without a policy that grants, whoever asks; False where that takes
    more questions, or cannot be told.

    It is asked for each user, group and role that the policy names, alone. That tells of everybody only where
    what else somebody is in changes nothing: so what has exceptions is thought away, what is shared, what
    grants with less priority than the policy, and what holds only now and then.
    """
    (own,) = (policy for policy in policies.policies() if key_of(policy) == key)
    if build_opening_test(policies)(own):
        return False

    def sure(policy: Policy) -> Policy | None:
        if policy is own:
            return own
        if circumstantial(policy):
            return None
        excepted = bool(policy.allow_exceptions or policy.deny_exceptions or policy.deny_all_else)
        if not excepted and policy.priority >= own.priority:
            return policy  # the engine of all has it compiled
        weak = policy.allow_exceptions or policy.priority < own.priority
        return replace(
            policy,
            allow=() if weak else policy.allow,
            deny=() if policy.deny_exceptions else policy.deny,
            allow_exceptions=(),
            deny_exceptions=(),
            deny_all_else=False,
        )

    kept = with_policies(policies, sure)
    unshared = {name: replace(service, sharing=None) for name, service in kept.services.items()}
    kept = replace(kept, services=unshared)
    # With scripts in resources nothing can be told by asking.
    if depends_on_context(kept):
        return False
    less = drop_policies(kept, lambda policy: policy is own)
    old = Engine(kept, base=engine_for(policies))
    new = Engine(less, base=old)
    pairs = pairs_of(kept, less)
    people = principals_of(pairs)
    asked = 0
    for pair in pairs:
        questions = questions_of(pair, resources_of(pair, people), people)
        while some := list(islice(questions, CHUNK)):
            asked += len(some)
            if asked > most_asked or compare(old, new, some).changes:
                return False
    return asked > 0


def drop_policies(policies: PolicySet, drop: Callable[[Policy], bool]) -> PolicySet:
    """Return the policies without some of them."""
    return with_policies(policies, lambda policy: None if drop(policy) else policy)


def with_policies(policies: PolicySet, change: Callable[[Policy], Policy | None]) -> PolicySet:
    """Return the policies as they are changed, one by one; None: it goes."""

    def change_all(found: Iterable[Policy]) -> tuple[Policy, ...]:
        return tuple(new for policy in found if (new := change(policy)) is not None)

    services = {}
    for name, service in policies.services.items():
        tags = service.tags
        if tags is not None:
            tags = replace(tags, policies=change_all(tags.policies))
        services[name] = replace(service, policies=change_all(service.policies), tags=tags)
    return replace(policies, services=services)


def circumstantial(policy: Policy) -> bool:
    """Say whether a policy holds only now and then."""
    return bool(policy.conditions or policy.schedules or any(item.conditions for item in policy.items))


def _drop_conditions(policies: PolicySet) -> PolicySet:
    """Return what holds at all times."""
    kept = drop_policies(policies, circumstantial)

    def keep_lasting_tags(service: Service) -> tuple[TaggedResource, ...]:
        return tuple(
            replace(one, tags=tuple(tag for tag in one.tags if not tag.validity)) for one in service.tagged
        )

    services = {
        name: replace(service, tagged=keep_lasting_tags(service)) for name, service in kept.services.items()
    }
    return replace(kept, services=services)


def readings_of(name: str | None) -> tuple[Resource, ...]:
    """Return the tables that a dotted name may mean. The record quotes nothing, so of one with more dots than
    three parts have, each may be in the database or in the table's own name."""
    parts = split_name(name or "")
    if len(parts) == 3:
        return (Resource.table(*parts),)
    first, *rest = (name or "").split(".")
    if not (first and all(rest)):
        return ()
    return tuple(
        Resource.table(first, ".".join(rest[:at]), ".".join(rest[at:])) for at in range(1, len(rest))
    )


def table_of(policies: PolicySet, name: str | None) -> Resource | None:
    """Return a table by its dotted name, as policies write it; None where that is none, or cannot be told."""
    found = readings_of(name)
    if len(found) != 1:
        return None
    catalog = found[0].elements[0][1]
    service = policies.services.get(service_of_catalog(catalog, policies))
    # A definition without catalogs (hive's) writes tables in another way than edits here do.
    return found[0] if service is not None and service.definition.resource("catalog") is not None else None


class _Asking:
    """Asks one engine, each question once."""

    def __init__(self, policies: PolicySet, people: People) -> None:
        self._policies, self._people = policies, people
        self._engines = [engine_for(policies)]
        if depends_on_context(policies):
            # What holds only now and then stands before what is needed at all other times.
            self._engines.append(Engine(_drop_conditions(policies), base=self._engines[0]))
        every = [
            p for s in policies.services.values() for t in (s, s.tags) if t is not None for p in t.policies
        ]
        self._items = {key_of(policy): policy for policy in every}
        self._masked = _list_masked_columns(every)

    def of(self, row: Mapping[str, Any]) -> set[tuple[str, str, int]]:
        """Return part, policy and item of all that a use rests on."""
        tables = readings_of(row["table_name"])
        if not tables or row["column_name"] is None:
            return {(UNREADABLE, "", -1)}
        found = [self._of_table(row, table) for table in tables]
        allowed = [one for one in found if (DENIED, "", -1) not in one]
        return set().union(*(allowed or found))

    def _of_table(self, row: Mapping[str, Any], table: Resource) -> set[tuple[str, str, int]]:
        last = row["last_at"]
        context = AccessContext(time=last.replace(tzinfo=UTC) if last.tzinfo is None else last)
        groups = frozenset(row["groups"] or ())
        known = self._people.get(row["user_name"] or "")
        principal = Principal(
            user=row["user_name"] or "",
            groups=groups,
            roles=known.roles if known is not None else frozenset(),
            attributes=known.attributes if known is not None else (),
        )
        column = row["column_name"]
        return {
            one
            for engine in self._engines
            for found in (
                self._is_allowed(engine, principal, table, column, context),
                self._masks(engine, principal, table, column, context),
                self._filters(engine, principal, table, context),
            )
            for one in found
        }

    def _is_allowed(
        self, engine: Engine, principal: Principal, table: Resource, column: str, context: AccessContext
    ) -> Iterator[tuple[str, str, int]]:
        whole = column in (WHOLE, NO_COLUMN)
        resource = table if whole else table.child("column", column)
        request = AccessRequest(
            principal=principal,
            resource=resource,
            access=SELECT,
            context=context,
            scope=Scope.SELF_OR_DESCENDANTS if whole else Scope.SELF,
        )
        decision = engine.decide(request)
        if decision.allowed:
            policy = f"{decision.policy.id} {decision.policy.name}"
            kind, _, number = decision.item.removesuffix("]").partition("[")
            if kind == ALLOW and number.isdecimal():
                yield (ALLOW, policy, int(number))
            else:
                yield (ALLOW, "", -1)
            return
        if engine is not self._engines[0]:
            return
        # A view lends what its definer has, or policies were others then: what grants it to anybody counts,
        # and what shows it to the definer without a mask or filter.
        yield (DENIED, "", -1)
        spoken = engine.policies_on(resource, context) + engine.policies_on(table, context)
        for found, _ in spoken:
            for place, item in enumerate(found.allow):
                if SELECT in {access.lower() for access in item.accesses}:
                    yield (ALLOW, key_of(found), place)
            yield from ((MASK, key_of(found), place) for place in range(len(found.masks)))
            yield from ((FILTER, key_of(found), place) for place in range(len(found.filters)))

    def _masks(
        self, engine: Engine, principal: Principal, table: Resource, column: str, context: AccessContext
    ) -> Iterator[tuple[str, str, int]]:
        columns = {WHOLE: self._masked, NO_COLUMN: ()}.get(column, (column,))
        for name in columns:
            request = AccessRequest(
                principal=principal, resource=table.child("column", name), access=SELECT, context=context
            )
            found = engine.mask_answer(request)
            if found is not None:
                yield (MASK, f"{found.policy.id} {found.policy.name}", found.index)

    def _filters(
        self, engine: Engine, principal: Principal, table: Resource, context: AccessContext
    ) -> Iterator[tuple[str, str, int]]:
        request = AccessRequest(principal=principal, resource=table, access=SELECT, context=context)
        found = engine.filter_answer(request)
        if found is not None:
            yield (FILTER, f"{found.policy.id} {found.policy.name}", found.index)


def _list_masked_columns(policies: Sequence[Policy]) -> tuple[str, ...]:
    """Return columns that stand for those with masks: such as mask policies name, and one that none does."""
    names: dict[str, None] = {"some_other": None}
    for policy in policies:
        if policy.type is PolicyType.MASK and any(isinstance(item, MaskItem) for item in policy.masks):
            for resources in (policy.resources, *policy.additional_resources):
                values = resources.get("column")
                names.update(dict.fromkeys(values.values if values is not None else ()))
    return tuple(list(names)[:MAX_PROBED])


def _chunks(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    return (rows[first : first + 10_000] for first in range(0, len(rows), 10_000))
