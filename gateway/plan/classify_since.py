"""Since which minor of Spark the messages of plans have what they have.

A server ignores a field that it does not know: it would run a plan that says less than what was judged. So
what came later than a minor is refused before a Spark of that minor. Made from the `.proto` files that each
Spark's `spark-connect` jar carries; `make minors` holds it against them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.spark_minors import Minor

SINCE: Mapping[Minor, frozenset[str]] = {
    Minor(4, 1): frozenset(
        """
        ChunkedCachedLocalRelation.dataHashes ChunkedCachedLocalRelation.schemaHash
        Command.pipeline_command CompressionCodec=COMPRESSION_CODEC_UNSPECIFIED
        CompressionCodec=COMPRESSION_CODEC_ZSTD DataType.Geography.srid
        DataType.Geography.type_variation_reference DataType.Geometry.srid
        DataType.Geometry.type_variation_reference DataType.Time.precision
        DataType.Time.type_variation_reference DataType.geography DataType.geometry DataType.time
        Expression.DirectShufflePartitionID.child Expression.Literal.Time.nano
        Expression.Literal.Time.precision Expression.Literal.data_type Expression.Literal.time
        Expression.direct_shuffle_partition_id GroupMap.transform_with_state_info
        MlCommand.CreateSummary.dataset MlCommand.CreateSummary.model_ref MlCommand.Delete.evict_only
        MlCommand.GetModelSize.model_ref MlCommand.clean_cache MlCommand.create_summary
        MlCommand.get_cache_info MlCommand.get_model_size MlRelation.model_summary_dataset
        OutputType=MATERIALIZED_VIEW OutputType=OUTPUT_TYPE_UNSPECIFIED OutputType=SINK
        OutputType=TABLE OutputType=TEMPORARY_VIEW
        PipelineCommand.CreateDataflowGraph.default_catalog
        PipelineCommand.CreateDataflowGraph.default_database
        PipelineCommand.CreateDataflowGraph.sql_conf
        PipelineCommand.DefineFlow.WriteRelationFlowDetails.relation
        PipelineCommand.DefineFlow.client_id PipelineCommand.DefineFlow.dataflow_graph_id
        PipelineCommand.DefineFlow.extension PipelineCommand.DefineFlow.flow_name
        PipelineCommand.DefineFlow.once PipelineCommand.DefineFlow.relation_flow_details
        PipelineCommand.DefineFlow.source_code_location PipelineCommand.DefineFlow.sql_conf
        PipelineCommand.DefineFlow.target_dataset_name
        PipelineCommand.DefineFlowQueryFunctionResult.dataflow_graph_id
        PipelineCommand.DefineFlowQueryFunctionResult.flow_name
        PipelineCommand.DefineFlowQueryFunctionResult.relation
        PipelineCommand.DefineOutput.SinkDetails.format
        PipelineCommand.DefineOutput.SinkDetails.options
        PipelineCommand.DefineOutput.TableDetails.clustering_columns
        PipelineCommand.DefineOutput.TableDetails.format
        PipelineCommand.DefineOutput.TableDetails.partition_cols
        PipelineCommand.DefineOutput.TableDetails.schema_data_type
        PipelineCommand.DefineOutput.TableDetails.schema_string
        PipelineCommand.DefineOutput.TableDetails.table_properties
        PipelineCommand.DefineOutput.comment PipelineCommand.DefineOutput.dataflow_graph_id
        PipelineCommand.DefineOutput.extension PipelineCommand.DefineOutput.output_name
        PipelineCommand.DefineOutput.output_type PipelineCommand.DefineOutput.sink_details
        PipelineCommand.DefineOutput.source_code_location PipelineCommand.DefineOutput.table_details
        PipelineCommand.DefineSqlGraphElements.dataflow_graph_id
        PipelineCommand.DefineSqlGraphElements.sql_file_path
        PipelineCommand.DefineSqlGraphElements.sql_text
        PipelineCommand.DropDataflowGraph.dataflow_graph_id
        PipelineCommand.GetQueryFunctionExecutionSignalStream.client_id
        PipelineCommand.GetQueryFunctionExecutionSignalStream.dataflow_graph_id
        PipelineCommand.StartRun.dataflow_graph_id PipelineCommand.StartRun.dry
        PipelineCommand.StartRun.full_refresh_all PipelineCommand.StartRun.full_refresh_selection
        PipelineCommand.StartRun.refresh_selection PipelineCommand.StartRun.storage
        PipelineCommand.create_dataflow_graph PipelineCommand.define_flow
        PipelineCommand.define_flow_query_function_result PipelineCommand.define_output
        PipelineCommand.define_sql_graph_elements PipelineCommand.drop_dataflow_graph
        PipelineCommand.extension PipelineCommand.get_query_function_execution_signal_stream
        PipelineCommand.start_run Plan.CompressedOperation.OpType=OP_TYPE_COMMAND
        Plan.CompressedOperation.OpType=OP_TYPE_RELATION
        Plan.CompressedOperation.OpType=OP_TYPE_UNSPECIFIED
        Plan.CompressedOperation.compression_codec Plan.CompressedOperation.data
        Plan.CompressedOperation.op_type Plan.compressed_operation
        Relation.chunked_cached_local_relation ResolvedIdentifier.catalog_name
        ResolvedIdentifier.namespace ResolvedIdentifier.table_name SourceCodeLocation.definition_path
        SourceCodeLocation.extension SourceCodeLocation.file_name SourceCodeLocation.line_number
        SubqueryExpression.SubqueryType=SUBQUERY_TYPE_IN SubqueryExpression.in_subquery_values
        TransformWithStateInfo.event_time_column_name TransformWithStateInfo.output_schema
        TransformWithStateInfo.time_mode
        """.split()
    ),
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
them is as old as 4.0, the oldest that plans are given to."""


def newer_than(minor: Minor) -> Mapping[str, Minor]:
    """Return what a Spark of this minor does not have, with the minor that it came with."""
    return {name: since for since, names in SINCE.items() if since > minor for name in names}
