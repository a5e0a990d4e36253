"""Who may do what: for some people and some resources the engine's answers, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gateway.model.context import AccessContext
from gateway.model.policy import FilterItem, MaskItem, PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource, Scope
from gateway.policy.directory import somebody
from gateway.policy.engine import Engine, engine_for
from gateway.policy.table_report import SELECT

_Extent = Literal["all", "some", "none"]
"""Of a table `all` says that it may be read, be it without columns that are denied by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """What one may do with one resource."""

    extent: _Extent
    """`some`: not the resource as a whole, but something in it, by this access or another."""
    policy: str
    """Name of the policy that settled it; empty where none did."""
    masked: str = ""
    """The mask type, of a column that is masked."""
    filtered: bool = False
    """Whether rows are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One user, or whoever is in one group or role and nothing else."""

    kind: str
    name: str
    cells: tuple[MatrixCell, ...]


def build_matrix(
    policies: PolicySet,
    who: Sequence[tuple[str, str]],
    resources: Sequence[Resource],
    access: str,
    context: AccessContext,
    *,
    find_person: Callable[[str], Principal | None] = lambda _: None,
    service: str | None = None,
) -> tuple[MatrixRow, ...]:
    """Return a row for each of `who` (kind and name) with a cell for each resource. `find_person` says what
    is known of users; `service` is asked of resources without a catalog."""
    engine = engine_for(policies)
    rows = []
    for kind, name in who:
        known = find_person(name) if kind == "user" else None
        principal = known or somebody(kind, name)
        cells = tuple(
            _build_cell(
                engine,
                AccessRequest(
                    principal=principal,
                    resource=resource,
                    access=access,
                    context=context,
                    service=None if resource.level("catalog") is not None else service,
                ),
            )
            for resource in resources
        )
        rows.append(MatrixRow(kind=kind, name=name, cells=cells))
    return tuple(rows)


def _build_cell(engine: Engine, request: AccessRequest) -> MatrixCell:
    decision = engine.decide(replace(request, ignore_descendant_deny=False))
    extent: _Extent = "all" if decision.allowed else "none"
    if not decision.allowed:
        below = engine.decide(replace(request, scope=Scope.SELF_OR_DESCENDANTS))
        # What lies in zones of its own is asked of them, and of nobody for what it lies in.
        in_zones = request.service is None and engine.visible(
            request.principal, request.resource, request.context
        )
        if below.allowed or in_zones:
            extent, decision = "some", below
    if extent == "none" or request.access != SELECT:
        return MatrixCell(extent=extent, policy=decision.policy.name)
    mask = engine.mask_answer(request) if request.resource.kind == "column" else None
    rows = engine.filter_answer(request) if request.resource.kind == "table" else None
    masked, filtered = "", False
    if mask is not None and isinstance(mask.item, MaskItem) and mask.item.mask_type != "MASK_NONE":
        masked = mask.item.mask_type if mask.certain else "MASK_NULL"
    if rows is not None and isinstance(rows.item, FilterItem):
        filtered = bool(rows.item.filter_expression.strip()) or not rows.certain
    return MatrixCell(extent=extent, policy=decision.policy.name, masked=masked, filtered=filtered)
