"""What calls of the Catalog API want: one row for each, like the SQL statement of the same meaning.

A test compares the table with the cases of `spark.connect.Catalog`. Names are strings that Spark parses; the
full name is written over each, and a separate database field is emptied, which Spark would look up in another
catalog. A call must be the whole plan: its rows could not be filtered within another relation. Making a table
is the exception: PySpark's DataFrame of the table that was made is the call itself, which Spark knows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Never, TypeGuard

from gateway.model.catalog import TableName, levels, quote_parts
from gateway.model.handles import functions_called, mark_reading_function
from gateway.model.resource import Resource
from gateway.model.spark_minors import NEWEST, Minor
from gateway.model.statement import (
    AnswerFilter,
    AnswerRule,
    CatalogChanged,
    DropTempView,
    Meaning,
    UseNamespace,
)
from gateway.plan.reading import CatalogCall
from gateway.plan.scope import NamePin, PlanRequired, PlanScope, quote_name, split_option
from gateway.sql import storage
from gateway.sql.cache_commands import check_cached_view
from gateway.sql.data_commands import build_create_database_effect, list_cascade_privileges
from gateway.sql.functions import ALLOWED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS, is_of
from gateway.sql.names import Names, TempViewName, Ungovernable, name_global_view, no_catalog
from gateway.sql.paths import on_path
from gateway.sql.required import Named, Privilege, Required, Unsupported
from gateway.sql.scope import CannotClassify, table_resource
from gateway.sql.session_commands import use_below_current, use_privileges
from gateway.wire.connect import Message, pb

_Handler = Callable[[Never, PlanScope], PlanRequired]
"""Called with the message of its case only; a test compares the two."""

_WithDatabase = pb.GetTable | pb.ListColumns | pb.TableExists | pb.GetFunction | pb.FunctionExists

_Listing = pb.ListTables | pb.ListViews | pb.ListFunctions
_OfDatabase = pb.GetDatabase | pb.DatabaseExists | pb.CreateDatabase | pb.DropDatabase

DOES_NOT_EXIST = "SELECT false AS value"
"""What stands in for the question whether something exists that the principal may not know of."""


def _require_nothing(call: Message, scope: PlanScope) -> PlanRequired:
    return PlanRequired()


def _visible(resource: Resource) -> Privilege:
    return Privilege(resource, "show", visible_is_enough=True)


def _resolve_table_name(
    call: pb.GetTable | pb.ListColumns | pb.TableExists | pb.IsCached, scope: PlanScope
) -> tuple[TableName | TempViewName, tuple[NamePin, ...]]:
    """Return what `table_name` with `db_name` means, and what is written over them."""
    name = _join_name(call, scope, "table_name")
    found = scope.table(name)
    return found, _pins(call, "table_name", quote_name(found))


def _join_name(call: Message, scope: PlanScope, field: str) -> str:
    """Return the name with the database before it, when that is a field of its own."""
    name: str = getattr(call, field)
    if not _has_database(call):
        return name
    parts = scope.parts(name)
    if len(parts) != 1:
        raise CannotClassify(f"`{name}` includes a database, but another one is given as well")
    catalog, database = scope.database(call.db_name)
    return quote_parts((catalog, *levels(database), *parts))


def _has_database(call: Message) -> TypeGuard[_WithDatabase]:
    return "db_name" in call.DESCRIPTOR.fields_by_name and call.HasField("db_name")


def _pins(call: Message, field: str, text: str) -> tuple[NamePin, ...]:
    pins = (NamePin(message=call, field=field, text=text),)
    # RULE (catalog-call-database)
    return (*pins, NamePin(message=call, field="db_name", text=None)) if _has_database(call) else pins


def _database(call: _Listing | _OfDatabase, scope: PlanScope) -> tuple[str, str, tuple[NamePin, ...]]:
    """Return catalog and database that `db_name` means, and what is written over it."""
    catalog, database = scope.database(call.db_name)
    text = quote_parts((catalog, *levels(database)))
    return catalog, database, (NamePin(message=call, field="db_name", text=text),)


def _build_list_handler(answer: AnswerFilter) -> _Handler:
    """List what lies in a database, filtered to what may be seen."""

    def require(call: _Listing, scope: PlanScope) -> PlanRequired:
        catalog, database, names = _database(call, scope)
        resource = Resource.database(catalog, database)
        shown = () if database.lower() == "default" else (_visible(resource),)
        rule = AnswerRule(filter=answer, catalog=catalog, database=database)
        return PlanRequired(
            required=Required(privileges=shown, answer=rule),
            names=names,
            details=Privilege(resource, "show") if answer is AnswerFilter.CONNECT_FUNCTIONS else None,
        )

    return require


def _list_databases(call: pb.ListDatabases, scope: PlanScope) -> PlanRequired:
    catalog = scope.names.context.catalog
    refused = scope.names.explain_unusable_catalog(catalog)
    if refused is not None:
        raise CannotClassify(refused.refusal(catalog))
    return PlanRequired(
        required=Required(answer=AnswerRule(filter=AnswerFilter.CONNECT_DATABASES, catalog=catalog)),
        details=Privilege(Resource.catalog(catalog), "show"),  # RULE (catalog-list-details)
    )


def _list_catalogs(call: pb.ListCatalogs, scope: PlanScope) -> PlanRequired:
    return PlanRequired(required=Required(answer=AnswerRule(filter=AnswerFilter.CONNECT_CATALOGS)))


def _build_description_handler(answer: AnswerFilter) -> _Handler:
    """Show one table or its columns, as DESCRIBE does."""

    def require(call: pb.GetTable | pb.ListColumns, scope: PlanScope) -> PlanRequired:
        name, pins = _resolve_table_name(call, scope)
        if isinstance(name, TempViewName):
            return PlanRequired(names=pins)
        rule = AnswerRule(filter=answer, catalog=name.catalog, database=name.database, table=name)
        return PlanRequired(
            required=Required(privileges=(_visible(table_resource(name)),), described=name, answer=rule),
            names=pins,
        )

    return require


def _get_database(call: pb.GetDatabase, scope: PlanScope) -> PlanRequired:
    catalog, database, names = _database(call, scope)
    resource = Resource.database(catalog, database)
    rule = AnswerRule(filter=AnswerFilter.CONNECT_DATABASES, catalog=catalog, database=database)
    return PlanRequired(
        required=Required(privileges=(_visible(resource),), answer=rule),
        names=names,
        details=Privilege(resource, "show"),
    )


def _database_exists(call: pb.DatabaseExists, scope: PlanScope) -> PlanRequired:
    catalog, database, names = _database(call, scope)
    return PlanRequired(
        names=names,
        secret=None if database.lower() == "default" else Resource.database(catalog, database),
    )


def _table_exists(call: pb.TableExists, scope: PlanScope) -> PlanRequired:
    name, pins = _resolve_table_name(call, scope)
    # RULE (table-exists)
    return PlanRequired(names=pins, secret=None if isinstance(name, TempViewName) else table_resource(name))


def _function(
    call: pb.GetFunction | pb.FunctionExists, scope: PlanScope
) -> tuple[Resource | None, tuple[NamePin, ...]]:
    """Return the function that is meant, None for one of Spark's own or of this session's."""
    parts = scope.parts(call.function_name)
    if len(parts) == 1 and not _has_database(call):
        name = parts[0].lower()
        registered = functions_called(name) & scope.names.context.handles
        if mark_reading_function(name) in scope.names.context.handles and isinstance(call, pb.GetFunction):
            # RULE (plan-reading-function-described)
            raise CannotClassify(f"the description of `{name}` would show row filters and masks")
        builtin = name in ALLOWED_FUNCTIONS | ALLOWED_TABLE_FUNCTIONS and is_of(name, scope.minor)
        if registered or builtin:
            return None, ()
    target = scope.target(_join_name(call, scope, "function_name"))
    resource = Resource.udf(target.catalog, target.database, target.table)
    return resource, _pins(call, "function_name", quote_name(target))


def _get_function(call: pb.GetFunction, scope: PlanScope) -> PlanRequired:
    resource, pins = _function(call, scope)
    if resource is None:
        return PlanRequired()
    rule = AnswerRule(filter=AnswerFilter.CONNECT_FUNCTIONS, catalog=resource.level("catalog"))
    return PlanRequired(
        required=Required(privileges=(_visible(resource),), answer=rule),
        names=pins,
        details=Privilege(resource, "show"),
    )


def _function_exists(call: pb.FunctionExists, scope: PlanScope) -> PlanRequired:
    resource, pins = _function(call, scope)
    return PlanRequired(names=pins, secret=resource)


def _create_table(call: pb.CreateTable | pb.CreateExternalTable, scope: PlanScope) -> PlanRequired:
    source = call.source if call.HasField("source") else None
    storage.check_provider(source)
    paths, options = split_option(storage.drop_harmless_options(call.options, source).items(), "path")
    storage.check_options(options)
    name = scope.target(call.table_name)
    if call.HasField("path"):
        paths = (*paths, call.path)
    urls = [privilege for path in paths for privilege in on_path(path, "read", "write")]
    resource = table_resource(name)
    return PlanRequired(
        required=Required(
            # Its rows are those of the table: none at first, but the client keeps the call as a DataFrame.
            privileges=(Privilege(resource, "create"), Privilege(resource, "select"), *urls),
            shown=(name,),  # RULE (created-table-shown)
            effects=(CatalogChanged((name,)),),
        ),
        names=_pins(call, "table_name", quote_name(name)),
    )


def _drop_temp_view(call: pb.DropTempView, scope: PlanScope) -> PlanRequired:
    # The name is taken as it is, never parsed.
    return PlanRequired(required=Required(effects=(DropTempView(call.view_name),)))


def _drop_global_view(call: pb.DropGlobalTempView, scope: PlanScope) -> PlanRequired:
    """As DROP VIEW of its name with `global_temp` before it; the name is taken as it is, never parsed."""
    name = name_global_view(call.view_name)
    if isinstance(name, Ungovernable):
        raise CannotClassify(name.refusal(call.view_name))
    return PlanRequired(
        required=Required(
            privileges=(Privilege(table_resource(name), "drop"),),  # RULE (catalog-drop-global-view)
            effects=(CatalogChanged((name,)),),
        )
    )


def _on_table(
    access: str,
    *,
    field: str = "table_name",
    raw: bool = False,
    read: bool = False,
    changes: Meaning | None = None,
    temporary: bool = False,
    caches: bool = False,
) -> _Handler:
    """One privilege on a table; `temporary`: it may be a temporary view of the session, which wants none.

    `raw` and `read` are those of Required.
    """

    def require(call: Message, scope: PlanScope) -> PlanRequired:
        text: str = getattr(call, field)
        found = scope.table(text) if temporary else scope.target(text)
        pins = _pins(call, field, quote_name(found))
        if isinstance(found, TempViewName):
            if caches:
                check_cached_view(found, scope.names)
            return PlanRequired(names=pins)
        return PlanRequired(
            required=Required(
                privileges=(Privilege(table_resource(found), access),),
                raw=(found,) if raw else (),
                cached=found if caches else None,
                read=(found,) if read else (),
                effects=(CatalogChanged((found,), meaning=changes),) if changes is not None else (),
            ),
            names=pins,
        )

    return require


def _is_cached(call: pb.IsCached, scope: PlanScope) -> PlanRequired:
    name, pins = _resolve_table_name(call, scope)
    if isinstance(name, TempViewName):
        return PlanRequired(names=pins)
    return PlanRequired(required=Required(privileges=(_visible(table_resource(name)),)), names=pins)


def _clear_cache(call: pb.ClearCache, scope: PlanScope) -> PlanRequired:
    # It drops the caches of everybody.
    return PlanRequired(
        required=Required(privileges=(Privilege(Resource.catalog(scope.names.context.catalog), "alter"),))
    )


def _refresh_by_path(call: pb.RefreshByPath, scope: PlanScope) -> PlanRequired:
    return PlanRequired(required=Required(privileges=on_path(call.path, "read")))


def _set_current_database(call: pb.SetCurrentDatabase, scope: PlanScope) -> PlanRequired:
    parts = scope.parts(call.db_name)
    if len(parts) == 1 and scope.names.is_catalog(parts[0]):
        raise CannotClassify(f"`{call.db_name}` is a catalog; a database is needed")
    return PlanRequired(
        required=use_below_current(scope.names, parts),
        names=(NamePin(message=call, field="db_name", text=quote_parts(parts)),),
    )


def _set_current_catalog(call: pb.SetCurrentCatalog, scope: PlanScope) -> PlanRequired:
    if not scope.names.is_catalog(call.catalog_name):  # RULE (set-unknown-catalog)
        raise CannotClassify(no_catalog(call.catalog_name))
    required = use_privileges(call.catalog_name, None)
    return PlanRequired(
        required=Required(privileges=required.privileges, effects=(UseNamespace(call.catalog_name, None),))
    )


def _create_database(call: pb.CreateDatabase, scope: PlanScope) -> PlanRequired:
    catalog, database, names = _database(call, scope)
    resource = Resource.database(catalog, database)
    locations, others = split_option(call.properties.items(), "location")
    storage.check_properties(key for key in others if key.lower() != "comment")
    urls = [privilege for location in locations for privilege in on_path(location, "read", "write")]
    return PlanRequired(
        required=Required(
            privileges=(Privilege(resource, "create"), *urls),
            effects=(build_create_database_effect(catalog, database),),
        ),
        names=names,
    )


def _drop_database(call: pb.DropDatabase, scope: PlanScope) -> PlanRequired:
    catalog, database, names = _database(call, scope)
    resource = Resource.database(catalog, database)
    required = [Privilege(resource, "drop")]
    if call.cascade:
        required += list_cascade_privileges(catalog, database)  # RULE (catalog-cascade)
    return PlanRequired(
        required=Required(
            privileges=tuple(required), effects=(CatalogChanged(databases=((catalog, database),)),)
        ),
        names=names,
    )


def _describe_properties(call: pb.GetTableProperties, scope: PlanScope) -> PlanRequired:
    return _describe(call, scope, AnswerFilter.PROPERTIES)


def _describe_statement(call: pb.GetCreateTableString, scope: PlanScope) -> PlanRequired:
    found = _describe(call, scope, AnswerFilter.CREATE_STATEMENT)
    if not call.as_serde:  # RULE (show-create-raw)
        return found
    name = scope.target(call.table_name)
    raw = Required(privileges=(Privilege(table_resource(name), "select"),), read=(name,))
    return replace(found, required=raw)


def _describe(
    call: pb.GetTableProperties | pb.GetCreateTableString, scope: PlanScope, answer: AnswerFilter
) -> PlanRequired:
    """Show what DESCRIBE EXTENDED tells of a table, in another form."""
    name = scope.target(call.table_name)
    rule = AnswerRule(filter=answer, catalog=name.catalog, database=name.database, table=name)
    return PlanRequired(
        required=Required(
            privileges=(_visible(table_resource(name)),),
            described=name,
            named=(Named(table=name, columns=()),),
            answer=rule,
        ),
        names=_pins(call, "table_name", quote_name(name)),
    )


CALLS: Mapping[str, _Handler] = {
    "current_database": _require_nothing,
    "current_catalog": _require_nothing,
    "set_current_database": _set_current_database,
    "set_current_catalog": _set_current_catalog,
    "list_catalogs": _list_catalogs,
    "list_databases": _list_databases,
    "list_tables": _build_list_handler(AnswerFilter.CONNECT_TABLES),
    "list_views": _build_list_handler(AnswerFilter.CONNECT_TABLES),
    "list_functions": _build_list_handler(AnswerFilter.CONNECT_FUNCTIONS),
    "list_columns": _build_description_handler(AnswerFilter.CONNECT_COLUMNS),
    "get_database": _get_database,
    "get_table": _build_description_handler(AnswerFilter.CONNECT_TABLES),
    "get_function": _get_function,
    "database_exists": _database_exists,
    "table_exists": _table_exists,
    "function_exists": _function_exists,
    "create_table": _create_table,
    "create_external_table": _create_table,
    "drop_temp_view": _drop_temp_view,
    "drop_global_temp_view": _drop_global_view,
    "drop_table": _on_table("drop", changes="changes"),
    "drop_view": _on_table("drop", field="view_name", changes="changes"),
    "truncate_table": _on_table("delete", raw=True),  # RULE (catalog-truncate-raw)
    "recover_partitions": _on_table("alter", raw=True, changes="stays"),
    "analyze_table": _on_table("alter", raw=True),
    "cache_table": _on_table("refresh", temporary=True, caches=True),
    "uncache_table": _on_table("refresh", temporary=True),
    "refresh_table": _on_table("refresh", changes="stays", temporary=True),
    "is_cached": _is_cached,
    "clear_cache": _clear_cache,
    "refresh_by_path": _refresh_by_path,
    "create_database": _create_database,
    "drop_database": _drop_database,
    "list_partitions": _on_table("select", read=True),
    "get_table_properties": _describe_properties,
    "get_create_table_string": _describe_statement,
}
DATAFRAMES = frozenset({"create_table", "create_external_table"})
"""Calls that PySpark keeps as a DataFrame and sends again, within others and to be analysed."""


def call_privileges(call: CatalogCall, names: Names, minor: Minor = NEWEST) -> PlanRequired | Unsupported:
    """Say what a call of the Catalog API wants of a Spark of this minor, or why it cannot pass."""
    handler = CALLS.get(call.operation)
    if handler is None:
        return Unsupported(f"the catalog call `{call.operation}` is not supported")
    if not call.root and call.operation not in DATAFRAMES:  # RULE (catalog-call-alone)
        return Unsupported(
            "a catalog listing cannot be part of a DataFrame; collect it and create a DataFrame from it"
        )
    try:
        return handler(getattr(call.relation.catalog, call.operation), PlanScope(names, minor))
    except CannotClassify as problem:
        return problem.refusal
