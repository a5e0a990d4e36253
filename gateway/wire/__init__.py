"""Bytes in, values out: HiveServer2's wire formats without a socket in sight.

`thrift` maps declared structs to Thrift's binary protocol, `tcli` declares HiveServer2's structs, `messages`
wraps them into calls and replies, `rows` packs and unpacks result batches, `frames` cuts a byte stream into
frames and `sasl` is both ends of the login. Every function either answers or raises `MalformedMessage`.
"""

from gateway.wire.thrift import MalformedMessage

__all__ = ["MalformedMessage"]
