"""Since which minor of Spark the messages of plans have what they have.

A server ignores a field that it does not know: it would run a plan that says less than what was judged. So
what came later than a minor is refused before a Spark of that minor. Made from the `.proto` files that each
Spark's `spark-connect` jar carries; `make minors` holds it against them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.spark_minors import Minor

SINCE: Mapping[Minor, frozenset[str]] = {
    Minor(4, 2): frozenset(
        """
        AnalyzeTable.no_scan AnalyzeTable.table_name Catalog.analyze_table Catalog.create_database
        Catalog.drop_database Catalog.drop_table Catalog.drop_view Catalog.get_create_table_string
        Catalog.get_table_properties Catalog.list_partitions Catalog.list_views Catalog.truncate_table
        CreateDatabase.db_name CreateDatabase.if_not_exists CreateDatabase.properties
        DropDatabase.cascade DropDatabase.db_name DropDatabase.if_exists DropTable.if_exists DropTable.purge
        DropTable.table_name DropView.if_exists DropView.view_name GetCreateTableString.as_serde
        GetCreateTableString.table_name GetTableProperties.table_name ListPartitions.table_name
        ListViews.db_name ListViews.pattern NearestByJoin.direction NearestByJoin.join_type NearestByJoin.left
        NearestByJoin.mode NearestByJoin.num_results NearestByJoin.ranking_expression NearestByJoin.right
        Parse.ParseFormat=PARSE_FORMAT_XML
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.apply_as_deletes
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.apply_as_truncates
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.column_list
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.except_column_list
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.ignore_null_updates_column_list
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.ignore_null_updates_except_column_list
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.keys
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.sequence_by
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.source
        PipelineCommand.DefineFlow.AutoCdcFlowDetails.stored_as_scd_type
        PipelineCommand.DefineFlow.SCDType=SCD_TYPE_1 PipelineCommand.DefineFlow.SCDType=SCD_TYPE_UNSPECIFIED
        PipelineCommand.DefineFlow.auto_cdc_flow_details
        PipelineCommand.DefineFlowQueryFunctionResult.flow_identifier
        PipelineCommand.ExecuteOutputFlows.define_flows PipelineCommand.ExecuteOutputFlows.define_output
        PipelineCommand.ExecuteOutputFlows.extension PipelineCommand.ExecuteOutputFlows.full_refresh
        PipelineCommand.ExecuteOutputFlows.storage PipelineCommand.execute_output_flows
        Read.DataSource.source_name Relation.nearest_by_join Relation.relation_changes
        RelationChanges.is_streaming RelationChanges.options RelationChanges.unparsed_identifier
        TruncateTable.table_name WriteOperation.with_schema_evolution WriteOperationV2.with_schema_evolution
        WriteStreamOperationStart.real_time_batch_duration
        """.split()
    ),
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
