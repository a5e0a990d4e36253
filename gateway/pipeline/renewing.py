"""A DataFrame that is made again is the same query with other ids, and is forwarded as it was judged."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.statement import Cleared, NumberedQuery, Statement
from gateway.plan.numbering import numbered, renumbered

__all__ = ["numbered", "renewed"]


def renewed(cleared: Cleared, was: NumberedQuery, statement: Statement, now: NumberedQuery) -> Cleared | None:
    """Return the clearance of the query `was` for `statement`, the same with other ids; None where it is not,
    or where something in it is asked for by an id.

    INVARIANT (we forward what we proved): nothing but these numbers differs from the plan that was proved.
    """
    if cleared.by_id or was.plan != now.plan:
        return None
    forwarded = renumbered(cleared.forwarded_plan, was.ids, now.ids)
    if forwarded is None:
        return None
    told = replace(statement, text=cleared.statement.text)
    return replace(cleared, statement=told, forwarded_plan=forwarded)
