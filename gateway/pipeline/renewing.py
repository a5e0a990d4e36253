"""What is asked again of a DataFrame, or as a text, has other ids alone; it is forwarded as it was judged."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.statement import Cleared, NumberedQuery, Statement
from gateway.plan.numbering import extract_ids, renumber_query, renumber_relation

__all__ = ["extract_ids", "renew_clearance"]


def renew_clearance(
    cleared: Cleared, was: NumberedQuery, statement: Statement, now: NumberedQuery
) -> Cleared | None:
    """Return the clearance of the query `was` for `statement`, the same with other ids; None where it is not,
    where something in it is asked for by an id, and for a text that changes something of the session.

    INVARIANT (we forward what we proved): nothing but these numbers differs from the plan that was proved.
    """
    if not cleared.renewable or was.plan != now.plan:  # RULE (renewal-same-plan)
        return None
    forwarded = renumber_query(now.plan.kind, cleared.forwarded_plan, was.ids, now.ids)
    original: bytes | None = cleared.original_relation
    if original:
        original = renumber_relation(original, was.ids, now.ids)  # RULE (renewed-relation-ids)
    if forwarded is None or original is None:
        return None
    told = replace(statement, text=cleared.statement.text)
    return replace(cleared, statement=told, forwarded_plan=forwarded, original_relation=original)
