"""The ids that a client gives to the relations of a query: taken out of it, and put into what is forwarded.

PySpark counts them up, so that a DataFrame that is made again, or a text that `spark.sql` sends again, is
another message, and so is the question for its columns. They say nothing of what a plan reads, unless
something in it is asked for by one (`PlanReading.by_id`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from gateway.model.statement import NumberedQuery, PlanRequest
from gateway.plan.lowering import INPUTS
from gateway.wire.connect import ProtobufError, parse, parse_again, pb, serialize

_Kind = Literal["execute", "analyze"]
_Asked = pb.Plan | pb.AnalyzePlanRequest
_ASKED: Mapping[_Kind, type[_Asked]] = {"execute": pb.Plan, "analyze": pb.AnalyzePlanRequest}
_ANALYSES = frozenset({"schema", "explain", "tree_string", "is_local", "is_streaming"})
"""Those that ask for something of one query, and keep nothing."""


def extract_ids(request: PlanRequest) -> NumberedQuery | None:
    """Take the ids out of a query, of a command that is a SQL text, or of a question for what a query is;
    None for all else, and for what cannot be read."""
    try:
        asked = parse(_ASKED[request.kind], request.message)
        relation = _relation_of(asked)
        if relation is None:
            return None
        commons = list(_with_ids(relation))
        ids = tuple([common.plan_id for common in commons])
        for common in commons:
            common.plan_id = 0
        return NumberedQuery(PlanRequest(kind=request.kind, message=serialize(asked)), ids)
    except ProtobufError:
        return None


def renumber_query(kind: _Kind, forwarded: bytes, was: tuple[int, ...], now: tuple[int, ...]) -> bytes | None:
    """Return a guarded query with other ids; None where it has others than the query that it was made of."""
    asked = parse_again(_ASKED[kind], forwarded)
    relation = _relation_of(asked)
    if relation is None or not _renumber(relation, was, now):
        return None
    return serialize(asked)


def renumber_relation(relation: bytes, was: tuple[int, ...], now: tuple[int, ...]) -> bytes | None:
    """Return what a client has sent within a command, as `renumber_query` does."""
    found = parse_again(pb.Relation, relation)
    return serialize(found) if _renumber(found, was, now) else None


def _relation_of(asked: _Asked) -> pb.Relation | None:
    """Return the query: the root of a plan, or what a command has as a SQL text."""
    if isinstance(asked, pb.AnalyzePlanRequest):
        case = asked.WhichOneof("analyze")
        if case not in _ANALYSES:
            return None
        plan: pb.Plan = getattr(asked, case).plan
        return plan.root if plan.HasField("root") else None
    if asked.HasField("root"):
        return asked.root
    command = asked.command.sql_command
    return command.input if command.HasField("input") else None


def _renumber(relation: pb.Relation, was: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Put other ids in the place of these; False where others than these stand there."""
    commons = list(_with_ids(relation))
    if tuple([common.plan_id for common in commons]) != was or len(was) != len(now):
        return False
    for common, number in zip(commons, now, strict=True):
        common.plan_id = number  # RULE (forwarded-plan-ids)
    return True


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
