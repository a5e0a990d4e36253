"""Judging with all it needs: policies and catalog of one instant, look-ups, a cache of clearances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gateway.errors import InvalidRequest, LedgerUnavailable, PoliciesStale
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import CatalogSnapshot, TableName, quote_parts
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.decision import Decision
from gateway.model.metalakes import ListedCatalogs
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    AnswerRule,
    Cleared,
    Client,
    NeedsCatalog,
    NumberedQuery,
    PlanRequest,
    Refused,
    Statement,
    TendDataset,
    Verdict,
)
from gateway.session.limits import SessionLimits
from gateway.session.metrics import Metrics
from gateway.session.ports import (
    Authority,
    Catalog,
    Judge,
    JudgingPolicies,
    Promotion,
    TablePlaces,
    UserRights,
)
from gateway.session.restricted_catalog import (
    RestrictedCatalog,
    RestrictionReader,
    RestrictionSource,
    explain_carried_salt,
)
from gateway.session.view_rules import build_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictInputs:
    """Ports and bounds of judging."""

    judge: Judge
    policies: JudgingPolicies
    catalog: Catalog
    metrics: Metrics = field(default_factory=Metrics)
    limits: SessionLimits = field(default_factory=SessionLimits)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    promotion: Promotion | None = None
    """Makes tables of files that a statement names."""
    places: TablePlaces | None = None
    """Says whose tables the files at a path are."""
    restrictions: RestrictionSource | None = None
    """Says what catalogs restrict of their tables for a user; None: none is asked."""


_Key = tuple[Statement, bool, int, int]
"""A statement, whether it has its query without ids, and the versions of policies and catalog."""


@dataclass(frozen=True, slots=True)
class _Cached:
    """A clearance, when it was made, and the circumstances that it depends on."""

    made: float
    cleared: Cleared
    context_values: tuple[object, ...]
    numbered: NumberedQuery | None = None
    """The query that it is of, where the same with other ids may have it."""


_STREAM = "WriteStreamOperationStart"
"""What a plan is called that starts a stream."""
_TEXTS_OWN = frozenset({"accessed_together", "request_data"})
"""Facets that the statement's text determines, which is in the key already."""


class Verdicts:
    """Answers a statement with a verdict under the policies in force.

    Only clearances are kept, never refusals: a refusal may come from a parser that was down for a moment. A
    clearance is used again only under the same policy and catalog versions, in circumstances that are the
    same as far as policies ask for them, while what it rests on is neither old nor another, and not for
    longer than `verdict_age_s`.
    """

    def __init__(self, inputs: VerdictInputs) -> None:
        self._promotion = inputs.promotion
        self._places = inputs.places
        self._restrictions = inputs.restrictions
        self._judge = inputs.judge
        self._policies = inputs.policies
        self._catalog = inputs.catalog
        self._limits = inputs.limits
        self._metrics = inputs.metrics
        self._clock = inputs.clock
        self._now = inputs.now
        self._cached: BoundedDict[_Key, _Cached] = BoundedDict(self._limits.verdicts_cached)
        self._first: dict[Statement, asyncio.Event] = {}
        """Statements that somebody is the first to have judged; the event says that this has ended."""

    @property
    def policies_version(self) -> int:
        return self._policies.current.version

    @property
    def catalog_version(self) -> int:
        return self._catalog.snapshot.version

    @property
    def listed(self) -> ListedCatalogs:
        """Catalogs that come and go, as they are now."""
        return self._catalog.snapshot.listed

    def _authority_in_force(self) -> Authority:
        """Return the engine of the policies of this instant. Raises PoliciesStale."""
        stale = self._policies.stale()
        if stale is not None:
            raise PoliciesStale(stale)
        return self._policies.authority(self._policies.current)

    def visible_to(self, principal: Principal, client: Client) -> Callable[[Resource], bool]:
        """Return whether `principal` may know of a resource, under the policies of this instant.

        Raises PoliciesStale.
        """
        authority = self._authority_in_force()
        context = self._context(client, "METADATA OPERATION", "")

        def may_know(resource: Resource) -> bool:
            if resource.kind != "column":
                return authority.visible(principal, resource, context)
            # As DESCRIBE does: whoever may only write a column is not told that it is there.
            request = AccessRequest(principal=principal, resource=resource, access="select", context=context)
            return authority.decide(request).allowed

        return may_know

    def visible_tables_to(
        self, principal: Principal, client: Client
    ) -> Callable[[Resource, Sequence[str]], bytes]:
        """Return what says of all tables of a database whether `principal` may know of them, 1 or 0 for each,
        under the policies of this instant. Raises PoliciesStale."""
        authority = self._authority_in_force()
        context = self._context(client, "METADATA OPERATION", "")
        return lambda database, tables: authority.visible_tables(principal, database, tables, context)

    def rights_of(self, principal: Principal, client: Client, action: str, text: str = "") -> UserRights:
        """Return what somebody may do, under the policies of this instant. Raises PoliciesStale."""
        return RightsNow(self._authority_in_force(), principal, self._context(client, action, text))

    async def build_description_filters(
        self, names: Iterable[TableName], statement: Statement, client: Client
    ) -> Mapping[TableName, AnswerRule]:
        """Return how answers to DESCRIBE EXTENDED of tables and views (folded) would be filtered for the
        principal, in the session of `statement`; of those alone that it would be let pass for."""
        described: dict[TableName, AnswerRule] = {}
        for name in names:
            parts = quote_parts(name.parts)
            asked = Statement(
                text=f"DESCRIBE TABLE EXTENDED {parts}",
                principal=statement.principal,
                context=statement.context,
            )
            verdict = await self.judge(asked, client)
            if isinstance(verdict, Cleared) and verdict.answer.columns is not None:
                described[name.fold()] = verdict.answer
        return described

    async def judge(self, statement: Statement, client: Client) -> Verdict:
        """Judge the statement, looking up what judging asks for, a bounded number of times.

        Of many who send the same at once, as a dashboard does, one is judged and the others may use that.
        """
        # Looking for a plan of megabytes would take as long as judging a small one.
        if not self._is_cacheable(statement):
            return await self._without_trouble(await self._judge_now(statement, client, cacheable=False))
        if (known := await self._recall(statement, client)) is not None:
            return await self._without_trouble(known)
        first = self._first.get(statement)
        if first is not None:
            await first.wait()
            if (known := await self._recall(statement, client)) is not None:
                return await self._without_trouble(known)
        if statement in self._first:
            return await self._without_trouble(await self._judge_now(statement, client, cacheable=True))
        ended = self._first[statement] = asyncio.Event()
        try:
            verdict = await self._judge_now(statement, client, cacheable=True)
        finally:
            del self._first[statement]
            ended.set()
        return await self._without_trouble(verdict)

    async def _recall(self, statement: Statement, client: Client) -> Cleared | None:
        """Return what was decided on the very same statement, where that still holds."""
        begun = time.perf_counter()
        policies, catalog = self._policies.current, self._catalog.snapshot
        if self._policies.stale() is not None:
            return None
        versions = policies.version, catalog.version
        found = self._find((statement, False, *versions), self._context(client, "QUERY", statement.text))
        if found is None or not await self._still_holds(found.cleared, catalog, statement):
            return None
        self._metrics.judge_cached.observe(time.perf_counter() - begun)
        return found.cleared

    async def _still_holds(self, cached: Cleared, catalog: CatalogSnapshot, statement: Statement) -> bool:
        """Whether what a clearance was judged by is what it was."""
        # RULE (cached-restrictions)
        return _still_rests(cached, catalog, self._policies.principals) and (
            await self._is_restricted_as_then(cached, statement.principal)
        )

    async def _judge_now(self, statement: Statement, client: Client, *, cacheable: bool) -> Verdict:
        begun = time.perf_counter()
        # INVARIANT (a snapshot is one instant): the policies are taken once, however often the catalog grows.
        policies, principals = self._policies.current, self._policies.principals
        catalog = self._catalog.snapshot
        stale = self._policies.stale()
        if stale is not None:
            return Refused(
                statement=statement,
                code=PoliciesStale.code,
                sqlstate=PoliciesStale.sqlstate,
                message=stale,
                snapshot_version=Snapshot(policies=policies, catalog=catalog).version,
            )
        context = self._context(client, "QUERY", statement.text)
        numbered = None
        versions = policies.version, catalog.version
        if cacheable and statement.plan is not None:
            numbered = _extract_ids(statement.plan)
            cached = self._find_renewed(statement, numbered, versions, context)
            if cached is not None and await self._still_holds(cached, catalog, statement):
                self._metrics.judge_cached.observe(time.perf_counter() - begun)
                return cached
        restricted = self._restrict_for(statement.principal)
        anew: frozenset[TableName] = frozenset()
        places: dict[str, tuple[TableName, ...] | str] | None = None if self._places is None else {}
        snapshot = Snapshot(
            policies=policies,
            catalog=replace(catalog if restricted is None else restricted.restrict(catalog), places=places),
            context=context,
            principals=principals,
            anew=anew,
        )
        needed: dict[TableName, None] = {}
        for _ in range(self._limits.catalog_rounds):
            answer = await self._judge(statement, snapshot)
            if not isinstance(answer, NeedsCatalog):
                self._metrics.judge_cold.observe(time.perf_counter() - begun)
                is_salted = restricted is not None and restricted.salted
                carried = explain_carried_salt(answer) if is_salted else ""
                if carried and isinstance(answer, Cleared):
                    return build_refusal(answer, "NOT_GOVERNABLE", "0A000", carried)
                lasts = not (is_salted or anew)  # RULE (salted-not-cached)
                if cacheable and isinstance(answer, Cleared) and not answer.provisional and lasts:
                    versions = policies.version, snapshot.catalog.version
                    self._store((statement, False, *versions), answer, context)
                    if numbered is not None and answer.renewable:
                        same = replace(statement, plan=numbered.plan)
                        self._store((same, True, *versions), answer, context, numbered)
                return answer
            # All that was asked for: where Spark is slow, the first round's facts are old in the last one.
            needed.update(dict.fromkeys(answer.tables))
            if answer.anew:
                await self._catalog.describe_anew(answer.tables)
                anew |= {name.fold() for name in answer.tables}
            catalog = await self._catalog.look_up(tuple(needed))
            named = answer.tables if answer.promotes else ()
            refused = await self._promote(named, statement, snapshot, catalog, asked=answer.asked)
            if refused is not None:
                return refused
            if self._promotion is not None:
                catalog = await self._catalog.look_up(tuple(needed))
            if restricted is not None:
                # RULE (restrictions-asked)
                catalog = await restricted.ask(needed, catalog)
            if self._places is not None and places is not None:
                tables = await asyncio.gather(*map(self._places.tables_at, answer.urls))
                places = {**places, **dict(zip(answer.urls, tables, strict=True))}
            snapshot = replace(snapshot, catalog=replace(catalog, places=places), anew=anew)
        return Refused(
            statement=statement,
            code="TOO_DEEP",
            sqlstate="54001",
            message="the statement reads views that are nested too deep",
            snapshot_version=snapshot.version,
        )

    async def _promote(
        self,
        names: Iterable[TableName],
        statement: Statement,
        snapshot: Snapshot,
        catalog: CatalogSnapshot,
        *,
        asked: bool,
    ) -> Refused | None:
        """Make tables of files that are named for the first time, by the policies of `snapshot`. `asked`:
        that is what the statement is for."""
        promotion = self._promotion
        if promotion is None:
            return None
        authority = self._policies.authority(snapshot.policies)
        rights = RightsNow(authority, statement.principal, snapshot.context)
        for name in names:
            if not promotion.covers(name):
                continue
            table = catalog.table(name)
            # Of a table that a promotion finished it is known who promoted it.
            if table is not None and (table.owner is not None or not await promotion.is_unfinished(name)):
                continue
            refused = await promotion.promote(name, statement.principal, rights, asked=asked)
            if refused is not None:
                return Refused(
                    statement=statement,
                    code=refused.code,
                    sqlstate=refused.sqlstate,
                    message=refused.message,
                    decisions=refused.decisions,
                    snapshot_version=snapshot.version,
                )
        return None

    async def _without_trouble(self, verdict: Verdict) -> Verdict:
        """Refuse to read files among which something has come since that leads out of their source."""
        promotion = self._promotion
        if promotion is None or isinstance(verdict, Refused):
            return verdict
        if any(isinstance(effect, TendDataset) for effect in verdict.effects):
            return verdict  # it looks by itself, or forgets them
        locations = {table.name.fold(): table.location for table in verdict.tables}
        for name in filter(promotion.covers, {name.current for name in verdict.names}):
            why = await promotion.trouble(name, locations.get(name.fold()))
            if why is not None:  # RULE (link-come-meanwhile)
                return build_refusal(verdict, "NOT_GOVERNABLE", "0A000", why)
        return verdict

    async def can_be_read(self, names: Iterable[TableName]) -> bool:
        """Whether nothing has come among the files of tables since that leads out of their source."""
        promotion = self._promotion
        if promotion is None:
            return True
        for name in filter(promotion.covers, {name.current for name in names}):
            if await promotion.trouble(name, None) is not None:
                return False
        return True

    def without_streams(self, cleared: Cleared, names: Iterable[TableName]) -> Verdict:
        """Refuse to start a stream over files that are looked through before each statement: it takes those
        that come later without one. `names`: what it reads, in its temporary views too."""
        promotion = self._promotion
        if promotion is None or _STREAM not in cleared.plan_class:
            return cleared
        if not any(promotion.looks_through(name.current) for name in names):
            return cleared
        why = "a stream over local files also reads files added later, which are not checked for links"
        return build_refusal(cleared, "NOT_GOVERNABLE", "0A000", why)

    async def maintain_dataset(self, cleared: Cleared, client: Client) -> None:
        """Do what a statement that is on record wants of datasets, before it is forwarded.

        Raises InvalidRequest, in words for the client, and BackendUnavailable.
        """
        for effect in cleared.effects:
            if isinstance(effect, TendDataset):
                why = await self._tend(effect, cleared.statement, client)
                if why is not None:
                    raise InvalidRequest(why)

    async def _tend(self, effect: TendDataset, statement: Statement, client: Client) -> str | None:
        promotion = self._promotion
        if promotion is None:
            return "`files` is not configured, so files cannot become tables"
        if effect.action == "promote":
            # Judging asks for what it knows to be missing, and this may be a table that no promotion made.
            try:
                rights = self.rights_of(statement.principal, client, "QUERY", statement.text)
                refused = await promotion.promote(effect.table, statement.principal, rights, asked=True)
            except (PoliciesStale, LedgerUnavailable) as why:
                return why.message
            if refused is not None:
                return refused.message
        return await promotion.maintain_dataset(effect.action, effect.table, statement.principal)

    def _context(self, client: Client, action: str, text: str) -> AccessContext:
        now = self._now()
        return AccessContext(
            time=now,
            period=int(now.timestamp() // self._limits.policy_tables_s),
            client_ip=client.address or None,
            client_type=client.protocol,
            action=action,
            request_data=text,
        )

    async def _is_restricted_as_then(self, cached: Cleared, user: Principal) -> bool:
        """Whether catalogs restrict what a statement reads as they did when it was judged."""
        restricted = self._restrict_for(user)
        return restricted is None or await restricted.still_holds(cached.tables)

    def _restrict_for(self, user: Principal) -> RestrictedCatalog | None:
        """Return what a user sees of catalogs that restrict; None where there is none."""
        source = self._restrictions
        if source is None:
            return None
        return RestrictedCatalog(source, self._catalog, RestrictionReader(user.user, user.groups))

    def _find_renewed(
        self,
        statement: Statement,
        numbered: NumberedQuery | None,
        versions: tuple[int, int],
        context: AccessContext,
    ) -> Cleared | None:
        """Return the clearance of the same query with other ids, for this one."""
        if numbered is None:
            return None
        found = self._find((replace(statement, plan=numbered.plan), True, *versions), context)
        if found is None or found.numbered is None:
            return None
        from gateway.pipeline.renewing import renew_clearance

        return renew_clearance(found.cleared, found.numbered, statement, numbered)

    def _find(self, key: _Key, context: AccessContext) -> _Cached | None:
        found = self._cached.get(key)
        if found is None:
            return None
        if self._clock() - found.made > self._limits.verdict_age_s:
            del self._cached[key]
            return None
        if found.context_values and found.context_values != _read_context_values(found.cleared, context):
            return None
        self._cached.move_to_end(key)
        return found

    def _is_cacheable(self, statement: Statement) -> bool:
        plan = statement.plan
        size = len(statement.text) + (len(plan.message) if plan is not None else 0)
        return size <= self._limits.verdict_text_chars

    def _store(
        self, key: _Key, cleared: Cleared, context: AccessContext, numbered: NumberedQuery | None = None
    ) -> None:
        self._cached[key] = _Cached(self._clock(), cleared, _read_context_values(cleared, context), numbered)


@dataclass(frozen=True, slots=True)
class RightsNow:
    """See `UserRights`."""

    authority: Authority
    principal: Principal
    context: AccessContext = NO_CONTEXT

    def decide(self, resource: Resource, access: str) -> Decision:
        return self.authority.decide(
            AccessRequest(principal=self.principal, resource=resource, access=access, context=self.context)
        )

    def guards_escaped(self, new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        return self.authority.guards_escaped(new, old, beginning=beginning)


def _extract_ids(request: PlanRequest) -> NumberedQuery | None:
    # pyspark's protobuf classes take seconds to import: only gateways that get plans pay for them.
    from gateway.pipeline.renewing import extract_ids

    return extract_ids(request)


def _still_rests(cleared: Cleared, catalog: CatalogSnapshot, principals: Mapping[str, Principal]) -> bool:
    """Whether the tables that a clearance was judged by are still known, and its definers who they were: what
    was known of a table for long enough has to be looked up again, for this clearance too."""
    return all(map(catalog.knows, cleared.names)) and all(
        principals.get(one.user) == one for one in cleared.definers
    )


def _read_context_values(cleared: Cleared, context: AccessContext) -> tuple[object, ...]:
    return context.values(sorted(cleared.context_dependencies - _TEXTS_OWN))
