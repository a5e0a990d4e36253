"""How the judging of a plan ends."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.handles import SparkHandle
from gateway.model.statement import Checkpoint, Findings, SessionEffect
from gateway.pipeline.judging import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenPlan(Findings):
    """A plan with everything in it guarded and proved."""

    text: str
    """The guarded plan, rendered."""
    root: str
    message: bytes
    texts: tuple[str, ...]
    original_relation: bytes
    code: tuple[str, ...]
    effects: tuple[SessionEffect, ...]
    checkpoint: Checkpoint | None
    read_only: bool
    """All three as Cleared has them."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """How the judging of a plan ended, and the plan as it came, rendered."""

    rendering: str
    end: RewrittenPlan | Refusal
    handles: frozenset[SparkHandle] = frozenset()
    is_lazy_checkpoint: bool = False
    references_plan_ids: bool = True
    """All three as Cleared has them."""
