"""What stands beside a relation in a WithRelations, and what refers to it from within, as Spark binds them.

A walk that keeps what is bound in one place for the whole plan relies on `PlanWalk.bind`: wherever an id or a
name is bound again, the same is bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.wire.connect import pb


def ids_bound(message: pb.WithRelations) -> Iterator[tuple[int, pb.Relation]]:
    """Yield the ids by which subqueries refer to relations, with these."""
    for reference in message.references:
        # Nothing refers to one that has none: zero is an id like any other.
        if reference.common.HasField("plan_id"):  # RULE (plan-id-missing)
            yield reference.common.plan_id, reference


def names_bound(message: pb.WithRelations) -> list[tuple[str, pb.Relation]]:
    """Return the names that a SQL text has for relations, as they are written, with these: only a text that
    is the root itself has any, and only where all references have a name."""
    references = message.references
    if message.root.WhichOneof("rel_type") != "sql":  # RULE (bind-root-text)
        return []
    named = [(one.subquery_alias.alias, one) for one in references if one.HasField("subquery_alias")]
    return named if len(named) == len(references) else []
