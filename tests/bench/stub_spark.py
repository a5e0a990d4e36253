"""A Spark that costs next to nothing, at both endpoints, so that what is measured is the gateway's.

python -m tests.bench.stub_spark      # prints its two ports as JSON, serves until its input ends
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pyspark

from gateway.wire.connect import pb
from gateway.wire.tcli import TTypeId
from tests.backends.fake_connect_server import Configured, FakeConnectServer, rows
from tests.backends.fake_hive_server import Answer, FakeHiveServer


class StubSpark(FakeHiveServer):
    """Answers what gateways ask at their start, and one statement."""

    def __init__(self) -> None:
        super().__init__()
        self.version = pyspark.__version__
        self.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.on("SHOW DATABASES LIKE 'default'", Answer.text(["default"]))
        self.on(re.compile("DESCRIBE TABLE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no."))


class StubConnect(FakeConnectServer):
    """The same over Spark Connect."""

    def __init__(self) -> None:
        super().__init__()
        self.configured = Configured(self, version=pyspark.__version__)
        self.answers["ExecutePlan"] = self._execute
        self.answers["ReleaseExecute"] = self._release_execute
        self._one = pb.ExecutePlanResponse.FromString(rows(one=[1])).arrow_batch
        here = pb.ExecutePlanResponse.FromString(rows(catalog=["spark_catalog"], namespace=["default"]))
        self._here = here.arrow_batch.data

    async def serve(self, name: str, context: Any) -> None:
        await super().serve(name, context)
        self.calls.clear()

    async def _release_execute(self, data: bytes, _context: Any) -> bytes:
        request = pb.ReleaseExecuteRequest.FromString(data)
        answer = pb.ReleaseExecuteResponse(
            session_id=request.session_id,
            server_side_session_id=f"{request.session_id}@{self.configured.process}",
            operation_id=request.operation_id,
        )
        return bytes(answer.SerializeToString())

    async def _execute(self, data: bytes, _context: Any) -> AsyncIterator[bytes]:
        request = pb.ExecutePlanRequest.FromString(data)
        ids: dict[str, Any] = {
            "session_id": request.session_id,
            "server_side_session_id": f"{request.session_id}@{self.configured.process}",
            "operation_id": request.operation_id or str(uuid.uuid4()),
        }
        answer = pb.ExecutePlanResponse(response_id=str(uuid.uuid4()), **ids)
        if request.plan.WhichOneof("op_type") == "command":
            answer.sql_command_result.relation.local_relation.data = self._here
        else:
            answer.arrow_batch.CopyFrom(self._one)
        yield answer.SerializeToString()
        end = pb.ExecutePlanResponse(response_id=str(uuid.uuid4()), **ids)
        end.result_complete.SetInParent()
        yield end.SerializeToString()


async def serve() -> None:
    thrift, connect = StubSpark(), StubConnect()
    await thrift.start()
    await connect.start()
    print(json.dumps({"thrift": thrift.port, "connect": connect.port}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await connect.stop()
    await thrift.stop()


if __name__ == "__main__":
    asyncio.run(serve())
