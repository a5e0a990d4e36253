"""Statements that Spark has worked off, kept to see whether they would be handed over as they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.model.catalog import Table, TableName
from gateway.model.context import TIME
from gateway.model.statement import Cleared, Refused, Statement, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStatement:
    """A statement that Spark has worked off, and what it was given: judged again, it must give the same."""

    statement: Statement
    forwarded: str
    forwarded_plan: bytes
    functions: tuple[Table, ...] = ()
    """Those that it calls and whose bodies were judged."""
    obliged: bool = False
    """Whether masks or filters stand in what Spark was handed."""
    period: int = 0
    """In which it was judged: it stands in what Spark was given where masks or filters read tables."""
    timed: bool = False
    """Whether time alone may make it another one, as where a grant ends."""

    def is_same(self, verdict: Verdict) -> bool:
        """Whether the verdict is a clearance that would hand Spark the same once more."""
        # RULE (kept-functions-same)
        if isinstance(verdict, Refused) or verdict.judged_functions != self.functions:
            return False
        if self.statement.plan is not None:
            return verdict.forwarded_plan == self.forwarded_plan
        return verdict.forwarded == self.forwarded

    def differs_by_period(self, verdict: Verdict) -> bool:
        """Whether the verdict is a clearance that would hand Spark the same but for the number of the period:
        nothing is another but the moment."""
        if isinstance(verdict, Refused) or verdict.judged_functions != self.functions:
            return False
        now, then = (f"REPEATABLE ({period})" for period in (verdict.period, self.period))
        if self.statement.plan is not None:
            return verdict.forwarded_plan.replace(now.encode(), then.encode()) == self.forwarded_plan
        return verdict.forwarded.replace(now, then) == self.forwarded

    @property
    def size(self) -> int:
        """Bytes that are kept for it."""
        plan = self.statement.plan
        return len(self.forwarded_plan) + (len(plan.message) if plan is not None else 0)


Basis = tuple[JudgedStatement, ...] | None
"""What something in Spark's session was computed from; None when that is no longer known."""


def list_timed(basis: Iterable[JudgedStatement]) -> tuple[JudgedStatement, ...]:
    """Return those that time alone may make others."""
    return tuple(judged for judged in basis if judged.timed)


def build_judged(cleared: Cleared) -> JudgedStatement:
    """Return what is needed to see whether a statement would be handed over as it was."""
    statement = cleared.statement
    if statement.plan is not None:
        # A verdict carries the plan's rendering, which is not part of what was asked.
        statement = replace(statement, text="")
    return JudgedStatement(
        statement=statement,
        forwarded=cleared.forwarded,
        forwarded_plan=cleared.forwarded_plan,
        functions=cleared.judged_functions,
        obliged=bool(cleared.obligations or cleared.policy_tables),
        period=cleared.period,
        timed=TIME in cleared.context_dependencies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRelation:
    """A relation that Spark's session keeps under an id: its rows were governed when they were computed."""

    basis: Basis
    policies_version: int
    statement_id: str
    """The statement that computed it, as the record knows it."""
    timed: Basis = ()
    """Of a basis that is no longer known, what time alone may make another; None: nor is that known."""
    sources: frozenset[TableName] = frozenset()
    """What of the catalog its rows may come from: some are computed when others read them."""
    text: str = ""  # of a temporary function: the statement that made it, as its user wrote it


def limit_origin(own: tuple[JudgedStatement, ...], parts: Iterable[Basis], most: int) -> Basis:
    """Return what time alone may make another in what is too much to keep whole: its `own` and the `parts`;
    None where that is too much, too."""
    found: dict[int, JudgedStatement] = {}
    for part in (own, *parts):
        if part is None:
            return None
        found.update((id(judged), judged) for judged in list_timed(part))
    return tuple(found.values()) if len(found) <= most else None
