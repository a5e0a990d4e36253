"""A gateway of Spark Connect as others are: it logs each user in by a token of his own, takes the user from
that token and not from the request, and hands everything on to one Spark, whose token it keeps for itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from gateway.frontends.jwt_logins import IssuerUnavailable, JwtLogins, TokenRefused
from gateway.model.principal import Principal
from gateway.wire.connect import METHODS


@dataclass
class IdentityProxy:
    """Serves on a port of this machine."""

    logins: JwtLogins
    spark: str
    """`host:port` of Spark."""
    token: str
    calls: list[tuple[str, Principal]] = field(default_factory=list)
    """What was called, and by whom."""
    refused: list[str] = field(default_factory=list)
    port: int = 0
    _server: Any = None
    _channel: Any = None

    async def start(self) -> None:
        unbounded = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(self.spark, options=unbounded)
        self._server = grpc.aio.server(handlers=(_Handlers(self),), options=unbounded)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)
        await self._channel.close()

    async def relay(self, name: str, requests: Any, context: Any) -> None:
        shown = dict(context.invocation_metadata()).get("authorization", "")
        try:
            user = await self.logins.check(shown.removeprefix("Bearer "))
        except (TokenRefused, IssuerUnavailable) as fault:
            self.refused.append(str(fault))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"no: {fault}")
            return
        self.calls.append((name, user))
        method = METHODS[name]

        async def owned() -> Any:
            async for request in requests:
                message: Any = method.request.FromString(request)
                message.user_context.user_id = user.user
                yield message.SerializeToString()

        call = self._channel.stream_stream(method.path)(
            owned(), metadata=(("authorization", f"Bearer {self.token}"),)
        )
        try:
            async for response in call:
                await context.write(response)
        except grpc.aio.AioRpcError as error:
            details = tuple((key, value) for key, value in error.trailing_metadata() or ())
            await context.abort(error.code(), error.details() or "", details)
        except asyncio.CancelledError:
            call.cancel()
            raise


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC has no types
    def __init__(self, proxy: IdentityProxy) -> None:
        self._proxy = proxy

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]

        async def call(requests: Any, context: Any) -> None:
            await self._proxy.relay(name, requests, context)

        return grpc.stream_stream_rpc_method_handler(call)
