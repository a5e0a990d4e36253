"""Rows of `classify`: plans, requests to analyse them, relations and catalog calls."""

from __future__ import annotations

from gateway.plan.classify_fields import PLUGIN, MessageRows, row

PLANS: MessageRows = {
    "Plan": row(
        walk="root command",
        refused={"compressed_operation": "a compressed plan cannot hold another compressed plan"},
    ),
    "Plan.CompressedOperation": row(plain="data op_type compression_codec"),
    "AnalyzePlanRequest": row(
        walk="""
            user_context schema explain tree_string is_local is_streaming input_files spark_version ddl_parse
            same_semantics semantic_hash persist unpersist get_storage_level json_to_ddl
        """,
        plain="session_id client_observed_server_side_session_id client_type",
    ),
    # RULE (user-context-plugins)
    "UserContext": row(plain="user_id user_name", refused={"extensions": PLUGIN}),
    "AnalyzePlanRequest.Schema": row(walk="plan"),
    "AnalyzePlanRequest.Explain": row(walk="plan", plain="explain_mode"),
    "AnalyzePlanRequest.TreeString": row(walk="plan", plain="level"),
    "AnalyzePlanRequest.IsLocal": row(walk="plan"),
    "AnalyzePlanRequest.IsStreaming": row(walk="plan"),
    "AnalyzePlanRequest.InputFiles": row(walk="plan"),
    "AnalyzePlanRequest.SparkVersion": row(),
    "AnalyzePlanRequest.DDLParse": row(schema="ddl_string"),
    "AnalyzePlanRequest.SameSemantics": row(walk="target_plan other_plan"),
    "AnalyzePlanRequest.SemanticHash": row(walk="plan"),
    "AnalyzePlanRequest.Persist": row(walk="relation storage_level"),
    "AnalyzePlanRequest.Unpersist": row(walk="relation", plain="blocking"),
    "AnalyzePlanRequest.GetStorageLevel": row(walk="relation"),
    "AnalyzePlanRequest.JsonToDDL": row(schema="json_string"),
    "StorageLevel": row(plain="use_disk use_memory use_off_heap deserialized replication"),
}

RELATIONS: MessageRows = {
    "Relation": row(
        walk="""
            common read project filter join set_op sort limit aggregate sql local_relation sample offset
            deduplicate range subquery_alias repartition to_df with_columns_renamed show_string drop tail
            with_columns hint unpivot to_schema repartition_by_expression map_partitions collect_metrics parse
            group_map co_group_map with_watermark apply_in_pandas_with_state html_string cached_local_relation
            cached_remote_relation common_inline_user_defined_table_function as_of_join
            common_inline_user_defined_data_source with_relations transpose unresolved_table_valued_function
            lateral_join chunked_cached_local_relation relation_changes nearest_by_join zip fill_na drop_na
            replace summary crosstab describe cov corr approx_quantile freq_items sample_by catalog
            ml_relation
        """,
        refused={
            "extension": PLUGIN,
            "unknown": "a relation of an unknown kind is not supported",
        },
    ),
    "RelationCommon": row(walk="origin", plain="source_info plan_id"),
    "Unknown": row(),
    # What is read
    "Read": row(walk="named_table data_source", table="is_streaming"),
    "Read.NamedTable": row(table="unparsed_identifier", options="options"),
    "Read.DataSource": row(
        format="format",
        schema="schema",
        options="options",
        path="paths",
        plain="source_name",
        # RULE (jdbc-predicates)
        refused={"predicates": "predicates are SQL of another database, which Sluice does not authorize"},
    ),
    "RelationChanges": row(table="unparsed_identifier is_streaming", options="options"),
    "SQL": row(sql="query", walk="args pos_args named_arguments pos_arguments"),
    "WithRelations": row(walk="root references"),
    "UnresolvedTableValuedFunction": row(function="function_name", walk="arguments"),
    "CachedRemoteRelation": row(handle="relation_id"),
    # The client's own data: its uploads are kept for its session only, and were checked when they came.
    "LocalRelation": row(rows="data", schema="schema"),
    "CachedLocalRelation": row(plain="hash"),
    "ChunkedCachedLocalRelation": row(plain="dataHashes schemaHash"),
    "Range": row(plain="start end step num_partitions"),
    # What is made of it
    "Project": row(walk="input expressions"),
    "Filter": row(walk="input condition"),
    "Join": row(walk="left right join_condition join_data_type", names="using_columns", plain="join_type"),
    "Join.JoinDataType": row(plain="is_left_struct is_right_struct"),
    "AsOfJoin": row(
        walk="left right left_as_of right_as_of join_expr tolerance",
        names="using_columns",
        plain="join_type allow_exact_matches direction",
    ),
    "LateralJoin": row(walk="left right join_condition", plain="join_type"),
    "NearestByJoin": row(walk="left right ranking_expression", plain="num_results join_type mode direction"),
    "Zip": row(walk="left right"),
    "SetOperation": row(
        walk="left_input right_input", plain="set_op_type is_all by_name allow_missing_columns"
    ),
    "Sort": row(walk="input order", plain="is_global"),
    "Limit": row(walk="input", plain="limit"),
    "Offset": row(walk="input", plain="offset"),
    "Tail": row(walk="input", plain="limit"),
    "Aggregate": row(
        walk="input grouping_expressions aggregate_expressions pivot grouping_sets", plain="group_type"
    ),
    "Aggregate.Pivot": row(walk="col values"),
    "Aggregate.GroupingSets": row(walk="grouping_set"),
    "Sample": row(walk="input", plain="lower_bound upper_bound with_replacement seed deterministic_order"),
    "Deduplicate": row(walk="input", names="column_names", plain="all_columns_as_keys within_watermark"),
    "SubqueryAlias": row(walk="input", plain="alias qualifier"),
    "Repartition": row(walk="input", plain="num_partitions shuffle"),
    "RepartitionByExpression": row(walk="input partition_exprs", plain="num_partitions"),
    "ToDF": row(walk="input", plain="column_names"),
    "ToSchema": row(walk="input schema"),
    "WithColumnsRenamed": row(walk="input renames", names="rename_columns_map"),
    "WithColumnsRenamed.Rename": row(names="col_name", plain="new_col_name"),
    "WithColumns": row(walk="input aliases"),
    "Drop": row(walk="input columns", names="column_names"),  # RULE (drop-columns-names)
    "ShowString": row(walk="input", plain="num_rows truncate vertical"),
    "HtmlString": row(walk="input", plain="num_rows truncate"),
    "Hint": row(walk="input parameters", plain="name"),
    "Unpivot": row(walk="input ids values", plain="variable_column_name value_column_name"),
    "Unpivot.Values": row(walk="values"),
    "Transpose": row(walk="input index_columns"),
    "CollectMetrics": row(walk="input metrics", plain="name"),
    "Parse": row(walk="input schema", options="options", plain="format"),
    "WithWatermark": row(walk="input", names="event_time", plain="delay_threshold"),
    "NAFill": row(walk="input values", names="cols"),
    "NADrop": row(walk="input", names="cols", plain="min_non_nulls"),
    "NAReplace": row(walk="input replacements", names="cols"),
    "NAReplace.Replacement": row(walk="old_value new_value"),
    "StatSummary": row(walk="input", plain="statistics"),
    "StatCrosstab": row(walk="input", names="col1 col2"),
    "StatDescribe": row(walk="input", names="cols"),
    "StatCov": row(walk="input", names="col1 col2"),
    "StatCorr": row(walk="input", names="col1 col2", plain="method"),
    "StatApproxQuantile": row(walk="input", names="cols", plain="probabilities relative_error"),
    "StatFreqItems": row(walk="input", names="cols", plain="support"),
    "StatSampleBy": row(walk="input col fractions", plain="seed"),
    "StatSampleBy.Fraction": row(walk="stratum", plain="fraction"),
    # Code over rows
    "MapPartitions": row(walk="input func", plain="is_barrier profile_id"),
    "GroupMap": row(
        walk="""
            input grouping_expressions func sorting_expressions initial_input initial_grouping_expressions
            state_schema transform_with_state_info
        """,
        plain="is_map_groups_with_state output_mode timeout_conf",
    ),
    "TransformWithStateInfo": row(walk="output_schema", names="event_time_column_name", plain="time_mode"),
    "CoGroupMap": row(
        walk="""
            input input_grouping_expressions other other_grouping_expressions func input_sorting_expressions
            other_sorting_expressions
        """
    ),
    "ApplyInPandasWithState": row(
        walk="input grouping_expressions func",
        schema="output_schema state_schema",
        plain="output_mode timeout_conf",
    ),
    # Objects of Spark's machine learning library, which are called by the names of their methods
    "MlRelation": row(walk="transform fetch model_summary_dataset"),
    "MlRelation.Transform": row(walk="obj_ref transformer input params"),
    "ObjectRef": row(plain="id"),
    "MlOperator": row(plain="name uid type"),
    "MlParams": row(walk="params"),
    "Fetch": row(walk="obj_ref methods"),
    "Fetch.Method": row(walk="args", plain="method"),
    "Fetch.Method.Args": row(walk="param input"),
}

CATALOG: MessageRows = {
    "Catalog": row(
        walk="""
            current_database set_current_database list_databases list_tables list_functions list_columns
            get_database get_table get_function database_exists table_exists function_exists
            create_external_table create_table drop_temp_view drop_global_temp_view recover_partitions
            is_cached cache_table uncache_table clear_cache refresh_table refresh_by_path current_catalog
            set_current_catalog list_catalogs drop_table drop_view create_database drop_database
            list_partitions list_views get_table_properties get_create_table_string truncate_table
            analyze_table
        """
    ),
    "CurrentDatabase": row(),
    "SetCurrentDatabase": row(target="db_name"),
    "ListDatabases": row(target="pattern"),
    "ListTables": row(target="db_name pattern"),
    "ListFunctions": row(target="db_name pattern"),
    "ListColumns": row(target="table_name db_name"),
    "GetDatabase": row(target="db_name"),
    "GetTable": row(target="table_name db_name"),
    "GetFunction": row(target="function_name db_name"),
    "DatabaseExists": row(target="db_name"),
    "TableExists": row(target="table_name db_name"),
    "FunctionExists": row(target="function_name db_name"),
    "CreateExternalTable": row(
        target="table_name", path="path", format="source", walk="schema", options="options"
    ),
    "CreateTable": row(
        target="table_name",
        path="path",
        format="source",
        walk="schema",
        options="options",
        plain="description",
    ),
    "DropTempView": row(target="view_name"),
    "DropGlobalTempView": row(target="view_name"),
    "RecoverPartitions": row(target="table_name"),
    "IsCached": row(target="table_name"),
    "CacheTable": row(target="table_name", walk="storage_level"),
    "UncacheTable": row(target="table_name"),
    "ClearCache": row(),
    "RefreshTable": row(target="table_name"),
    "RefreshByPath": row(path="path"),
    "CurrentCatalog": row(),
    "SetCurrentCatalog": row(target="catalog_name"),
    "ListCatalogs": row(target="pattern"),
    "DropTable": row(target="table_name if_exists purge"),
    "DropView": row(target="view_name if_exists"),
    "CreateDatabase": row(target="db_name if_not_exists properties"),
    "DropDatabase": row(target="db_name if_exists cascade"),
    "ListPartitions": row(target="table_name"),
    "ListViews": row(target="db_name pattern"),
    "GetTableProperties": row(target="table_name"),
    "GetCreateTableString": row(target="table_name as_serde"),
    "TruncateTable": row(target="table_name"),
    "AnalyzeTable": row(target="table_name no_scan"),
}
