"""What policies answer: decisions with their reasons, and the obligations that come with them."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.resource import AccessRequest


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A predicate that every row of the scan must satisfy; it reads raw values.

    `expression` is Spark SQL that was parsed alone when its pack loaded, with user values bound as literals.
    """

    expression: str
    policy: PolicyRef


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


Obligation = RowFilter | ColumnMask
