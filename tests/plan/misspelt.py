"""Misspelt fields and cases, each of which has to be a type error: mypy tells of ignores that are not needed.

When the stubs of the messages are gone, when mypy no longer finds them, or when somebody holds a message as
`Any`, these lines have no error any more, and `make check` fails here. Nothing runs this module.
"""

from __future__ import annotations

from gateway.model.statement import PlanRequest
from gateway.plan.guard import Edits
from gateway.plan.reading import CatalogCall, ExpressionText, PlanReading, SqlText, TableRead
from gateway.plan.walk import read_plan
from gateway.plan.walk_state import PlanWalk
from gateway.wire import connect_requests
from gateway.wire.connect import METHODS, Message, parse, pb


def what_is_parsed(data: bytes) -> None:
    plan = parse(pb.Plan, data)
    plan.root.filtr  # type: ignore[attr-defined]
    plan.root.filter.condition.unresolved_attribute.unparsed  # type: ignore[attr-defined]
    plan.root.HasField("comon")  # type: ignore[arg-type]
    plan.WhichOneof("optype")  # type: ignore[arg-type]
    plan.root.WhichOneof("rel_type") == "filtr"  # type: ignore[comparison-overlap]
    plan.root.read.named_table.unparsed_identifier = 1  # type: ignore[assignment]
    pb.Relation(filtr=pb.Filter())  # type: ignore[call-arg]
    for expression in plan.root.project.expressions:
        expression.literl  # type: ignore[attr-defined]


def what_a_reading_holds(
    table: TableRead, text: SqlText, expression: ExpressionText, call: CatalogCall, reading: PlanReading
) -> None:
    table.relation.red  # type: ignore[attr-defined]
    text.relation.sql.quary  # type: ignore[attr-defined]
    expression.message.expresion  # type: ignore[attr-defined]
    call.relation.catlog  # type: ignore[attr-defined]
    reading.message.rot  # type: ignore[union-attr]
    if reading.command is not None:
        reading.command.sql_comand  # type: ignore[attr-defined]
    for word in reading.words:
        word.colname  # type: ignore[union-attr]
    for message in reading.held:
        message.root  # type: ignore[attr-defined]


def what_is_held_on_the_way(walk: PlanWalk, edits: Edits, request: PlanRequest) -> None:
    for references in walk.references.values():
        references.rot  # type: ignore[attr-defined]
    for start, _, _ in edits.options:
        start.option  # type: ignore[attr-defined]
    found = read_plan(request)
    if isinstance(found, PlanReading):
        found.message.plan  # type: ignore[union-attr]


def what_is_asked_of_a_session(asked: connect_requests.CallRequest, whatever: Message) -> None:
    asked.sesion_id  # type: ignore[union-attr]
    connect_requests.GetStatusRequest("s", "c", "o", operation_id=())  # type: ignore[call-arg]
    METHODS["Config"].request().operation  # type: ignore[attr-defined]
    whatever.session_id  # type: ignore[attr-defined]
