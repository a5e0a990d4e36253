"""Plan class → what is wanted: the one table of statements. A class that is not in it is refused.

`tests/sql/test_totality.py` lists the alternatives of Spark's grammar, and the classes that its plan builder
refers to, from Spark's jars. It fails on one that has no statement or no row here, in `REFUSED_COMMANDS` or
among the parts of queries, and on a row that no statement needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.model.catalog import TableName
from gateway.model.files import SESSION_CATALOG
from gateway.model.handles import HandleKind, SparkHandle
from gateway.model.procedures import NO_PROCEDURES, Procedures
from gateway.model.reading import CommandNode, FunctionRef, Reading
from gateway.model.system_tables import NameForm, explain
from gateway.sql import cache_commands as cache
from gateway.sql import data_commands as data
from gateway.sql import delta_commands as delta
from gateway.sql import format_commands as formats
from gateway.sql import function_commands as functions
from gateway.sql import path_commands as paths
from gateway.sql import procedure_commands as procedure
from gateway.sql import row_commands as rows
from gateway.sql import session_commands as session
from gateway.sql import variable_commands as variables
from gateway.sql.expressions import PARAMETERS, expression_refusal
from gateway.sql.function_calls import find_short_function
from gateway.sql.functions import (
    CODE_FUNCTIONS,
    DOCUMENT_FUNCTIONS,
    FILE_FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    builtin_name,
    builtin_refusal,
)
from gateway.sql.names import Names
from gateway.sql.nodes import node_refusal
from gateway.sql.parameters import parameter_refusal
from gateway.sql.required import Required, Unsupported, join
from gateway.sql.schema_text import check_options_argument, check_schema_argument, schema_argument
from gateway.sql.scope import CannotClassify, CommandScope
from gateway.sql.spark_errors import build_path_refusal, build_unknown_function_refusal

_Handler = Callable[[CommandScope], Required]

FORMAT_COMMANDS: Mapping[str, _Handler] = {
    "CallStatement": procedure.call,
    "PaimonCallStatement": procedure.call,
    "OptimizeTableCommand": delta.optimize,
    "VacuumTableCommand": delta.vacuum,
    "DescribeDeltaHistory": delta.describe_history,
    "DescribeDeltaDetailCommand": delta.describe_history,
    "RestoreTableStatement": delta.restore,
    "TimeTravel": delta.time_travel,
    "CloneTableStatement": delta.clone,
    "DeltaReorgTable": delta.reorganize,
    "DeltaGenerateCommand": delta.generate,
    "AlterTableAddConstraint": delta.add_constraint,
    "AlterTableDropConstraint": delta.alter,
    "AlterTableDropFeature": delta.alter,
    "AddPartitionField": formats.alter_layout,
    "DropPartitionField": formats.alter_layout,
    "ReplacePartitionField": formats.alter_layout,
    "SetWriteDistributionAndOrdering": formats.alter_layout,
    "SetIdentifierFields": formats.alter_layout,
    "DropIdentifierFields": formats.alter_layout,
    "CreateOrReplaceBranch": formats.alter_reference,
    "CreateOrReplaceTag": formats.alter_reference,
    "DropBranch": formats.alter_reference,
    "DropTag": formats.alter_reference,
}
"""Statements that only the parsers of table formats make."""

COMMANDS: Mapping[str, _Handler] = {
    **FORMAT_COMMANDS,
    "Call": procedure.call,
    "InsertIntoStatement": data.insert,
    "OverwriteByExpression": data.replace_where,
    "UpdateTable": rows.update,
    "DeleteFromTable": rows.delete,
    "MergeIntoTable": rows.merge,
    "CreateTable": data.create_table,
    "CreateTableLike": data.create_table_like,
    "CreateTableAsSelect": data.create_table_as,
    "ReplaceTable": data.replace_table,
    "ReplaceTableAsSelect": data.replace_table_as,
    "DropTable": data.drop,
    "DropView": data.drop,
    "TruncateTable": data.truncate,
    "TruncatePartition": data.truncate,
    "AddColumns": data.alter_table,
    "DropColumns": data.alter_table,
    "RenameColumn": data.alter_table,
    "AlterColumns": data.alter_columns,
    # Before 4.0.
    "AlterColumn": data.alter_columns,
    "ReplaceColumns": data.alter_table,
    "AlterTableClusterBy": data.alter_table,
    "AddConstraint": data.alter_table,
    "AddCheckConstraint": data.add_check,
    "DropConstraint": data.alter_table,
    "AddPartitions": data.add_partitions,
    "SetTableLocation": paths.set_location,
    "SetTableSerDeProperties": paths.set_serde_properties,
    "SetNamespaceLocation": paths.set_database_location,
    "InsertIntoDir": paths.insert_directory,
    "LoadData": paths.load_data,
    "AddFilesCommand": paths.add_files,
    "AddArchivesCommand": paths.add_files,
    "CreateTempViewUsing": paths.create_view_using,
    "ScriptTransformation": paths.transform,
    "ShowTablePartition": session.show_partition,
    "AlterViewSchemaBinding": data.alter_view_binding,
    "DropPartitions": data.alter_table,
    "RenamePartitions": data.alter_table,
    "RecoverPartitions": data.repair_table,
    "RepairTable": data.repair_table,
    "AnalyzeTable": data.analyze_table,
    "AnalyzeColumn": data.analyze_column,
    "AnalyzeTables": data.analyze_tables,
    "CommentOnTable": data.comment_on_table,
    "SetTableProperties": data.set_table_properties,
    "UnsetTableProperties": data.unset_table_properties,
    "RenameTable": data.rename_table,
    "RefreshTable": data.refresh_table,
    "CreateViewCommand": data.create_temp_view,
    "CreateView": data.create_view,
    "CreateMetricView": data.create_metric_view,
    "AlterViewAs": data.alter_view_as,
    "SetViewProperties": data.set_view_properties,
    "UnsetViewProperties": data.unset_view_properties,
    "CreateNamespace": data.create_database,
    "DropNamespace": data.drop_database,
    "CommentOnNamespace": data.alter_database,
    "SetNamespaceProperties": data.alter_database,
    "UnsetNamespacePropertiesCommand": data.unset_database_properties,
    "CacheTable": cache.cache_table,
    "CacheTableAsSelect": cache.cache_table_as,
    "UncacheTable": cache.uncache_table,
    "ClearCacheCommand": cache.clear_cache,
    "RefreshResource": cache.refresh_path,
    "ListArchivesCommand": cache.list_files,
    "ListFilesCommand": cache.list_files,
    "ListJarsCommand": cache.list_files,
    "SetCatalogAndNamespace": session.use,
    "SetNamespaceCommand": session.use_namespace,
    "SetCatalogCommand": session.set_catalog,
    "SetCommand": session.set_setting,
    "ResetCommand": session.reset_setting,
    "CreateVariable": variables.declare,
    "SetVariable": variables.assign,
    "DropVariable": variables.drop,
    "CreateUserDefinedFunction": functions.create,
    "CreateSQLFunctionCommand": functions.create_temporary,
    "DropFunction": functions.drop,
    "DropFunctionCommand": functions.drop_temporary,
    "ShowTables": session.show_tables,
    "ShowTablesJsonCommand": session.show_tables_json,
    "ShowViews": session.show_views,
    "ShowTablesExtended": session.show_tables_extended,
    # Before 4.0.
    "ShowTableExtended": session.show_tables_extended,
    "ShowFunctions": session.show_functions,
    "ShowNamespacesCommand": session.show_databases,
    # Before 4.1.
    "ShowNamespaces": session.show_databases,
    "ShowCatalogsCommand": session.show_catalogs,
    "ShowCollationsCommand": session.show_collations,
    "ShowCurrentNamespaceCommand": session.show_current_namespace,
    "ShowColumns": session.show_columns,
    "ShowCreateTable": session.show_create,
    "ShowTableProperties": session.show_properties,
    "ShowPartitions": session.show_details,
    "ShowPartitionsJsonCommand": session.show_details,
    "DescribeRelation": session.describe_table,
    "DescribeColumn": session.describe_column,
    "DescribeTablePartition": session.show_details,
    "DescribeRelationJsonCommand": session.describe_json,
    "DescribeNamespace": session.describe_database,
    "DescribeFunction": functions.describe,
    "RefreshFunction": functions.refresh,
    "DescribeQueryCommand": session.describe_query,
    "ExplainCommand": session.explain,
    "DescribeProcedureCommand": procedure.describe,
    "ShowProceduresCommand": procedure.show,
}

NAME_NODES = frozenset(
    {
        "CurrentNamespace",
        "UnresolvedFunctionName",
        "UnresolvedIdentifier",
        "UnresolvedNamespace",
        "UnresolvedProcedure",
        "UnresolvedTable",
        "UnresolvedTableOrView",
        "UnresolvedView",
    }
)
"""Nodes that only hold the name that a command is about; the command's row judges it."""

_COLLATION = "a default collation would change how policies compare strings"
_IMMEDIATE = "EXECUTE IMMEDIATE is governed where a client sends it by itself, since Spark 4.1"
_INDEX = "indexes are not supported"
_PIPELINE = "pipelines are not supported"
PATH_IS_OFF = "SET PATH is disabled: it would change what functions and tables policies and views name"

GENERATED_TEXT = (
    "the parser of this Spark version does not parse the expression in GENERATED ALWAYS AS (…), so its "
    "functions cannot be authorized; Spark 4.3 and later do"
)

REFUSED_FORMAT_COMMANDS: Mapping[str, str] = {
    "ConvertToDeltaCommand": "it turns any files into a Delta table; use CREATE TABLE … AS SELECT",
}
"""The same of what only the parsers of table formats make."""

REFUSED_COMMANDS: Mapping[str, str] = {
    **REFUSED_FORMAT_COMMANDS,
    "AlterTableCollation": _COLLATION,
    "SetNamespaceCollationCommand": _COLLATION,
    "CreateIndex": _INDEX,
    "DropIndex": _INDEX,
    "CreateFlowCommand": _PIPELINE,
    "CreateMaterializedViewAsSelect": _PIPELINE,
    "CreateStreamingTable": _PIPELINE,
    "CreateStreamingTableAsSelect": _PIPELINE,
    "CreateStreamingTableAutoCdc": _PIPELINE,
    "SetPathCommand": PATH_IS_OFF,
    # What it is on 4.0.
    "ExecuteImmediateQuery": _IMMEDIATE,
    "UnresolvedExecuteImmediate": _IMMEDIATE,
    "CompoundBody": "SQL scripts (BEGIN … END) are governed where a client sends them by themselves",
    "UnresolvedInsert": "a target in IDENTIFIER(…) is not known in advance",
    "CreateTableLikeCommand": "CREATE TABLE … LIKE is governed with Spark 4.2 and later",
    "CreateFunctionCommand": "functions of classes and jars are code; CREATE FUNCTION … RETURN is governed",
    "CreateFunction": "functions of classes and jars are code; CREATE FUNCTION … RETURN is governed",
    "AddJarsCommand": "ADD JAR loads code into Spark",
    # 3.5 keeps it with the schema.
    "GeneratedColumn": GENERATED_TEXT,
}


def classify(
    reading: Reading,
    names: Names,
    *,
    parameters: bool = False,
    procedures: Procedures = NO_PROCEDURES,
    files: bool = False,
) -> Required | Unsupported:
    """Say what the statement's commands want, or why nothing of it can pass.

    Every plan node, every expression and every function of the reading is accounted for here. `parameters`:
    arguments come with the text, so that `:x` and `?` have values. `procedures`: those that may be called.
    `files`: the caller sees to it that functions which tell where rows are stored tell of nothing hidden, and
    that code is wanted of those that run some.
    """
    holds_command = bool(reading.commands)
    # Objects of kinds that the reader does not know come last: what holds them says more.
    unknown = {node for node in reading.nodes if node.startswith("?")}
    for node in sorted(reading.nodes - unknown):
        if node in COMMANDS or (holds_command and node in NAME_NODES):
            continue
        why = REFUSED_COMMANDS.get(node) or node_refusal(node)  # RULE (unlisted-node)
        if why is not None:
            return build_path_refusal() if why is PATH_IS_OFF else Unsupported(why)
    expressions = reading.expressions
    if parameters:
        why = parameter_refusal(reading)  # RULE (parameter-places)
        if why is not None:
            return Unsupported(why)
        expressions -= PARAMETERS
    for expression in sorted(expressions):  # RULE (unlisted-expression)
        why = expression_refusal(expression, command=holds_command)
        if why is not None:
            return Unsupported(why, "42P02" if expression in PARAMETERS else "")
    for node in sorted(unknown):  # RULE (unknown-object-kind)
        return Unsupported(f"`{node}` is not supported in statements")
    refusal = function_refusal(reading.functions, names, files=files)  # RULE (function-names-judged)
    if refusal is not None:
        return refusal
    for command in reading.commands:
        if _generates_by_text(command):  # RULE (generated-column-text)
            return Unsupported(GENERATED_TEXT)
    commands = {command.node for command in reading.commands}
    unread = sorted((reading.nodes & COMMANDS.keys()) - commands)
    if unread:  # RULE (unread-command)
        return Unsupported(f"{unread[0]} could not be parsed")
    try:
        return join(
            COMMANDS[c.node](CommandScope(c, reading, names, procedures))
            for c in reading.commands
            if c.node in COMMANDS
        )
    except CannotClassify as problem:
        return problem.refusal


def _generates_by_text(command: CommandNode) -> bool:
    """Whether a column is computed by what the parser keeps as a text, and does not look into."""
    columns = command.fields.get("columns")
    return isinstance(columns, tuple) and any(
        isinstance(column, Mapping) and isinstance(column.get("generationExpression"), str)
        for column in columns
    )


def function_refusal(
    functions: Iterable[FunctionRef], names: Names, *, files: bool = False
) -> Unsupported | None:
    """Refuse built-in functions that are not on the allow-list; persistent ones are judged as udf.

    A refused name is refused however it is qualified: `system.builtin.reflect` is `reflect`. `files`: as of
    `classify`.
    """
    for function in functions:
        if delta.is_changes(function):
            continue  # judged as its table is
        name, written = function.parts[-1].lower(), ".".join(function.parts)
        deliberately = REFUSED_TABLE_FUNCTIONS if function.table_valued else REFUSED_FUNCTIONS
        if name in deliberately or is_builtin(function):
            # RULE (document-without-doctype)
            if (files and name in FILE_FUNCTIONS | CODE_FUNCTIONS) or _reads_plain_document(name, function):
                continue
            why = builtin_refusal(name, table_valued=function.table_valued)
            if why is not None:
                told = explain(NameForm.CALL, name) if function.table_valued else None
                return Unsupported(f"the function `{written}` {told or f'is refused: {why}'}")
            refusal = _schema_refusal(name, function)  # RULE (function-schemas-read)
            if refusal is not None:
                return refusal
        elif is_registered(function, names):
            continue
        elif function.table_valued and not _is_of_database(function, names):
            return build_unknown_function_refusal(function, names.context)
        elif function.parts[0].lower() in ("session", "system", "builtin"):
            return Unsupported(f"the function `{written}` is in a reserved namespace")
    return None


def _reads_plain_document(name: str, function: FunctionRef) -> bool:
    """Whether a function parses XML that is written out, and has no DOCTYPE: it is all that makes a parser
    read elsewhere."""
    if name not in DOCUMENT_FUNCTIONS or not function.arguments:
        return False
    document = function.arguments[0].literal
    return document is not None and "<!" not in document


def _schema_refusal(name: str, function: FunctionRef) -> Unsupported | None:
    """Refuse a schema that cannot be read, or that holds what Spark would evaluate."""
    position = schema_argument(name)
    try:
        check_options_argument(name, function.arguments)
    except CannotClassify as problem:
        return problem.refusal
    if position is None or len(function.arguments) <= position:
        return None
    argument = function.arguments[position]
    if argument.parameter:
        return None  # refused without arguments, and with them read where they are
    try:
        check_schema_argument(name, argument.literal, argument.call, argument.other)
    except CannotClassify as problem:
        return problem.refusal
    return None


def _is_of_database(function: FunctionRef, names: Names) -> bool:
    """Whether the name can be that of a function in a database; whoever asks policies looks it up."""
    whole = len(function.parts) > 2 and function.parts[0].lower() == SESSION_CATALOG
    return whole or find_short_function(function, names) is not None


def is_builtin(function: FunctionRef) -> bool:
    """Whether the name can only mean a function of Spark itself; sessions cannot create functions here."""
    return builtin_name(function.parts) is not None and (len(function.parts) > 1 or function.builtin)


def is_registered(function: FunctionRef, names: Names) -> bool:
    """Whether the name can only mean a function that this session registered: built-in ones come first and
    none of their names can be registered, persistent ones come after. Functions and table functions are
    registered, and looked up, apart."""
    if len(function.parts) != 1 or function.builtin:
        return False
    # RULE (table-functions-apart)
    kind: HandleKind = "table_function" if function.table_valued else "function"
    return SparkHandle(kind, function.parts[0].lower()) in names.context.handles


def list_short_functions(reading: Reading, names: Names) -> tuple[tuple[FunctionRef, TableName], ...]:
    """Return the functions of databases that are called without their whole names, and which are meant."""
    called = (one for one in reading.functions if not (is_builtin(one) or is_registered(one, names)))
    found = ((one, find_short_function(one, names)) for one in called if not delta.is_changes(one))
    return tuple((one, name) for one, name in found if name is not None)
