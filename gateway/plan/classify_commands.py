"""Rows of `classify`: commands."""

from __future__ import annotations

from gateway.plan.classify_fields import PLUGIN, MessageRows, row

_PIPELINE_SQL = (
    "SQL that defines a pipeline runs later, when it cannot be authorized; write its queries as DataFrames"
)
_PIPELINE_CDC = "a change flow reads its source by name later, when it cannot be authorized"
_PIPELINE_CONF = "settings of a pipeline would bypass Sluice's rules for SET"

COMMANDS: MessageRows = {
    "Command": row(
        walk="""
            register_function write_operation create_dataframe_view write_operation_v2 sql_command
            write_stream_operation_start streaming_query_command get_resources_command
            streaming_query_manager_command register_table_function streaming_query_listener_bus_command
            register_data_source create_resource_profile_command checkpoint_command
            remove_cached_remote_relation_command merge_into_table_command ml_command execute_external_command
            pipeline_command
        """,
        refused={"extension": PLUGIN},
    ),
    # The older text form is rewritten into `input` before its fields are walked.
    "SqlCommand": row(sql="sql args pos_args named_arguments pos_arguments", walk="input"),
    "CreateDataFrameViewCommand": row(walk="input", target="name is_global replace"),
    "WriteOperation": row(
        walk="input table bucket_by",
        target="mode",
        format="source",
        path="path",
        options="options",
        names="sort_column_names partitioning_columns clustering_columns",
        plain="with_schema_evolution",
    ),
    "WriteOperation.SaveTable": row(target="table_name save_method"),
    "WriteOperation.BucketBy": row(names="bucket_column_names", plain="num_buckets"),
    "WriteOperationV2": row(
        walk="input partitioning_columns overwrite_condition",
        target="table_name mode",
        format="provider",
        options="options table_properties",
        names="clustering_columns",
        plain="with_schema_evolution",
    ),
    "MergeIntoTableCommand": row(
        walk="""
            source_table_plan merge_condition match_actions not_matched_actions not_matched_by_source_actions
        """,
        target="target_table_name",
        plain="with_schema_evolution",
    ),
    "CheckpointCommand": row(walk="relation storage_level", plain="local eager"),
    "RemoveCachedRemoteRelationCommand": row(walk="relation"),
    "GetResourcesCommand": row(),
    # Streams
    "WriteStreamOperationStart": row(
        walk="input foreach_writer foreach_batch",
        format="format",
        options="options",
        path="path",
        target="table_name",
        names="partitioning_column_names clustering_column_names",
        plain="""
            processing_time_interval available_now once continuous_checkpoint_interval
            real_time_batch_duration output_mode query_name
        """,
    ),
    "StreamingForeachFunction": row(walk="python_function scala_function"),
    "StreamingQueryCommand": row(
        walk="query_id await_termination",
        plain="status last_progress recent_progress stop process_all_available exception",
        refused={"explain": "the plan of a running stream would show the row filters and masks in it"},
    ),
    "StreamingQueryInstanceId": row(handle="id", plain="run_id"),
    "StreamingQueryCommand.ExplainCommand": row(plain="extended"),
    "StreamingQueryCommand.AwaitTerminationCommand": row(plain="timeout_ms"),
    "StreamingQueryManagerCommand": row(
        walk="await_any_termination add_listener remove_listener",
        # As with `active`, Spark knows those of the session alone.
        plain="active get_query reset_terminated list_listeners",
    ),
    "StreamingQueryManagerCommand.AwaitAnyTerminationCommand": row(plain="timeout_ms"),
    "StreamingQueryManagerCommand.StreamingQueryListenerCommand": row(
        code="listener_payload", walk="python_listener_payload", plain="id"
    ),
    "StreamingQueryListenerBusCommand": row(plain="add_listener_bus_listener remove_listener_bus_listener"),
    # Code
    "CreateResourceProfileCommand": row(walk="profile"),
    "ResourceProfile": row(walk="executor_resources task_resources"),
    "ExecutorResourceRequest": row(code="discovery_script", plain="resource_name amount vendor"),
    "TaskResourceRequest": row(plain="resource_name amount"),
    "ExecuteExternalCommand": row(code="runner command options"),
    "MlCommand": row(
        walk="""
            fit fetch delete write read evaluate clean_cache get_cache_info create_summary get_model_size
        """
    ),
    "MlCommand.Fit": row(walk="estimator params dataset"),
    "MlCommand.Delete": row(walk="obj_refs", plain="evict_only"),
    "MlCommand.Write": row(
        walk="operator obj_ref params", path="path", options="options", plain="should_overwrite"
    ),
    "MlCommand.Read": row(walk="operator", path="path"),
    "MlCommand.Evaluate": row(walk="evaluator params dataset"),
    "MlCommand.CleanCache": row(),
    "MlCommand.GetCacheInfo": row(),
    "MlCommand.CreateSummary": row(walk="model_ref dataset"),
    "MlCommand.GetModelSize": row(walk="model_ref"),
    "PipelineCommand": row(
        walk="""
            create_dataflow_graph define_output define_flow drop_dataflow_graph start_run
            get_query_function_execution_signal_stream define_flow_query_function_result execute_output_flows
        """,
        refused={"define_sql_graph_elements": _PIPELINE_SQL, "extension": PLUGIN},  # RULE (pipeline-sql)
    ),
    "PipelineCommand.CreateDataflowGraph": row(
        plain="default_catalog default_database", refused={"sql_conf": _PIPELINE_CONF}
    ),
    "PipelineCommand.DefineOutput": row(
        walk="source_code_location table_details sink_details",
        plain="dataflow_graph_id output_name output_type comment",
        refused={"extension": PLUGIN},
    ),
    "PipelineCommand.DefineOutput.TableDetails": row(
        walk="schema_data_type",
        schema="schema_string",
        format="format",
        options="table_properties",
        plain="partition_cols clustering_columns",
    ),
    "PipelineCommand.DefineOutput.SinkDetails": row(format="format", options="options"),
    "PipelineCommand.DefineFlow": row(
        walk="source_code_location relation_flow_details",
        plain="dataflow_graph_id flow_name target_dataset_name client_id once",
        refused={
            "sql_conf": _PIPELINE_CONF,
            "auto_cdc_flow_details": _PIPELINE_CDC,
            "extension": PLUGIN,
        },
    ),
    "PipelineCommand.DefineFlow.WriteRelationFlowDetails": row(walk="relation"),
    "PipelineCommand.DefineFlow.AutoCdcFlowDetails": row(
        refused=dict.fromkeys(
            """
            source keys sequence_by apply_as_deletes apply_as_truncates column_list except_column_list
            stored_as_scd_type track_history_column_list track_history_except_column_list
            ignore_null_updates_column_list ignore_null_updates_except_column_list
            """.split(),
            _PIPELINE_CDC,
        )
    ),
    "PipelineCommand.DropDataflowGraph": row(plain="dataflow_graph_id"),
    "PipelineCommand.StartRun": row(
        plain="dataflow_graph_id full_refresh_selection full_refresh_all refresh_selection dry",
        path="storage",
    ),
    "PipelineCommand.DefineSqlGraphElements": row(
        plain="dataflow_graph_id", refused={"sql_file_path": _PIPELINE_SQL, "sql_text": _PIPELINE_SQL}
    ),
    "PipelineCommand.GetQueryFunctionExecutionSignalStream": row(plain="dataflow_graph_id client_id"),
    "PipelineCommand.DefineFlowQueryFunctionResult": row(
        walk="flow_identifier relation", plain="flow_name dataflow_graph_id"
    ),
    "ResolvedIdentifier": row(plain="catalog_name namespace table_name"),
    "PipelineCommand.ExecuteOutputFlows": row(
        walk="define_output define_flows",
        plain="full_refresh",
        path="storage",
        refused={"extension": PLUGIN},
    ),
}
