"""Files that clients upload into their session: judged by their names, recorded, and only then Spark's.

An artifact is code or data that Spark puts on the driver and the executors. Only `cache/`, the rows of local
data that a plan names by their hash, needs no grant; everything else is code that nothing here can hold back.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

from gateway.errors import AuthenticationFailed, BackendUnavailable, InvalidRequest, RpcError, SluiceError
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.model.statement import Client
from gateway.pipeline.local_data import LocalDataCheck
from gateway.session.audit_records import StatementOutcome
from gateway.session.connect.endings import Endings
from gateway.session.connect.operation import ConnectSession
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import RecordedCall
from gateway.session.failures import CallRefusal, StatementFailed, StatementRefused
from gateway.wire import connect_calls
from gateway.wire.connect_requests import (
    AddArtifactsRequest,
    ArtifactBatch,
    ArtifactBytes,
    ChunkedArtifact,
    add_artifacts,
)

MayCreate = Callable[[Resource], bool]
"""Whether policies let the principal `create` an artifact."""

CACHE = "cache/"
"""Local data of a plan under its hash: it needs no grant and leaves no event of its own."""
CODE_PREFIXES = ("archives", "classes", "files", "jars", "pyfiles")
"""Folders that Spark knows, whose content becomes part of what sessions run."""
MAX_NAME_CHARS = 512
SHOWN = 5
"""Grants that a refusal names: gRPC takes 8 KB for a status and everything beside it."""

_CACHED = re.compile(r"cache/[0-9a-f]{64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0080-\u009f\ud800-\udfff\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """Bounds of one upload. Nothing of it is kept here; Spark keeps it on its disk."""

    total_bytes: int = 4 * 1024**3
    """pyspark sends local data of up to 3 GB (`spark.sql.session.localRelationSizeLimit`) in one upload."""
    artifacts: int = 10_000
    """Files in one upload."""


def judge_names(names: Iterable[str], user: str, may_create: MayCreate) -> CallRefusal | None:
    """Say whether artifacts of these names may be uploaded, or asked for; None when all of them may.

    Names that are no names are told first, then all missing grants at once.
    """
    missing: list[str] = []
    for name in names:
        if (odd := _odd(name)) is not None:
            return odd
        if _CACHED.fullmatch(name):
            continue
        resource = Resource.artifact(name)
        if not may_create(resource):
            missing.append(f"create on {resource.kind} {resource}")
    if not missing:
        return None
    needed = ", ".join(dict.fromkeys(missing[:SHOWN])) + (", …" if len(missing) > SHOWN else "")
    return CallRefusal(code="ACCESS_DENIED", sqlstate="42501", message=f"user {user} needs {needed}")


def _odd(name: str) -> CallRefusal | None:
    """Say what is wrong with a name in itself. Spark makes a path of it, below a folder of the session."""
    if not name or len(name) > MAX_NAME_CHARS or _CONTROL.search(name):
        return _build_malformed_error(
            "an artifact name must have 1 to 512 characters without control characters and `\\`"
        )
    prefix, slash, rest = name.partition("/")
    if prefix == "forward_to_fs":
        return CallRefusal(
            code="NOT_GOVERNABLE",
            sqlstate="0A000",
            message="artifacts cannot copy files to Spark's file system; write a table instead",
        )
    if prefix == "cache":
        if _CACHED.fullmatch(name):
            return None
        return _build_malformed_error(
            "the name of cached local data must be `cache/` and the SHA-256 of its bytes"
        )
    if prefix not in CODE_PREFIXES or not slash:
        known = ", ".join(f"`{folder}/`" for folder in CODE_PREFIXES)
        return _build_malformed_error(f"an artifact name must begin with one of {known} or `cache/`")
    path, mark, fragment = rest.partition("#")
    if mark and (prefix != "archives" or not _is_plain(fragment) or "#" in fragment or "/" in fragment):
        # `archives/x.zip#name` is unpacked as `name`.
        return _build_malformed_error(
            "only the name of an archive may end in `#` and the folder to unpack it into"
        )
    if not all(_is_plain(segment) for segment in path.split("/")):
        return _build_malformed_error("an artifact name must not contain empty parts, `.` or `..`")
    return None


def _is_plain(segment: str) -> bool:
    return segment.strip() not in ("", ".", "..") and segment == segment.strip()


def _build_malformed_error(message: str) -> CallRefusal:
    return CallRefusal(code="MALFORMED", sqlstate="22023", message=message)


def _ungovernable(why: str) -> CallRefusal:
    return CallRefusal(code="NOT_GOVERNABLE", sqlstate="0A000", message=why)


class ArtifactStream:
    """Judges the messages of one AddArtifacts call in their order.

    INVARIANT: a message may be forwarded only after `take` returned None for it and for all before it, and
    the upload is whole only after `finish` returned None.
    """

    def __init__(self, user: str, may_create: MayCreate, limits: ArtifactLimits | None = None) -> None:
        self._user = user
        self._may_create = may_create
        self._limits = limits or ArtifactLimits()
        self._bytes = 0
        self._open = ""
        self._chunks_due = 0
        self._bytes_due = 0
        self._check: LocalDataCheck | None = None
        self.names: list[str] = []
        """What was taken, for the record."""

    def take(self, request: AddArtifactsRequest) -> CallRefusal | None:
        """Judge one message."""
        match request.payload:
            case ArtifactBatch(artifacts):
                return self._batch(artifacts)
            case ChunkedArtifact() as begin:
                return self._begin(begin)
            case ArtifactBytes() as chunk:
                return self._chunk(chunk)
            case None:
                return _build_malformed_error("an upload message has no artifacts")

    def finish(self) -> CallRefusal | None:
        """Judge the end of the stream."""
        if self._chunks_due:
            return _build_malformed_error(f"the upload ended within `{self._open}`")
        return None

    def _batch(self, artifacts: Sequence[ArtifactBytes]) -> CallRefusal | None:
        if self._chunks_due:
            return _build_malformed_error(f"other artifacts came before `{self._open}` was complete")
        return (
            self._names([artifact.name for artifact in artifacts])
            or self._count(sum(len(artifact.data) for artifact in artifacts))
            or self._contents(artifacts)
        )

    def _contents(self, artifacts: Iterable[ArtifactBytes]) -> CallRefusal | None:
        for artifact in artifacts:
            if _CACHED.fullmatch(artifact.name):
                why = LocalDataCheck().refusal(artifact.data, last=True)
                if why is not None:
                    return _ungovernable(why)
        return None

    def _begin(self, begin: ChunkedArtifact) -> CallRefusal | None:
        if self._chunks_due:
            return _build_malformed_error(f"another artifact began before `{self._open}` was complete")
        if (refusal := self._names([begin.name])) is not None:
            return refusal
        if begin.chunks < 1 or begin.total_bytes < 0:
            return _build_malformed_error(f"`{begin.name}` announces a negative size")
        if begin.total_bytes > self._limits.total_bytes - self._bytes:
            return self._too_large()
        self._open, self._chunks_due, self._bytes_due = begin.name, begin.chunks, begin.total_bytes
        self._check = LocalDataCheck() if _CACHED.fullmatch(begin.name) else None
        return self._chunk(begin.first)

    def _chunk(self, chunk: ArtifactBytes) -> CallRefusal | None:
        if not self._chunks_due:
            return _build_malformed_error("a chunk does not belong to any announced artifact")
        self._chunks_due -= 1
        self._bytes_due -= len(chunk.data)
        if self._bytes_due < 0 or (not self._chunks_due and self._bytes_due):
            return _build_malformed_error(f"`{self._open}` does not have the announced size")
        if self._check is not None:
            why = self._check.refusal(chunk.data, last=not self._chunks_due)
            if why is not None:
                return _ungovernable(why)
        return self._count(len(chunk.data))

    def _names(self, names: list[str]) -> CallRefusal | None:
        if len(self.names) + len(names) > self._limits.artifacts:
            return CallRefusal(
                code="LIMIT_EXCEEDED",
                sqlstate="54000",
                message=f"an upload can have at most {self._limits.artifacts} artifacts",
            )
        refusal = judge_names(names, self._user, self._may_create)
        if refusal is None:
            self.names.extend(names)
        return refusal

    def _count(self, size: int) -> CallRefusal | None:
        self._bytes += size
        return self._too_large() if self._bytes > self._limits.total_bytes else None

    def _too_large(self) -> CallRefusal:
        return CallRefusal(
            code="LIMIT_EXCEEDED",
            sqlstate="54000",
            message=f"an upload can have at most {self._limits.total_bytes} bytes",
        )


class Uploads:
    """AddArtifacts, from its first message to its end."""

    def __init__(self, dependencies: Dependencies, endings: Endings) -> None:
        self._endings = endings
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits

    async def add(
        self,
        session: ConnectSession,
        principal: Principal,
        client: Client,
        first: AddArtifactsRequest,
        rest: AsyncIterator[bytes],
    ) -> bytes:
        """Upload what is allowed, message by message. Raises StatementRefused at the first that is not."""
        upload = _Upload(self, session, principal, client)
        outcome: StatementOutcome = "canceled"
        error: SluiceError | None = None
        try:
            answer = await session.spark.add_artifacts(upload.messages(first, rest), principal.user)
            if len(session.artifacts) + len(upload.named) <= self._limits.handles:
                session.artifacts.update(upload.named)
            outcome = "finished"
            return answer
        except RpcError as fault:
            redacted = self._endings.redact_error(session, fault, self._endings.plain)
            outcome, error = "failed", StatementFailed(redacted.message, "HY000", redacted.code, "")
            raise await self._endings.abort_on_error(session, fault, redacted) from None
        except (AuthenticationFailed, BackendUnavailable, InvalidRequest, StatementRefused) as fault:
            outcome, error = "failed", fault
            raise
        finally:
            for call in upload.calls:
                call.error = error
                await self._endings.run_uncancelled(self._recorder.record_completed(call, outcome))


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
        self.calls: list[RecordedCall] = []
        self.named: list[str] = []

    def _may_create(self, resource: Resource) -> bool:
        # Asked anew for each: an upload may last, and policies may change meanwhile.
        rights = self._uploads._verdicts.rights_of(self._principal, self._client, "ADD ARTIFACTS")
        decision = rights.decide(resource, "create")
        self._decisions.append(decision)
        return decision.allowed

    async def messages(self, first: AddArtifactsRequest, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the messages that may go on, each after it was recorded."""
        yield await self._check_artifact(first)
        async for data in rest:
            message = add_artifacts(data)
            if message.session_id != self._session.session_id:
                raise InvalidRequest("the messages of an upload name several sessions")
            self._session.check_observed(message.observed)
            yield await self._check_artifact(message)
        if (refusal := self._stream.finish()) is not None:
            raise InvalidRequest(refusal.message)

    async def _check_artifact(self, message: AddArtifactsRequest) -> bytes:
        session = self._session
        session.require_open()
        before = len(self._stream.names)
        self._decisions.clear()
        refusal = self._stream.take(message)
        names = [name for name in self._stream.names[before:] if not name.startswith(CACHE)]
        if refusal is not None:
            names = names or _names_of(message)
            call = RecordedCall(principal=session.principal, session_id=session.session_id)
            await self._record(names, call, refusal)
            raise session.build_refusal_error("AddArtifacts", refusal, call.statement_id)
        if names:
            call = RecordedCall(principal=session.principal, session_id=session.session_id)
            await self._record(names, call, None)
            # INVARIANT (audit first): only below this line may the message reach Spark.
            self.calls.append(call)
            self.named.extend(names)
        return connect_calls.add_artifacts(session.key, message, session.server_session)

    async def _record(self, names: list[str], call: RecordedCall, refusal: CallRefusal | None) -> None:
        await self._uploads._recorder.call_decided(
            "AddArtifacts", names, call, self._client, list(self._decisions), refusal
        )


def _names_of(message: AddArtifactsRequest) -> list[str]:
    match message.payload:
        case ArtifactBatch(artifacts):
            return [artifact.name for artifact in artifacts]
        case ChunkedArtifact(name):
            return [name]
        case _:
            return []
