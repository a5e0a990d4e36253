"""A Spark Connect server in memory, a judge of plans, and requests as clients write them."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest

from gateway.errors import BackendMismatch, BackendUnavailable, RpcError, SessionElsewhere
from gateway.model.catalog import TableName
from gateway.model.handles import SparkHandle
from gateway.model.limits import Limit
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.snapshot import Snapshot
from gateway.model.spark_logins import SparkLogin
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.model.statement import (
    AnswerRule,
    Cleared,
    Client,
    CreateTempView,
    NeedsCatalog,
    PlanRequest,
    Refused,
    ScanRecord,
    SessionEffect,
    Statement,
    Verdict,
)
from gateway.policy.limits import limits_of
from gateway.session.budgets import Budgets
from gateway.session.connect.service import ConnectSessions
from gateway.session.dependencies import Dependencies
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks
from gateway.session.metrics import Metrics
from gateway.session.ports import Envelope, OpenedSession
from gateway.wire.connect import pb, serialize
from gateway.wire.connect_errors import spark_error
from tests.session.fakes import (
    ALICE,
    BOB,
    NONE,
    FakeAuthority,
    FakeCatalog,
    FakeLedger,
    FakePolicies,
    FakePromotion,
)
from tests.speed import patience

__all__ = ["ALICE", "BOB", "CLIENT", "Spark", "World"]

CLIENT = Client(address="10.0.0.7:4711", protocol="connect")
SESSION = "11111111-2222-4333-8444-555555555555"
OTHER_SESSION = "99999999-2222-4333-8444-555555555555"

Step = Any
"""What Spark does next: a response, an RpcError, BackendUnavailable, or an Event that it waits for."""


def uid() -> str:
    return str(uuid.uuid4())


def table(name: str) -> Any:
    plan = pb.Plan()
    plan.root.read.named_table.unparsed_identifier = name
    return plan


def sql(text: str) -> Any:
    plan = pb.Plan()
    plan.command.sql_command.input.sql.query = text
    return plan


def view(name: str, source: str) -> Any:
    plan = pb.Plan()
    plan.command.create_dataframe_view.name = name
    plan.command.create_dataframe_view.replace = True
    plan.command.create_dataframe_view.input.CopyFrom(table(source).root)
    return plan


def checkpoint(source: Any) -> Any:
    plan = pb.Plan()
    plan.command.checkpoint_command.relation.CopyFrom(source.root)
    return plan


def cached(relation_id: str) -> Any:
    plan = pb.Plan()
    plan.root.cached_remote_relation.relation_id = relation_id
    return plan


def remove(relation_id: str) -> Any:
    plan = pb.Plan()
    plan.command.remove_cached_remote_relation_command.relation.relation_id = relation_id
    return plan


def words(plan: Any) -> str:
    """Write a plan as these tests speak of it."""
    if plan.HasField("root"):
        relation = plan.root
        if relation.HasField("cached_remote_relation"):
            return f"CACHED {relation.cached_remote_relation.relation_id}"
        if relation.HasField("sql"):
            return f"ROOT {relation.sql.query}"
        return f"TABLE {relation.read.named_table.unparsed_identifier}"
    command = plan.command
    match command.WhichOneof("command_type"):
        case "sql_command":
            return str(command.sql_command.input.sql.query)
        case "create_dataframe_view":
            made = command.create_dataframe_view
            return f"VIEW {made.name} OF {words(pb.Plan(root=made.input)).removeprefix('TABLE ')}"
        case "checkpoint_command":
            inner = pb.Plan(root=command.checkpoint_command.relation)
            return f"CHECKPOINT {words(inner)}"
        case "remove_cached_remote_relation_command":
            return f"REMOVE {command.remove_cached_remote_relation_command.relation.relation_id}"
        case case:
            return str(case)


def words_of(statement: Statement) -> str:
    if statement.checkpoint is not None:
        return statement.text
    assert statement.plan is not None
    if statement.plan.kind == "analyze":
        request = pb.AnalyzePlanRequest.FromString(statement.plan.message)
        case: str = request.WhichOneof("analyze") or ""
        inner = getattr(request, case)
        return f"{case} {words(inner.plan)}" if hasattr(inner, "plan") else case
    return words(pb.Plan.FromString(statement.plan.message))


def messages_in(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else [value]:
                yield from messages_in(one)


def read_plan(plan: PlanRequest) -> Any:
    return (pb.Plan if plan.kind == "execute" else pb.AnalyzePlanRequest).FromString(plan.message)


def handles_of(plan: PlanRequest) -> frozenset[SparkHandle]:
    found = set[SparkHandle]()
    for message in messages_in(read_plan(plan)):
        if isinstance(message, pb.CachedRemoteRelation):
            found.add(SparkHandle("relation", message.relation_id))
        if isinstance(message, pb.StreamingQueryInstanceId):
            found |= {SparkHandle("query", message.id), SparkHandle("query", message.run_id)}
    return frozenset(found)


def command_of(plan: PlanRequest) -> str:
    return (read_plan(plan).command.WhichOneof("command_type") or "") if plan.kind == "execute" else ""


def eager(plan: PlanRequest) -> bool:
    return bool(read_plan(plan).command.checkpoint_command.eager)


_VIEWS: dict[str, Literal["text", "frame", "stream"]] = {
    "create_dataframe_view": "frame",
    "write_stream_operation_start": "stream",
}


def execute_request(
    plan: Any,
    *,
    session: str = SESSION,
    user: str = "mallory",
    operation: str | None = None,
    reattachable: bool = True,
    observed: str = "",
    **fields: Any,
) -> bytes:
    request = pb.ExecutePlanRequest(session_id=session, plan=plan, client_type="pyspark", **fields)
    request.user_context.user_id = user
    if operation is not None:
        request.operation_id = operation
    if reattachable:
        request.request_options.add().reattach_options.reattachable = True
    if observed:
        request.client_observed_server_side_session_id = observed
    return serialize(request)


def names(*rows: Sequence[Any]) -> bytes:
    """Arrow rows of strings, as Spark answers a command that lists names."""
    columns = list(zip(*rows, strict=True))
    batch = pa.record_batch(
        [pa.array(column) for column in columns], names=[f"c{i}" for i in range(len(columns))]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def schema() -> Any:
    response = pb.ExecutePlanResponse()
    response.schema.struct.SetInParent()
    return response


def rows(count: int, data: bytes = b"arrow") -> Any:
    return pb.ExecutePlanResponse(arrow_batch=pb.ExecutePlanResponse.ArrowBatch(row_count=count, data=data))


def progress() -> Any:
    response = pb.ExecutePlanResponse()
    response.execution_progress.SetInParent()
    return response


def relation_made(relation_id: str) -> Any:
    response = pb.ExecutePlanResponse()
    response.checkpoint_command_result.relation.relation_id = relation_id
    return response


def sql_rows(*listed: Sequence[Any]) -> Any:
    response = pb.ExecutePlanResponse()
    response.sql_command_result.relation.local_relation.data = names(*listed) if listed else b""
    return response


def sql_relation(text: str) -> Any:
    response = pb.ExecutePlanResponse()
    response.sql_command_result.relation.sql.query = text
    return response


ENDED = pb.GetStatusResponse.OperationStatus.OPERATION_STATE_SUCCEEDED


class SparkOperation:
    def __init__(self, envelope: Envelope, steps: list[Step]) -> None:
        self.envelope = envelope
        self.steps = steps
        self.responses: list[bytes] = []
        self.ids: list[str] = []
        self.interrupted = asyncio.Event()
        self.released = False
        self.readers = 0
        self.taken = 0
        """Steps that are through."""

    @property
    def state(self) -> int:
        kinds = pb.GetStatusResponse.OperationStatus
        if self.taken >= len(self.steps):
            return ENDED
        running = self.readers or not self.interrupted.is_set()
        return kinds.OPERATION_STATE_RUNNING if running else kinds.OPERATION_STATE_CANCELLED


class SparkSession:
    def __init__(self) -> None:
        self.server_id = uid()
        self.operations: dict[str, SparkOperation] = {}
        self.ended: set[str] = set()
        """Ids of operations that were let go of: none is taken twice."""
        self.settings: dict[str, str] = {}


class _ReachedSpark:
    """Spark as somebody reaches it."""

    def __init__(self, spark: Spark, login: Callable[[], SparkLogin]) -> None:
        self._spark = spark
        self._login = login

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._spark, name)

        def call(*given: Any, **more: Any) -> Any:
            self._spark.reached.append((given[0] if name == "call" else name, self._login()))
            return asked(*given, **more)

        return call


class Spark:
    """What a server does with sessions and operations; `scripts` says how it answers a plan."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.sessions: dict[tuple[str, str], SparkSession] = {}
        self.closed: set[tuple[str, str]] = set()
        self.scripts: list[tuple[str, Callable[[], list[Step]]]] = []
        self.received: list[str] = []
        self.envelopes: list[Envelope] = []
        self.calls: list[tuple[str, Any]] = []
        self.uploaded: list[Any] = []
        self.reached: list[tuple[str, SparkLogin]] = []
        """What was called, and in whose name."""
        self.down = False
        self.silent: asyncio.Event | None = None
        """When set, a session is opened after it."""
        self.mismatch = ""
        self.elsewhere = False
        """Whether another gateway has opened every session."""
        """Why texts mean something else to this Spark than to the reader, as a backend finds out."""
        self.faults: dict[str, Exception] = {}
        self.hold: dict[str, asyncio.Event] = {}
        """Method → what it waits for."""
        self.namespace = ("spark_catalog", "default")
        self.settings: dict[str, str] = {}
        self.own_settings: dict[str, str] = {}
        self.known_catalogs: frozenset[str] = frozenset()
        """Catalogs that a session had been told of before."""
        """What is set in a new session."""
        self.errors: dict[str, Any] = {}
        self.states: dict[str, int] = {}
        """Operation → how GetStatus says that it ended; 1 for one that was never seen."""

    def script(self, pattern: str, *steps: Step) -> None:
        self.scripts.insert(0, (pattern, lambda: list(steps)))

    def steps(self, text: str) -> list[Step]:
        if text == "SHOW CURRENT NAMESPACE":
            return [sql_rows(self.namespace)]
        for pattern, steps in self.scripts:
            if re.search(pattern, text):
                return steps()
        if re.match("TABLE|CACHED|ROOT", text):
            return [schema(), rows(3), rows(2)]
        if re.match("CHECKPOINT", text):
            return [relation_made(uid())]
        if re.match("VIEW|REMOVE", text):
            return []
        return [sql_rows()]

    def session(self, user: str, session_id: str, observed: str = "", *, create: bool = True) -> SparkSession:
        key = (user, session_id)
        if self.down:
            raise BackendUnavailable("Spark cannot be reached")
        if key not in self.sessions:
            if key in self.closed:
                raise spark_error("INVALID_HANDLE.SESSION_CLOSED", session_id)
            if not create:
                raise spark_error("INVALID_HANDLE.SESSION_CLOSED", session_id)
            self.sessions[key] = SparkSession()
        session = self.sessions[key]
        if observed and observed != session.server_id:
            raise spark_error("INVALID_HANDLE.SESSION_CHANGED", session_id)
        return session

    def restart(self) -> None:
        """Another server in its place, which knows nothing."""
        self.sessions.clear()
        self.closed.clear()

    def operation(self, operation_id: str) -> SparkOperation:
        return next(
            s.operations[operation_id] for s in self.sessions.values() if operation_id in s.operations
        )

    # -- the port ----------------------------------------------------------------------------------------

    def act_for(self, login: Callable[[], SparkLogin]) -> Any:
        return _ReachedSpark(self, login)

    async def execute(self, cleared: Cleared, envelope: Envelope) -> AsyncGenerator[bytes, None]:
        assert isinstance(cleared, Cleared)
        assert envelope.operation_id
        self.order.append("forwarded")
        self.envelopes.append(envelope)
        text = words_of(cleared.statement)
        self.received.append(text)
        session = self.session(envelope.user, envelope.session_id, envelope.server_session)
        if envelope.operation_id in session.operations:
            raise spark_error("INVALID_HANDLE.OPERATION_ALREADY_EXISTS", envelope.operation_id)
        if envelope.operation_id in session.ended:
            raise spark_error("INVALID_HANDLE.OPERATION_ABANDONED", envelope.operation_id)
        steps = self.steps(text)
        if envelope.reattachable:
            complete = pb.ExecutePlanResponse()
            complete.result_complete.SetInParent()
            steps = [*steps, complete]
        operation = SparkOperation(envelope, steps)
        session.operations[envelope.operation_id] = operation
        heard = True
        try:
            async for data in self._stream(session, operation, 0):
                yield data
        except (GeneratorExit, asyncio.CancelledError):
            # As Spark, which notices that nobody listens when it has something to say.
            heard = False
            raise
        finally:
            if heard and not envelope.reattachable:
                session.operations.pop(envelope.operation_id, None)
                session.ended.add(envelope.operation_id)
                self.states[envelope.operation_id] = ENDED

    async def _stream(
        self, session: SparkSession, operation: SparkOperation, index: int
    ) -> AsyncIterator[bytes]:
        operation.readers += 1
        try:
            async for data in self._responses(session, operation, index):
                yield data
        finally:
            operation.readers -= 1

    async def _responses(
        self, session: SparkSession, operation: SparkOperation, index: int
    ) -> AsyncIterator[bytes]:
        while True:
            while index < len(operation.responses):
                index += 1
                yield operation.responses[index - 1]
            if operation.taken >= len(operation.steps):
                return
            step = operation.steps[operation.taken]
            if operation.interrupted.is_set():
                raise spark_error("OPERATION_CANCELED")
            if isinstance(step, asyncio.Event):
                waits = [asyncio.ensure_future(e.wait()) for e in (step, operation.interrupted)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                if not step.is_set():
                    continue
                operation.taken += 1
                continue
            if isinstance(step, Exception):
                raise step
            await asyncio.sleep(0)
            operation.taken += 1
            if step is STREAM_ENDS:
                return
            response = pb.ExecutePlanResponse()
            response.CopyFrom(step)
            response.session_id = operation.envelope.session_id
            response.server_side_session_id = session.server_id
            response.operation_id = operation.envelope.operation_id
            response.response_id = uid()
            operation.ids.append(response.response_id)
            operation.responses.append(serialize(response))

    async def analyze(self, cleared: Cleared, envelope: Envelope) -> bytes:
        assert isinstance(cleared, Cleared)
        await asyncio.sleep(0)
        self.order.append("forwarded")
        self.envelopes.append(envelope)
        text = words_of(cleared.statement)
        self.received.append(text)
        session = self.session(envelope.user, envelope.session_id, envelope.server_session)
        for step in self.steps(text):
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, Exception):
                raise step
            elif isinstance(step, pb.AnalyzePlanResponse):
                return serialize(step)
        response = pb.AnalyzePlanResponse(
            session_id=envelope.session_id, server_side_session_id=session.server_id
        )
        response.spark_version.version = text
        return serialize(response)

    async def open_session(self, session_id: str, user: str, observed: str = "") -> OpenedSession:
        if self.silent is not None:
            await self.silent.wait()
        request = pb.ConfigRequest(
            session_id=session_id,
            user_context=pb.UserContext(user_id=user),
            client_observed_server_side_session_id=observed,
        )
        pairs = request.operation.set.pairs
        pairs.extend(pb.KeyValue(key=key, value=value) for key, value in READING_SETTINGS.items())
        answer = pb.ConfigResponse.FromString(await self.call("Config", serialize(request)))
        if self.elsewhere:
            raise SessionElsewhere("another gateway's: begin a new session")
        if self.mismatch:
            raise BackendMismatch([self.mismatch])
        own = {**self.own_settings, **READING_SETTINGS}
        settings = {**self.own_settings, **self.sessions[(user, session_id)].settings}
        return OpenedSession(
            id=str(answer.server_side_session_id),
            settings=settings,
            own_settings=own,
            known_catalogs=self.known_catalogs,
        )

    async def reattach(self, request: bytes) -> AsyncGenerator[bytes, None]:
        message = pb.ReattachExecuteRequest.FromString(request)
        self.calls.append(("ReattachExecute", message))
        await asyncio.sleep(0)
        session = self.session(
            message.user_context.user_id,
            message.session_id,
            message.client_observed_server_side_session_id,
            create=False,
        )
        operation = session.operations.get(message.operation_id)
        if operation is None:
            raise spark_error("INVALID_HANDLE.OPERATION_NOT_FOUND", message.operation_id)
        if not operation.envelope.reattachable:
            raise spark_error("INVALID_CURSOR.NOT_REATTACHABLE")
        index = 0
        if message.last_response_id:
            if message.last_response_id not in operation.ids:
                raise spark_error("INVALID_CURSOR.POSITION_NOT_FOUND", message.last_response_id)
            index = operation.ids.index(message.last_response_id) + 1
        async for data in self._stream(session, operation, index):
            yield data

    async def call(self, method: str, request: bytes) -> bytes:
        await asyncio.sleep(0)
        message = getattr(pb, _REQUESTS[method]).FromString(request)
        self.calls.append((method, message))
        if method in self.hold:
            await self.hold[method].wait()
        if method in self.faults:
            raise self.faults[method]
        user = message.user_context.user_id
        key = (user, message.session_id)
        if method == "ReleaseSession":
            if self.down:
                raise BackendUnavailable("Spark cannot be reached")
            if self.sessions.pop(key, None) is not None and not message.allow_reconnect:
                self.closed.add(key)
            return serialize(pb.ReleaseSessionResponse(session_id=message.session_id))
        observed = message.client_observed_server_side_session_id
        session = self.session(user, message.session_id, observed, create=method != "GetStatus")
        ids = {"session_id": message.session_id, "server_side_session_id": session.server_id}
        match method:
            case "Config":
                return self._config(session, message, ids)
            case "Interrupt":
                return serialize(
                    pb.InterruptResponse(interrupted_ids=self._interrupt(session, message), **ids)
                )
            case "ReleaseExecute":
                if message.HasField("release_all"):
                    released = session.operations.pop(message.operation_id, None)
                    if released is not None:
                        session.ended.add(message.operation_id)
                        # Spark stops what it is told to forget.
                        released.interrupted.set()
                return serialize(pb.ReleaseExecuteResponse(operation_id=message.operation_id, **ids))
            case "CloneSession":
                clone = SparkSession()
                self.sessions[(user, message.new_session_id)] = clone
                return serialize(
                    pb.CloneSessionResponse(
                        new_session_id=message.new_session_id,
                        new_server_side_session_id=clone.server_id,
                        **ids,
                    )
                )
            case "FetchErrorDetails":
                answer = pb.FetchErrorDetailsResponse(**ids)
                if message.error_id in self.errors:
                    answer.MergeFrom(self.errors[message.error_id])
                return serialize(answer)
            case "GetStatus":
                statuses = pb.GetStatusResponse(**ids)
                for operation_id in message.operation_status.operation_ids:
                    held = session.operations.get(operation_id)
                    state = held.state if held is not None else self.states.get(operation_id, 1)
                    statuses.operation_statuses.add(operation_id=operation_id, state=state)
                return serialize(statuses)
            case _:
                return serialize(pb.ArtifactStatusesResponse(**ids))

    def _config(self, session: SparkSession, message: Any, ids: Any) -> bytes:
        answer = pb.ConfigResponse(**ids)
        match message.operation.WhichOneof("op_type"):
            case "set":
                session.settings.update({pair.key: pair.value for pair in message.operation.set.pairs})
            case "get":
                for key in message.operation.get.keys:
                    answer.pairs.add(key=key, value=session.settings.get(key, ""))
            case _:
                pass
        return serialize(answer)

    def _interrupt(self, session: SparkSession, message: Any) -> list[str]:
        kinds = pb.InterruptRequest
        stopped = []
        for operation_id, operation in session.operations.items():
            if (
                message.interrupt_type == kinds.INTERRUPT_TYPE_ALL
                or (
                    message.interrupt_type == kinds.INTERRUPT_TYPE_TAG
                    and message.operation_tag in operation.envelope.tags
                )
                or message.operation_id == operation_id
            ) and operation.taken < len(operation.steps):
                operation.interrupted.set()
                stopped.append(operation_id)
        return stopped

    async def add_artifacts(self, requests: AsyncIterator[bytes], user: str) -> bytes:
        async for request in requests:
            await asyncio.sleep(0)
            self.order.append("uploaded")
            self.uploaded.append(pb.AddArtifactsRequest.FromString(request))
            if "AddArtifacts" in self.faults:
                raise self.faults["AddArtifacts"]
        return serialize(pb.AddArtifactsResponse(session_id=self.uploaded[-1].session_id))


STREAM_ENDS = object()
"""A stream of Spark's that ends before its execution does."""

_REQUESTS = {
    "ArtifactStatus": "ArtifactStatusesRequest",
    **{
        name: f"{name}Request"
        for name in (
            "CloneSession",
            "Config",
            "FetchErrorDetails",
            "GetStatus",
            "Interrupt",
            "ReleaseExecute",
            "ReleaseSession",
        )
    },
}


class PlanJudge:
    """Clears what `refused` does not match. What is forwarded carries `mark`, as a mask would."""

    def __init__(self) -> None:
        self.refused: str | None = None
        self.effects: list[tuple[str, tuple[SessionEffect, ...]]] = []
        self.rules: dict[str, AnswerRule] = {}
        self.names: list[tuple[str, frozenset[TableName]]] = []
        """Pattern → the tables and views that such a plan is judged by."""
        self.scans: dict[str, tuple[ScanRecord, ...]] = {}
        self.changes: dict[str, dict[str, Any]] = {}
        """Pattern → fields of the Cleared."""
        self.judged: list[Statement] = []
        self.mark = ""
        self.marked = "."
        """What of the plans the mark is in."""

    async def __call__(self, statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        await asyncio.sleep(0)
        if statement.resets is not None:
            message = serialize(sql(f"RESET `{statement.resets}`"))
            statement = replace(statement, plan=PlanRequest(kind="execute", message=message))
        if statement.refreshes is not None:
            message = serialize(sql(f"REFRESH TABLE {statement.refreshes}"))
            statement = replace(statement, plan=PlanRequest(kind="execute", message=message))
        self.judged.append(statement)
        if statement.checkpoint is not None:
            text = f"CHECKPOINTS IN {statement.checkpoint.directory}"
            return Cleared(
                statement=replace(statement, text=text),
                forwarded=text,
                plan_class="ListCheckpoints",
                decisions=(),
                scans=(),
                snapshot_version=snapshot.version,
                shows_errors=True,
                forwarded_plan=b"listing",
            )
        assert statement.plan is not None
        assert statement.context.endpoint == "connect"
        text = words_of(statement)
        shown = replace(statement, text=text)
        if self.refused is not None and re.search(self.refused, text):
            return Refused(
                statement=shown,
                code="ACCESS_DENIED",
                sqlstate="42501",
                message="user bob needs select on table spark_catalog.hr.employee",
                snapshot_version=snapshot.version,
            )
        if (found := re.search("CACHED (.*)", text)) and SparkHandle(
            "relation", found[1]
        ) not in statement.context.handles:
            return Refused(
                statement=shown,
                code="NOT_GOVERNABLE",
                sqlstate="0A000",
                message="unknown relation",
                handles=handles_of(statement.plan),
            )
        mark = self.mark if re.search(self.marked, text) else ""
        fields: dict[str, Any] = {}
        for pattern, changed in self.changes.items():
            if re.search(pattern, text):
                fields |= changed
        effects = next((e for pattern, e in self.effects if re.search(pattern, text)), ())
        of: Literal["text", "frame", "stream"] = _VIEWS.get(command_of(statement.plan), "text")
        effects = tuple(CreateTempView(e.name, of) if isinstance(e, CreateTempView) else e for e in effects)
        read = frozenset(re.findall(r"\b(?:TABLE|OF|FROM) (\w+)", text)) & statement.context.temp_views
        cleared = Cleared(
            statement=shown,
            forwarded=f"{text}{mark}",
            plan_class="RemoveCachedRemoteRelation" if text.startswith("REMOVE") else "Plan",
            decisions=(),
            scans=self.scans.get(text, ()),
            shows_errors=not any(scan.obligations for scan in self.scans.get(text, ())),
            snapshot_version=snapshot.version,
            catalog_version=snapshot.catalog.version,
            names=next((names for pattern, names in self.names if re.search(pattern, text)), NONE),
            read_only=text.startswith(("ROWS", "TABLE")) or statement.plan.kind == "analyze",
            effects=effects,
            answer=self.rules.get(text, AnswerRule()),
            forwarded_plan=statement.plan.message + mark.encode(),
            temp_views_read=read,
            original_relation=self._original_relation(statement),
            handles=handles_of(statement.plan),
            is_lazy_checkpoint=command_of(statement.plan) == "checkpoint_command"
            and not eager(statement.plan),
        )
        return replace(cleared, **fields)

    def _original_relation(self, statement: Statement) -> bytes:
        assert statement.plan is not None
        if statement.plan.kind == "analyze":
            return b""
        plan = pb.Plan.FromString(statement.plan.message)
        if plan.command.WhichOneof("command_type") != "sql_command":
            return b""
        return serialize(plan.command.sql_command.input)


class World:
    """The service over fakes, with everything in reach."""

    def __init__(
        self,
        limits: SessionLimits | None = None,
        *,
        spark: Spark | None = None,
        catalog: FakeCatalog | None = None,
        locks: CatalogLocks | None = None,
        promotes: bool = False,
        name: str = DEFAULT_BACKEND,
        may_use: Callable[[Principal], bool] = lambda _: True,
        budgets: Budgets | None = None,
    ) -> None:
        self.order: list[str] = []
        self.promotion = FakePromotion(self.order)
        self.ledger = FakeLedger(self.order)
        self.spark = spark or Spark(self.order)
        self.spark.order = self.order
        self.catalog = catalog or FakeCatalog()
        self.judge = PlanJudge()
        self.hidden: set[str] = set()
        self.policies = PolicySet(version=1)
        self.now = 1000.0
        self.told: dict[str, int] = {}
        """Catalogs that come and go, as a session is told of them now."""
        limits = limits or SessionLimits(settle_timeout_s=patience(5), close_timeout_s=patience(5))
        self.locks = locks or CatalogLocks(self.catalog, limits)
        self.metrics = Metrics()
        self.budgets = budgets or Budgets(
            lambda: self.policies, limits_of, self.metrics, clock=lambda: self.now
        )
        self.service = ConnectSessions(
            Dependencies(
                judge=self.judge,
                policies=FakePolicies(lambda: self.policies, lambda _: FakeAuthority(self.hidden)),
                catalog=self.catalog,
                locks=self.locks,
                ledger=self.ledger,
                gateway="gw-1",
                backend=name,
                may_use=may_use,
                limits=limits,
                clock=lambda: self.now,
                lineage_input=lambda cleared, views, relations, functions: {
                    "temp_views": dict(views),
                    "relations": dict(relations),
                },
                session_catalogs=lambda: self.told,
                promotion=self.promotion if promotes else None,
                metrics=self.metrics,
                budgets=self.budgets,
            ),
            self.spark,
        )

    def new_policies(self, mark: str | None = None, limits: Sequence[Limit] = ()) -> None:
        self.policies = PolicySet(version=self.policies.version + 1, limits=tuple(limits))
        if mark is not None:
            self.judge.mark = mark

    async def run(self, plan: Any, principal: Principal = BOB, **fields: Any) -> list[Any]:
        """Execute a plan to its end; return the responses."""
        return await collect(self.service.execute(principal, CLIENT, execute_request(plan, **fields)))

    async def reattach(
        self,
        operation: str,
        last: str = "",
        principal: Principal = BOB,
        session: str = SESSION,
        observed: str = "",
    ) -> list[Any]:
        request = pb.ReattachExecuteRequest(session_id=session, operation_id=operation)
        request.user_context.user_id = "mallory"
        if last:
            request.last_response_id = last
        if observed:
            request.client_observed_server_side_session_id = observed
        return await collect(self.service.reattach(principal, CLIENT, serialize(request)))

    async def call(
        self, method: str, principal: Principal = BOB, *, session: str = SESSION, **fields: Any
    ) -> Any:
        request = getattr(pb, _REQUESTS[method])(session_id=session, **fields)
        request.user_context.user_id = "mallory"
        data = await self.service.call(method, principal, CLIENT, serialize(request))
        return getattr(pb, _REQUESTS[method].replace("Request", "Response")).FromString(data)

    async def release(self, operation: str, until: str = "", principal: Principal = BOB) -> Any:
        request = pb.ReleaseExecuteRequest(session_id=SESSION, operation_id=operation)
        if until:
            request.release_until.response_id = until
        else:
            request.release_all.SetInParent()
        data = await self.service.call("ReleaseExecute", principal, CLIENT, serialize(request))
        return pb.ReleaseExecuteResponse.FromString(data)

    def session(self, session: str = SESSION, user: str = "bob") -> Any:
        return self.service._registry.sessions[(user, session)]

    def statements(self) -> list[str]:
        """What users' statements Spark received, without those of the gateway's own at adoption."""
        return [text for text in self.spark.received if text != "SHOW CURRENT NAMESPACE"]

    def outcomes(self) -> dict[str, str]:
        """Text of each cleared statement → how it ended."""
        texts = {e.statement_id: e.body["reqData"] for e in self.ledger.of("decided")}
        ended = {texts[e.statement_id]: e.body["outcome"] for e in self.ledger.of("completed")}
        ended.pop("SHOW CURRENT NAMESPACE", None)
        return ended

    def require_balance(self) -> None:
        """Every cleared decision has exactly one end."""
        cleared = [e.statement_id for e in self.ledger.of("decided") if e.body["verdict"] == "cleared"]
        ended = [e.statement_id for e in self.ledger.of("completed")]
        assert sorted(cleared) == sorted(ended)


async def collect(stream: AsyncIterator[bytes]) -> list[Any]:
    return [pb.ExecutePlanResponse.FromString(data) async for data in stream]


def fault(message: str, code: int = 13) -> RpcError:
    return RpcError(code=code, message=message)


def cases(responses: Sequence[Any]) -> list[str | None]:
    return [response.WhichOneof("response_type") for response in responses]


@contextmanager
def rpc_error(word: str) -> Iterator[None]:
    """Expect an error of Spark's whose message has the word."""
    with pytest.raises(RpcError) as caught:
        yield
    assert word in caught.value.message
