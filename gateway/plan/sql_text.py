"""Plans that are nothing but an SQL text: what `spark.sql` of PySpark sends."""

from __future__ import annotations

from gateway.wire.connect import ProtobufError, parse, pb


def sql_of(plan: bytes) -> str | None:
    """Return the text of a serialized `Plan` that is one SQL relation or command; None for others.

    Arguments for its parameter markers may be there beside it.
    """
    try:
        message = parse(pb.Plan, plan)
    except ProtobufError:
        return None
    if message.HasField("root"):
        relation = message.root
    elif message.HasField("command") and message.command.HasField("sql_command"):
        command = message.command.sql_command
        if not command.HasField("input"):
            return command.sql or None
        relation = command.input
    else:
        return None
    return relation.sql.query if relation.HasField("sql") else None


def is_command(plan: bytes) -> bool:
    """Whether a serialized `Plan` has a command, and not a relation."""
    return plan[:1] == b"\x12"
