"""A statement that its client gives up in its first moments: the session goes on, its names can change."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from typing import Any

import grpc
import pytest

from gateway.wire.connect import pb
from tests.e2e.lab import PASSWORD
from tests.e2e.running import RunningGateway

LONG = ", ".join(f"sum(id + {i}) OVER (ORDER BY id + {i}) AS c{i}" for i in range(60))
ROUNDS = 5


def given_up(client: Any, plan: Any, after_s: float) -> None:
    """Send a plan, and let it go before its end, as PySpark does when the user interrupts a cell."""
    request = client._execute_plan_request_with_metadata()
    request.plan.CopyFrom(plan)
    request.operation_id = str(uuid.uuid4())
    request.request_options.add().reattach_options.reattachable = True
    call = client._stub.ExecutePlan(request, metadata=client._builder.metadata())

    def read() -> None:
        with contextlib.suppress(grpc.RpcError):
            for _ in call:
                pass

    reading = threading.Thread(target=read)
    reading.start()
    time.sleep(after_s)
    release = pb.ReleaseExecuteRequest(session_id=request.session_id, operation_id=request.operation_id)
    release.user_context.user_id = request.user_context.user_id
    release.release_all.SetInParent()
    # It may come while the plan is being judged: PySpark does not mind its error either.
    with contextlib.suppress(grpc.RpcError):
        client._stub.ReleaseExecute(release, metadata=client._builder.metadata())
    reading.join()


@pytest.mark.parametrize("held", [True, False], ids=["text", "frame"])
def test_names_can_change_after_a_statement_was_given_up(lab_gateway: RunningGateway, held: bool) -> None:
    chance = random.Random(7)
    plan = pb.Plan()
    sql = plan.command.sql_command.input.sql if held else plan.root.sql
    sql.query = f"SELECT {LONG} FROM v"
    with lab_gateway.session("mallory", PASSWORD) as session:
        session.range(1).createOrReplaceTempView("v")
        for _ in range(ROUNDS):
            given_up(session.client, plan, chance.random() * 0.15)
            session.range(2).createOrReplaceTempView("v")
        assert session.table("v").count() == 2
