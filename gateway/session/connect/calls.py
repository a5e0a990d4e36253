"""Unary calls that carry no plan: settings, interrupts, releases, error details, states of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gateway.errors import RpcError
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.reading_settings import READING_QUESTION
from gateway.model.resource import Resource
from gateway.model.spark_configuration import write_reading
from gateway.model.statement import Client
from gateway.session.connect.artifacts import judge_names
from gateway.session.connect.config import (
    ConfigQuestion,
    answer_config,
    judge_config,
    not_set,
    settings_changed,
)
from gateway.session.connect.endings import Endings
from gateway.session.connect.errors import Redaction
from gateway.session.connect.operation import ConnectOperation, ConnectSession, Preparing
from gateway.session.connect.streams import Streams
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import RecordedCall
from gateway.session.failures import CallRefusal, StatementFailed
from gateway.session.ports import PlanBackend
from gateway.session.states import Event
from gateway.wire import connect_calls, connect_requests
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_errors import spark_error
from gateway.wire.connect_requests import (
    ArtifactStatusesRequest,
    ConfigOperation,
    ConfigRequest,
    ConnectRequest,
    FetchErrorDetailsRequest,
    GetStatusRequest,
    InterruptRequest,
    MalformedRequest,
    ReleaseExecuteRequest,
)
from gateway.wire.connect_responses import (
    read_config,
    redact_details,
    with_interrupted,
    with_running,
    write_config,
    write_released,
)

RELEASED = "released by the client before its end"
UNREPORTED_BYTES = 8 * 1024**2
"""Bytes of responses that the client has and Spark may go on keeping for it."""


class Calls:
    """Answers calls; the service has found the session, and made the principal the user of the request."""

    def __init__(
        self,
        dependencies: Dependencies,
        endings: Endings,
        streams: Streams,
        *,
        secrets: Sequence[str],
    ) -> None:
        self._endings = endings
        self._streams = streams
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits
        self._secrets = secrets
        self._reader = dependencies.reader

    # -- settings and artifacts: of an attached session ------------------------------------------------------

    async def config(
        self, session: ConnectSession, principal: Principal, client: Client, request: ConfigRequest
    ) -> bytes:
        """Set, unset or tell settings, as far as policies allow it; what changes them is recorded.

        Where it changes some that expressions depend on, the caller has the session locked.
        """
        asked = request.operation
        if asked.kind == "get_all" and asked.prefix == READING_QUESTION and principal.gateway:
            return await self._tell_reading(session, request)
        rights = self._verdicts.rights_of(principal, client, "CONFIG")
        visible = self._verdicts.visible_to(principal, client)
        decisions: list[Decision] = []

        def may_set(key: str) -> bool:
            decisions.append(rights.decide(Resource.setting(key), "set"))
            return decisions[-1].allowed

        def may_read(key: str) -> bool:
            return visible(Resource.setting(key))

        name = f"Config.{asked.kind}"
        call = RecordedCall(principal=principal, session_id=session.session_id)
        question = judge_config(asked, principal.user, may_set, may_read)
        refusal = question if isinstance(question, CallRefusal) else None
        recorded = refusal is not None or asked.kind in ("set", "unset")
        if recorded:
            # Keys, but not their values, which are nobody's but the session's.
            await self._recorder.call_decided(name, asked.keys, call, client, decisions, refusal)
        if isinstance(question, CallRefusal):
            raise session.build_refusal_error(name, question, call.statement_id)
        changes = settings_changed(question.operation, session.own_settings)
        # Until Spark says that it has the new value: a call that fails may have set some of them.
        for key in changes:
            session.note_setting_may_change(key)
        finished = False
        try:
            forwarded = connect_calls.config(
                session.key, question.operation, session.server_session, request.client_type
            )
            response = read_config(
                await self._forward(session.spark, session, "Config", forwarded, self._endings.plain)
            )
            finished = True
            for key, own in changes.items():
                if not not_set(key, response):
                    session.note_setting_changed(key, own=own)
        finally:
            if recorded:
                await self._endings.run_uncancelled(
                    self._recorder.record_completed(call, "finished" if finished else "failed")
                )
        answer = answer_config(question, response, may_read, secrets=self._secrets)
        if answer is None:
            raise StatementFailed("[SLUICE_NOT_GOVERNABLE] the response cannot be filtered", "0A000", 0, "")
        return write_config(answer)

    async def _tell_reading(self, session: ConnectSession, request: ConfigRequest) -> bytes:
        """Tell a gateway before this one how texts are read in a session, so that it can prove its own."""
        everything = ConfigOperation(kind="get_all")
        forwarded = connect_calls.config(session.key, everything, session.server_session, request.client_type)
        response = read_config(
            await self._forward(session.spark, session, "Config", forwarded, self._endings.plain)
        )
        question = ConfigQuestion(operation=everything, listed=True)
        answer = answer_config(question, response, lambda _: True, secrets=self._secrets)
        if answer is None:
            raise StatementFailed("[SLUICE_NOT_GOVERNABLE] the response cannot be filtered", "0A000", 0, "")
        told = tuple(write_reading(self._reader).items())
        return write_config(replace(answer, pairs=(*answer.pairs, *told)))

    async def artifact_status(
        self,
        session: ConnectSession,
        principal: Principal,
        client: Client,
        request: ArtifactStatusesRequest,
    ) -> bytes:
        """Say whether files are there: local data by its hash, and what this session has uploaded."""
        rights = self._verdicts.rights_of(principal, client, "ARTIFACT STATUS")
        names = [name for name in request.names if name not in session.artifacts]
        refusal = judge_names(names, principal.user, lambda one: rights.decide(one, "create").allowed)
        if refusal is not None:
            raise session.build_refusal_error("ArtifactStatus", refusal, "")
        forwarded = connect_calls.artifact_statuses(
            session.key, request.names, session.server_session, request.client_type
        )
        return await self._forward(session.spark, session, "ArtifactStatus", forwarded, self._endings.plain)

    # -- operations ----------------------------------------------------------------------------------------
    # `key` has the principal's name, `spark` is as he reaches it; `session` None where no plan came yet.

    async def interrupt(
        self, spark: PlanBackend, key: SessionKey, session: ConnectSession | None, request: InterruptRequest
    ) -> bytes:
        """Stop operations in Spark; each one's end is recorded when Spark says it, or now if nobody reads."""
        if len(request.tag) > self._limits.tag_chars:
            raise MalformedRequest(f"a tag must have 1 to {self._limits.tag_chars} characters and no comma")
        # First those that Spark does not have yet: it would get them after it was asked to stop them.
        preparing = _list_interrupted(request, session.preparing) if session is not None else []
        for one in preparing:
            one.interrupt()
        renamed = session.renamed if session is not None else {}
        if session is not None and request.operation_id:
            request = replace(request, operation_id=session.spark_id(request.operation_id))
        forwarded = connect_calls.interrupt_as_asked(key, request, _find_observed(session, request))
        data = await self._forward(spark, session, "Interrupt", forwarded, self._endings.plain)
        if session is None:
            return data
        for operation_id in connect_calls.read_interrupted_ids(data):
            operation = session.operations.get(renamed.get(operation_id, operation_id))
            if operation is not None:
                await self._interrupt(operation)
        return with_interrupted(data, (one.operation_id for one in preparing), renamed)

    async def _interrupt(self, operation: ConnectOperation) -> None:
        operation.interrupted = True
        if operation.may_look_up_names:
            return  # Spark can lose it while it plans: it is read on until Spark says how it ended
        if operation.buffer is None and not operation.attached and operation.reattachable:
            await self._endings.conclude(operation, Event.CANCEL, reason="interrupted by the client")

    async def release_execute(
        self,
        spark: PlanBackend,
        key: SessionKey,
        session: ConnectSession | None,
        request: ReleaseExecuteRequest,
    ) -> bytes:
        """Free responses that the client has, or the whole operation. It comes once for each response."""
        if request.release == "nothing":
            raise MalformedRequest("the request releases nothing")
        whole = request.release == "all"
        until = None if whole else request.until
        self._streams.windows.acknowledge((*key, request.operation_id), until)
        operation = session.operations.get(request.operation_id) if session is not None else None
        if operation is not None and operation.buffer is not None:
            if not operation.reattachable:
                raise spark_error("INVALID_CURSOR.NOT_REATTACHABLE")
            if until is None:
                await self._streams.release(operation, RELEASED)
            else:
                operation.buffer.release(until)
            return _release_operation(operation)
        if (
            operation is not None
            and until is not None
            and (operation.is_superseded(until) or _is_small(operation))
        ):
            return _release_operation(operation)
        if operation is not None and operation.may_look_up_names and whole:
            # Spark would stop it and no longer say so.
            await self._streams.release(operation, RELEASED)
            return _release_operation(operation)
        spark_id = request.operation_id if operation is None else operation.spark_id
        forwarded = connect_calls.release_execute(key, spark_id, until, client_type=request.client_type)
        data = await self._forward(spark, session, "ReleaseExecute", forwarded, self._endings.plain)
        if operation is not None and whole:
            await self._streams.release(operation, RELEASED)
        return data if operation is None or not operation.ran_again else _release_operation(operation)

    async def get_status(
        self, spark: PlanBackend, key: SessionKey, session: ConnectSession | None, request: GetStatusRequest
    ) -> bytes:
        """Say how operations stand; of plans that are being judged, and that Spark does not know of yet, that
        they run, and of those that wait for room their place."""
        asked = request.operation_ids
        in_spark = asked
        if session is not None and asked is not None:
            in_spark = tuple(map(session.spark_id, asked))
        forwarded = connect_calls.get_status(
            key, in_spark, observed=_find_observed(session, request), client_type=request.client_type
        )
        data = await self._forward(spark, session, "GetStatus", forwarded, self._endings.plain)
        preparing = session.preparing if session is not None and asked is not None else ()
        renamed = session.renamed if session is not None else {}
        waits = {one.operation_id: one.describe_wait() for one in preparing}
        return with_running(data, waits, renamed, listed=not asked)

    async def error_details(
        self,
        spark: PlanBackend,
        key: SessionKey,
        session: ConnectSession | None,
        request: FetchErrorDetailsRequest,
    ) -> bytes:
        """Tell more of an error that this session was given; of another one as little as can be."""
        strictest = self._endings.strictest
        redaction = strictest
        if session is not None:
            redaction = session.errors.get(request.error_id, strictest)
            if (known := session.details.get(request.error_id)) is not None:
                return redact_details(known, redaction)
        forwarded = connect_calls.fetch_error_details(
            key, request.error_id, _find_observed(session, request), request.client_type
        )
        return redact_details(
            await self._forward(spark, session, "FetchErrorDetails", forwarded, strictest), redaction
        )

    async def _forward(
        self,
        spark: PlanBackend,
        session: ConnectSession | None,
        method: str,
        request: bytes,
        redaction: Redaction,
    ) -> bytes:
        try:
            return await spark.call(method, request)
        except RpcError as fault:
            redacted = self._endings.redact_error(session, fault, redaction)
            raise await self._endings.abort_on_error(session, fault, redacted) from None


def _find_observed(session: ConnectSession | None, request: ConnectRequest) -> str:
    """Return the session that Spark is to have, or to refuse; what the client says has been checked."""
    return session.server_session if session is not None else request.observed


def _list_interrupted(request: InterruptRequest, preparing: Iterable[Preparing]) -> list[Preparing]:
    """Return what an interrupt is about of the plans that are being judged."""
    match request.kind:
        case connect_requests.INTERRUPT_ALL:
            return list(preparing)
        case connect_requests.INTERRUPT_TAG:
            return [one for one in preparing if request.tag in one.tags]
        case connect_requests.INTERRUPT_OPERATION:
            return [one for one in preparing if one.operation_id == request.operation_id]
    return []


def _is_small(operation: ConnectOperation) -> bool:
    """Whether Spark need not hear of it that the client has some responses: it keeps few bytes for it, and
    none when the whole is released, and PySpark releases each response by itself."""
    if operation.relayed_bytes - operation.reported_bytes < UNREPORTED_BYTES:
        return True
    operation.reported_bytes = operation.relayed_bytes
    return False


def _release_operation(operation: ConnectOperation) -> bytes:
    session = operation.session
    return write_released(session.session_id, session.server_session, operation.operation_id)
