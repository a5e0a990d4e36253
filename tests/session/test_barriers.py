"""Views whose policies changed: what is made again, and what is not."""

from __future__ import annotations

import pytest

from gateway.model.principal import Principal
from gateway.model.statement import Client, PlanRequest, Refused, SessionContext, Statement, Verdict
from gateway.session.barriers import renew_views
from gateway.session.session import Judged, NamesInForce, TempView
from gateway.wire.connect import pb, serialize

PRINCIPAL = Principal(user="bob")


def statement(text: str, plan: bytes = b"") -> Statement:
    request = PlanRequest(kind="execute", message=plan) if plan else None
    return Statement(text=text, principal=PRINCIPAL, context=SessionContext(), plan=request)


def frame() -> bytes:
    command = pb.Command()
    command.create_dataframe_view.name = "v"
    command.create_dataframe_view.input.range.end = 1
    return serialize(pb.Plan(command=command))


def stream(padding: int = 0) -> bytes:
    command = pb.Command()
    command.write_stream_operation_start.query_name = "v"
    command.write_stream_operation_start.format = "memory"
    command.write_stream_operation_start.input.local_relation.data = b"x" * padding
    return serialize(pb.Plan(command=command))


@pytest.mark.parametrize(
    ("plan", "again"), [(frame(), True), (stream(), False), (stream(70_000), False), (b"", True)]
)
async def test_a_stream_is_not_started_again_for_its_view(plan: bytes, again: bool) -> None:
    session = NamesInForce(PRINCIPAL, Client(), SessionContext(temp_views=frozenset({"v"})))
    made = Judged(statement=statement("", plan), forwarded="", forwarded_plan=plan)
    session.views["v"] = TempView(name="v", text="v", made=made, policies_version=1)
    ran: list[Statement] = []

    async def judge(asked: Statement) -> Verdict:
        return Refused(statement=asked, code="ACCESS_DENIED", sqlstate="42501", message="no")

    async def run(asked: Statement) -> None:
        ran.append(asked)

    await renew_views(session, 2, judge=judge, run=run, drop=lambda name: statement(f"DROP {name}"))
    assert ran[0].text == "DROP v"
    assert [one.plan for one in ran[1:]] == ([made.statement.plan] if again else [])
    assert session.ended_views == {"v"}
