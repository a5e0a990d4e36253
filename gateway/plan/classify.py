"""Which messages of Spark Connect may pass: what every field of every message in a plan is to the policies.

The rows stand in `classify_relations`, `classify_commands` and `classify_expressions`. A message type, field
or oneof case without one makes a plan Unsupported, and so does a set field that is `RefusedField`.
tests/plan/test_classify.py derives the list from the descriptors and fails for a missing or a stale row, so a
new Spark's messages are refused until someone has said here what they are.
"""

from __future__ import annotations

from gateway.plan.classify_commands import COMMANDS
from gateway.plan.classify_expressions import ROWS as EXPRESSIONS
from gateway.plan.classify_fields import FieldRule, MessageRow, MessageRows, RefusedField
from gateway.plan.classify_relations import CATALOG, PLANS, RELATIONS

TABLE: MessageRows = {**PLANS, **RELATIONS, **CATALOG, **EXPRESSIONS, **COMMANDS}
"""Rows by the message's full name, without `spark.connect.` in front."""

OPTIONAL_ONEOFS = frozenset(
    # RULE (relation-without-kind)
    {
        "Origin.function",
        "WriteOperation.save_type",
        "WriteStreamOperationStart.trigger",
        "WriteStreamOperationStart.sink_destination",
        "Expression.Literal.SpecializedArray.value_type",
        "MlRelation.ml_type",
        "PipelineCommand.DefineOutput.details",
        "PipelineCommand.DefineOutput.TableDetails.schema",
        "PipelineCommand.DefineFlow.details",
    }
)
"""Oneofs that clients leave unset. In any other, an unset case is one that was not understood."""

__all__ = [
    "OPTIONAL_ONEOFS",
    "TABLE",
    "FieldRule",
    "MessageRow",
    "MessageRows",
    "RefusedField",
    "short_name",
]


def short_name(full_name: str) -> str:
    """Return a message type's name as the table has it."""
    return full_name.removeprefix("spark.connect.")
