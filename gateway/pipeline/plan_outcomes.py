"""How the judging of a plan ends."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.catalog import TableName
from gateway.model.decision import Decision
from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal
from gateway.model.statement import (
    AnswerRule,
    Checkpoint,
    Definition,
    RewrittenText,
    ScanRecord,
    SessionEffect,
)
from gateway.pipeline.judging import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernedPlan:
    """A plan with everything in it guarded and proved."""

    text: str
    """The guarded plan, rendered."""
    root: str
    message: bytes
    texts: tuple[str, ...]
    original_relation: bytes
    code: tuple[str, ...]
    decisions: tuple[Decision, ...]
    scans: tuple[ScanRecord, ...]
    words: tuple[tuple[str, str], ...]
    agree: bool | None
    answer: AnswerRule
    effects: tuple[SessionEffect, ...]
    provisional: bool
    facets: frozenset[str]
    temp_views: frozenset[str]
    varying: str
    policy_tables: frozenset[TableName]
    hides_columns: bool
    hides_target: bool
    checkpoint: Checkpoint | None
    names: frozenset[TableName]
    """Every table and view (folded) that it was judged by."""
    read_only: bool
    definers: frozenset[Principal]
    definition: Definition | None
    plain: bool
    missing: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    rewritten: tuple[RewrittenText, ...]
    """All three as Cleared has them."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """How the judging of a plan ended, and the plan as it came, rendered."""

    rendering: str
    end: GovernedPlan | Refusal
    handles: frozenset[SparkHandle] = frozenset()
    lazy: bool = False
    by_id: bool = True
    """All three as Cleared has them."""
