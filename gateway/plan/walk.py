"""Reading a plan: one walk over every message, without recursion, that knows what it meets or refuses it."""

from __future__ import annotations

from gateway.model.spark_minors import NEWEST, Minor
from gateway.model.statement import PlanRequest
from gateway.plan.compressed import open_plan
from gateway.plan.reading import MalformedPlan, PlanReading
from gateway.plan.walk_state import PlanWalk, refuse
from gateway.plan.walk_steps import Op, steps_for
from gateway.sql.required import Unsupported
from gateway.sql.schema_text import check_schema
from gateway.sql.scope import CannotClassify
from gateway.wire.connect import (
    MAX_MESSAGES,
    Message,
    ProtobufError,
    UnknownFieldSet,
    find_unknown,
    parse,
    pb,
)

_PLAIN_MODES = frozenset(
    {
        pb.AnalyzePlanRequest.Explain.EXPLAIN_MODE_SIMPLE,
        pb.AnalyzePlanRequest.Explain.EXPLAIN_MODE_EXTENDED,
        pb.AnalyzePlanRequest.Explain.EXPLAIN_MODE_FORMATTED,
    }
)
"""Ways to explain that print no statistics and no code."""
_PLANS = {
    "schema": ("plan",),
    "explain": ("plan",),
    "tree_string": ("plan",),
    "is_local": ("plan",),
    "is_streaming": ("plan",),
    "input_files": ("plan",),
    "semantic_hash": ("plan",),
    "same_semantics": ("target_plan", "other_plan"),
}
"""Where the cases of an AnalyzePlanRequest hold plans."""
_OF_RELATIONS = (
    pb.AnalyzePlanRequest.Persist,
    pb.AnalyzePlanRequest.Unpersist,
    pb.AnalyzePlanRequest.GetStorageLevel,
)
"""The cases that hold a relation."""
_OPS = tuple(map(int, Op))
MAX_HELD = 1024
"""Messages that are kept for the passes behind; of many at once, each takes longer to make (measured)."""


def read_plan(request: PlanRequest, minor: Minor = NEWEST) -> PlanReading | MalformedPlan | Unsupported:
    """Say what a plan reads, writes, calls and carries before a Spark of this minor; compressed plans are
    opened first.

    Total: whatever the bytes are, the answer is one of the three. What is not in the table of `plan.classify`
    makes the plan Unsupported: fields, cases, enum values and message types alike.
    """
    try:
        return _read(request, minor)
    except ProtobufError as error:
        return MalformedPlan(error.why, error.code)
    except CannotClassify as refused:
        return refused.refusal


def _read(request: PlanRequest, minor: Minor) -> PlanReading:
    if request.kind == "execute":
        plan = parse(pb.Plan, request.message)
        open_plan(plan)
        reading = PlanReading(message=plan, root=_plan_name(plan), minor=minor)
        walk = PlanWalk(reading)
        if plan.WhichOneof("op_type") == "command":
            reading.command = plan.command
        else:
            walk.root = plan.root
    else:
        analysis = parse(pb.AnalyzePlanRequest, request.message)
        reading = _analysis(analysis, minor)
        walk = PlanWalk(reading)
    _walk(walk)
    return reading


def _analysis(request: pb.AnalyzePlanRequest, minor: Minor) -> PlanReading:
    case = request.WhichOneof("analyze") or ""
    inner: Message | None = getattr(request, case) if case else None
    names = []
    for field in _PLANS.get(case, ()):
        plan: pb.Plan = getattr(inner, field)
        open_plan(plan)  # RULE (analysis-decompressed)
        if plan.WhichOneof("op_type") == "command":
            raise refuse("only relations can be analyzed, not commands")  # RULE (no-command-analysis)
        names.append(_plan_name(plan))
    if isinstance(inner, _OF_RELATIONS):
        names.append(_relation_name(inner.relation))
    root = names[0] if names else type(inner).__name__ if inner is not None else ""
    sketches = case == "explain" and request.explain.explain_mode in _PLAIN_MODES  # RULE (plan-explain-modes)
    return PlanReading(message=request, root=root, analysis=case, minor=minor, sketches=sketches)


def _walk(walk: PlanWalk) -> None:
    reading = walk.reading
    steps_by_class, names = steps_for(reading.minor), reading.names
    # Plain numbers in local variables: this loop is most of what judging a plan costs.
    nothing, one, many, values, single, several, schema, codes, _ = _OPS
    pending: list[Message] = [reading.message]
    hold = reading.held.append
    count = 0
    while pending:
        message = pending.pop()
        steps = steps_by_class[type(message)]
        count += 1
        if count <= MAX_HELD:
            hold(message)
        if count > MAX_MESSAGES:  # RULE (plan-size)
            raise ProtobufError(
                "TOO_LARGE", f"the plan has more than {MAX_MESSAGES} messages; read its data from a table"
            )
        if len(UnknownFieldSet(message)):  # RULE (unknown-fields)
            raise refuse(
                "the plan has a field that this gateway does not support "
                f"({find_unknown(reading.message)}): the client is of another version than Spark"
            )
        if steps.reader is not None:
            steps.reader(walk, message)
        if steps.plain:
            continue
        inner: list[Message] = []
        seen, fields = 0, steps.fields
        for field, value in message.ListFields():
            op, bit, reader, step = fields[field]
            seen |= bit
            if reader is not None:
                reader(walk, message, value)
            if op == one:
                inner.append(value)
            elif op == nothing:
                continue
            elif op == many:
                inner += value[:]
            elif op == values:
                inner.extend(value.values())
            elif op == codes:
                if value not in step.known:  # RULE (unknown-enum-numbers)
                    raise refuse(f"{steps.name}.{field.name} has the unknown value {value}")
            elif op == several:
                names.extend(value)
            elif op == single:
                names.append(value)
            elif op == schema:
                check_schema(value)  # RULE (schemas-read)
            else:
                raise refuse(step.why)  # RULE (refused-fields)
        if seen != steps.required:  # RULE (message-without-kind)
            raise refuse(f"a {steps.name} of an unknown kind")
        if inner:
            inner.reverse()
            pending += inner
    reading.messages = count


def _plan_name(plan: pb.Plan) -> str:
    """Return what the record calls a plan."""
    if plan.WhichOneof("op_type") == "command":
        return _camel(plan.command.WhichOneof("command_type") or "")
    root, first = plan.root, plan.root.limit.input
    # The first rows of a catalog call are those of the call.
    return _relation_name(first if first.HasField("catalog") else root)


def _relation_name(relation: pb.Relation) -> str:
    case = relation.WhichOneof("rel_type")
    if case is None:
        return ""
    inner = getattr(relation, case)
    if case == "catalog":
        return f"Catalog.{_camel(inner.WhichOneof('cat_type') or '')}"
    return type(inner).__name__


def _camel(case: str) -> str:
    return "".join(word.capitalize() for word in case.split("_"))
