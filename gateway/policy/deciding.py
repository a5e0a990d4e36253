"""Answers by one set of policies: who may do what, what a column shows instead, which rows a table shows.

Pure and total: any request gets an answer, and what no policy settles is denied. How several policies become
one answer stands in `combining`, which mask or filter holds in `obligations`; docs/policies.md tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.model.catalog import Column
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.decision import NO_POLICY, ColumnMask, Decision, Explanation, RowFilter
from gateway.model.policy import Policy, PolicySet, PolicyType, Role
from gateway.model.principal import Principal
from gateway.model.resource import ANY_ACCESS, AccessRequest, Resource, Scope
from gateway.model.tags import Tag
from gateway.policy.auditing import Auditing
from gateway.policy.caching import Memory, remember
from gateway.policy.combining import (
    DENIED_ABOVE,
    DENIED_BELOW,
    DEVIATES,
    NOBODY_ALLOWS,
    OTHER_ZONE,
    OTHER_ZONE_ABOVE,
    SUPER_USER,
    CombinedDecision,
    PolicyEffect,
    all_effects,
    all_of,
    any_of,
    candidate_zones,
    find_denied_above,
    sees,
    wants_any,
)
from gateway.policy.descendants import (
    find_denied_below,
    may_be_denied_below,
    may_be_hidden_below,
    other_zone_below,
)
from gateway.policy.explaining import consider, find_policies_about
from gateway.policy.masks import DEFAULT_MASKED_DATE
from gateway.policy.matching import NO_CONTEXT_DEPENDENCIES, fold
from gateway.policy.nesting import in_other_zone
from gateway.policy.obligations import ObligationItem, column_mask, find, obligation_item, row_filter
from gateway.policy.renaming import guards_escaped, would_rename_widen_access
from gateway.policy.resource_names import DEFAULT_SERVICE
from gateway.policy.service import COLUMN, CompiledService, ResourceQuestion
from gateway.policy.subjects import RoleGraph, Subject
from gateway.policy.views import Decisions, TableView, Viewing
from gateway.policy.zones import UNZONED

_MAX_LISTED = 4_000_000
"""Names in remembered lists of tables: nine bytes each, beside those that the catalog keeps anyway."""
_NOBODY = Principal(user="")


class PolicyEngine:
    """Answers for one PolicySet alone. Holds no state but remembered answers.

    An answer that depends on circumstances is given again only where those are the same; one for a request
    that brings tags or roles of its own is not remembered at all.
    """

    def __init__(
        self,
        policies: PolicySet,
        *,
        masked_date: str = DEFAULT_MASKED_DATE,
        base: PolicyEngine | None = None,
    ) -> None:
        """Compile and file the policies.

        `masked_date` is what MASK shows instead of a date, as `yyyy-mm-dd`. From `base`, the engine of an
        older set, comes whatever has not changed.
        """
        self.version = policies.version
        self._masked_date = masked_date
        self._roles_of: Sequence[Role] = policies.roles
        kept_roles = base._roles if base is not None and base._roles_of is policies.roles else None
        self._roles: RoleGraph = kept_roles or RoleGraph(policies.roles)
        self._store = policies.users
        old = base._services if base is not None else {}
        self._services: dict[str, CompiledService] = {}
        for name, service in policies.services.items():
            was = old.get(name)
            kept = was is not None and was.model is service
            self._services[name] = was if was is not None and kept else CompiledService(service, was)
        self._auditing = {name: Auditing(service) for name, service in self._services.items()}
        self._catalogs = {fold(c): service for c, service in policies.catalog_services.items()}
        self._subjects: dict[Principal, Subject] = {}
        self._views: Memory[tuple[Principal, Resource, str], tuple[Sequence[Column], TableView]] = Memory()
        self._seen: Memory[tuple[Principal, Resource], bool] = Memory()
        self._lists: Memory[tuple[Principal, Resource], tuple[Sequence[str], bytes]] = Memory(_MAX_LISTED)
        self._allowed: Memory[tuple[Principal, Resource, str], tuple[bool, frozenset[str]]] = Memory()
        self._filters: dict[tuple[str, Subject], str] = {}

    def decide(self, request: AccessRequest) -> Decision:
        """Say whether the principal may, and which policy settled it."""
        if wants_any(request.access) and not request.ignore_descendant_deny:
            return self._decide(request, ())
        return self._decide(request, None)

    def allows(
        self, principal: Principal, resource: Resource, access: str, context: AccessContext = NO_CONTEXT
    ) -> tuple[bool, frozenset[str]]:
        """Say whether the principal may, as `decide` does, and which fields of the context it depends on."""
        key = (principal, resource, access)
        known = self._allowed.find(key, context)
        if known is not None:
            return known
        request = AccessRequest(principal=principal, resource=resource, access=access, context=context)
        decision = self.decide(request)
        return self._allowed.keep(
            key, (decision.allowed, decision.context_dependencies), context, decision.context_dependencies
        )

    def decide_groups(self, request: AccessRequest, groups: Sequence[frozenset[str]]) -> Decision:
        """Say whether the principal may do something of each group; `request.access` is only told."""
        return self._decide(request, groups)

    def visible(self, principal: Principal, resource: Resource, context: AccessContext = NO_CONTEXT) -> bool:
        """Say whether the principal has any access to the resource or to anything below it."""
        key = (principal, resource)
        known = self._seen.find(key, context)
        if known is not None:
            return known
        question = self._question(principal, resource, ANY_ACCESS, context, below=True)
        if isinstance(question, str):
            return False
        seen = self._sees(question)
        return self._seen.keep(key, seen, context, question.context_dependencies)

    def visible_tables(
        self,
        principal: Principal,
        database: Resource,
        tables: Sequence[str],
        context: AccessContext = NO_CONTEXT,
    ) -> bytes:
        """Answer `visible` for all tables of a database at once: 1 or 0 for each, in their order.
        Remembered as one answer, so that a list of any length is given again at the cost of comparing it."""
        key = (principal, database)
        known = self._lists.find(key, context)
        if known is not None and known[0] == tables:
            return known[1]
        seen, context_dependencies = bytearray(), set[str]()
        for table in tables:
            question = self._question(
                principal, database.child("table", table), ANY_ACCESS, context, below=True
            )
            if isinstance(question, str):
                seen.append(False)
                continue
            seen.append(self._sees(question))
            context_dependencies |= question.context_dependencies
        answer = (tables, bytes(seen))
        return self._lists.keep(
            key, answer, context, frozenset(context_dependencies), weight=1 + len(tables)
        )[1]

    def mask(
        self,
        principal: Principal,
        column: Resource,
        data_type: str,
        context: AccessContext = NO_CONTEXT,
        service: str | None = None,
    ) -> ColumnMask | None:
        """Return what the column shows instead of its value; None means the value itself.

        `data_type` is the column's type as Spark writes it in DDL, e.g. `decimal(10,2)`; `service` is asked,
        or else the one that speaks for the catalog.
        """
        question = self._question(principal, column, "select", context, service=service)
        if isinstance(question, str) or question.levels[-1:] != (COLUMN,):
            return None  # no service knows such a column, so nothing grants access to it either
        found = find(question, PolicyType.MASK)
        return column_mask(found, column.elements[-1][1], data_type, question, self._masked_date)

    def row_filter(
        self,
        principal: Principal,
        table: Resource,
        context: AccessContext = NO_CONTEXT,
        service: str | None = None,
    ) -> RowFilter | None:
        """Return the predicate that the table's rows must satisfy; None means every row."""
        question = self._question(principal, table, "select", context, service=service)
        if isinstance(question, str):
            return None
        return row_filter(find(question, PolicyType.ROW_FILTER), question, self._filters)

    def tags(
        self, resource: Resource, context: AccessContext = NO_CONTEXT, *, within: bool = False
    ) -> tuple[Tag, ...]:
        """Return the tags that a resource has, those of what it lies in too, and those that it may have;
        with `within` also those of all that lies in it."""
        question = self._question(_NOBODY, resource, ANY_ACCESS, context, below=within)
        return () if isinstance(question, str) else tuple([hit.tag for hit in question.hits()])

    def policies_on(
        self, resource: Resource, context: AccessContext = NO_CONTEXT, *, within: bool = False
    ) -> tuple[tuple[Policy, str], ...]:
        """Return the policies of every type that speak of a resource, whomever they name, in all zones
        it may be in; each with the tag by which it speaks of it, empty for one on the resource itself. With
        `within` also those that speak only of what lies in it."""
        question = self._question(_NOBODY, resource, ANY_ACCESS, context, below=within)
        if isinstance(question, str):
            return ()
        zones = candidate_zones(question, any_access=True)
        found = {
            (id(policy), tag): (policy, tag)
            for type_ in PolicyType
            for policy, tag in find_policies_about(question, type_, zones)
        }
        return tuple(found.values())

    def shares(self, resource: Resource) -> bool:
        """Say whether datasets or projects hold a resource, or something in it, whoever may use them."""
        question = self._question(_NOBODY, resource, ANY_ACCESS, NO_CONTEXT)
        if isinstance(question, str) or question.service.sharing is None:
            return False
        return question.service.sharing.may_concern(question.levels, question.values)

    def mask_answer(self, request: AccessRequest) -> ObligationItem | None:
        """Return the item of a mask policy that holds, MASK_NONE too; None when there is none."""
        return self._obligation_item(request, PolicyType.MASK)

    def filter_answer(self, request: AccessRequest) -> ObligationItem | None:
        """Return the item of a row-filter policy that holds, the empty filter too; None: there is none."""
        return self._obligation_item(request, PolicyType.ROW_FILTER)

    def table_view(
        self,
        principal: Principal,
        table: Resource,
        columns: Sequence[Column],
        access: str = "select",
        context: AccessContext = NO_CONTEXT,
    ) -> TableView:
        """Answer for all columns of a table at once; remembered, so that asking again costs a lookup."""
        key = (principal, table, access)
        known = self._views.find(key, context)
        if known is not None and (known[0] is columns or known[0] == columns):
            view = known[1]
            allowed = view.allowed
            if (
                isinstance(allowed, Decisions)
                and (now := allowed.with_context(context, view.context_dependencies)) is not allowed
            ):
                return replace(view, allowed=now)
            return view
        view = self._view(principal, table, columns, access, context)
        self._views.keep(key, (columns, view), context, view.context_dependencies)
        return view

    def subject_of(self, principal: Principal) -> Subject:
        """Return a principal with all groups, roles and attributes, as policies see it."""
        return self._subject(principal, None)

    def explain(self, request: AccessRequest, *, asked_only: bool = False) -> Explanation:
        """Say what every policy of the service had to say; looks at each of them, so it takes its time. With
        `asked_only` those that speak of the resource alone, which takes no longer than deciding."""
        question = self._build_question(request)
        decision = self.decide(request)
        if isinstance(question, str):
            return Explanation(decision=decision, mask=None, row_filter=None, considered=())
        if question.service.bits.means_any(request.access):
            told = self.explain(replace(request, access=ANY_ACCESS), asked_only=asked_only)
            return replace(told, decision=decision)
        mask = found_rows = None
        if question.levels[-1:] == (COLUMN,):
            mask = self.mask(request.principal, request.resource, "string", request.context, request.service)
        masked, filtered = self.mask_answer(request), self.filter_answer(request)
        if question.levels:
            found_rows = self.row_filter(
                request.principal, request.resource, request.context, request.service
            )
        zones = candidate_zones(question, any_access=wants_any(request.access))
        return Explanation(
            decision=decision,
            mask=mask,
            row_filter=found_rows,
            considered=consider(question, decision, masked, filtered, zones, asked_only=asked_only),
            roles=question.subject.roles,
            tags=tuple([hit.tag for hit in question.hits()]),
        )

    def may_be_denied_below(self, resource: Resource) -> bool:
        """Say whether some policy may deny anything in a database to anybody, or a zone of its own is in it.

        Then it is not for one statement to touch all of it; `*` as a table's name is all tables. Errs on the
        side of yes.
        """
        return self._may_be(resource, may_be_denied_below)

    def may_be_hidden_below(self, resource: Resource) -> bool:
        """Say whether a mask or a row filter, whoever it is for, may hide something in a database."""
        return self._may_be(resource, may_be_hidden_below)

    def _may_be(self, resource: Resource, said: Callable[[ResourceQuestion], bool]) -> bool:
        while resource.elements and resource.elements[-1][1] == "*":
            resource = Resource(resource.elements[:-1])
        question = self._question(_NOBODY, resource, ANY_ACCESS, NO_CONTEXT)
        return isinstance(question, str) or any(
            said(one) for one in (question, *question.build_questions_above())
        )

    def would_rename_widen_access(self, old: Resource, new: Resource) -> bool:
        """Say whether somebody may do more with a table under another name in its database; errs on the side
        of yes."""
        was, becomes = (self._question(_NOBODY, name, ANY_ACCESS, NO_CONTEXT) for name in (old, new))
        if isinstance(was, str) or isinstance(becomes, str):
            return True
        pairs = zip(
            (was, *was.build_questions_above()), (becomes, *becomes.build_questions_above()), strict=True
        )
        return any(would_rename_widen_access(one, other) for one, other in pairs)

    def guards_escaped(self, new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        """Say whether somebody may see rows by a new name past what masks, filters and denials say of an old
        one; with `beginning`, of any name that begins with it. Errs on the side of yes."""
        was, becomes = (self._question(_NOBODY, name, ANY_ACCESS, NO_CONTEXT) for name in (old, new))
        if isinstance(was, str) or isinstance(becomes, str):
            return True
        return guards_escaped(was, becomes, beginning=beginning)

    def _subject(self, principal: Principal, roles: frozenset[str] | None) -> Subject:
        if roles is not None:
            return self._roles.subject(principal, self._store, roles)
        subject = self._subjects.get(principal)
        if subject is None:
            subject = self._roles.subject(principal, self._store)
            remember(self._subjects, principal, subject)
        return subject

    def _question(
        self,
        principal: Principal,
        resource: Resource,
        access: str,
        context: AccessContext,
        *,
        service: str | None = None,
        below: bool = False,
    ) -> ResourceQuestion | str:
        """Return the question in its service's terms, or the reason why no service can answer it."""
        elements = resource.elements
        in_catalog = _in_catalog(resource)
        service = self._service_of(resource, service)
        found = self._services.get(service or DEFAULT_SERVICE)
        if found is None:
            return f"service `{service or DEFAULT_SERVICE}` does not exist"
        if in_catalog and "catalog" not in found.hierarchies:
            # A definition without catalogs (hive's) speaks for exactly the catalogs that were given to it.
            if service is None:
                return f"catalog {elements[0][1]} has no service"
            elements = elements[1:]
        compared = found.compare(elements)
        if compared is None:
            levels = ".".join(level for level, _ in elements)
            return f"service `{found.model.name}` has no resource {levels}"
        subject = self._subject(principal, context.roles)
        question = ResourceQuestion(found, *compared, subject, resource, access, context, below=below)
        if context.roles is not None:
            question.note(frozenset({"roles"}))
        return question

    def _service_of(self, resource: Resource, service: str | None) -> str | None:
        """Return the service that is asked for, or else the one that speaks for the catalog."""
        if service is None and _in_catalog(resource):
            return self._catalogs.get(fold(resource.elements[0][1]))
        return service

    def _is_unmatched_access_audited(self, request: AccessRequest) -> bool:
        """Say whether an access to a resource that no policy can speak of is audited."""
        name = self._service_of(request.resource, request.service) or DEFAULT_SERVICE
        service = self._services.get(name)
        if service is None:
            return True
        subject = self._subject(request.principal, request.context.roles)
        nowhere = Resource((), request.resource.owner)
        question = ResourceQuestion(service, (), (), subject, nowhere, request.access, request.context)
        rules = self._auditing[name]
        return rules.is_audited(question, (UNZONED,), allowed=False, determined=False, known=False)

    def _build_question(self, request: AccessRequest) -> ResourceQuestion | str:
        below = wants_any(request.access) or request.scope is Scope.SELF_OR_DESCENDANTS
        who, what, context = request.principal, request.resource, request.context
        question = self._question(who, what, request.access, context, service=request.service, below=below)
        if isinstance(question, str):
            return question
        if request.element_scopes:
            question.set_element_scopes(request.element_scopes)
        if request.alternatives:
            question.set_alternatives(request.alternatives)
        return question

    def _decide(self, request: AccessRequest, groups: Sequence[frozenset[str]] | None) -> Decision:
        question = self._build_question(request)
        if isinstance(question, str):
            return Decision(
                request=request,
                allowed=False,
                reason=question,
                determined=False,
                audited=self._is_unmatched_access_audited(request),  # RULE (audit-nowhere)
            )
        if groups is None and question.service.bits.means_any(request.access):
            return replace(self.decide(replace(request, access=ANY_ACCESS)), request=request)
        answer, bits = self._answer(question, request, groups)
        said, policy, item, tag = answer.said, NO_POLICY, "", ""
        if said is not None:
            policy = said.policy.ref
            if answer.kind:
                asked = question if said.tag is None else said.tag
                item = said.policy.item_named(answer.kind, asked, answer.bit, question.service.bits.count)
            if said.tag is not None:
                tag = said.tag.hit.tag.type
        any_access = wants_any(request.access)
        zones = (answer.zone,) if answer.zone else candidate_zones(question, any_access=any_access)
        audited = self._auditing[question.service.model.name].is_audited(
            question, zones, allowed=answer.allowed, determined=answer.determined
        )
        datasets, projects = question.containers(bits, any_access=any_access)
        return Decision(
            request=request,
            allowed=answer.allowed,
            policy=policy,
            reason=answer.reason,
            item=item,
            determined=answer.determined,
            audited=audited,
            zone=answer.zone,
            tag=tag,
            datasets=datasets,
            projects=projects,
            context_dependencies=question.context_dependencies,
        )

    def _answer(
        self, question: ResourceQuestion, request: AccessRequest, groups: Sequence[frozenset[str]] | None
    ) -> tuple[CombinedDecision, int]:
        """Return the answer, and the access types that it is about."""
        bits = question.service.bits
        any_access = wants_any(request.access)
        if question.service.is_super(question.subject):
            zone = candidate_zones(question, any_access=any_access)[0]
            return CombinedDecision(SUPER_USER, allowed=True, zone=zone), bits.find_bit(request.access)
        if question.deviates():
            return CombinedDecision(DEVIATES, determined=False), 0
        wanted: list[int] = []
        if groups is None:
            wanted = [bits.all if any_access else bits.find_bit(request.access)]
        elif groups:
            wanted = [sum({bits.find_bit(access) for access in group}) for group in groups]
            for group in groups:
                for access in group:
                    if not bits.find_bit(access):
                        return _unknown_access(question, access), 0
        else:
            wanted = list(bits.names)  # any access, and every one of them
        if not all(wanted):
            return _unknown_access(question, request.access), 0
        if question.nested:
            # INVARIANT (nesting escapes nothing): what a namespace is denied, those in it are.
            if in_other_zone(question):
                return CombinedDecision(OTHER_ZONE_ABOVE, determined=False), bits.all
            denied, by = find_denied_above(question)
            wanted = [bit & ~denied for bit in wanted]
            if not all(wanted):
                return CombinedDecision(DENIED_ABOVE, said=by), denied
        ignore_below = request.ignore_descendant_deny

        def combine(said: Sequence[PolicyEffect]) -> CombinedDecision:
            return any_of(said, wanted[0]) if len(wanted) == 1 else all_of(said, wanted)

        answer = self._in_zones(question, combine, any_access=any_access, ignore_below=ignore_below)
        if answer.allowed and question.on_path and not any_access:
            for single in question.single():
                if other_zone_below(single, answer.zone):
                    return CombinedDecision(OTHER_ZONE, determined=False, zone=answer.zone), wanted[0]
                below = find_denied_below(single, answer.zone, sum(set(wanted)), answer.priority)
                if below is not None:
                    return CombinedDecision(DENIED_BELOW, said=below, zone=answer.zone), wanted[0]
        return answer, wanted[0] if len(wanted) == 1 else bits.all

    def _in_zones(
        self,
        question: ResourceQuestion,
        settled: Callable[[Sequence[PolicyEffect]], CombinedDecision],
        *,
        any_access: bool,
        ignore_below: bool,
    ) -> CombinedDecision:
        answer = NOBODY_ALLOWS
        for zone in self._zones(question, any_access=any_access):
            found = settled(all_effects(question, zone, question.subject, ignore_below=ignore_below))
            if found.allowed or answer is NOBODY_ALLOWS:
                answer = replace(found, zone=zone) if zone else found
            if found.allowed:
                break
        return answer

    def _zones(self, question: ResourceQuestion, *, any_access: bool) -> Sequence[str]:
        zones = candidate_zones(question, any_access=any_access)
        if any_access and not question.levels:
            # Any access to anything at all: whatever zone it is in.
            return (*zones, *(name for name in question.service.zones.names if name not in zones))
        return zones

    def _sees(self, question: ResourceQuestion) -> bool:
        if question.service.is_super(question.subject):
            return True
        if question.deviates():
            return False
        bits = question.service.bits.all
        if question.nested:
            if in_other_zone(question):
                return False
            bits &= ~find_denied_above(question)[0]
        return any(sees(question, zone, bits) for zone in self._zones(question, any_access=True))

    def _obligation_item(self, request: AccessRequest, type_: PolicyType) -> ObligationItem | None:
        question = self._build_question(request)
        if isinstance(question, str):
            return None
        found = find(question, type_, any_access=wants_any(request.access))
        return None if found is None else obligation_item(found)

    def _view(
        self,
        principal: Principal,
        table: Resource,
        columns: Sequence[Column],
        access: str,
        context: AccessContext,
    ) -> TableView:
        question = self._question(principal, table, access, context)
        names = [column.name for column in columns]
        request = AccessRequest(principal=principal, resource=table, access=access, context=context)
        if isinstance(question, str) or question.service.hierarchies.get(COLUMN) != (
            *question.levels,
            COLUMN,
        ):
            each = {name: name for name in names}
            decisions = Decisions(self.decide, request, names, lambda: each)
            context_dependencies = NO_CONTEXT_DEPENDENCIES.union(
                *(decision.context_dependencies for decision in decisions.values())
            )
            hidden = frozenset([name for name in names if not decisions[name].allowed])
            return TableView(decisions, {}, None, hidden, context_dependencies)
        viewing = Viewing(question, columns, self._masked_date)
        hidden = viewing.list_hidden_columns(self._allows)
        masks = viewing.masks()
        rows = viewing.rows(self._filters)
        decisions = Decisions(self.decide, request, names, viewing.alike)
        return TableView(decisions, masks, rows, hidden, viewing.context_dependencies, viewing.uniform)

    def _allows(self, question: ResourceQuestion) -> bool:
        request = AccessRequest(
            principal=question.subject.principal,
            resource=question.resource,
            access=question.access,
            context=question.context,
        )
        return self._answer(question, request, None)[0].allowed


def _in_catalog(resource: Resource) -> bool:
    return bool(resource.elements) and resource.elements[0][0] == "catalog"


def _unknown_access(question: ResourceQuestion, access: str) -> CombinedDecision:
    name = question.service.definition.name
    return CombinedDecision(f"service `{name}` has no access type `{access}`", determined=False)
