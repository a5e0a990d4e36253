"""Plans as PySpark's own client makes them: a real session whose stub records requests and sends none.

with recording() as (spark, sent):
    spark.table("t").filter("a > 1").count()
sent.executed[-1]      # bytes of the `Plan`
sent.analyzed[-1]      # bytes of the `AnalyzePlanRequest`, as the walk gets it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from gateway.model.statement import PlanRequest
from gateway.plan.reading import PlanReading
from gateway.plan.walk import read_plan
from gateway.wire.connect import pb

COLUMNS = (("id", "integer"), ("name", "string"), ("email", "string"), ("salary", "double"))
"""The schema that every DataFrame of a recording session has."""


@dataclass
class Sent:
    """What the client has sent."""

    executed: list[bytes] = field(default_factory=list)
    analyzed: list[bytes] = field(default_factory=list)

    @property
    def plan(self) -> bytes:
        """The last plan to execute."""
        return self.executed[-1]


class _Stub:
    """A server that answers whatever is asked with what lets the client go on."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent

    def ExecutePlan(self, request: Any, **_: Any) -> Iterator[Any]:  # noqa: N802
        self._sent.executed.append(request.plan.SerializeToString(deterministic=True))
        command = request.plan.command
        kind = command.WhichOneof("command_type")
        reply = pb.ExecutePlanResponse(session_id=request.session_id, operation_id=request.operation_id)
        if kind == "sql_command":
            reply.sql_command_result.relation.CopyFrom(command.sql_command.input)
        elif kind == "checkpoint_command":
            reply.checkpoint_command_result.relation.relation_id = "7a1e"
        elif kind == "write_stream_operation_start":
            reply.write_stream_operation_start_result.query_id.id = "q-1"
            reply.write_stream_operation_start_result.query_id.run_id = "r-1"
        elif kind == "streaming_query_command":
            reply.streaming_query_command_result.query_id.CopyFrom(command.streaming_query_command.query_id)
            reply.streaming_query_command_result.status.status_message = "idle"
        elif kind is None:
            batch = pa.record_batch({"value": pa.array(["x"])})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            reply.arrow_batch.data = sink.getvalue().to_pybytes()
            reply.arrow_batch.row_count = 1
        yield reply
        yield pb.ExecutePlanResponse(
            session_id=request.session_id,
            result_complete=pb.ExecutePlanResponse.ResultComplete(),
        )

    def AnalyzePlan(self, request: Any, **_: Any) -> Any:  # noqa: N802
        kept = pb.AnalyzePlanRequest()
        case = request.WhichOneof("analyze")
        getattr(kept, case).CopyFrom(getattr(request, case))
        self._sent.analyzed.append(kept.SerializeToString(deterministic=True))
        reply = pb.AnalyzePlanResponse(session_id=request.session_id)
        if case in ("schema", "ddl_parse"):
            schema = reply.schema.schema if case == "schema" else reply.ddl_parse.parsed
            for name, kind in COLUMNS:
                column = schema.struct.fields.add(name=name, nullable=True)
                getattr(column.data_type, kind).SetInParent()
        else:
            getattr(reply, case).SetInParent()
        return reply

    def Config(self, request: Any, **_: Any) -> Any:  # noqa: N802
        reply = pb.ConfigResponse(session_id=request.session_id)
        asked = request.operation
        kind = asked.WhichOneof("op_type")
        if kind == "get_with_default":
            for pair in asked.get_with_default.pairs:
                reply.pairs.add(key=pair.key, value=pair.value)
        elif kind in ("get", "get_option"):
            for key in getattr(asked, kind).keys:
                reply.pairs.add(key=key, value=_SETTINGS.get(key, "false"))
        return reply

    def ArtifactStatus(self, request: Any, **_: Any) -> Any:  # noqa: N802
        reply = pb.ArtifactStatusesResponse(session_id=request.session_id)
        for name in request.names:
            reply.statuses[name].exists = True
        return reply

    def ReleaseSession(self, request: Any, **_: Any) -> Any:  # noqa: N802
        return pb.ReleaseSessionResponse(session_id=request.session_id)


class _Channel:
    """The channel itself, which PySpark calls when a cached relation is collected as garbage."""

    def __init__(self, stub: _Stub, channel: Any) -> None:
        self._stub = stub
        self.close = channel.close

    def unary_unary(self, path: str, **_: Any) -> Any:
        assert path.endswith("/ExecutePlan")
        return lambda request, metadata: next(self._stub.ExecutePlan(request))


_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.session.localRelationCacheThreshold": "1048576",
    "spark.sql.session.localRelationSizeLimit": "3221225472",
    "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationChunkSizeBytes": "16777216",
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": "1073741824",
    "spark.connect.session.planCompression.threshold": "10485760",
    "spark.connect.session.planCompression.defaultAlgorithm": "ZSTD",
}


@contextmanager
def recording() -> Iterator[tuple[Any, Sent]]:
    """Yield a PySpark session that reaches no server, and what it sends."""
    sent = Sent()
    spark: Any = SparkSession("sc://localhost:1/;user_id=ann")
    spark.client._stub = _Stub(sent)
    spark.client._channel = _Channel(spark.client._stub, spark.client._channel)
    spark.client.disable_reattachable_execute()
    active = SparkSession._active_session
    active.session = spark
    try:
        yield spark, sent
    finally:
        active.session = None
        spark.client.close()


def plan_of(frame: Any) -> bytes:
    """Return the plan that collecting a DataFrame executes."""
    plan: bytes = frame._plan.to_proto(frame._session.client).SerializeToString(deterministic=True)
    return plan


def read(plan: bytes, kind: str = "execute") -> PlanReading:
    """Return the reading of a plan that must have one."""
    reading = read_plan(PlanRequest(kind="analyze" if kind == "analyze" else "execute", message=plan))
    assert isinstance(reading, PlanReading), reading
    return reading


def plan_in(reading: PlanReading) -> pb.Plan:
    """Return the plan of a reading that is of one to execute."""
    assert isinstance(reading.message, pb.Plan)
    return reading.message
