"""Compressed plans are opened before anything else looks at them, up to the size that a plan may have."""

from __future__ import annotations

import zstandard

from gateway.wire.connect import MAX_BYTES, ProtobufError, find_unknown, parse, pb

_MAX_WINDOW_BYTES = 8 * 1024 * 1024
"""What every decoder of Zstandard must support (RFC 8878); Spark's clients compress with 2 MB."""
_STEP_BYTES = 1024 * 1024


def open_plan(plan: pb.Plan, *, max_bytes: int = MAX_BYTES) -> None:
    """Put what a compressed `Plan` holds in its place; leave any other plan alone.

    Raises ProtobufError when it cannot be opened or would be larger than `max_bytes`.
    """
    if plan.WhichOneof("op_type") != "compressed_operation":
        return
    operation = plan.compressed_operation
    field = find_unknown(operation)
    if field is not None:  # RULE (compressed-unknown-fields)
        raise ProtobufError("MALFORMED", f"the compressed plan has an unknown field {field}")
    if operation.compression_codec != pb.COMPRESSION_CODEC_ZSTD:  # RULE (unknown-codec)
        raise ProtobufError("MALFORMED", "the compression codec of the plan is not supported; use zstd")
    kinds = pb.Plan.CompressedOperation
    if operation.op_type == kinds.OP_TYPE_RELATION:
        relation = parse(pb.Relation, unpack(operation.data, max_bytes=max_bytes), max_bytes=max_bytes)
        plan.root.CopyFrom(relation)
    elif operation.op_type == kinds.OP_TYPE_COMMAND:
        command = parse(pb.Command, unpack(operation.data, max_bytes=max_bytes), max_bytes=max_bytes)
        plan.command.CopyFrom(command)
    else:
        raise ProtobufError(
            "MALFORMED", "the compressed plan does not say whether it is a relation or a command"
        )


def unpack(data: bytes, *, max_bytes: int) -> bytes:
    """Decompress all Zstandard frames of `data`, whatever sizes they declare.

    Raises ProtobufError: MALFORMED when it is none, TOO_LARGE as soon as more than `max_bytes` come out.
    """
    # RULE (decompression-window)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    parts: list[bytes] = []
    total = 0
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while part := reader.read(min(_STEP_BYTES, max_bytes + 1 - total)):
                parts.append(part)
                total += len(part)
                if total > max_bytes:  # RULE (decompressed-size)
                    raise ProtobufError("TOO_LARGE", f"the decompressed plan has more than {max_bytes} bytes")
    except zstandard.ZstdError as error:
        raise ProtobufError("MALFORMED", "the compressed plan cannot be decompressed") from error
    return b"".join(parts)
