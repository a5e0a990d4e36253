"""Files that clients upload: every message checked and recorded before Spark gets it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gateway.errors import BackendUnavailable, InvalidRequest, SluiceError
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.model.statement import Client, Refused, Statement
from gateway.session.audit_records import Outcome
from gateway.session.connect.artifacts import ArtifactStream
from gateway.session.connect.endings import Endings
from gateway.session.connect.requests import observed_of, read
from gateway.session.connect.session import ConnectSession
from gateway.session.dependencies import Dependencies
from gateway.session.failures import CallRefusal, StatementFailed, StatementRefused
from gateway.session.identifiers import new_event_id
from gateway.session.ports import PlanBackend, RpcError
from gateway.wire.connect import pb, serialize

CACHE = "cache/"
"""Local data of a plan under its hash: it needs no grant and leaves no event of its own."""


@dataclass(slots=True, kw_only=True)
class SessionCall:
    """A call without a statement that changes a session, for its closing event."""

    statement_id: str = field(default_factory=new_event_id)
    principal: Principal
    session_id: str
    completed: bool = False
    started: float = field(default_factory=time.monotonic)
    relayed_rows: int = 0
    relayed_bytes: int = 0
    error: SluiceError | None = None
    backend_id: str = ""


def refused(session: ConnectSession, text: str, refusal: CallRefusal, statement_id: str) -> StatementRefused:
    """Return the error that tells of a refused call."""
    statement = Statement(text=text, principal=session.principal, context=session.context)
    code, sqlstate, message = refusal.code, refusal.sqlstate, refusal.message
    return StatementRefused(
        Refused(statement=statement, code=code, sqlstate=sqlstate, message=message), statement_id
    )


class Uploads:
    """AddArtifacts, from its first message to its end."""

    def __init__(self, dependencies: Dependencies, backend: PlanBackend, endings: Endings) -> None:
        self._backend = backend
        self._endings = endings
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits

    async def add(
        self,
        session: ConnectSession,
        principal: Principal,
        client: Client,
        first: pb.AddArtifactsRequest,
        rest: AsyncIterator[bytes],
    ) -> bytes:
        """Upload what is allowed, message by message. Raises StatementRefused at the first that is not."""
        upload = _Upload(self, session, principal, client)
        outcome: Outcome = "canceled"
        error: SluiceError | None = None
        try:
            answer = await self._backend.add_artifacts(upload.messages(first, rest))
            if len(session.artifacts) + len(upload.named) <= self._limits.handles:
                session.artifacts.update(upload.named)
            outcome = "finished"
            return answer
        except RpcError as fault:
            redacted = self._endings.redacted(session, fault, self._endings.plain)
            outcome, error = "failed", StatementFailed(redacted.message, "HY000", redacted.code, "")
            raise await self._endings.aborted_with(session, fault, redacted) from None
        except (BackendUnavailable, InvalidRequest, StatementRefused) as fault:
            outcome, error = "failed", fault
            raise
        finally:
            for call in upload.calls:
                call.error = error
                await self._endings.surely(self._recorder.completed(call, outcome))


class _Upload:
    def __init__(
        self, uploads: Uploads, session: ConnectSession, principal: Principal, client: Client
    ) -> None:
        self._uploads = uploads
        self._session = session
        self._principal = principal
        self._client = client
        self._decisions: list[Decision] = []
        self._stream = ArtifactStream(principal.user, self._may_create)
        self.calls: list[SessionCall] = []
        self.named: list[str] = []

    def _may_create(self, resource: Resource) -> bool:
        # Asked anew for each: an upload may last, and policies may change meanwhile.
        decide = self._uploads._verdicts.deciding_for(self._principal, self._client, "ADD ARTIFACTS")
        decision = decide(resource, "create")
        self._decisions.append(decision)
        return decision.allowed

    async def messages(
        self, first: pb.AddArtifactsRequest, rest: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Yield the messages that may go on, each after it was recorded."""
        yield await self._checked(first)
        async for data in rest:
            message = read(pb.AddArtifactsRequest, data, self._principal, self._uploads._limits)
            if message.session_id != self._session.session_id:
                raise InvalidRequest("one upload belongs to one session; its messages name several")
            self._session.check_observed(observed_of(message))
            yield await self._checked(message)
        if (refusal := self._stream.finish()) is not None:
            raise InvalidRequest(refusal.message)

    async def _checked(self, message: pb.AddArtifactsRequest) -> bytes:
        session = self._session
        session.require_open()
        before = len(self._stream.names)
        self._decisions.clear()
        refusal = self._stream.take(message)
        names = [name for name in self._stream.names[before:] if not name.startswith(CACHE)]
        if refusal is not None:
            names = names or _names_of(message)
            call = SessionCall(principal=session.principal, session_id=session.session_id)
            await self._record(names, call, refusal)
            raise refused(session, "AddArtifacts", refusal, call.statement_id)
        if names:
            call = SessionCall(principal=session.principal, session_id=session.session_id)
            await self._record(names, call, None)
            # INVARIANT (audit first): only below this line may the message reach Spark.
            self.calls.append(call)
            self.named.extend(names)
        message.client_observed_server_side_session_id = session.server_session
        return serialize(message)

    async def _record(self, names: list[str], call: SessionCall, refusal: CallRefusal | None) -> None:
        await self._uploads._recorder.call_decided(
            "AddArtifacts", names, call, self._client, list(self._decisions), refusal
        )


def _names_of(message: pb.AddArtifactsRequest) -> list[str]:
    match message.WhichOneof("payload"):
        case "batch":
            return [artifact.name for artifact in message.batch.artifacts]
        case "begin_chunk":
            return [message.begin_chunk.name]
        case _:
            return []
