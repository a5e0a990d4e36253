"""What policies answer: decisions with their reasons, and the obligations that come with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.model.policy import PolicyType
from gateway.model.resource import AccessRequest
from gateway.model.tags import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRef:
    """The policy that settled something; id −1 and an empty name when none did."""

    id: int = -1
    name: str = ""
    version: int = 0


NO_POLICY = PolicyRef()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to one AccessRequest."""

    request: AccessRequest
    allowed: bool
    policy: PolicyRef = NO_POLICY
    reason: str = ""
    item: str = ""
    """The item that settled it, as `allow[0]` or `deny[2]`; empty when no item did."""
    determined: bool = True
    """False when no policy said anything, so that the ground state decided."""
    audited: bool = True
    """Whether Ranger's audit rules want a record of it; the gateway's own ledger records it anyway."""
    zone: str = ""
    """The security zone whose policies were asked."""
    tag: str = ""
    """The tag whose policy settled it."""
    datasets: tuple[str, ...] = ()
    """Names of the datasets that the resource is shared in, whoever may use them."""
    projects: tuple[str, ...] = ()
    context_dependencies: frozenset[str] = frozenset()
    """Fields of the AccessContext that the answer depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """Why one policy settled a decision or did not; the answer to "explain access"."""

    policy: PolicyRef
    type: PolicyType
    settled: bool
    why: str
    """In words, such as `its resources do not match: database is sales, not hr`."""
    tag: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision, its obligations, and what every policy of the service had to say."""

    decision: Decision
    mask: ColumnMask | None
    row_filter: RowFilter | None
    considered: tuple[Considered, ...]
    """In the order in which they are asked; those that were not asked come last."""
    roles: frozenset[str] = frozenset()
    """Roles of the principal, nested ones included."""
    tags: tuple[Tag, ...] = ()
    """Tags of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A predicate that every row of the scan must satisfy; it reads raw values.

    `expression` is Spark SQL that was parsed alone when its pack loaded, with user values bound as literals.
    """

    expression: str
    policy: PolicyRef
    context_dependencies: frozenset[str] = frozenset()
    """Fields of the AccessContext that it depends on."""
    author: str = ""
    """Who wrote it, where it counts for no more than he may select now; empty: an administrator."""
    check: bool = False
    """Whether rows that do not satisfy it may not be written either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMask:
    """What a column shows instead of its value.

    `expression` is Spark SQL over the column (written as its quoted name) and already has the column's type.
    """

    column: str
    mask_type: str
    expression: str
    policy: PolicyRef
    predicate: str = "masked"
    condition: str = ""
    """Ranger's `conditionExpr`, told and not used, as in Ranger's Hive plugin."""
    context_dependencies: frozenset[str] = frozenset()
    author: str = ""
    """As a row filter has it."""


Obligation = RowFilter | ColumnMask


def distinct_decisions(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return each decision once. They are told apart by what they are on: to hash all of one takes longer
    than to make it."""
    found: list[Decision] = []
    by_place: dict[tuple[str, object], list[Decision]] = {}
    for decision in decisions:
        request = decision.request
        same = by_place.setdefault((request.access, request.resource.elements), [])
        if decision not in same:
            same.append(decision)
            found.append(decision)
    return tuple(found)
