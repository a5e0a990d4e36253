"""The security layer of GSSAPI (RFC 4752) under the frames of a connection. Needs the extra `kerberos`."""

from __future__ import annotations

from typing import Any

from gssapi.raw.misc import GSSError

from gateway.errors import one_line


class GssLayer:
    """The security layer of a context that both ends have agreed on."""

    def __init__(self, context: Any, *, encrypts: bool, max_bytes: int) -> None:
        self._context = context
        self._encrypts = encrypts
        self.max_bytes = max_bytes

    def wrap(self, data: bytes) -> bytes:
        wrapped: bytes = self._context.wrap(data, self._encrypts).message
        return wrapped

    def unwrap(self, data: bytes) -> bytes:
        try:
            found = self._context.unwrap(data)
        except GSSError as fault:
            raise ValueError(f"a message is not as it was sent: {explain_gss(fault)}") from None
        if self._encrypts and not found.encrypted:
            raise ValueError("a message is not encrypted, as was agreed")
        return bytes(found.message)


def explain_gss(fault: Any) -> str:
    """Return what libkrb5 says of a fault, which names no secret."""
    told = [
        text
        for code, major in ((fault.min_code, False), (fault.maj_code, True))
        if code
        for text in fault.get_all_statuses(code, major)
    ]
    return one_line(told[0])[:300] if told else type(fault).__name__
