"""HiveServer2's calls, answered with the session service. No sockets and no frames here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from gateway.errors import AuthenticationFailed, InvalidHandle, InvalidRequest, SluiceError
from gateway.frontends.thrift_opening import read_configuration
from gateway.frontends.thrift_status import OK, error_status, operation_text
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session import audit_records
from gateway.session.failures import StatementRefused
from gateway.session.identifiers import Handle
from gateway.session.metadata import Patterns
from gateway.session.metadata_calls import METADATA_CALLS
from gateway.session.operation import Batch, ResultColumn
from gateway.session.ports import FrameSink
from gateway.session.server_info import InfoValue, server_info
from gateway.session.service import Opened, Sessions
from gateway.wire import calls
from gateway.wire.rows import ColumnSpec, column_types, encode_rows, table_schema
from gateway.wire.tcli import (
    THandleIdentifier,
    TOperationHandle,
    TProtocolVersion,
    TSessionHandle,
    TTableSchema,
    TTypeId,
)
from gateway.wire.thrift import Struct

_log = structlog.get_logger(__name__)

_TYPES = {
    "string": TTypeId.STRING,
    "int": TTypeId.INT,
    "smallint": TTypeId.SMALLINT,
    "tinyint": TTypeId.TINYINT,
    "boolean": TTypeId.BOOLEAN,
}


@dataclass(slots=True, kw_only=True)
class Caller:
    """Who calls on one connection, and the sessions that live and die with it."""

    principal: Principal
    client: Client
    sink: FrameSink
    sessions: set[Handle] = field(default_factory=set)
    unknown_handles: int = 0
    """Calls in a row with a handle that is not there."""


FREE_TRIES = 8
"""Calls with a handle that is not there which are answered at once: a client may have several to close."""
LONGEST_PAUSE_S = 5.0


def pause_s(before: int) -> float:
    """Return for how long a call with an unknown handle waits for its answer after `before` others."""
    tries = min(before - FREE_TRIES, 16)
    return 0.0 if tries < 0 else min(0.05 * 2.0**tries, LONGEST_PAUSE_S)


class ThriftService:
    """Answers calls by name. Every error becomes a status in the reply of its call."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        spark_version: str,
        keywords: Sequence[str],
        max_statement_chars: int,
    ) -> None:
        """`keywords` are all words of Spark's grammar."""
        self._sessions = sessions
        self._spark_version = spark_version
        self._keywords = keywords
        self._max_statement_chars = max_statement_chars
        self._answers: dict[str, Callable[[Caller, Any, int], Awaitable[Struct | None]]] = {
            "OpenSession": self._open_session,
            "CloseSession": self._close_session,
            "GetInfo": self._get_info,
            "ExecuteStatement": self._execute,
            "GetOperationStatus": self._status,
            "GetResultSetMetadata": self._schema,
            "FetchResults": self._fetch,
            "CancelOperation": self._cancel,
            "CloseOperation": self._close_operation,
            "GetDelegationToken": self._no_tokens,
            "CancelDelegationToken": self._no_tokens,
            "RenewDelegationToken": self._no_tokens,
            "SetClientInfo": self._set_client_info,
        }

    async def answer(self, method: str, request: Struct, seqid: int, caller: Caller) -> Struct | None:
        """Return the reply, or None when it has been relayed to the caller's sink already."""
        reply: Struct | None
        try:
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

    async def disconnected(self, caller: Caller) -> None:
        """Close what the connection leaves behind."""
        handles, caller.sessions = tuple(caller.sessions), set()
        await self._sessions.disconnected(handles)

    # -- sessions ----------------------------------------------------------------------------------------

    async def _open_session(self, caller: Caller, request: calls.TOpenSessionReq, seqid: int) -> Struct:
        version = request.client_protocol
        if not TProtocolVersion.V1 <= version <= TProtocolVersion.V11:
            raise InvalidRequest(
                f"protocol version {version:#06x} is not HiveServer2's; use a driver that speaks V1 to V11"
            )
        # `username` and `password` are ignored: who logged in is who it is (impyla sends its OS user).
        opening = read_configuration(request.configuration or {}, caller.principal.user)
        if opening.hostile:
            for key in opening.hostile:
                await self._sessions.recorder.record(
                    audit_records.security,
                    caller.principal,
                    action="hostile_setting",
                    reason=key,
                    client=caller.client,
                )
            raise AuthenticationFailed("acting as another user is not allowed; log in as that user")
        handle = await self._sessions.open_session(
            caller.principal,
            caller.client,
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
        await self._sessions.close_session(caller.principal, handle)
        caller.sessions.discard(handle)
        return calls.TCloseSessionResp(status=OK)

    async def _get_info(self, caller: Caller, request: calls.TGetInfoReq, seqid: int) -> Struct:
        await self._sessions.require_session(caller.principal, _session(request))
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
        await self._sessions.require_session(caller.principal, _session(request))
        return calls.TSetClientInfoResp(status=OK)

    async def _no_tokens(self, caller: Caller, request: Any, seqid: int) -> Struct | None:
        raise InvalidRequest("delegation tokens are not supported; log in with a password")

    # -- statements --------------------------------------------------------------------------------------

    async def _execute(self, caller: Caller, request: calls.TExecuteStatementReq, seqid: int) -> Struct:
        # `confOverlay` is dropped: Spark ignores it, and what counts goes through SET.
        timeout_s = request.queryTimeout or 0
        if timeout_s < 0:
            raise InvalidRequest("the statement's timeout is negative")
        try:
            opened = await self._sessions.execute(
                caller.principal,
                _session(request),
                request.statement,
                run_async=bool(request.runAsync),
                timeout_s=timeout_s,
            )
        except StatementRefused as refused:
            status = error_status(refused)
            if request.runAsync:
                # Spark would have begun an operation that fails; this is what its status would say.
                status.errorMessage = operation_text(refused)
            return calls.TExecuteStatementResp(status=status)
        return calls.TExecuteStatementResp(status=OK, operationHandle=_operation_handle(opened))

    async def _status(self, caller: Caller, request: calls.TGetOperationStatusReq, seqid: int) -> Struct:
        report = await self._sessions.status(
            caller.principal, *_operation(request), progress=bool(request.getProgressUpdate)
        )
        reply = calls.TGetOperationStatusResp(
            status=OK, operationState=report.state, hasResultSet=report.has_result_set
        )
        if report.error is not None:
            reply.sqlState = report.error.sqlstate or None
            reply.errorCode = getattr(report.error, "error_code", 0)
            reply.errorMessage = operation_text(report.error)
        return reply

    async def _schema(self, caller: Caller, request: calls.TGetResultSetMetadataReq, seqid: int) -> Struct:
        schema = await self._sessions.schema(caller.principal, *_operation(request))
        return calls.TGetResultSetMetadataResp(status=OK, schema=_table_schema(schema))

    async def _fetch(self, caller: Caller, request: calls.TFetchResultsReq, seqid: int) -> Struct | None:
        handle, kind = _operation(request)
        batch = await self._sessions.fetch(
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
        await self._sessions.cancel(caller.principal, *_operation(request))
        return calls.TCancelOperationResp(status=OK)

    async def _close_operation(self, caller: Caller, request: calls.TCloseOperationReq, seqid: int) -> Struct:
        await self._sessions.close_operation(caller.principal, *_operation(request))
        return calls.TCloseOperationResp(status=OK)

    # -- metadata ----------------------------------------------------------------------------------------

    async def _metadata(self, method: str, request: Any, caller: Caller) -> Struct:
        function = getattr(request, "functionName", None)
        patterns = Patterns(
            catalog=getattr(request, "catalogName", None),
            schema=getattr(request, "schemaName", None),
            table=function if function is not None else getattr(request, "tableName", None),
            column=getattr(request, "columnName", None),
        )
        opened = await self._sessions.metadata(
            caller.principal,
            _session(request),
            METADATA_CALLS[method],
            method,
            patterns,
            getattr(request, "tableTypes", None),
        )
        reply: Struct = calls.METHODS[method][1](status=OK, operationHandle=_operation_handle(opened))
        return reply


def error_reply(method: str, fault: SluiceError) -> Struct:
    """Return the reply that says an error in the shape of the call's own reply."""
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
