"""The ids that a client gives to the relations of a query: taken out of it, and put into what is forwarded.

PySpark counts them up, so that a DataFrame that is made again is another message. They say nothing of what a
plan reads, unless something in it is asked for by one (`PlanReading.by_id`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.model.statement import NumberedQuery, PlanRequest
from gateway.plan.analyse_relations import INPUTS
from gateway.wire.connect import ProtobufError, parse, parse_again, pb, serialize


def numbered(request: PlanRequest) -> NumberedQuery | None:
    """Take the ids out of a query; None for all that is none, and for what cannot be read."""
    if request.kind != "execute":
        return None
    try:
        plan = parse(pb.Plan, request.message)
        if plan.WhichOneof("op_type") != "root":
            return None
        commons = list(_with_ids(plan.root))
        ids = tuple([common.plan_id for common in commons])
        for common in commons:
            common.plan_id = 0
        return NumberedQuery(PlanRequest(kind="execute", message=serialize(plan)), ids)
    except ProtobufError:
        return None


def renumbered(forwarded: bytes, was: tuple[int, ...], now: tuple[int, ...]) -> bytes | None:
    """Return a guarded query with other ids; None where it has others than the query that it was made of."""
    plan = parse_again(pb.Plan, forwarded)
    commons = list(_with_ids(plan.root))
    if tuple([common.plan_id for common in commons]) != was or len(was) != len(now):
        return None
    for common, number in zip(commons, now, strict=True):
        common.plan_id = number
    return serialize(plan)


def _with_ids(root: pb.Relation) -> Iterator[pb.RelationCommon]:
    """Yield where the ids of relations stand, in an order that is the same for plans of one form. What guards
    a read keeps its id, and has none within."""
    pending = [root]
    while pending:
        relation = pending.pop()
        if relation.common.HasField("plan_id"):
            yield relation.common
        case = relation.WhichOneof("rel_type") or ""
        message = getattr(relation, case) if case else relation
        pending += [getattr(message, name) for name in INPUTS.get(case, ())]
