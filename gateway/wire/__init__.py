"""Bytes in, values out: the wire formats of HiveServer2 and of Spark Connect, without a socket in sight.

`thrift` maps declared structs to Thrift's binary protocol, `tcli` declares HiveServer2's structs, `messages`
wraps them into calls and replies, `rows` packs and unpacks result batches, `frames` cuts a byte stream into
frames and `sasl` is both ends of the login; these answer or raise `MalformedMessage`. Of Spark Connect,
`protobuf` reads fields without classes, and the modules `connect_*` read and write calls, requests, responses
and errors; these raise `ProtobufError`.
"""

from gateway.wire.thrift import MalformedMessage

__all__ = ["MalformedMessage"]
