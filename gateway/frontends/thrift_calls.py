"""One Thrift message in, one out: HiveServer2's calls, whatever transport carries them."""

from __future__ import annotations

from typing import Protocol

import structlog

from gateway.errors import SluiceError
from gateway.frontends.thrift_service import Caller, ThriftService, error_reply
from gateway.session.ports import FrameSink
from gateway.wire.calls import METHODS, REFUSED
from gateway.wire.messages import (
    CallFailed,
    ExceptionKind,
    MessageKind,
    decode_message,
    decode_request,
    encode_exception,
    encode_reply,
)
from gateway.wire.thrift import MalformedMessage, Struct

_log = structlog.get_logger(__name__)

_ASKED_AGAIN = frozenset({"FetchResults", "GetOperationStatus"})
"""Calls that a client makes again and again in the same bytes: they are read once."""


class ClientGone(ConnectionError):
    """The client closed the connection, or took nothing of its answer for too long."""


class ReplyCut(Exception):
    """A part of a reply was relayed and its end will not come: only a cut connection says so."""


class CountingSink(FrameSink, Protocol):
    """Where a reply is relayed to, and how much of it is out."""

    @property
    def written(self) -> int:
        """Bytes that were written so far."""
        ...


class CallAnswerer:
    """Answers the messages of one connection, one after the other."""

    def __init__(self, service: ThriftService) -> None:
        self._service = service
        self._last: tuple[str, bytes, Struct] = ("", b"", Struct())
        """The last call of `_ASKED_AGAIN`: its method, its bytes, and what was read in them."""

    async def answer(self, data: bytes, caller: Caller, sink: CountingSink) -> bytes | None:
        """Return the reply's message, without a frame; None when it was relayed to the sink, with its frame.

        Raises MalformedMessage where the stream cannot be followed any more, ReplyCut, ClientGone.
        """
        message = decode_message(data)
        method, seqid = message.method, message.seqid
        if message.kind is not MessageKind.CALL:
            kind, text = ExceptionKind.INVALID_MESSAGE_TYPE, "a Thrift message must be a call"
            return encode_exception(method, seqid, kind, text)
        if method in REFUSED:
            text = f"{method} is not supported; {REFUSED[method]}"
            return encode_exception(method, seqid, ExceptionKind.UNKNOWN_METHOD, text)
        if method not in METHODS:
            # impyla asks for GetLog and CloseImpalaOperation, and lives with this answer only.
            text = f"Invalid method name: '{method}'"
            return encode_exception(method, seqid, ExceptionKind.UNKNOWN_METHOD, text)
        body = data[message.body_offset :] if method in _ASKED_AGAIN else b""
        if body and (method, body) == self._last[:2]:
            request = self._last[2]
        else:
            try:
                request = decode_request(data, message)
            except MalformedMessage as fault:
                return encode_exception(method, seqid, ExceptionKind.PROTOCOL_ERROR, str(fault))
            if body:
                self._last = (method, body, request)
        before = sink.written
        try:
            reply = await self._service.answer(method, request, seqid, caller)
        except CallFailed as fault:
            return encode_exception(method, seqid, ExceptionKind(fault.kind), fault.message)
        except ClientGone:
            raise
        except Exception:  # noqa: BLE001 - a call's root: a fault of ours ends this call, not the gateway
            _log.exception("call_failed", method=method, user=caller.principal.user)
            reply = error_reply(method, SluiceError("internal error; see the gateway's log"))
        if sink.written != before:
            if reply is not None:
                raise ReplyCut
            return None
        return None if reply is None else encode_reply(method, seqid, reply)
