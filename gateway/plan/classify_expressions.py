"""Rows of `classify`: expressions, literals, types, and the origins that clients note down."""

from __future__ import annotations

from gateway.plan.classify_fields import PLUGIN, MessageRows, row

_TYPED = row(plain="type_variation_reference")
_MEASURED = row(plain="precision type_variation_reference")

ROWS: MessageRows = {
    # Expressions
    "Expression": row(
        walk="""
            common literal unresolved_attribute unresolved_function expression_string unresolved_star alias
            cast unresolved_regex sort_order lambda_function window unresolved_extract_value update_fields
            unresolved_named_lambda_variable common_inline_user_defined_function call_function
            named_argument_expression merge_action typed_aggregate_expression subquery_expression
            direct_shuffle_partition_id
        """,
        refused={"extension": PLUGIN},
    ),
    "ExpressionCommon": row(walk="origin"),
    "Expression.UnresolvedAttribute": row(column="unparsed_identifier is_metadata_column", plain="plan_id"),
    "Expression.UnresolvedStar": row(column="unparsed_target", plain="plan_id"),
    "Expression.UnresolvedRegex": row(column="col_name", plain="plan_id"),
    "Expression.UnresolvedFunction": row(
        function="function_name is_user_defined_function is_internal", walk="arguments", plain="is_distinct"
    ),
    "Expression.ExpressionString": row(text="expression"),
    "Expression.Alias": row(walk="expr", plain="name", schema="metadata"),  # RULE (column-metadata)
    "Expression.Cast": row(walk="expr type", schema="type_str", plain="eval_mode"),
    "Expression.SortOrder": row(walk="child", plain="direction null_ordering"),
    "Expression.LambdaFunction": row(walk="function arguments"),
    "Expression.UnresolvedNamedLambdaVariable": row(column="name_parts"),
    "Expression.Window": row(walk="window_function partition_spec order_spec frame_spec"),
    "Expression.Window.WindowFrame": row(walk="lower upper", plain="frame_type"),
    "Expression.Window.WindowFrame.FrameBoundary": row(walk="value", plain="current_row unbounded"),
    "Expression.UnresolvedExtractValue": row(walk="child extraction"),
    "Expression.UpdateFields": row(walk="struct_expression value_expression", plain="field_name"),
    "Expression.DirectShufflePartitionID": row(walk="child"),
    "CallFunction": row(function="function_name", walk="arguments"),
    "NamedArgumentExpression": row(walk="value", plain="key"),
    "MergeAction": row(walk="condition assignments", plain="action_type"),
    "MergeAction.Assignment": row(walk="key value"),
    # Its plan_id names a reference of an enclosing WithRelations, which is walked there.
    "SubqueryExpression": row(walk="table_arg_options in_subquery_values", plain="plan_id subquery_type"),
    "SubqueryExpression.TableArgOptions": row(
        walk="partition_spec order_spec", plain="with_single_partition"
    ),
    # Code
    "CommonInlineUserDefinedFunction": row(
        code="function_name",
        walk="arguments python_udf scalar_scala_udf java_udf",
        plain="deterministic is_distinct",
    ),
    "PythonUDF": row(code="command additional_includes", walk="output_type", plain="eval_type python_ver"),
    "ScalarScalaUDF": row(code="payload", walk="inputTypes outputType", plain="nullable aggregate"),
    "JavaUDF": row(code="class_name", walk="output_type", plain="aggregate"),
    "TypedAggregateExpression": row(walk="scalar_scala_udf"),
    "CommonInlineUserDefinedTableFunction": row(
        code="function_name", walk="arguments python_udtf", plain="deterministic"
    ),
    "PythonUDTF": row(code="command", walk="return_type", plain="eval_type python_ver"),
    "CommonInlineUserDefinedDataSource": row(code="name", walk="python_data_source"),
    "PythonDataSource": row(code="command", plain="python_ver"),
    # Literals
    "Expression.Literal": row(
        plain="""
            binary boolean byte short integer long float double string date timestamp timestamp_ntz
            year_month_interval day_time_interval
        """,
        walk="""
            null decimal calendar_interval array map struct specialized_array time timestamp_ntz_nanos
            timestamp_ltz_nanos data_type
        """,
    ),
    "Expression.Literal.Decimal": row(plain="value precision scale"),
    "Expression.Literal.CalendarInterval": row(plain="months days microseconds"),
    "Expression.Literal.Array": row(walk="element_type elements"),
    "Expression.Literal.Map": row(walk="key_type value_type keys values"),
    "Expression.Literal.Struct": row(walk="struct_type elements"),
    "Expression.Literal.SpecializedArray": row(walk="bools ints longs floats doubles strings"),
    "Expression.Literal.Time": row(plain="nano precision"),
    "Expression.Literal.TimestampNTZNanos": row(plain="epoch_micros nanos_within_micro precision"),
    "Expression.Literal.TimestampLTZNanos": row(plain="epoch_micros nanos_within_micro precision"),
    "Bools": row(plain="values"),
    "Ints": row(plain="values"),
    "Longs": row(plain="values"),
    "Floats": row(plain="values"),
    "Doubles": row(plain="values"),
    "Strings": row(plain="values"),
    # Types
    "DataType": row(
        walk="""
            null binary boolean byte short integer long float double decimal string char var_char date
            timestamp timestamp_ntz calendar_interval year_month_interval day_time_interval array struct map
            variant udt
            geometry geography unparsed time timestamp_ntz_nanos timestamp_ltz_nanos
        """
    ),
    "DataType.NULL": _TYPED,
    "DataType.Binary": _TYPED,
    "DataType.Boolean": _TYPED,
    "DataType.Byte": _TYPED,
    "DataType.Short": _TYPED,
    "DataType.Integer": _TYPED,
    "DataType.Long": _TYPED,
    "DataType.Float": _TYPED,
    "DataType.Double": _TYPED,
    "DataType.Decimal": row(plain="scale precision type_variation_reference"),
    "DataType.String": row(plain="collation type_variation_reference"),
    "DataType.Char": row(plain="length type_variation_reference"),
    "DataType.VarChar": row(plain="length type_variation_reference"),
    "DataType.Date": _TYPED,
    "DataType.Timestamp": _TYPED,
    "DataType.TimestampNTZ": _TYPED,
    "DataType.CalendarInterval": _TYPED,
    "DataType.YearMonthInterval": row(plain="start_field end_field type_variation_reference"),
    "DataType.DayTimeInterval": row(plain="start_field end_field type_variation_reference"),
    "DataType.Array": row(walk="element_type", plain="contains_null type_variation_reference"),
    "DataType.Struct": row(walk="fields", plain="type_variation_reference"),
    "DataType.StructField": row(walk="data_type", plain="name nullable", schema="metadata"),
    "DataType.Map": row(walk="key_type value_type", plain="value_contains_null type_variation_reference"),
    "DataType.Variant": _TYPED,
    # Spark makes an object of the class that `jvm_class` names.
    "DataType.UDT": row(code="jvm_class python_class serialized_python_class", walk="sql_type", plain="type"),
    "DataType.Geometry": row(plain="srid type_variation_reference"),
    "DataType.Geography": row(plain="srid type_variation_reference"),
    "DataType.Unparsed": row(schema="data_type_string"),  # RULE (schema-fields)
    "DataType.Time": _MEASURED,
    "DataType.TimestampNTZNanos": _MEASURED,
    "DataType.TimestampLTZNanos": _MEASURED,
    # Where in the client's program something was written: for messages only
    "Origin": row(walk="python_origin jvm_origin"),
    "PythonOrigin": row(plain="fragment call_site"),
    "JvmOrigin": row(
        plain="line start_position start_index stop_index sql_text object_type object_name",
        walk="stack_trace",
    ),
    "StackTraceElement": row(
        plain="""
            class_loader_name module_name module_version declaring_class method_name file_name line_number
        """
    ),
    "SourceCodeLocation": row(plain="file_name line_number definition_path", refused={"extension": PLUGIN}),
    "google.protobuf.Any": row(refused={"type_url": PLUGIN, "value": PLUGIN}),
}
