"""How messages of a plan are written: a row for each that PySpark's users know under another form.

A row is text with places for fields: `{f}` is the value of field f, `{*f}` one that may be a column's name
instead of a Column, or many without brackets, `{.f}` a Column where Python's own values may stand, and `{!f}`
a name without quotes. What is not set leaves out its place, with its keyword and its comma. Behind the last
place in a row that ends in a bracket stand all other fields that are set, as keywords; a row that ends in
none shows what it names and no more. A message without a row is `Name(field=…)`.
"""

from __future__ import annotations

from collections.abc import Mapping

TEMPLATES: Mapping[str, str] = {
    # -------------------------------------------------------------------- relations that read no other
    "CachedLocalRelation": "spark.createDataFrame(<data sent before>)",
    "CachedRemoteRelation": "<result kept in the session>",
    "ChunkedCachedLocalRelation": "spark.createDataFrame(<parts sent before>)",
    "LocalRelation": "spark.createDataFrame({data}, schema={schema})",
    "Range": "spark.range({start}, {end}, {step})",
    "Read.DataSource": "spark.read.format({format}).load({*paths})",
    "Read.NamedTable": "spark.table({unparsed_identifier})",
    "RelationChanges": "spark.read.changes({unparsed_identifier})",
    "SQL": "spark.sql({query}, args={args}, args={named_arguments}, args={pos_args}, args={pos_arguments})",
    "UnresolvedTableValuedFunction": "spark.tvf({function_name}, {*arguments})",
    # -------------------------------------------------------------------- relations of others
    "Aggregate": "{input}.{!group_type}({*grouping_expressions}, {pivot}, {grouping_sets})"
    ".agg({*aggregate_expressions})",
    "Aggregate.GroupingSets": "{grouping_set}",
    "Aggregate.Pivot": "Pivot({col}, {values})",
    "ApplyInPandasWithState": "{input}.groupBy({*grouping_expressions}).applyInPandasWithState({func})",
    "AsOfJoin": "{left}._joinAsOf({right}, {left_as_of}, {right_as_of}, on={using_columns}, on={join_expr})",
    "CoGroupMap": "{input}.groupBy({*input_grouping_expressions})"
    ".cogroup({other}, {*other_grouping_expressions}).applyInPandas({func})",
    "CollectMetrics": "{input}.observe({name}, {*metrics})",
    "Deduplicate": "{input}.dropDuplicates({column_names})",
    "Drop": "{input}.drop({*columns}, {*column_names})",
    "Filter": "{input}.filter({*condition})",
    "GroupMap": "{input}.groupBy({*grouping_expressions}).applyInPandas({func})",
    "Hint": "{input}.hint({name}, {*parameters})",
    "HtmlString": "{input}.toHTML({num_rows})",
    "Join": "{left}.join({right}, {join_condition}, {*using_columns}, how={join_type})",
    "LateralJoin": "{left}.lateralJoin({right}, {join_condition}, how={join_type})",
    "Limit": "{input}.limit({limit})",
    "MapPartitions": "{input}.mapInPandas({func})",
    "NADrop": "{input}.dropna(thresh={min_non_nulls}, subset={cols})",
    "NAFill": "{input}.fillna({*values}, {cols})",
    "NAReplace": "{input}.replace({replacements}, subset={cols})",
    "NAReplace.Replacement": "{old_value}: {new_value}",
    "NearestByJoin": "{left}.nearestByJoin({right}, {ranking_expression})",
    "Offset": "{input}.offset({offset})",
    "Project": "{input}.select({*expressions})",
    "Repartition": "{input}.repartition({num_partitions})",
    "RepartitionByExpression": "{input}.repartition({num_partitions}, {*partition_exprs})",
    "Sample": "{input}.sample()",
    "SetOperation": "{left_input}.{!set_op_type}({right_input})",
    "ShowString": "{input}.show({num_rows})",
    "Sort": "{input}.orderBy({*order})",
    "StatApproxQuantile": "{input}.approxQuantile({cols}, {probabilities}, {relative_error})",
    "StatCorr": "{input}.corr({col1}, {col2})",
    "StatCov": "{input}.cov({col1}, {col2})",
    "StatCrosstab": "{input}.crosstab({col1}, {col2})",
    "StatDescribe": "{input}.describe({*cols})",
    "StatFreqItems": "{input}.freqItems({cols}, {support})",
    "StatSampleBy": "{input}.sampleBy({*col}, {fractions})",
    "StatSampleBy.Fraction": "{stratum}: {fraction}",
    "StatSummary": "{input}.summary({*statistics})",
    "SubqueryAlias": "{input}.alias({alias})",
    "Tail": "{input}.tail({limit})",
    "ToDF": "{input}.toDF({*column_names})",
    "ToSchema": "{input}.to({schema})",
    "Transpose": "{input}.transpose({*index_columns})",
    "Unpivot": "{input}.unpivot({ids}, {values}, {variable_column_name}, {value_column_name})",
    "Unpivot.Values": "{values}",
    "WithColumns": "{input}.withColumns({*aliases})",
    "WithColumnsRenamed": "{input}.withColumnsRenamed({*renames})",
    "WithColumnsRenamed.Rename": "{col_name}: {new_col_name}",
    "WithWatermark": "{input}.withWatermark({event_time}, {delay_threshold})",
    "Zip": "{left}.zip({right})",
    # -------------------------------------------------------------------- expressions
    "CallFunction": "F.call_function({function_name}, {*arguments})",
    "CommonInlineUserDefinedDataSource": "data_source({name}, {python_data_source})",
    "CommonInlineUserDefinedFunction": "udf({function_name}, {python_udf}, {scalar_scala_udf}, {java_udf})"
    "({*arguments})",
    "CommonInlineUserDefinedTableFunction": "udtf({function_name}, {python_udtf})({*arguments})",
    "Expression.Alias": "{expr}.alias({*name})",
    "Expression.Cast": "{expr}.cast({type}, {type_str})",
    "Expression.UnresolvedExtractValue": "{child}[{.extraction}]",
    "Expression.UnresolvedRegex": "df.colRegex({col_name})",
    "Expression.Window": "{window_function}.over(partitionBy={partition_spec}, orderBy={order_spec})",
    "Expression.Window.WindowFrame": "{!frame_type}({lower}, {upper})",
    "JavaUDF": "java {!class_name}",
    "MergeAction": "{!action_type}({condition}, {*assignments})",
    "MergeAction.Assignment": "{*key}: {value}",
    "NamedArgumentExpression": "{!key}={*value}",
    "PythonDataSource": "python {command}",
    "PythonUDF": "python {command}",
    "PythonUDTF": "python {command}",
    "ScalarScalaUDF": "scala {payload}",
    # -------------------------------------------------------------------- commands
    "CheckpointCommand": "{relation}.checkpoint()",
    "CreateDataFrameViewCommand": "{input}.createTempView({name})",
    "MergeIntoTableCommand": "{source_table_plan}.mergeInto({target_table_name}, {merge_condition})",
    "SqlCommand": "spark.sql({sql}, args={args}, args={named_arguments}, args={pos_args}, "
    "args={pos_arguments})",
    "WriteOperation": "{input}.write({table}, format={source}, mode={mode})",
    "WriteOperation.SaveTable": "{!save_method}({table_name})",
    "WriteOperationV2": "{input}.writeTo({table_name}, mode={mode})",
    "WriteStreamOperationStart": "{input}.writeStream()",
    # -------------------------------------------------------------------- analyses
    "AnalyzePlanRequest.Explain": "{plan}.explain({explain_mode})",
    "AnalyzePlanRequest.GetStorageLevel": "{relation}.storageLevel",
    "AnalyzePlanRequest.InputFiles": "{plan}.inputFiles()",
    "AnalyzePlanRequest.IsLocal": "{plan}.isLocal()",
    "AnalyzePlanRequest.IsStreaming": "{plan}.isStreaming",
    "AnalyzePlanRequest.Persist": "{relation}.persist()",
    "AnalyzePlanRequest.SameSemantics": "{target_plan}.sameSemantics({other_plan})",
    "AnalyzePlanRequest.Schema": "{plan}.schema",
    "AnalyzePlanRequest.SemanticHash": "{plan}.semanticHash()",
    "AnalyzePlanRequest.SparkVersion": "spark.version",
    "AnalyzePlanRequest.TreeString": "{plan}.printSchema({level})",
    "AnalyzePlanRequest.Unpersist": "{relation}.unpersist()",
}

UNSAID = frozenset(
    {"client_observed_server_side_session_id", "client_type", "common", "dataHashes", "hash", "metadata",
     "operation_id", "plan_id", "relation_id", "schemaHash", "session_id", "user_context"}
)  # fmt: skip
"""Fields that say nothing of what is asked."""

TRUE_UNLESS_SAID = frozenset(
    {"AsOfJoin.allow_exact_matches", "CheckpointCommand.eager",
     "CommonInlineUserDefinedFunction.deterministic", "CommonInlineUserDefinedTableFunction.deterministic",
     "Repartition.shuffle", "Sort.is_global"}
)  # fmt: skip
"""Flags of which it is told when they are false; of all others when they are true."""
