"""Unary calls that carry no plan: settings, interrupts, releases, error details, states of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.model.statement import Client
from gateway.session.connect.artifacts import judge_names
from gateway.session.connect.config import (
    answer_config,
    judge_config,
    not_set,
    settings_changed,
)
from gateway.session.connect.endings import Endings
from gateway.session.connect.errors import Redaction, redact_details
from gateway.session.connect.operation import ConnectOperation
from gateway.session.connect.requests import operation_id_of
from gateway.session.connect.session import ConnectSession, Preparing
from gateway.session.connect.spark_errors import MalformedRequest, UngovernableRequest, spark_error
from gateway.session.connect.streams import Streams
from gateway.session.connect.uploads import SessionCall, refused
from gateway.session.dependencies import Dependencies
from gateway.session.failures import CallRefusal, StatementFailed
from gateway.session.ports import PlanBackend, RpcError
from gateway.session.states import Event
from gateway.wire.connect import Message, parse, pb, serialize

RELEASED = "released by the client before its end"
UNTOLD_BYTES = 8 * 1024**2
"""Bytes of responses that the client has and Spark may go on keeping for it."""


class Calls:
    """Answers calls; the service has found the session, and made the principal the user of the request."""

    def __init__(
        self,
        dependencies: Dependencies,
        backend: PlanBackend,
        endings: Endings,
        streams: Streams,
        *,
        secrets: Sequence[str],
    ) -> None:
        self._backend = backend
        self._endings = endings
        self._streams = streams
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits
        self._secrets = secrets

    # -- settings and artifacts: of an attached session ------------------------------------------------------

    async def config(
        self, session: ConnectSession, principal: Principal, client: Client, request: pb.ConfigRequest
    ) -> bytes:
        """Set, unset or tell settings, as far as policies allow it; what changes them is recorded.

        Where it changes some that expressions depend on, the caller has the session locked.
        """
        decide = self._verdicts.deciding_for(principal, client, "CONFIG")
        visible = self._verdicts.visible_to(principal, client)
        decisions: list[Decision] = []

        def may_set(key: str) -> bool:
            decisions.append(decide(Resource.setting(key), "set"))
            return decisions[-1].allowed

        def may_read(key: str) -> bool:
            return visible(Resource.setting(key))

        question = judge_config(request, principal.user, may_set, may_read)
        case = request.operation.WhichOneof("op_type")
        if isinstance(question, CallRefusal):
            ended = await self._decided(session, principal, client, request, decisions, question)
            raise refused(session, f"Config.{case}", question, ended.statement_id)
        call: SessionCall | None = None
        if case in ("set", "unset"):
            call = await self._decided(session, principal, client, request, decisions, None)
        request.operation.CopyFrom(question.operation)
        request.client_observed_server_side_session_id = session.server_session
        changes = settings_changed(question.operation, session.own_settings)
        # Until Spark says that it has the new value: a call that fails may have set some of them.
        for key in changes:
            session.setting_may_change(key)
        finished = False
        try:
            data = await self._forward(session, "Config", request, self._endings.plain)
            finished = True
            response = parse(pb.ConfigResponse, data)
            for key, own in changes.items():
                if not not_set(key, response):
                    session.setting_changed(key, own=own)
        finally:
            if call is not None:
                await self._endings.surely(
                    self._recorder.completed(call, "finished" if finished else "failed")
                )
        answer = answer_config(question, response, may_read, secrets=self._secrets)
        if answer is None:
            raise StatementFailed("[SLUICE_NOT_GOVERNABLE] the answer cannot be filtered", "0A000", 0, "")
        return answer

    async def _decided(
        self,
        session: ConnectSession,
        principal: Principal,
        client: Client,
        request: pb.ConfigRequest,
        decisions: Sequence[Decision],
        refusal: CallRefusal | None,
    ) -> SessionCall:
        call = SessionCall(principal=principal, session_id=session.session_id)
        case = request.operation.WhichOneof("op_type") or "nothing"
        await self._recorder.call_decided(f"Config.{case}", _keys(request), call, client, decisions, refusal)
        return call

    async def artifact_status(
        self,
        session: ConnectSession,
        principal: Principal,
        client: Client,
        request: pb.ArtifactStatusesRequest,
    ) -> bytes:
        """Say whether files are there: local data by its hash, and what this session has uploaded."""
        decide = self._verdicts.deciding_for(principal, client, "ARTIFACT STATUS")
        names = [name for name in request.names if name not in session.artifacts]
        refusal = judge_names(names, principal.user, lambda resource: decide(resource, "create").allowed)
        if refusal is not None:
            raise refused(session, "ArtifactStatus", refusal, "")
        request.client_observed_server_side_session_id = session.server_session
        return await self._forward(session, "ArtifactStatus", request, self._endings.plain)

    # -- operations ----------------------------------------------------------------------------------------

    async def interrupt(self, session: ConnectSession | None, request: pb.InterruptRequest) -> bytes:
        """Stop operations in Spark; each one's end is recorded when Spark says it, or now if nobody reads."""
        if request.HasField("operation_id"):
            request.operation_id = operation_id_of(request.operation_id)
        if len(request.operation_tag) > self._limits.tag_chars:
            raise MalformedRequest(f"a tag has 1 to {self._limits.tag_chars} characters and no comma")
        self._observe(session, request)
        # First those that Spark does not have yet: it would get them after it was asked to stop them.
        preparing = _interrupted_by(request, session.preparing) if session is not None else []
        for one in preparing:
            one.interrupt()
        data = await self._forward(session, "Interrupt", request, self._endings.plain)
        if session is None:
            return data
        answer = parse(pb.InterruptResponse, data)
        for operation_id in answer.interrupted_ids:
            operation = session.operations.get(operation_id)
            if operation is not None:
                await self._interrupted(operation)
        answer.interrupted_ids.extend(one.operation_id for one in preparing)
        return serialize(answer)

    async def _interrupted(self, operation: ConnectOperation) -> None:
        operation.interrupted = True
        if operation.may_look_up_names:
            return  # Spark can lose it while it plans: it is read on until Spark says how it ended
        if operation.buffer is None and not operation.attached and operation.reattachable:
            await self._endings.conclude(operation, Event.CANCEL, reason="interrupted by the client")

    async def release_execute(
        self, session: ConnectSession | None, request: pb.ReleaseExecuteRequest
    ) -> bytes:
        """Free responses that the client has, or the whole operation. It comes once for each response."""
        request.operation_id = operation_id_of(request.operation_id)
        key = request.user_context.user_id, request.session_id, request.operation_id
        until = request.release_until.response_id if request.HasField("release_until") else None
        self._streams.windows.taken(key, until)
        operation = session.operations.get(request.operation_id) if session is not None else None
        if session is None or operation is None or operation.buffer is None:
            if session is not None and operation is not None and _is_small(operation, request):
                return _released(operation)
            if operation is not None and operation.may_look_up_names and request.HasField("release_all"):
                # Spark would stop it and no longer say so.
                await self._streams.release(operation, RELEASED)
                return _released(operation)
            request.ClearField("client_observed_server_side_session_id")
            data = await self._forward(session, "ReleaseExecute", request, self._endings.plain)
            if operation is not None and request.HasField("release_all"):
                await self._streams.release(operation, RELEASED)
            return data
        if not operation.reattachable:
            raise spark_error("INVALID_CURSOR.NOT_REATTACHABLE")
        match request.WhichOneof("release"):
            case "release_all":
                await self._streams.release(operation, RELEASED)
            case "release_until":
                operation.buffer.release(request.release_until.response_id)
            case _:
                raise MalformedRequest("the request releases nothing")
        return _released(operation)

    async def get_status(self, session: ConnectSession | None, request: pb.GetStatusRequest) -> bytes:
        """Say how operations stand."""
        if request.extensions or request.operation_status.extensions:
            raise UngovernableRequest("extensions of a request cannot be judged")
        for operation_id in request.operation_status.operation_ids:
            operation_id_of(operation_id)
        self._observe(session, request)
        data = await self._forward(session, "GetStatus", request, self._endings.plain)
        answer = parse(pb.GetStatusResponse, data)
        answer.ClearField("extensions")
        for status in answer.operation_statuses:
            status.ClearField("extensions")
        if session is not None and request.HasField("operation_status"):
            _tell_of(session.preparing, request, answer)
        return serialize(answer)

    async def error_details(
        self, session: ConnectSession | None, request: pb.FetchErrorDetailsRequest
    ) -> bytes:
        """Tell more of an error that this session was given; of another one as little as can be."""
        strictest = self._endings.strictest
        redaction = strictest
        if session is not None:
            redaction = session.errors.get(request.error_id, strictest)
        self._observe(session, request)
        data = await self._forward(session, "FetchErrorDetails", request, strictest)
        return redact_details(parse(pb.FetchErrorDetailsResponse, data), redaction)

    def _observe(
        self,
        session: ConnectSession | None,
        request: pb.InterruptRequest | pb.GetStatusRequest | pb.FetchErrorDetailsRequest,
    ) -> None:
        """Let Spark refuse when its session is another one; what the client says is checked here."""
        if session is not None:
            request.client_observed_server_side_session_id = session.server_session

    async def _forward(
        self, session: ConnectSession | None, method: str, request: Message, redaction: Redaction
    ) -> bytes:
        try:
            return await self._backend.call(method, serialize(request))
        except RpcError as fault:
            redacted = self._endings.redacted(session, fault, redaction)
            raise await self._endings.aborted_with(session, fault, redacted) from None


def _interrupted_by(request: pb.InterruptRequest, preparing: Iterable[Preparing]) -> list[Preparing]:
    """Return what an interrupt is about of the plans that are being judged."""
    kinds = pb.InterruptRequest
    match request.interrupt_type:
        case kinds.INTERRUPT_TYPE_ALL:
            return list(preparing)
        case kinds.INTERRUPT_TYPE_TAG:
            return [one for one in preparing if request.operation_tag in one.tags]
        case kinds.INTERRUPT_TYPE_OPERATION_ID:
            return [one for one in preparing if one.operation_id == request.operation_id]
    return []


def _tell_of(
    preparing: Iterable[Preparing], request: pb.GetStatusRequest, answer: pb.GetStatusResponse
) -> None:
    """Say of plans that are being judged that they run; Spark does not know of them yet."""
    asked = request.operation_status.operation_ids
    running = pb.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING
    told = {status.operation_id: status for status in answer.operation_statuses}
    for one in preparing:
        if one.operation_id in told:
            told[one.operation_id].state = running
        elif not asked:
            answer.operation_statuses.add(operation_id=one.operation_id, state=running)


def _keys(request: pb.ConfigRequest) -> list[str]:
    """Return the keys that a call names; not their values, which are nobody's but the session's."""
    operation = request.operation
    match operation.WhichOneof("op_type"):
        case "set":
            return [pair.key for pair in operation.set.pairs]
        case "get_with_default":
            return [pair.key for pair in operation.get_with_default.pairs]
        case "unset" | "get" | "get_option" | "is_modifiable" as case:
            return list(getattr(operation, case).keys)
        case _:
            return []


def _is_small(operation: ConnectOperation, request: pb.ReleaseExecuteRequest) -> bool:
    """Whether Spark need not hear of it that the client has some responses: it keeps few bytes for it, and
    none when the whole is released, and PySpark releases each response by itself."""
    if request.WhichOneof("release") != "release_until":
        return False
    if operation.relayed_bytes - operation.told_bytes < UNTOLD_BYTES:
        return True
    operation.told_bytes = operation.relayed_bytes
    return False


def _released(operation: ConnectOperation) -> bytes:
    session = operation.session
    return serialize(
        pb.ReleaseExecuteResponse(
            session_id=session.session_id,
            server_side_session_id=session.server_session,
            operation_id=operation.operation_id,
        )
    )
