"""How a Spark behind Spark Connect reads texts, asked in a session of it; see `OneReading`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from gateway.errors import BackendUnavailable, RpcError, SessionElsewhere
from gateway.model.reading_settings import GATEWAY_PREFIX, READING_QUESTION
from gateway.model.spark_configuration import (
    PROBE_TEXT,
    READING_PARSERS,
    READING_VERSION,
    StackFrame,
    parsers_on,
)
from gateway.wire.connect import Message, ProtobufError, parse, pb, serialize
from gateway.wire.connect_errors import error_id

_M = TypeVar("_M", bound=Message)


class AskingUser(Protocol):
    """Spark as somebody reaches it."""

    async def call(self, method: str, request: bytes) -> bytes: ...

    async def ask_analysis(self, request: bytes) -> bytes: ...


STACKS = "spark.sql.connect.serverStacktrace.enabled"
"""Whether errors may be asked for their stacks; Spark's default is that they may."""


class ConnectQuestions:
    """A session of Spark that tells of the process behind it; see `OneReading`."""

    def __init__(self, by: AskingUser, session_id: str, user: str, observed: str) -> None:
        self._by = by
        self._session_id = session_id
        self._user = pb.UserContext(user_id=user, user_name=user)
        self.server_session = observed

    async def set(self, settings: Mapping[str, str]) -> None:
        request = pb.ConfigRequest()
        request.operation.set.pairs.extend(
            pb.KeyValue(key=key, value=value) for key, value in settings.items()
        )
        await self._config(request)

    async def unset(self, key: str) -> None:
        request = pb.ConfigRequest()
        request.operation.unset.keys.append(key)
        await self._config(request)

    async def settings(self) -> dict[str, str]:
        """Return the settings that are set in the session."""
        request = pb.ConfigRequest()
        request.operation.get_all.SetInParent()
        return {pair.key: pair.value for pair in (await self._config(request)).pairs}

    async def version(self) -> str:
        """Return Spark's version."""
        request = pb.AnalyzePlanRequest(spark_version=pb.AnalyzePlanRequest.SparkVersion())
        answer = await self._by.ask_analysis(self._own(request))
        return str(_read(pb.AnalyzePlanResponse, answer).spark_version.version)

    async def parsers(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """Return what a text of this session goes through, innermost first; see `parsers_on`."""
        hidden = settings.get(STACKS, "true").lower() != "true"
        if hidden:
            await self.set({STACKS: "true"})
        found = await self._stack()
        if hidden:
            await self.set({STACKS: settings[STACKS]})
        return parsers_on(found)

    async def _stack(self) -> list[StackFrame]:
        request = pb.AnalyzePlanRequest()
        request.schema.plan.root.sql.query = PROBE_TEXT
        try:
            await self._by.ask_analysis(self._own(request))
        except RpcError as error:
            failed = error_id(error)
        else:
            return []
        details = self._own(pb.FetchErrorDetailsRequest(error_id=failed))
        answer = _read(pb.FetchErrorDetailsResponse, await self._by.call("FetchErrorDetails", details))
        root = answer.errors[answer.root_error_idx] if answer.HasField("root_error_idx") else None
        if root is None:
            return []
        return [(frame.declaring_class, frame.line_number) for frame in root.stack_trace]

    async def _config(self, request: pb.ConfigRequest) -> pb.ConfigResponse:
        answer = _read(pb.ConfigResponse, await self._by.call("Config", self._own(request)))
        if not answer.server_side_session_id:
            raise BackendUnavailable("Spark did not report its session id; Sluice needs Spark 3.5.1 or newer")
        self.server_session = answer.server_side_session_id
        return answer

    def _own(self, request: pb.AnalyzePlanRequest | pb.ConfigRequest | pb.FetchErrorDetailsRequest) -> bytes:
        request.session_id = self._session_id
        request.user_context.CopyFrom(self._user)
        if self.server_session:
            request.client_observed_server_side_session_id = self.server_session
        return serialize(request)


class GatewayQuestions(ConnectQuestions):
    """The same of a session at another Sluice, which has asked Spark itself and keeps to what it said."""

    _reported: Mapping[str, str] = {}

    async def settings(self) -> dict[str, str]:
        """Return the settings that are set in the session. Raises BackendUnavailable where nobody is there
        who tells how texts are read."""
        request = pb.ConfigRequest()
        request.operation.get_all.prefix = READING_QUESTION
        told = {pair.key: pair.value for pair in (await self._config(request)).pairs}
        self._reported = {key: told.pop(key, "") for key in (READING_VERSION, READING_PARSERS)}
        if not self._reported[READING_VERSION]:  # RULE (reading-told-by-gateway)
            raise BackendUnavailable(
                "what is there is no Sluice that takes this one for a gateway (`logins.jwt.gateway` there)",
                lasting=True,
            )
        return told

    async def version(self) -> str:
        return self._reported[READING_VERSION]

    async def parsers(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(filter(None, self._reported[READING_PARSERS].split("\n")))


async def require_own(asked: ConnectQuestions, settings: Mapping[str, str], mark: str) -> None:
    """Raise SessionElsewhere where another gateway has left its mark in a session, which gets its own back.

    INVARIANT (a name is judged as it will be resolved): each writes its mark before it looks for others', so
    of two that come at once not both take it.
    """
    others = (key for key in settings if key.startswith(GATEWAY_PREFIX) and key != mark)
    if mark and (other := next(others, None)) is not None:
        await asked.unset(mark)
        raise SessionElsewhere(
            "this session was opened through another gateway, which keeps its temporary names and "
            "settings; open a new session (a load balancer has to route each user to one gateway)",
            gateway=other.removeprefix(GATEWAY_PREFIX),
        )


def _read(kind: type[_M], data: bytes) -> _M:
    try:
        return parse(kind, data)
    except ProtobufError:
        raise BackendUnavailable("Spark's response is not valid protobuf") from None
