"""HiveServer2's calls, answered with the session service. No sockets and no frames here."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.errors import AuthenticationFailed, InvalidHandle, InvalidRequest, SluiceError
from gateway.frontends.impersonation import NOT_ALLOWED, Impersonation
from gateway.frontends.tokens import PURPOSE, confine
from gateway.model.bounded import BoundedDict
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.tracing import Tracer, traced_request, traceparent_in
from gateway.session import audit_records
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.identifiers import Handle
from gateway.session.metadata import Patterns
from gateway.session.metadata_calls import METADATA_CALLS
from gateway.session.operation import Batch, ResultColumn
from gateway.session.ports import ASKER, NO_TOKEN, FrameSink
from gateway.session.routing.thrift import RoutedSessions
from gateway.session.server_info import InfoValue, server_info
from gateway.session.service import Opened, Sessions
from gateway.wire import calls
from gateway.wire.messages import CallFailed, EncodedReply, ExceptionKind
from gateway.wire.rows import ColumnSpec, column_types, encode_rows, table_schema
from gateway.wire.tcli import (
    THandleIdentifier,
    TOperationHandle,
    TProtocolVersion,
    TSessionHandle,
    TStatus,
    TStatusCode,
    TTableSchema,
    TTypeId,
)
from gateway.wire.thrift import Struct, encode

CallReply = Struct | EncodedReply
_TYPES = {
    "string": TTypeId.STRING,
    "int": TTypeId.INT,
    "smallint": TTypeId.SMALLINT,
    "tinyint": TTypeId.TINYINT,
    "boolean": TTypeId.BOOLEAN,
}


@dataclass(slots=True, kw_only=True)
class Caller:
    """User of one connection, and the sessions that end with it."""

    principal: Principal
    client: Client
    sink: FrameSink
    sessions: set[Handle] = field(default_factory=set)
    unknown_handles: int = 0
    """Calls in a row with a handle that is not there."""


ACTS_AS_KEYS = frozenset({"hive.server2.proxy.user", "set:hiveconf:hive.server2.proxy.user", "doAs"})
"""By which clients of HiveServer2 ask to act as another user."""
BACKEND_KEYS = frozenset({"sluice.backend", "set:hiveconf:sluice.backend", "set:hiveconf:backend"})
"""By which clients say which of several Sparks they want; the last is what `?backend=` of a JDBC URL makes
it."""
FREE_TRIES = 8
"""Calls with a handle that is not there which are answered at once: a client may have several to close."""
LONGEST_PAUSE_S = 5.0
UNTRACED = frozenset({"GetOperationStatus"})
"""Calls that clients make again and again while they wait."""
MAX_SCHEMAS = 256
MAX_SCHEMA_BYTES = 16_384
"""Replies about columns that are kept, and how long one of them may be."""
MAX_TRACED = 10_000
"""Operations whose traces are known."""


def pause_s(before: int) -> float:
    """Return for how long a call with an unknown handle waits for its answer after `before` others."""
    tries = min(before - FREE_TRIES, 16)
    return 0.0 if tries < 0 else min(0.05 * 2.0**tries, LONGEST_PAUSE_S)


class ThriftService:
    """Answers calls by name. Every error becomes a status in the reply of its call."""

    def __init__(
        self,
        sessions: Sessions | RoutedSessions,
        *,
        spark_version: str,
        keywords: Sequence[str],
        max_statement_chars: int,
        impersonation: Impersonation | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`keywords` are all words of Spark's grammar. `impersonation`: without it nobody acts as another.
        `tracer`: without it no call is traced."""
        self._tracer = tracer
        self._traceparents: BoundedDict[str, str] = BoundedDict(MAX_TRACED)
        """Of operations that are traced, by their ids: what is fetched of one belongs to its trace."""
        self._schemas: BoundedDict[int, tuple[object, EncodedReply]] = BoundedDict(MAX_SCHEMAS)
        """Replies that tell of columns, by the ids of their schemas, which are kept with them."""
        self._impersonation = impersonation
        self._sessions = sessions
        self._spark_version = spark_version
        self._keywords = keywords
        self._max_statement_chars = max_statement_chars
        self._answers: dict[str, Callable[[Caller, Any, int], Awaitable[CallReply | None]]] = {
            "OpenSession": self._open_session,
            "CloseSession": self._close_session,
            "GetInfo": self._get_info,
            "ExecuteStatement": self._execute,
            "GetOperationStatus": self._status,
            "GetResultSetMetadata": self._schema,
            "FetchResults": self._fetch,
            "CancelOperation": self._cancel,
            "CloseOperation": self._close_operation,
            "GetQueryId": self._query_id,
            "GetDelegationToken": self._no_tokens,
            "CancelDelegationToken": self._no_tokens,
            "RenewDelegationToken": self._no_tokens,
            "SetClientInfo": self._set_client_info,
        }

    def answer(
        self, method: str, request: Struct, seqid: int, caller: Caller
    ) -> Coroutine[Any, Any, CallReply | None]:
        """Return the reply, or None when it has been relayed to the caller's sink already."""
        if self._tracer is None or method in UNTRACED:
            return self._answer_call(method, request, seqid, caller)
        return self._answer_traced(method, request, seqid, caller)

    async def _answer_traced(
        self, method: str, request: Struct, seqid: int, caller: Caller
    ) -> CallReply | None:
        statement, ours = getattr(request, "statement", None), self._find_traceparent(request)
        told = traceparent_in(statement) if isinstance(statement, str) else ""
        with traced_request(self._tracer, method, told, goes_on=ours) as span:
            reply = await self._answer_call(method, request, seqid, caller)
            if span is not None and (opened := getattr(reply, "operationHandle", None)) is not None:
                self._traceparents[opened.operationId.guid.hex()] = span.traceparent
            return reply

    def _find_traceparent(self, request: Struct) -> str:
        """Return in which of our traces a call goes on: that of its operation."""
        handle = getattr(request, "operationHandle", None)
        if handle is None or handle.operationId is None:
            return ""
        return self._traceparents.get(bytes(handle.operationId.guid or b"").hex(), "")

    async def _answer_call(
        self, method: str, request: Struct, seqid: int, caller: Caller
    ) -> CallReply | None:
        reply: CallReply | None
        try:
            with self._sessions.lifecycle.until_cut():
                if method in METADATA_CALLS:
                    reply = await self._metadata(method, request, caller)
                else:
                    reply = await self._answers[method](caller, request, seqid)
        except InvalidHandle as fault:
            # Some clients go on with a session that ended, as when Spark died, as fast as they are answered.
            await asyncio.sleep(pause_s(caller.unknown_handles))
            caller.unknown_handles += 1
            return error_reply(method, fault)
        except SluiceError as fault:
            reply = error_reply(method, fault)
        caller.unknown_handles = 0
        return reply

    async def close_connection(self, caller: Caller) -> None:
        """Close what the connection leaves behind."""
        handles, caller.sessions = tuple(caller.sessions), set()
        await self._sessions.close_disconnected(handles)

    async def act_as(
        self, principal: Principal, client: Client, asked: Sequence[tuple[str, str]]
    ) -> tuple[Principal, Client]:
        """Return who somebody is from here on who asks to act as another user. `asked`: by which keys, and as
        whom. Raises AuthenticationFailed, and has recorded it."""
        reason, users = NOT_ALLOWED, {user for _, user in asked}
        is_plain = all(key in ACTS_AS_KEYS for key, _ in asked) and len(users) == 1
        # Who acts as somebody does not act as a third.
        if self._impersonation is not None and is_plain and not client.real_user:  # RULE (acts-as-once)
            found = await self._impersonation.find(principal, client.address, users.pop())
            if found.principal is not None:
                # A token is for what it is for, whoever its owner acts as.
                purposes = principal.values(PURPOSE) if client.token else ()
                ASKER.set(NO_TOKEN)  # RULE (acts-as-without-token)
                acts_as = confine(found.principal, *purposes[:1])  # RULE (purpose-of-acting)
                return acts_as, replace(client, real_user=principal.user, real_id=principal.id)
            reason = found.reason
        for key in dict(asked):
            await self._sessions.recorder.record(
                audit_records.security, principal, action="hostile_setting", reason=key, client=client
            )
        raise AuthenticationFailed(reason)

    # -- sessions ----------------------------------------------------------------------------------------

    async def _open_session(self, caller: Caller, request: calls.TOpenSessionReq, seqid: int) -> Struct:
        version = request.client_protocol
        if not TProtocolVersion.V1 <= version <= TProtocolVersion.V11:
            raise InvalidRequest(
                f"protocol version {version:#06x} is not supported; use a HiveServer2 driver that speaks "
                "V1 to V11"
            )
        # `username` and `password` are ignored: who logged in is who it is (impyla sends its OS user).
        opening = read_configuration(request.configuration or {}, caller.principal.user)
        principal, client = caller.principal, caller.client
        if opening.acts_as:
            principal, client = await self.act_as(principal, client, opening.acts_as)
        if opening.backend:
            client = replace(client, backend=opening.backend)
        handle = await self._sessions.open_session(
            principal,
            client,
            protocol_version=version,
            settings=opening.settings,
            database=opening.database,
        )
        caller.sessions.add(handle)
        return calls.TOpenSessionResp(
            status=OK,
            serverProtocolVersion=version,
            sessionHandle=TSessionHandle(sessionId=_identifier(handle)),
            configuration={},
        )

    async def _close_session(self, caller: Caller, request: calls.TCloseSessionReq, seqid: int) -> Struct:
        handle = _session(request)
        await self._sessions.of(handle).close_session(caller.principal, handle)
        caller.sessions.discard(handle)
        return calls.TCloseSessionResp(status=OK)

    async def _get_info(self, caller: Caller, request: calls.TGetInfoReq, seqid: int) -> Struct:
        handle = _session(request)
        await self._sessions.of(handle).require_session(caller.principal, handle)
        value = server_info(
            request.infoType,
            spark_version=self._spark_version,
            keywords=self._keywords,
            user=caller.principal.user,
            max_statement_chars=self._max_statement_chars,
        )
        return calls.TGetInfoResp(status=OK, infoValue=_info_value(value))

    async def _set_client_info(self, caller: Caller, request: calls.TSetClientInfoReq, seqid: int) -> Struct:
        # Spark does nothing with it but write it to its log.
        handle = _session(request)
        await self._sessions.of(handle).require_session(caller.principal, handle)
        return calls.TSetClientInfoResp(status=OK)

    async def _no_tokens(self, caller: Caller, request: Any, seqid: int) -> Struct | None:
        raise InvalidRequest("delegation tokens are not supported; log in with a password")

    # -- statements --------------------------------------------------------------------------------------

    async def _execute(self, caller: Caller, request: calls.TExecuteStatementReq, seqid: int) -> Struct:
        # `confOverlay` is dropped: Spark ignores it, and what counts goes through SET.
        timeout_s = request.queryTimeout or 0
        if timeout_s < 0:
            raise InvalidRequest("the statement's timeout is negative")
        handle = _session(request)
        opened = await self._sessions.of(handle).execute(
            caller.principal,
            handle,
            request.statement,
            run_async=bool(request.runAsync),
            timeout_s=timeout_s,
        )
        return calls.TExecuteStatementResp(status=OK, operationHandle=_operation_handle(opened))

    async def _status(self, caller: Caller, request: calls.TGetOperationStatusReq, seqid: int) -> Struct:
        handle, kind = _operation(request)
        report = await self._sessions.of(handle).status(
            caller.principal, handle, kind, progress=bool(request.getProgressUpdate)
        )
        reply = calls.TGetOperationStatusResp(
            status=OK, operationState=report.state, hasResultSet=report.has_result_set
        )
        if report.waits:
            reply.taskStatus = json.dumps([{"taskState": "QUEUED", "text": report.waits}])
        if report.error is not None:
            reply.sqlState = report.error.sqlstate or None
            reply.errorCode = getattr(report.error, "error_code", 0)
            reply.errorMessage = operation_text(report.error)
        return reply

    async def _schema(self, caller: Caller, request: calls.TGetResultSetMetadataReq, seqid: int) -> CallReply:
        handle, kind = _operation(request)
        schema = await self._sessions.of(handle).schema(caller.principal, handle, kind)
        known = self._schemas.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        reply = calls.TGetResultSetMetadataResp(status=OK, schema=_table_schema(schema))
        told = EncodedReply(encode(reply))
        if len(told.response) <= MAX_SCHEMA_BYTES:
            self._schemas[id(schema)] = schema, told
        return told

    async def _fetch(self, caller: Caller, request: calls.TFetchResultsReq, seqid: int) -> Struct | None:
        handle, kind = _operation(request)
        batch = await self._sessions.of(handle).fetch(
            caller.principal,
            handle,
            kind,
            orientation=request.orientation,
            max_rows=request.maxRows,
            fetch_type=request.fetchType or 0,
            seqid=seqid,
            sink=caller.sink,
        )
        if not isinstance(batch, Batch):
            return None
        rows = encode_rows(
            batch.rows,
            column_types(_table_schema(batch.schema)),
            batch.protocol_version,
            start_offset=batch.offset,
        )
        return calls.TFetchResultsResp(status=OK, hasMoreRows=False, results=rows)

    async def _cancel(self, caller: Caller, request: calls.TCancelOperationReq, seqid: int) -> Struct:
        handle, kind = _operation(request)
        await self._sessions.of(handle).cancel(caller.principal, handle, kind)
        return calls.TCancelOperationResp(status=OK)

    async def _close_operation(
        self, caller: Caller, request: calls.TCloseOperationReq, seqid: int
    ) -> CallReply:
        handle, kind = _operation(request)
        await self._sessions.of(handle).close_operation(caller.principal, handle, kind)
        return _CLOSED

    async def _query_id(self, caller: Caller, request: calls.TGetQueryIdReq, seqid: int) -> Struct:
        # By this the record has the statement: `sluice audit show` finds it.
        handle, kind = _operation(request)
        return calls.TGetQueryIdResp(
            queryId=await self._sessions.of(handle).statement_id(caller.principal, handle, kind)
        )

    # -- metadata ----------------------------------------------------------------------------------------

    async def _metadata(self, method: str, request: Any, caller: Caller) -> Struct:
        function = getattr(request, "functionName", None)
        patterns = Patterns(
            catalog=getattr(request, "catalogName", None),
            schema=getattr(request, "schemaName", None),
            table=function if function is not None else getattr(request, "tableName", None),
            column=getattr(request, "columnName", None),
        )
        handle = _session(request)
        opened = await self._sessions.of(handle).metadata(
            caller.principal,
            handle,
            METADATA_CALLS[method],
            method,
            patterns,
            getattr(request, "tableTypes", None),
        )
        reply: Struct = calls.METHODS[method][1](status=OK, operationHandle=_operation_handle(opened))
        return reply


def error_reply(method: str, fault: SluiceError) -> Struct:
    """Return the reply that says an error in the shape of the call's own reply. Raises CallFailed."""
    if method == "GetQueryId":
        raise CallFailed(ExceptionKind.INTERNAL_ERROR, str(fault)) from fault
    status = error_status(fault)
    if method == "GetInfo":
        # Required by the IDL: Java drops the connection over a reply without it.
        return calls.TGetInfoResp(status=status, infoValue=calls.TGetInfoValue(stringValue=""))
    reply: Struct = calls.METHODS[method][1](status=status)
    return reply


def _identifier(handle: Handle) -> THandleIdentifier:
    return THandleIdentifier(guid=handle.guid, secret=handle.secret)


def _session(request: calls.SessionRequest) -> Handle:
    identifier = request.sessionHandle.sessionId
    return Handle(identifier.guid, identifier.secret)


def _operation(request: calls.OperationRequest) -> tuple[Handle, int]:
    identifier = request.operationHandle.operationId
    return Handle(identifier.guid, identifier.secret), request.operationHandle.operationType


def _operation_handle(opened: Opened) -> TOperationHandle:
    return TOperationHandle(
        operationId=_identifier(opened.handle), operationType=opened.kind, hasResultSet=opened.has_result_set
    )


def _table_schema(schema: Any) -> TTableSchema:
    if isinstance(schema, TTableSchema):
        return schema
    columns: tuple[ResultColumn, ...] = schema
    return table_schema([ColumnSpec(c.name, _TYPES[c.type], c.comment) for c in columns])


def _info_value(value: InfoValue) -> calls.TGetInfoValue:
    match value.form:
        case "string":
            return calls.TGetInfoValue(stringValue=str(value.value))
        case "smallint":
            return calls.TGetInfoValue(smallIntValue=int(value.value))
        case "bitmask":
            return calls.TGetInfoValue(integerBitmask=int(value.value))
        case "flag":
            return calls.TGetInfoValue(integerFlag=int(value.value))


# What of OpenSession's configuration counts: an allow-list, because every key of it is the client's word.


MAX_SETTINGS = 100
MAX_VALUE_CHARS = 4096

_HIVECONF = "set:hiveconf:"
_KEY = re.compile(r"[A-Za-z][\w.-]{0,250}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Options of OpenSession: database, settings, and keys that are refused."""

    database: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of Spark, to be judged as SET statements."""
    acts_as: tuple[tuple[str, str], ...] = ()
    """Keys by which the client asks to be somebody else, and whom."""
    backend: str = ""
    """The Spark that the client asks for."""


def read_configuration(configuration: Mapping[str, str], user: str) -> Opening:
    """Pick out what counts.

    `use:database`, `set:hiveconf:spark.*` and what names a Spark (`BACKEND_KEYS`) count. Keys of Hive, Hadoop
    and of drivers (beeline's fetch size, say) are accepted and mean nothing; so are `set:hivevar:` and bare
    keys, which Spark ignores too or which would be substituted into statements. Raises InvalidRequest for a
    setting that cannot be one.
    """
    database: str | None = None
    settings: dict[str, str] = {}
    acts_as: list[tuple[str, str]] = []
    backends: set[str] = set()
    for key, value in configuration.items():
        if "proxy.user" in key.lower():
            # The bare key is the one that Spark honours without asking anybody.
            if value != user:
                acts_as.append((key, value))
        elif key == "use:database":
            database = _database(value)
        elif key in BACKEND_KEYS:
            backends.add(_value(key, value))
        elif key.startswith(_HIVECONF):
            name = key.removeprefix(_HIVECONF)
            if name.lower().startswith("spark."):
                settings[_check_setting_name(name)] = _value(name, value)
    if len(settings) > MAX_SETTINGS:
        raise InvalidRequest(f"more than {MAX_SETTINGS} settings for one session")
    if len(backends) > 1:
        raise InvalidRequest("the session asks for more than one backend")
    return Opening(database=database, settings=settings, acts_as=tuple(acts_as), backend="".join(backends))


def _database(value: str) -> str | None:
    if len(value) > 255 or "\0" in value:
        raise InvalidRequest("the database name is longer than 255 characters or contains NUL")
    return value or None


def _check_setting_name(name: str) -> str:
    if not _KEY.fullmatch(name):
        raise InvalidRequest(f"`{name[:100]}` is not a valid name of a setting")
    return name


def _value(name: str, value: str) -> str:
    if len(value) > MAX_VALUE_CHARS or "\0" in value:
        raise InvalidRequest(
            f"the value of `{name}` is longer than {MAX_VALUE_CHARS} characters or contains NUL"
        )
    return value


# Errors as HiveServer2 says them: a TStatus with code 3, an SQLSTATE, a message and lines of detail.


OK = TStatus(statusCode=TStatusCode.SUCCESS)
_CLOSED = EncodedReply(encode(calls.TCloseOperationResp(status=OK)))

_EXCEPTION = "org.apache.hive.service.cli.HiveSQLException"
"""The class that Hive's JDBC driver makes of the first line of detail."""
_FRAME = re.compile(r"\tat (?:[\w.@$-]+/+)?([^()\s]+)\.([^.()\s]+)\(([^()]*?)(?::(\d+))?\)")
_COMMON = re.compile(r"\t\.\.\. (\d+) more")
_CAUSE = "Caused by: "


def error_status(fault: SluiceError) -> TStatus:
    """Return the status for an error of a call."""
    text = status_text(fault)
    return TStatus(
        statusCode=TStatusCode.ERROR,
        infoMessages=_details(fault, text),
        sqlState=fault.sqlstate or None,
        errorCode=getattr(fault, "error_code", 0),
        errorMessage=text,
    )


def status_text(fault: SluiceError) -> str:
    """Return the message of an error; an invalid handle is worded exactly as Spark words it."""
    if isinstance(fault, StatementRefused) and fault.in_sparks_words:
        condition = f"[{fault.condition}] " if fault.condition else ""
        return f"Error running query: {condition}{_format_exception(fault)}"
    return fault.message if isinstance(fault, InvalidHandle) else fault.text


def operation_text(fault: SluiceError) -> str:
    """Return the message of an error that ended an operation: with stack and causes, as Spark tells it, where
    all may be told."""
    if isinstance(fault, StatementFailed) and fault.trace:
        return fault.trace
    if isinstance(fault, StatementRefused) and fault.in_sparks_words:
        return f"{_EXCEPTION}: {status_text(fault)}\n{_CAUSE}{_format_exception(fault)}\n"
    return status_text(fault)


def _format_exception(refused: StatementRefused) -> str:
    """Return a message in Spark's words as the exception's own `toString` has it."""
    return f"{refused.classes[0]}: {refused.text}"


def _details(fault: SluiceError, text: str) -> list[str]:
    """Return the lines of detail: for each exception `*class:message:trace length:unique frames`, and its
    frames as `class:method:file:line` (HiveSQLException.toString in Hive's service, 2.3).

    Drivers parse the numbers; `0:-1` is a trace without frames.
    """
    if isinstance(fault, StatementFailed) and fault.details:
        return list(fault.details)
    if isinstance(fault, StatementFailed) and fault.trace:
        return [line for thrown in fault.trace.split(f"\n{_CAUSE}") for line in _detail(thrown)]
    lines = [f"*{_EXCEPTION}:{text}:0:-1"]
    if isinstance(fault, StatementRefused) and fault.in_sparks_words:
        lines.append(f"*{fault.classes[0]}:{fault.text}:0:-1")
    return lines


def _detail(thrown: str) -> Iterator[str]:
    name, _, rest = thrown.partition(": ")
    lines = rest.rstrip("\n").split("\n")
    frames: list[str] = []
    common = 0
    if lines and (found := _COMMON.fullmatch(lines[-1])) is not None:
        common = int(found[1])
        lines.pop()
    while lines and (found := _FRAME.fullmatch(lines[-1])) is not None:
        kind, method, file, line = found.groups()
        native = file == "Native Method"
        frames.append(f"{kind}:{method}:{'' if native else file}:{-2 if native else line or -1}")
        lines.pop()
    message = "\n".join(lines)
    yield f"*{name}:{message}:{len(frames) + common}:{len(frames) - 1}"
    yield from reversed(frames)
