"""Plans that are nothing but an SQL text: what `spark.sql` of PySpark sends."""

from __future__ import annotations

from gateway.wire.connect import ProtobufError, parse, pb


def sql_of(plan: bytes) -> str | None:
    """Return the text of a serialized `Plan` that is one SQL relation or command without arguments; None for
    others."""
    try:
        message = parse(pb.Plan, plan)
    except ProtobufError:
        return None
    if message.HasField("root"):
        relation = message.root
    elif message.HasField("command") and message.command.HasField("sql_command"):
        command = message.command.sql_command
        if not command.HasField("input"):
            return command.sql if len(command.ListFields()) == 1 else None
        relation = command.input
    else:
        return None
    alone = relation.HasField("sql") and len(relation.sql.ListFields()) == 1
    return relation.sql.query if alone else None


def is_command(plan: bytes) -> bool:
    """Whether a serialized `Plan` has a command, and not a relation."""
    return plan[:1] == b"\x12"
