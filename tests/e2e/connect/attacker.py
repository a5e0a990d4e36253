"""Clients that remember every byte they get: PySpark's own, and one that sends what PySpark never would."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from tests.e2e.connect import world
from tests.e2e.running import RunningGateway
from tests.speed import patience

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
SERVICE = "/spark.connect.SparkConnectService/"
REFUSED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)
POLICY_TEXTS = (b"-79-", b"vault-canary")
"""Of row filters: what a plan or a message would show of a policy."""


class Record(Protocol):
    """Takes every answer, as it came."""

    def append(self, data: bytes, /) -> None: ...


class RecordingChannel(grpc.Channel):  # type: ignore[misc, unused-ignore]
    """A channel whose answers are kept as they arrive."""

    def __init__(self, channel: grpc.Channel, seen: Record) -> None:
        self._channel = channel
        self._seen = seen

    def _recording(self, read: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
        def deserialize(data: bytes) -> Any:
            self._seen.append(data)
            return data if read is None else read(data)

        return deserialize

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        return self._channel.unary_unary(method, request_serializer, self._recording(response_deserializer))

    def unary_stream(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        return self._channel.unary_stream(method, request_serializer, self._recording(response_deserializer))

    def stream_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        return self._channel.stream_unary(method, request_serializer, self._recording(response_deserializer))

    def stream_stream(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Any = None,
        _registered_method: bool | None = False,
    ) -> Any:
        return self._channel.stream_stream(method, request_serializer, self._recording(response_deserializer))

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> RecordingChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def error_bytes(error: BaseException | None) -> Iterator[bytes]:
    """Yield whatever an error and those that led to it hold."""
    while error is not None:
        yield str(error).encode()
        yield repr(vars(error)).encode()
        if isinstance(error, grpc.RpcError) and hasattr(error, "trailing_metadata"):
            yield str(error.details()).encode()
            for key, value in error.trailing_metadata() or ():
                yield f"{key}: ".encode() + (value if isinstance(value, bytes) else value.encode())
        error = error.__cause__ or error.__context__


@dataclass
class Attacker:
    """One PySpark session of mallory's."""

    spark: Any
    seen: list[bytes]
    last_error: Exception | None = None
    canaries: tuple[bytes, ...] = ()

    def run(self, step: Callable[[Any], Any]) -> Exception | None:
        """Take one step; collect what it makes, keep its error."""
        self.last_error = None
        try:
            given = step(self.spark)
            if hasattr(given, "collect"):
                given = given.collect()
            self.seen.append(repr(given).encode())
        except Exception as error:  # noqa: BLE001 - every error is looked into
            self.last_error = error
            self.seen += error_bytes(error)
        return self.last_error

    def check(self) -> None:
        """No canary, nothing of a policy and no secret is in anything that came."""
        check_bytes(self.seen, self.canaries)


def check_bytes(seen: Iterable[bytes], secrets: Iterable[bytes] = ()) -> None:
    everything = b"\n".join(seen)
    for canary in (world.CANARY.encode(), *POLICY_TEXTS, *secrets):
        found = everything.find(canary)
        assert found < 0, everything[max(0, found - 200) : found + 200]


def refused_by_sluice(error: Exception | None) -> bool:
    return error is not None and re.search(r"\[SLUICE_[A-Z_]+\]", str(error)) is not None


@contextmanager
def recorded_session(gateway: RunningGateway, user: str, seen: Record) -> Iterator[Any]:
    """A PySpark session of a user's whose answers are recorded."""
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    class Recording(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: N802 - PySpark's own name
            return RecordingChannel(super().toChannel(), seen)

    # What `SparkSession.builder.remote` sets, so that functions without a session are those of Connect.
    before = os.environ.get(CONNECT_MODE)
    os.environ[CONNECT_MODE] = "1"
    token = f"{user}:{world.PASSWORD}".replace(" ", "%20")
    url = f"sc://localhost:{gateway.connect_port}/;token={token}"
    session = SparkSession.builder.channelBuilder(Recording(url)).create()
    try:
        yield session
    finally:
        session.stop()
        if before is None:
            os.environ.pop(CONNECT_MODE, None)


@contextmanager
def attacker_of(gateway: RunningGateway, user: str = world.ATTACKER) -> Iterator[Attacker]:
    """A session of the attacker's whose current database is the one with the tables."""
    seen: list[bytes] = []
    with recorded_session(gateway, user, seen) as session:
        session.catalog.setCurrentDatabase(world.DATABASE)
        yield Attacker(session, seen)


@dataclass
class Answer:
    """What came back from one call."""

    messages: list[bytes] = field(default_factory=list)
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailers: tuple[Any, ...] = ()

    @property
    def seen(self) -> list[bytes]:
        return [*self.messages, self.details.encode(), repr(self.trailers).encode()]

    @property
    def refused(self) -> bool:
        return self.code in REFUSED


class RawClient:
    """Sends bytes of its own making."""

    def __init__(self, port: int, token: str | None) -> None:
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        self.metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self.session_id = str(uuid.uuid4())
        self.seen: list[bytes] = []

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, method: str, request: Any, quiet_s: float = 60) -> Answer:
        """Call a method with a message or bytes, or with an iterable of them, and wait for its end."""
        answer = Answer()
        try:
            if method == "AddArtifacts":
                parts = [request] if isinstance(request, bytes) or hasattr(request, "DESCRIPTOR") else request
                sent = iter([_bytes(part) for part in parts])
                call = self.channel.stream_unary(SERVICE + method, None, None)
                answer.messages.append(call(sent, timeout=patience(quiet_s), metadata=self.metadata))
            elif method in ("ExecutePlan", "ReattachExecute"):
                stream = self.channel.unary_stream(SERVICE + method, None, None)
                for message in stream(_bytes(request), timeout=patience(quiet_s), metadata=self.metadata):
                    answer.messages.append(message)
            else:
                call = self.channel.unary_unary(SERVICE + method, None, None)
                answer.messages.append(
                    call(_bytes(request), timeout=patience(quiet_s), metadata=self.metadata)
                )
        except grpc.RpcError as error:
            answer.code, answer.details = error.code(), error.details() or ""
            answer.trailers = tuple(error.trailing_metadata() or ())
        self.seen += answer.seen
        return answer

    def execute(self, plan: Any, **fields: Any) -> Answer:
        """Execute a plan (a `Plan`, or its bytes) in this client's session."""
        return self.call("ExecutePlan", self.execution(plan, **fields))

    def execution(self, plan: Any, **fields: Any) -> Any:
        from pyspark.sql.connect import proto

        request = proto.ExecutePlanRequest(
            session_id=self.session_id, client_type="attack", operation_id=str(uuid.uuid4())
        )
        if isinstance(plan, bytes):
            request.plan.ParseFromString(plan)
        else:
            request.plan.CopyFrom(plan)
        for name, value in fields.items():
            if name == "user_id":
                request.user_context.user_id = value
            else:
                setattr(request, name, value)
        return request


def _bytes(request: Any) -> bytes:
    return request if isinstance(request, bytes) else bytes(request.SerializeToString())


def raw(gateway: RunningGateway, user: str = world.ATTACKER) -> RawClient:
    return RawClient(gateway.connect_port, f"{user}:{world.PASSWORD}")
