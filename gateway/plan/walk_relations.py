"""Readers of relations and expressions: what in them means a table, text, a column, a function or code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from gateway.model.handles import SparkHandle
from gateway.model.reading import Argument
from gateway.plan.identifiers import attribute_parts, table_parts
from gateway.plan.reading import (
    CatalogCall,
    CodeUse,
    ColumnName,
    ExpressionText,
    FunctionCall,
    HandleUse,
    SqlText,
    TableRead,
    UrlUse,
)
from gateway.plan.references import ids_bound, names_bound
from gateway.plan.time_travel import parts_of_table, text_of
from gateway.plan.walk_sources import (
    is_registrable,
    list_written_paths,
    read_paths,
    table_options,
    text_options,
)
from gateway.plan.walk_state import PlanWalk, reads_field, reads_message, refuse
from gateway.sql.identity import IDENTITIES
from gateway.sql.required import Unsupported
from gateway.sql.schema_text import (
    WITHOUT_OPTIONS,
    check_options_argument,
    check_schema,
    check_schema_argument,
    check_user_type,
    schema_argument,
)
from gateway.sql.scope import clip
from gateway.sql.storage import drop_harmless_options
from gateway.wire.connect import Message, pb
from gateway.wire.local_data import metadata_of

_REFERENCE = re.compile(r"_pyspark_connect_temp_view_[0-9a-f]{1,64}")
"""How PySpark names a DataFrame that an SQL text refers to. Spark makes temporary views of these names and
drops them afterwards: a view of the user's own by the name would be gone, and what it hid would be read."""

_PATTERN = re.compile(r"(?:.+\.)?`.+`", re.DOTALL)
"""What `colRegex` takes as a pattern of names."""


@reads_field(
    "Relation.read",
    "Read.is_streaming",
    "Read.NamedTable.unparsed_identifier",
    "Read.NamedTable.options",
    "Read.DataSource.format",
    "Read.DataSource.options",
    "Read.DataSource.paths",
)
def _read(walk: PlanWalk, relation: pb.Relation, read: pb.Read) -> None:
    text = text_of(read)
    if text is not None:
        relation.sql.query = text
        walk.reading.texts.append(SqlText(relation=relation, text=text, arguments=False))
        return
    case = read.WhichOneof("read_type")
    if case == "named_table":
        table = read.named_table
        walk.reading.tables.append(
            TableRead(
                relation=relation,
                parts=parts_of_table(table.unparsed_identifier),
                streaming=read.is_streaming,
                options=table_options(table.options) if table.options else (),
            )
        )
    elif case == "data_source":
        source = read.data_source
        if is_registrable(source.format):
            # Its paths and options are arguments of the user's code.
            walk.reading.code.append(
                CodeUse(
                    name=source.format,
                    access="execute",
                    what="a data source that the session registered",
                    handle=SparkHandle("data_source", source.format.lower()),
                )
            )
            return
        paths = read_paths(
            source.format if source.HasField("format") else "parquet",
            source.options,
            tuple(source.paths),
            streaming=read.is_streaming,
        )
        walk.reading.urls.extend(UrlUse(url=path, access="read") for path in paths)


@reads_field(
    "Relation.relation_changes",
    "RelationChanges.unparsed_identifier",
    "RelationChanges.options",
    "RelationChanges.is_streaming",
)
def _relation_changes(walk: PlanWalk, relation: pb.Relation, changes: pb.RelationChanges) -> None:
    walk.reading.tables.append(
        TableRead(
            relation=relation,
            parts=parts_of_table(changes.unparsed_identifier),
            streaming=changes.is_streaming,
            options=tuple(sorted(changes.options.items())),
            changes=True,  # RULE (plan-change-feed)
        )
    )


@reads_field("Relation.with_relations")
def _with_relations(walk: PlanWalk, relation: pb.Relation, with_relations: pb.WithRelations) -> None:
    """Note which ids the references bind, and which names."""
    root = with_relations.root
    if relation is walk.command:
        walk.command = root
    for plan_id, reference in ids_bound(with_relations):
        walk.bind(plan_id, reference)  # RULE (plan-id-once)
    names = [name for name, _ in names_bound(with_relations)]
    if not names:
        return
    aliases = frozenset(name.lower() for name in names)
    if len(aliases) < len(names) or not all(map(_REFERENCE.fullmatch, names)):  # RULE (reference-names)
        raise refuse(
            "DataFrames in SQL text must have the names that PySpark generates: Spark replaces and drops "
            "temporary views of these names"
        )
    for name in aliases:
        # Spark drops the view of an inner one, and in the text of the outer one the name would be a table's.
        walk.bind(name, with_relations)  # RULE (text-name-once)
    walk.bound[id(root)] = (root, aliases)


@reads_message("SubqueryExpression")
def _query_within(walk: PlanWalk, message: pb.SubqueryExpression) -> None:
    walk.reading.within = walk.reading.references_plan_ids = True  # RULE (plan-id-subquery)


@reads_message("LateralJoin")
def _lateral_join(walk: PlanWalk, message: pb.LateralJoin) -> None:
    walk.reading.within = True


@reads_field("Relation.sql", "SQL.query")
def _sql(walk: PlanWalk, relation: pb.Relation, sql: pb.SQL) -> None:
    bound = walk.bound.get(id(relation))
    walk.reading.texts.append(
        SqlText(
            relation=relation,
            text=sql.query,
            arguments=bool(sql.args or sql.pos_args or sql.named_arguments or sql.pos_arguments),
            aliases=bound[1] if bound is not None and bound[0] is relation else frozenset(),
            command=relation is walk.command,
            whole=relation is walk.root,  # RULE (commands-at-root)
        )
    )


@reads_field("Relation.catalog")
def _catalog(walk: PlanWalk, relation: pb.Relation, catalog: pb.Catalog) -> None:
    operation = catalog.WhichOneof("cat_type")
    if operation is not None:
        alone = relation is walk.root or (operation in _ONE_ROW and _is_first_of(walk.root, relation))
        walk.reading.catalog_calls.append(CatalogCall(relation=relation, operation=operation, root=alone))


_ONE_ROW = frozenset(
    """
    current_catalog current_database database_exists drop_global_temp_view drop_temp_view function_exists
    get_database get_function get_table is_cached table_exists
    """.split()
)
"""Calls that are answered with one row, so that the first of their rows are all of them."""


def _is_first_of(root: pb.Relation | None, relation: pb.Relation) -> bool:
    """Whether the root of a plan takes the first rows of a relation, as the client for the JVM does of a call
    that it wants one value of."""
    if root is None or root.WhichOneof("rel_type") != "limit":
        return False
    return root.limit.limit > 0 and root.limit.input is relation  # RULE (catalog-call-first)


@reads_message("CreateTable", "CreateTable.path", "CreateTable.source", "CreateTable.options")
@reads_message(
    "CreateExternalTable",
    "CreateExternalTable.path",
    "CreateExternalTable.source",
    "CreateExternalTable.options",
)
def _create_table(walk: PlanWalk, create: pb.CreateTable | pb.CreateExternalTable) -> None:
    source = create.source if create.HasField("source") else None
    paths = list_written_paths(
        source,
        drop_harmless_options(create.options, source),
        create.path if create.HasField("path") else None,
        streaming=False,
    )
    walk.reading.urls.extend(UrlUse(url=path, access="write") for path in paths)


@reads_message("RefreshByPath", "RefreshByPath.path")
def _refresh_by_path(walk: PlanWalk, refresh: pb.RefreshByPath) -> None:
    walk.reading.urls.append(UrlUse(url=refresh.path, access="read"))


@reads_message("LocalRelation", "LocalRelation.data")
def _local_relation(walk: PlanWalk, local: pb.LocalRelation) -> None:
    for metadata in metadata_of(local.data):  # RULE (local-data-metadata)
        check_schema(metadata)


@reads_message("Parse", "Parse.options")
def _parse(walk: PlanWalk, parse: pb.Parse) -> None:
    text_options(parse.options)


@reads_message("CachedRemoteRelation", "CachedRemoteRelation.relation_id")
def _walk_cached_remote_relation(walk: PlanWalk, cached: pb.CachedRemoteRelation) -> None:
    walk.reading.handles.append(HandleUse(handle=SparkHandle("relation", cached.relation_id)))


# Expressions


@reads_message(
    "Expression.UnresolvedAttribute",
    "Expression.UnresolvedAttribute.unparsed_identifier",
    "Expression.UnresolvedAttribute.is_metadata_column",
)
def _attribute(walk: PlanWalk, attribute: pb.Expression.UnresolvedAttribute) -> None:
    if attribute.HasField("plan_id"):  # RULE (plan-id-column)
        walk.reading.references_plan_ids = True
    text = attribute.unparsed_identifier
    column = _short_column if len(text) <= 128 else _column
    found = column(text, attribute.is_metadata_column)
    walk.reading.columns.append(found)
    if len(found.parts) == 1 and found.parts[0].lower() in IDENTITIES:
        walk.reading.words.append(attribute)


def _column(text: str, metadata: bool) -> ColumnName:
    parts = attribute_parts(text)
    if parts is None:
        raise refuse(refuse_column_name(text))
    return ColumnName(parts=parts, metadata=metadata)


_short_column = lru_cache(maxsize=4096)(_column)


@reads_message("Expression.UnresolvedStar", "Expression.UnresolvedStar.unparsed_target")
def _star(walk: PlanWalk, star: pb.Expression.UnresolvedStar) -> None:
    if star.HasField("plan_id"):
        walk.reading.references_plan_ids = True
    if not star.HasField("unparsed_target"):
        walk.reading.columns.append(ColumnName(parts=(), star=True))
        return
    target = star.unparsed_target
    if not target.endswith(".*") or star.HasField("plan_id"):
        raise refuse(f"the star `{clip(target)}` cannot be parsed")
    parts = attribute_parts(target[:-2])
    if parts is None:
        raise refuse(refuse_column_name(target[:-2]))
    walk.reading.columns.append(ColumnName(parts=parts, star=True))


@reads_message("Expression.UnresolvedRegex", "Expression.UnresolvedRegex.col_name")
def _regex(walk: PlanWalk, regex: pb.Expression.UnresolvedRegex) -> None:
    """What stands in backticks is a pattern, which can mean every column; Spark takes the rest as a name."""
    if regex.HasField("plan_id"):
        walk.reading.references_plan_ids = True
    text = regex.col_name
    if _PATTERN.fullmatch(text):  # RULE (column-regex)
        walk.reading.columns.append(ColumnName(parts=(), star=True))
    else:
        found = _column(text, metadata=False)
        walk.reading.columns.append(found)
        if len(found.parts) == 1 and found.parts[0].lower() in IDENTITIES:
            walk.reading.words.append(regex)


@reads_message("Expression.LambdaFunction")
def _lambda(walk: PlanWalk, function: pb.Expression.LambdaFunction) -> None:
    """Note the variables that mean an argument of a lambda around them, for this one and all within."""
    declared = walk.declared
    if id(function) in declared:
        return
    pending: list[tuple[Message, frozenset[str]]] = [(function, frozenset())]
    while pending:
        message, names = pending.pop()
        if isinstance(message, pb.Expression.UnresolvedNamedLambdaVariable):
            if message.name_parts and message.name_parts[0] in names:
                declared[id(message)] = message
        elif isinstance(message, pb.Expression.LambdaFunction):
            if not 1 <= len(message.arguments) <= 3:
                raise refuse("a lambda function must have one to three arguments")
            declared[id(message)] = message
            names |= {part for argument in message.arguments for part in argument.name_parts}
            pending.extend((argument, names) for argument in message.arguments)
            pending.append((message.function, names))
        elif isinstance(message, (pb.Expression.Literal, pb.DataType)):
            continue
        else:
            pending.extend((inner, names) for inner in _messages_in(message))


def _messages_in(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if field.message_type is not None:
            # No message within an expression has a map.
            yield from value if field.is_repeated else (value,)


@reads_message(
    "Expression.UnresolvedNamedLambdaVariable", "Expression.UnresolvedNamedLambdaVariable.name_parts"
)
def _lambda_variable(walk: PlanWalk, variable: pb.Expression.UnresolvedNamedLambdaVariable) -> None:
    """Spark takes a variable that no lambda around it declares as the name of a column."""
    if id(variable) not in walk.declared:  # RULE (lambda-variables)
        name = clip(".".join(variable.name_parts))
        raise refuse(f"no enclosing lambda function declares the variable `{name}`")


@reads_message("Expression.ExpressionString", "Expression.ExpressionString.expression")
def _expression_string(walk: PlanWalk, text: pb.Expression.ExpressionString) -> None:
    walk.reading.expressions.append(ExpressionText(message=text, text=text.expression))


@reads_message(
    "Expression.UnresolvedFunction",
    "Expression.UnresolvedFunction.function_name",
    "Expression.UnresolvedFunction.is_user_defined_function",
    "Expression.UnresolvedFunction.is_internal",
)
def _function(walk: PlanWalk, function: pb.Expression.UnresolvedFunction) -> None:
    name = function.function_name
    called = _short_called if len(name) <= 128 else _build_call
    call, schema = called(name, function.is_user_defined_function, function.is_internal)
    _options_argument(call.parts[-1], function)
    if schema is not None:
        _schema_argument(call.parts[-1], schema, function)
    walk.reading.functions.append(call)


def _build_call(name: str, by_user: bool, internal: bool) -> tuple[FunctionCall, int | None]:
    """Return the call of a function, and which argument of it is a schema."""
    # Spark takes the name whole unless the client says that a user has defined it.
    parts = parts_of_function(name) if by_user else (name,)
    return FunctionCall(parts, internal=internal), schema_argument(parts[-1])


_short_called = lru_cache(maxsize=4096)(_build_call)


@reads_message("CallFunction", "CallFunction.function_name")
def _call_function(walk: PlanWalk, call: pb.CallFunction) -> None:
    parts = parts_of_function(call.function_name)
    _options_argument(parts[-1], call)
    _schema_argument(parts[-1], schema_argument(parts[-1]), call)
    called = FunctionCall(parts, by_name=True)
    walk.reading.functions.append(called)
    walk.reading.named_calls.append((called, call))


def _options_argument(name: str, call: pb.Expression.UnresolvedFunction | pb.CallFunction) -> None:
    if name.lower() not in WITHOUT_OPTIONS:
        return
    made = [one.unresolved_function for one in call.arguments]
    told = [Argument(call=one.function_name or None, keys=_list_keys(one.arguments)) for one in made]
    check_options_argument(name, told)  # RULE (plan-xml-options)


def _list_keys(arguments: Sequence[pb.Expression]) -> tuple[str, ...] | None:
    keys = arguments[::2]
    plain = all(one.WhichOneof("expr_type") == "literal" and one.literal.HasField("string") for one in keys)
    return tuple(one.literal.string for one in keys) if plain else None


def _schema_argument(
    name: str, position: int | None, call: pb.Expression.UnresolvedFunction | pb.CallFunction
) -> None:
    if position is None or len(call.arguments) <= position:
        return
    argument = call.arguments[position]
    case = argument.WhichOneof("expr_type")
    literal = argument.literal if case == "literal" else None
    text = literal.string if literal is not None and literal.HasField("string") else None
    # RULE (plan-schema-arguments)
    check_schema_argument(name, text, argument.unresolved_function.function_name or None)


@reads_message("UnresolvedTableValuedFunction", "UnresolvedTableValuedFunction.function_name")
def _table_valued_function(walk: PlanWalk, function: pb.UnresolvedTableValuedFunction) -> None:
    walk.reading.functions.append(FunctionCall((function.function_name,), table_valued=True))


# Code

_LANGUAGES = {
    "python_udf": "a Python function",
    "scalar_scala_udf": "a Scala function",
    "java_udf": "a Java class",
}


@reads_message(
    "CommonInlineUserDefinedFunction",
    "CommonInlineUserDefinedFunction.function_name",
    "PythonUDF.command",
    "PythonUDF.additional_includes",
    "ScalarScalaUDF.payload",
    "JavaUDF.class_name",
)
def _user_defined_function(walk: PlanWalk, function: pb.CommonInlineUserDefinedFunction) -> None:
    language = function.WhichOneof("function")
    name = function.function_name or (function.java_udf.class_name if language == "java_udf" else "")
    _code(walk, function, name, _LANGUAGES.get(language or "", "a function"))


@reads_message(
    "CommonInlineUserDefinedTableFunction",
    "CommonInlineUserDefinedTableFunction.function_name",
    "PythonUDTF.command",
)
def _user_defined_table_function(walk: PlanWalk, function: pb.CommonInlineUserDefinedTableFunction) -> None:
    _code(walk, function, function.function_name, "a Python table function")


@reads_message(
    "CommonInlineUserDefinedDataSource", "CommonInlineUserDefinedDataSource.name", "PythonDataSource.command"
)
def _user_defined_data_source(walk: PlanWalk, source: pb.CommonInlineUserDefinedDataSource) -> None:
    _code(walk, source, source.name, "a Python data source")


@reads_message("TypedAggregateExpression")
def _walk_typed_aggregate(walk: PlanWalk, aggregate: pb.TypedAggregateExpression) -> None:
    _code(walk, aggregate, "typed_aggregate", "a Scala aggregator")


@reads_message("MlRelation")
def _ml_relation(walk: PlanWalk, relation: pb.MlRelation) -> None:
    _code(walk, relation, "ml", "a machine learning operation")


def _code(walk: PlanWalk, message: Message, name: str, what: str) -> None:
    access = "create" if message is walk.registered else "execute"  # RULE (register-wants-create)
    walk.reading.code.append(
        CodeUse(name=name or "anonymous", access="create" if access == "create" else "execute", what=what)
    )


@reads_message(
    "DataType.UDT",
    "DataType.UDT.jvm_class",
    "DataType.UDT.python_class",
    "DataType.UDT.serialized_python_class",
)
def _user_defined_type(walk: PlanWalk, user_type: pb.DataType.UDT) -> None:
    check_user_type(user_type.jvm_class, user_type.serialized_python_class)  # RULE (user-defined-types)


def refuse_column_name(text: str) -> Unsupported:
    """Return what Spark says of a column's name that it cannot split."""
    return Unsupported(
        f"[INVALID_ATTRIBUTE_NAME_SYNTAX] Syntax error in the attribute name: {clip(text)}. Check that "
        "backticks appear in pairs, a quoted string is a complete name part and use a backtick only inside "
        "quoted name parts. SQLSTATE: 42601",
        "42601",
    )


def parts_of_function(text: str) -> tuple[str, ...]:
    parts = table_parts(text)
    if parts is None:
        raise refuse(Unsupported(f"the function name `{clip(text)}` cannot be parsed", name=text))
    return parts
