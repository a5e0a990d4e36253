"""How `sluice policy` prints explanations and differences, for people and for programs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any

from gateway.cli.terminal import BOLD, DIM, GREEN, RED, YELLOW, Terminal
from gateway.model.decision import ColumnMask, Explanation, PolicyRef, RowFilter
from gateway.model.limits import MEASURES, Limit
from gateway.model.policy import PolicyType
from gateway.policy.diff_reports import DiffReport
from gateway.policy.diffing import FILTER, GAINED, LOST, MASK, Comparison, Group, Side

REDRAW_S = 0.2
MAX_RESOURCES = 20
"""Resources of one group that are printed; JSON has them all."""
MAX_PEOPLE = 12
TYPES = {PolicyType.ACCESS: "access", PolicyType.MASK: "mask", PolicyType.ROW_FILTER: "filter"}
"""What commands call the types of policies."""
_TITLES = {
    GAINED: ("gained", GREEN),
    LOST: ("lost", RED),
    MASK: ("mask changed", YELLOW),
    FILTER: ("filter changed", YELLOW),
}


class ComparisonProgress:
    """Says on a terminal how far a long comparison is; says nothing elsewhere, and nothing of a short one."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._next = time.monotonic() + REDRAW_S
        self._drawn = False

    def __call__(self, state: Comparison) -> None:
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REDRAW_S
        self._drawn = True
        self._stream.write(f"\r\x1b[Kcompared {state.asked:,}, {len(state.changes):,} differ")
        self._stream.flush()

    def __enter__(self) -> ComparisonProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def explanation_as_json(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation for programs; keys are stable."""
    decision = explanation.decision
    request = decision.request
    return {
        "decision": "allowed" if decision.allowed else "denied",
        "determined": decision.determined,
        "audited": decision.audited,
        "user": request.principal.user,
        "groups": sorted(request.principal.groups),
        "roles": sorted(explanation.roles),
        "access": request.access,
        "resource": dict(request.resource.elements),
        "tags": [{"tag": tag.type, "attributes": dict(tag.attributes)} for tag in explanation.tags],
        "zone": decision.zone,
        "tag": decision.tag,
        "datasets": list(decision.datasets),
        "projects": list(decision.projects),
        "policy": _ref(decision.policy),
        "item": decision.item,
        "reason": decision.reason,
        "mask": _mask(explanation.mask),
        "filter": _filter(explanation.row_filter),
        "considered": [
            {
                "policy": _ref(found.policy),
                "type": TYPES[found.type],
                "settled": found.settled,
                "why": found.why,
                "tag": found.tag,
                "zone": found.zone,
            }
            for found in explanation.considered
        ],
    }


def _ref(policy: PolicyRef) -> dict[str, Any] | None:
    return None if policy.id < 0 else {"id": policy.id, "name": policy.name, "version": policy.version}


def _mask(mask: ColumnMask | None) -> dict[str, Any] | None:
    if mask is None:
        return None
    return {
        "type": mask.mask_type,
        "expression": mask.expression,
        "predicate": mask.predicate,
        "policy": _ref(mask.policy),
    }


def _filter(row_filter: RowFilter | None) -> dict[str, Any] | None:
    if row_filter is None:
        return None
    checks = {"checks_writes": True} if row_filter.check else {}
    return {"expression": row_filter.expression, "policy": _ref(row_filter.policy), **checks}


def limits_as_json(limits: Mapping[str, Limit]) -> dict[str, Any]:
    """Return the strictest limits by measure."""
    return {key: {"most": one.bounds[key], "limit": one.name} for key, one in limits.items()}


def show_explanation(
    terminal: Terminal, explanation: Explanation, limits: Mapping[str, Limit], *, limit: int
) -> None:
    """Print an explanation for people: the decision, what comes with it, then every policy and why."""
    decision = explanation.decision
    request = decision.request
    groups = ", ".join(sorted(request.principal.groups)) or "no groups"
    said = terminal.style("allowed", BOLD, GREEN) if decision.allowed else terminal.style("denied", BOLD, RED)
    what = f"{request.access} on {request.resource.kind} {request.resource}"
    terminal.line(f"{said} for {request.principal.user} ({groups}): {what}")
    facts = [
        ("policy", _format_policy(decision.policy)),
        ("item", decision.item),
        ("reason", decision.reason),
        ("zone", decision.zone),
        ("tag", decision.tag),
        ("datasets", ", ".join(decision.datasets)),
        ("projects", ", ".join(decision.projects)),
        ("roles", ", ".join(sorted(explanation.roles))),
        ("tags", ", ".join(tag.type for tag in explanation.tags)),
    ]
    mask, row_filter = explanation.mask, explanation.row_filter
    if mask is not None:
        facts.append(("mask", f"{mask.mask_type} by {_format_policy(mask.policy)}: {mask.expression}"))
    if row_filter is not None:
        checks = ", also of rows that are written" if row_filter.check else ""
        facts.append(("filter", f"{row_filter.expression}{checks}, by {_format_policy(row_filter.policy)}"))
    if limits:
        told = (f"{MEASURES[key].describe(one.bounds[key])} ({one.name})" for key, one in limits.items())
        facts.append(("limits", ", ".join(told)))
    for name, text in facts:
        if text:
            terminal.line(f"  {name:<7} {text}")
    if not explanation.considered:
        return
    terminal.line()
    terminal.line(terminal.style("policies, in evaluation order", BOLD))
    for found in explanation.considered[:limit]:
        mark = terminal.style("→", BOLD) if found.settled else " "
        about = f" on tag {found.tag}" if found.tag else ""
        line = f"{mark} {TYPES[found.type]:<6} {_format_policy(found.policy)}{about}: {found.why}"
        terminal.line(line if found.settled else terminal.style(line, DIM))
    more = len(explanation.considered) - limit
    if more > 0:
        terminal.line(terminal.style(f"  … and {more} more; --limit shows them", DIM))


def _format_policy(policy: PolicyRef) -> str:
    return "" if policy.id < 0 else f"`{policy.name}` (#{policy.id})"


def report_as_json(report: DiffReport) -> dict[str, Any]:
    """Return a comparison for programs; keys are stable."""
    return {
        "changed": bool(report.groups),
        "people": report.people,
        "resources": report.resources,
        "asked": report.asked,
        "notes": list(report.notes),
        "changes": [
            {
                "kind": group.cause.kind,
                "people": list(group.people),
                "access": list(group.accesses),
                "resources": [{"level": level, "name": name} for level, name in group.resources],
                "count": group.count,
                "before": _side(group.cause.before),
                "after": _side(group.cause.after),
            }
            for group in report.groups
        ],
    }


def _side(side: Side) -> dict[str, Any]:
    return {"says": side.says, "policy": _ref(side.policy)}


def show_report(terminal: Terminal, report: DiffReport) -> None:
    """Print a comparison for people, grouped by what changes and why."""
    kinds = list(dict.fromkeys(group.cause.kind for group in report.groups))
    for kind in kinds:
        title, colour = _TITLES[kind]
        terminal.line(terminal.style(title, BOLD, colour))
        for group in report.groups:
            if group.cause.kind == kind:
                _show_group(terminal, group)
        terminal.line()
    looked = ", ".join(
        f"{count:,} {one if count == 1 else many}"
        for count, one, many in (
            (report.people, "person", "people"),
            (report.resources, "resource", "resources"),
            (report.asked, "question", "questions"),
        )
    )
    if report.groups:
        changed = sum(group.count for group in report.groups)
        terminal.line(f"{changed:,} answers change ({looked})")
    else:
        terminal.line(f"no decision changes ({looked})")
    for note in report.notes:
        terminal.line(terminal.style(note, YELLOW))


def _show_group(terminal: Terminal, group: Group) -> None:
    people = ", ".join(group.people[:MAX_PEOPLE])
    if len(group.people) > MAX_PEOPLE:
        people += f" and {len(group.people) - MAX_PEOPLE} more"
    terminal.line(f"  {people}: {', '.join(group.accesses)} on")
    for level, name in group.resources[:MAX_RESOURCES]:
        terminal.line(f"    {level} {name}")
    if len(group.resources) > MAX_RESOURCES:
        terminal.line(terminal.style(f"    … and {len(group.resources) - MAX_RESOURCES} more", DIM))
    terminal.line(terminal.style(f"      before  {_format_side(group.cause.before)}", DIM))
    terminal.line(terminal.style(f"      after   {_format_side(group.cause.after)}", DIM))


def _format_side(side: Side) -> str:
    by = _format_policy(side.policy)
    return f"{side.says}, by {by}" if by else side.says
