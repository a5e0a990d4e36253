"""Ranger's access requests, answered in Ranger's terms."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.errors import Faults
from gateway.model.context import AccessContext
from gateway.model.decision import NO_POLICY, Decision
from gateway.model.policy import FilterItem, MaskItem, PolicySet, Service
from gateway.model.principal import Principal
from gateway.model.resource import ANY_ACCESS, AccessRequest, ElementScope, Resource, Scope
from gateway.model.tags import Tag
from gateway.policy.combining import SUPER_USER
from gateway.policy.diagnostics import Diagnostics, hint
from gateway.policy.engine import ELSE_DENIED, Engine, ObligationItem, engine_for
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.json_shapes import Reader, instant, literal
from gateway.policy.macros import compile_template
from gateway.policy.ranger.tags import read_tag
from gateway.policy.script import Untranslatable
from gateway.policy.sqltext import bind

_ELSE = "matched deny-all-else policy"
"""Ranger's words."""
_HIGHEST = 2**31 - 1
"""The priority of what super users may do."""
_OWN_CONTEXT = frozenset(
    {"TAGS", "ACCESSTYPES", "ALLACCESSTYPES", "ALLACCESSTYPEGROUPS", "REQUESTED_RESOURCES", "USERSTORE"}
)
"""Keys of a request's context that are no attributes."""
_IGNORED_UNLESS_DENIED = ("IGNOREIFNOTDENIEDACCESSTYPES", "IGNOREIFNOTDENIED")
_MAX_VALUES = 256
_NAMES = {"col": "{col}", "colType": "{colType}", "type": "{type}"}
"""Tokens of custom masks, which stay: the column is not known here."""


_priorities: weakref.WeakKeyDictionary[PolicySet, dict[int, int]] = weakref.WeakKeyDictionary()


def evaluate(policies: PolicySet, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a RangerAccessRequest; raises Faults when it is none. Unknown fields count for nothing.

    The answer has the fields of Ranger's result, `dataMask` and `rowFilter` with it (None where there is
    none), and which item decided. Without `accessTime` no schedule applies. An answer that no policy gave has
    the policy id −1.
    """
    findings = Diagnostics()
    reader = Reader(findings)
    if not isinstance(request, Mapping):
        raise Faults(["a request must be an object (`{…}`)"])
    service = _service(policies, request, reader)
    findings.raise_any()
    asked = _Request(request, service, reader)
    findings.raise_any()
    engine = engine_for(policies)
    decision, found = asked.decide(engine), asked.request
    mask, row_filter = engine.mask_answer(found), engine.filter_answer(found)
    determined = decision.policy is not NO_POLICY and decision.policy.id != -1
    answer: dict[str, Any] = {
        "isAllowed": decision.allowed,
        "isAccessDetermined": decision.determined,
        "isAudited": decision.audited,
        "policyId": decision.policy.id,
        "policyVersion": decision.policy.version if determined else None,
        "policyPriority": _HIGHEST if decision.reason == SUPER_USER else _priority(policies, decision),
        "reason": _ELSE if decision.reason == ELSE_DENIED else decision.reason,
        "item": decision.item,
        "zoneName": decision.zone,
        "tag": decision.tag,
        "dataMask": None if mask is None else _mask(mask),
        "rowFilter": None if row_filter is None else _row_filter(row_filter),
    }
    if service.sharing is not None:
        answer["datasets"] = list(decision.datasets) or None
        answer["projects"] = list(decision.projects) or None
    return answer


def _priority(policies: PolicySet, decision: Decision) -> int:
    known = _priorities.get(policies)
    if known is None:
        known = _priorities[policies] = {policy.id: policy.priority for policy in policies.policies()}
    return known.get(decision.policy.id, 0)


def _mask(answer: ObligationItem) -> dict[str, Any]:
    item = answer.item
    if not isinstance(item, MaskItem):
        raise TypeError("a mask policy must have mask items")
    condition, value, mask_type = item.condition_expression, item.value_expression, item.mask_type
    if not answer.certain:
        condition, value, mask_type = None, None, "MASK_NULL"
    return {
        "maskType": mask_type,
        "maskCondition": None if condition is None else _expand(condition, answer),
        "maskedValue": None if value is None else _bind_values(value, answer) or "NULL",
        "isMaskEnabled": bool(mask_type) and mask_type != "MASK_NONE",
        "policyId": answer.policy.id,
        "policyVersion": answer.policy.version,
    }


def _row_filter(answer: ObligationItem) -> dict[str, Any]:
    item = answer.item
    if not isinstance(item, FilterItem):
        raise TypeError("a row-filter policy must have filter items")
    text = item.filter_expression
    bound = (_bind_values(text, answer) or "FALSE") if text else ""
    expression = bound if answer.certain else "FALSE"
    return {
        "filterExpr": expression,
        "isRowFilterEnabled": bool(expression.strip()),
        "policyId": answer.policy.id,
        "policyVersion": answer.policy.version,
    }


def _bind_values(text: str, answer: ObligationItem) -> str | None:
    """Return SQL text with values in it, None when one cannot be told."""
    return bind(text, answer.facts, _NAMES) if "{" in text else text


def _expand(text: str, answer: ObligationItem) -> str | None:
    try:
        return compile_template(text).render(answer.facts)
    except Untranslatable:
        return None


def _service(policies: PolicySet, request: Mapping[str, Any], reader: Reader) -> Service:
    name = reader.text(request, "serviceName", ())
    if not name and len(policies.services) == 1:
        return next(iter(policies.services.values()))
    found = policies.services.get(name)
    if found is None:
        near = hint(name, policies.services)
        what = f"service `{name}` does not exist{near}" if name else "`serviceName` is missing"
        raise Faults([what])
    return found


class _Request:
    """One request in this project's terms."""

    def __init__(self, data: Mapping[str, Any], service: Service, reader: Reader) -> None:
        self._reader = reader
        self._service = service
        context = reader.field(data, "context", ())
        self._groups = self._access_groups(context)
        self._ignored = frozenset[str]().union(
            *(_lower(reader.literals(context, key, ("context",))) for key in _IGNORED_UNLESS_DENIED)
        )
        access = (reader.text(data, "accessType", ()) or ANY_ACCESS).lower()
        principal = Principal(
            user=reader.text(data, "user", ()),
            groups=reader.names(data, "userGroups", ()),
            attributes=tuple(sorted(_attribute_pairs(reader.field(data, "userAttributes", ())))),
        )
        scope = reader.text(data, "resourceMatchingScope", ())
        below = access == ANY_ACCESS or scope == Scope.SELF_OR_DESCENDANTS.value
        resource, alternatives = self._resource(data)
        self.request = AccessRequest(
            principal=principal,
            resource=resource,
            access=access,
            context=self._context(data, context, below=below),
            service=service.name,
            scope=Scope.SELF_OR_DESCENDANTS if scope == Scope.SELF_OR_DESCENDANTS.value else Scope.SELF,
            element_scopes=self._element_scopes(data),
            alternatives=alternatives,
            ignore_descendant_deny=reader.flag(data, "ignoreDescendantDeny", (), default=True),
        )

    def decide(self, engine: Engine) -> Decision:
        """Return the answer about the request."""
        request = self.request
        if not self._groups:
            return engine.decide(request)
        groups = [self._drop_undecided(engine, request, group) for group in self._groups]
        groups = [group for group in groups if group]
        if groups:
            return engine.decide_groups(request, groups)
        return engine.decide(replace(request, access=min(self._groups[0])))

    def _drop_undecided(
        self, engine: Engine, request: AccessRequest, group: frozenset[str]
    ) -> frozenset[str]:
        """Return the access types without those that count only when a policy says something about them."""
        return frozenset(
            access
            for access in group
            if access not in self._ignored or engine.decide(replace(request, access=access)).determined
        )

    def _element_scopes(self, data: Mapping[str, Any]) -> tuple[tuple[str, ElementScope], ...]:
        written = self._reader.scalars(data, "resourceElementMatchingScopes", ())
        found = {}
        for level, name in written.items():
            try:
                found[level] = ElementScope(name)
            except ValueError:
                near = hint(name, [scope.value for scope in ElementScope])
                path = ("resourceElementMatchingScopes", level)
                self._reader.fault(path, f"unknown matching scope `{name}`{near}")
        return tuple((level, scope) for level, scope in found.items() if scope is not ElementScope.SELF)

    def _access_groups(self, context: Mapping[str, Any]) -> list[frozenset[str]]:
        path = ("context",)
        found = [
            _lower(self._reader.literals({"group": group}, "group", (*path, "ALLACCESSTYPEGROUPS")))
            for group in self._reader.read_list(context, "ALLACCESSTYPEGROUPS", path)
        ]
        if not found:
            found = [
                _lower(self._reader.literals(context, key, path)) for key in ("ALLACCESSTYPES", "ACCESSTYPES")
            ]
        return [group for group in found if group]

    def _context(self, data: Mapping[str, Any], context: Mapping[str, Any], *, below: bool) -> AccessContext:
        reader = self._reader
        remote = reader.text(data, "remoteIPAddress", ()) or None
        roles = reader.names(data, "userRoles", ())
        return AccessContext(
            time=self._time(data),
            client_ip=reader.text(data, "clientIPAddress", ()) or remote,
            remote_ip=remote,
            forwarded=reader.texts(data, "forwardedAddresses", ()),
            client_type=reader.text(data, "clientType", ()),
            action=reader.text(data, "action", ()),
            request_data=reader.text(data, "requestData", ()),
            session_id=reader.text(data, "sessionId", ()),
            cluster=reader.text(data, "clusterName", ()),
            cluster_type=reader.text(data, "clusterType", ()),
            accessed_together=self._together(context),
            attributes=_attributes(context),
            tags=self._tags(context, below=below),
            roles=roles or None,  # RULE (roles-of-request)
        )

    def _time(self, data: Mapping[str, Any]) -> datetime | None:
        written = data.get("accessTime")
        if written is None or written == "":
            return None
        time = instant(written)
        if time is None:
            self._reader.fault(("accessTime",), "`accessTime` is not a date in Ranger's format")
        return time

    def _tags(self, context: Mapping[str, Any], *, below: bool) -> tuple[Tag, ...] | None:
        """Return the tags that the request brings, as JSON text or as it is; None when it brings none.

        Those of something below the resource count only when the request is about that too.
        """
        if context.get("TAGS") is None:
            return None
        path = ("context", "TAGS")
        written = self._parse(context["TAGS"], path)
        if not isinstance(written, list):
            self._reader.fault(path, "`TAGS` must be a list of tags")
            return ()
        return tuple(
            read_tag(entry, self._reader, (*path, i))
            for i, entry in enumerate(written)
            if below or not (isinstance(entry, Mapping) and entry.get("matchType") == "DESCENDANT")
        )

    def _parse(self, written: object, path: tuple[str, ...]) -> object:
        if not isinstance(written, str):
            return list(written) if isinstance(written, tuple | set | frozenset) else written
        try:
            return json.loads(written) if written.strip() else []
        except (ValueError, RecursionError):
            self._reader.fault(path, f"`{path[-1]}` is not JSON")
            return []

    def _together(self, context: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the columns that the whole statement reads, as `database.table.column`."""
        if context.get("REQUESTED_RESOURCES") is None:
            return None
        path = ("context", "REQUESTED_RESOURCES")
        written = self._parse(context["REQUESTED_RESOURCES"], path)
        if isinstance(written, Mapping):
            written = written.get("requestedResources") or written.get("resources") or []
        found = set()
        for entry, where in self._reader.entries({"it": written}, "it", path):
            elements = self._reader.scalars(entry, "elements", where) if "elements" in entry else entry
            levels = [name for name in ("database", "schema", "table", "column") if name in elements]
            found.add(".".join(str(elements[name]).lower() for name in levels))
        return frozenset(found)

    def _resource(self, data: Mapping[str, Any]) -> tuple[Resource, tuple[tuple[str, tuple[str, ...]], ...]]:
        """Return the resource, and the values of levels that do not have exactly one."""
        written = self._reader.field(data, "resource", ())
        elements = self._reader.field(written, "elements", ("resource",))
        if "elements" not in written:
            elements = {key: value for key, value in written.items() if key != "ownerUser"}
        owner = self._reader.text(written, "ownerUser", ("resource",)) or self._reader.text(
            data, "ownerUser", ()
        )
        names = sorted(elements, key=self._depth)
        values = [(name, self._values(elements[name], name)) for name in names]
        first = tuple([(name, next(iter(each), "")) for name, each in values])
        several = tuple([(name, each) for name, each in values if len(each) != 1])
        return Resource(first, owner or None), several

    def _depth(self, level: str) -> int:
        """Return how deep a level is; those that the service does not know come last, and match nothing."""
        way = hierarchy_to(level, self._service.definition.resources)
        return len(way) if way is not None else len(self._service.definition.resources) + 1

    def _values(self, value: object, level: str) -> tuple[str, ...]:
        if isinstance(value, list | tuple):
            found = tuple([text for text in map(literal, value) if text is not None])
            if len(found) > _MAX_VALUES:
                self._reader.fault(("resource", level), f"more than {_MAX_VALUES} values of one level")
            if len(found) == len(value):
                return found
        elif value is None:
            return ("",)
        else:
            text = literal(value)
            if text is not None:
                return (text,)
        self._reader.fault(("resource", level), f"`{level}` must be a text or a list of texts")
        return ("",)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names if name.strip())


def _attributes(context: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what else the context holds, as texts."""
    found: dict[str, list[str]] = {}
    left_out = _OWN_CONTEXT.union(_IGNORED_UNLESS_DENIED)
    plain = {key: value for key, value in context.items() if key not in left_out}
    for name, value in _attribute_pairs(plain):
        found.setdefault(name, []).append(value)
    return tuple(sorted((name, tuple(values)) for name, values in found.items()))


def _attribute_pairs(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value), a name once for each of its values."""
    return [
        (name, text)
        for name, value in data.items()
        for entry in (value if isinstance(value, list | tuple | set | frozenset) else [value])
        if (text := literal(entry)) is not None
    ]
