"""Since which minor of Spark the messages of plans have what they have.

A server ignores a field that it does not know: it would run a plan that says less than what was judged. So
what came later than a minor is refused before a Spark of that minor. Made from the `.proto` files that each
Spark's `spark-connect` jar carries; `make minors` holds it against them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.spark_minors import Minor

SINCE: Mapping[Minor, frozenset[str]] = {
    Minor(4, 3): frozenset(
        """
        Relation.zip Zip.left Zip.right
        DataType.timestamp_ltz_nanos DataType.timestamp_ntz_nanos
        DataType.TimestampLTZNanos.precision DataType.TimestampLTZNanos.type_variation_reference
        DataType.TimestampNTZNanos.precision DataType.TimestampNTZNanos.type_variation_reference
        Expression.Literal.timestamp_ltz_nanos Expression.Literal.timestamp_ntz_nanos
        Expression.Literal.TimestampLTZNanos.epoch_micros Expression.Literal.TimestampLTZNanos.precision
        Expression.Literal.TimestampLTZNanos.nanos_within_micro
        Expression.Literal.TimestampNTZNanos.epoch_micros Expression.Literal.TimestampNTZNanos.precision
        Expression.Literal.TimestampNTZNanos.nanos_within_micro
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.track_history_column_list
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.track_history_except_column_list
        PipelineCommand.DefineFlow.SCDType=SCD_TYPE_2
        """.split()
    ),
}
"""Minor → fields as `Message.field` and values of enums as `Enum=VALUE` that came with it. What is in none of
them is as old as the oldest minor that the gateway knows."""


def newer_than(minor: Minor) -> Mapping[str, Minor]:
    """Return what a Spark of this minor does not have, with the minor that it came with."""
    return {name: since for since, names in SINCE.items() if since > minor for name in names}
