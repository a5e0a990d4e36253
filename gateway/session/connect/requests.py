"""Requests of clients, read and checked: what is in them that a session may act on.

Whatever a client says of its user is overwritten here, in every message of every call, before anything else
looks at it. INVARIANT (bound to the principal): Spark keeps sessions, operations and artifacts by (user,
session), so that with the user's name from the login nobody reaches anything of somebody else.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TypeVar

from gateway.model.principal import Principal
from gateway.model.statement import PlanRequest
from gateway.session.connect.spark_errors import MalformedRequest, UngovernableRequest, spark_error
from gateway.session.identifiers import new_uuid
from gateway.session.limits import SessionLimits
from gateway.wire.connect import Message, ProtobufError, parse, pb, serialize, unknown_field

ObservingRequest = (
    pb.AddArtifactsRequest
    | pb.AnalyzePlanRequest
    | pb.ArtifactStatusesRequest
    | pb.CloneSessionRequest
    | pb.ConfigRequest
    | pb.ExecutePlanRequest
    | pb.FetchErrorDetailsRequest
    | pb.GetStatusRequest
    | pb.InterruptRequest
    | pb.ReattachExecuteRequest
    | pb.ReleaseExecuteRequest
)
"""Requests that say which of Spark's sessions the client believes to talk to."""
Request = ObservingRequest | pb.ReleaseSessionRequest
"""Every request names its session, its user and its client."""
_R = TypeVar("_R", bound=Request)

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ANALYSES = frozenset(
    field.name for field in pb.AnalyzePlanRequest.DESCRIPTOR.oneofs_by_name["analyze"].fields
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """By what an operation is known, and how its responses are wanted."""

    operation_id: str = field(default_factory=new_uuid)
    """Lower case, as Spark answers it."""
    client_type: str = ""
    digest: bytes = b""
    """Of the plan: a client that asks again with the same id asks for the same."""
    tags: tuple[str, ...] = ()
    reattachable: bool = False
    chunked: bool = False
    chunk_bytes: int | None = None
    internal: bool = False
    """Whether the gateway reads the answer itself."""


def read(kind: type[_R], data: bytes, principal: Principal, limits: SessionLimits) -> _R:
    """Read a request of a kind, with its user overwritten. Raises InvalidRequest."""
    try:
        message = parse(kind, data)
    except ProtobufError as error:
        raise MalformedRequest(error.why) from None
    # The walk asks about plans; every field of the rest is asked about here.
    if (unknown := unknown_field(message, plans=False)) is not None:
        raise UngovernableRequest(
            f"the request has a field `{unknown}` that this gateway does not know; "
            f"use a client of the version that the gateway has, or an older one"
        )
    check_session_id(message.session_id)
    own(message, principal.user)
    if len(message.client_type) > limits.client_type_chars:
        raise MalformedRequest(f"the client's name has more than {limits.client_type_chars} characters")
    return message


def own(message: Request, user: str) -> None:
    """Make the principal, by name, the user of a message; what the client added to its own user goes."""
    message.user_context.Clear()
    message.user_context.user_id = message.user_context.user_name = user


def check_session_id(session_id: str) -> None:
    """Raise MalformedRequest, in Spark's words, unless the id is a UUID."""
    if not _UUID.fullmatch(session_id):
        raise _no_handle(session_id)


def operation_id_of(text: str) -> str:
    """Return an operation's id in the spelling that Spark keeps it by. Raises MalformedRequest."""
    if not _UUID.fullmatch(text):
        raise _no_handle(text)
    return text.lower()


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def _no_handle(text: str) -> MalformedRequest:
    return MalformedRequest(spark_error("INVALID_HANDLE.FORMAT", text[:64]).message)


def observed_of(message: ObservingRequest) -> str:
    """Return the server-side session that the client believes to talk to; empty when it does not say."""
    return str(message.client_observed_server_side_session_id)


def execute_request(message: pb.ExecutePlanRequest, limits: SessionLimits) -> tuple[PlanRequest, Wanted]:
    """Return the plan of an `ExecutePlanRequest`, and how its answer is wanted. Raises InvalidRequest."""
    if not message.HasField("plan"):
        raise MalformedRequest("the request has no plan")
    plan = _serialized(message.plan)
    reattachable, chunked, chunk_bytes = _options(message)
    chosen = operation_id_of(message.operation_id) if message.HasField("operation_id") else new_uuid()
    return PlanRequest(kind="execute", message=plan), Wanted(
        operation_id=chosen,
        client_type=message.client_type,
        digest=hashlib.sha256(plan).digest(),
        tags=_tags(message, limits),
        reattachable=reattachable,
        chunked=chunked,
        chunk_bytes=chunk_bytes,
    )


def analysis(message: pb.AnalyzePlanRequest) -> PlanRequest:
    """Return what an `AnalyzePlanRequest` asks for, without its envelope. Raises InvalidRequest."""
    if message.WhichOneof("analyze") is None:
        raise MalformedRequest("the request asks for no analysis")
    bare: Message = pb.AnalyzePlanRequest()
    bare.CopyFrom(message)
    for known, _ in message.ListFields():
        if known.name not in _ANALYSES:
            bare.ClearField(known.name)
    return PlanRequest(kind="analyze", message=_serialized(bare))


def _serialized(message: Message) -> bytes:
    try:
        return serialize(message)
    except ProtobufError as error:
        raise MalformedRequest(error.why) from None


def _options(message: pb.ExecutePlanRequest) -> tuple[bool, bool, int | None]:
    reattachable = chunked = False
    chunk_bytes: int | None = None
    for option in message.request_options:
        match option.WhichOneof("request_option"):
            case "reattach_options":
                reattachable = option.reattach_options.reattachable
            case "result_chunking_options":
                chunking = option.result_chunking_options
                chunked = chunking.allow_arrow_batch_chunking
                if chunking.HasField("preferred_arrow_chunk_size"):
                    chunk_bytes = chunking.preferred_arrow_chunk_size
            case other:
                raise UngovernableRequest(
                    f"the request option `{other or 'none'}` is not one that can be judged"
                )
    return reattachable, chunked, chunk_bytes


def _tags(message: pb.ExecutePlanRequest, limits: SessionLimits) -> tuple[str, ...]:
    tags = tuple(message.tags)
    if len(tags) > limits.tags:
        raise MalformedRequest(f"an operation has at most {limits.tags} tags")
    for tag in tags:
        # The first two are Spark's own rule.
        if not tag or "," in tag or len(tag) > limits.tag_chars:
            raise MalformedRequest(f"a tag has 1 to {limits.tag_chars} characters and no comma")
    return tags
