"""What commands on the session and commands that list or describe want."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.model.catalog import GLOBAL_TEMP, levels, quote
from gateway.model.files import SESSION_CATALOG
from gateway.model.handles import mark_reading_function
from gateway.model.reading import Span, Splice
from gateway.model.reading_settings import (
    find_pinned_value,
    is_read_by_clients,
    is_servers_own,
    may_be_set,
    may_hold_secret,
)
from gateway.model.resource import Resource
from gateway.model.statement import (
    AnswerFilter,
    AnswerRule,
    ChangeSetting,
    ResetSettings,
    UseNamespace,
)
from gateway.sql.names import Names, TempViewName, Ungovernable, no_catalog
from gateway.sql.required import Named, Pin, Privilege, Required, Unsupported
from gateway.sql.scope import CannotClassify, CommandScope, name_parts, table_resource

_SET_INSTEAD = {
    "mapred.reduce.tasks": "spark.sql.shuffle.partitions",
    "mapreduce.job.reduces": "spark.sql.shuffle.partitions",
}
"""Keys for which SET sets another one (SetCommand, 4.3): that is what RESET has to undo."""
_NO_SETTING = "spark.sluice.nothing"
"""A key that no Spark knows."""


def use_privileges(catalog: str, database: str | None) -> Required:
    """What making a catalog, or a database of it, the current one wants."""
    effects = (UseNamespace(catalog, levels(database) if database else None),)
    if database is None:
        return Required(
            privileges=(Privilege(Resource.catalog(catalog), "use", visible_is_enough=True),), effects=effects
        )
    if database.lower() == "default":
        # Clients say USE default when they connect; the name of that database discloses nothing.
        return Required(effects=effects)
    return Required(
        privileges=(Privilege(Resource.database(catalog, database), "use", visible_is_enough=True),),
        effects=effects,
    )


def use(scope: CommandScope) -> Required:
    return replace(use_privileges(*scope.namespace("child")), namespaces=scope.pin_database("child"))


def use_namespace(scope: CommandScope) -> Required:
    value = scope.field("namespace")
    if not isinstance(value, tuple) or not value:
        raise CannotClassify("USE NAMESPACE needs a database")
    return use_below_current(scope.names, tuple(str(part) for part in value))


def use_below_current(names: Names, written: tuple[str, ...]) -> Required:
    """What making a database of the current catalog the current one wants, where that is all it can be."""
    if len(written) > 1 and names.is_catalog(written[0]):
        raise CannotClassify("the current database is set within its catalog; write USE catalog.database")
    found = names.namespace_in(names.context.catalog, written)
    if isinstance(found, Ungovernable):
        raise CannotClassify(found.refusal(".".join(written)))
    return use_privileges(*found)


def set_catalog(scope: CommandScope) -> Required:
    # Before 4.2 it is the name itself.
    value = scope.field("catalogNameExpr" if scope.has("catalogNameExpr") else "catalogName")
    name = value if isinstance(value, str) else None
    parts = value.get("parts") if isinstance(value, Mapping) else None
    if isinstance(parts, tuple) and len(parts) == 1:
        name = str(parts[0])
    if name is None:
        raise CannotClassify("SET CATALOG takes a name")
    if not scope.names.is_catalog(name):  # RULE (use-unknown-catalog)
        raise CannotClassify(no_catalog(name))
    return use_privileges(name, None)


_STATIC = "spark.sql.extensions"
"""What nobody sets in Spark either, once it runs."""


def set_setting(scope: CommandScope) -> Required:
    value = scope.field("kv")
    if value is None:
        return Required(answer=AnswerRule(filter=AnswerFilter.SETTINGS))
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
        raise CannotClassify("the setting could not be parsed")
    if value[0] == "-v":
        return Required(answer=AnswerRule(filter=AnswerFilter.SETTINGS))
    key, given = str(value[0]), value[1]
    if given is None:
        return _read_setting(key)
    if find_pinned_value(key) == given:
        return Required()  # it has this value already
    return _change_setting(ChangeSetting(_SET_INSTEAD.get(key, key), str(given)))


def reset_setting(scope: CommandScope) -> Required:
    """RESET of a key wants what SET of it wants; without a key it only undoes what the session was given."""
    key = scope.field("config")
    if key is None:
        return Required(effects=(ResetSettings(),))  # RULE (reset-all)
    if not isinstance(key, str):
        raise CannotClassify("the setting could not be parsed")
    return _change_setting(ChangeSetting(key, None))


def refuse_pinned(key: str) -> Unsupported:
    if key == _STATIC:
        return Unsupported(
            f'[CANNOT_MODIFY_STATIC_CONFIG] Cannot modify the value of the static Spark config: "{key}". '
            "SQLSTATE: 46110",
            "46110",
            parameters=(("key", f'"{key}"'),),
        )
    return Unsupported(f"the setting `{key}` affects how statements are parsed and is fixed by Sluice")


def _change_setting(change: ChangeSetting) -> Required:
    if not may_be_set(change.key):  # RULE (pinned-settings)
        raise CannotClassify(refuse_pinned(change.key))
    # RULE (set-wants-grant, set-dependency-effect)
    return Required(privileges=(Privilege(Resource.setting(change.key), "set"),), effects=(change,))


def _read_setting(key: str) -> Required:
    """SET of a key alone tells its value, by the rules of Spark Connect's `Config`: what is pinned stands in
    the documentation, and what clients ask for by themselves is nothing worth hiding."""
    if may_hold_secret(key) or is_servers_own(key):  # RULE (secret-settings)
        raise CannotClassify(f"the value of `{key}` may be a secret and is not shown")
    if find_pinned_value(key) is not None or is_read_by_clients(key):
        return Required()
    # RULE (settings-read-grant)
    return Required(privileges=(Privilege(Resource.setting(key), "set", visible_is_enough=True),))


def show_tables(scope: CommandScope) -> Required:
    return _show_relations(scope, AnswerFilter.TABLES)


def show_views(scope: CommandScope) -> Required:
    return _show_relations(scope, AnswerFilter.VIEWS)


def show_tables_json(scope: CommandScope) -> Required:
    """SHOW TABLES and SHOW TABLE EXTENDED AS JSON: names, and of what type each is, in one cell."""
    return _show_relations(scope, AnswerFilter.TABLES_JSON, field="child")


def _show_relations(scope: CommandScope, answer: AnswerFilter, *, field: str = "namespace") -> Required:
    written = scope.node(field).get("parts")
    if not isinstance(written, tuple) or [str(part).lower() for part in written] != [GLOBAL_TEMP]:
        return _show_in_database(scope, answer, field=field)
    # A name of the session's own catalog, whichever is current; each view is asked about by itself.
    return Required(answer=AnswerRule(filter=answer, catalog=SESSION_CATALOG, database=GLOBAL_TEMP))


def show_tables_extended(scope: CommandScope) -> Required:
    # With a partition, Spark 4.0 and later make another command of it.
    if scope.command.node == "ShowTableExtended" and scope.field("partitionSpec") is not None:
        raise CannotClassify("partition details are supported with Spark 4.0 and later")
    return _show_in_database(scope, AnswerFilter.TABLE_EXTENDED)


def show_functions(scope: CommandScope) -> Required:
    return _show_in_database(scope, AnswerFilter.FUNCTIONS)


def _show_in_database(scope: CommandScope, answer: AnswerFilter, *, field: str = "namespace") -> Required:
    catalog, database = scope.database(field)
    required = (
        ()
        if database.lower() == "default"
        # RULE (list-database)
        else (Privilege(Resource.database(catalog, database), "show", visible_is_enough=True),)
    )
    # What more is told of a table depends on the table: whoever filters the answer asks about each.
    rule = AnswerRule(filter=answer, catalog=catalog, database=database)
    return Required(privileges=required, namespaces=scope.pin_database(field), answer=rule)


def show_databases(scope: CommandScope) -> Required:
    field = "namespace" if scope.command.node == "ShowNamespaces" else "child"
    catalog, database = scope.namespace(field)
    pins = scope.pin_database(field) if scope.parts(field) else ()
    rule = AnswerRule(filter=AnswerFilter.DATABASES, catalog=catalog, database=database)
    if database is None:
        return Required(namespaces=pins, answer=rule)
    shown = Privilege(Resource.database(catalog, database), "show", visible_is_enough=True)
    return Required(privileges=(shown,), namespaces=pins, answer=rule)


def show_catalogs(scope: CommandScope) -> Required:
    return Required(answer=AnswerRule(filter=AnswerFilter.CATALOGS))


def show_collations(scope: CommandScope) -> Required:
    """SHOW COLLATIONS: those that Spark brings along."""
    return Required()


def show_current_namespace(scope: CommandScope) -> Required:
    return Required()


def show_columns(scope: CommandScope) -> Required:
    existing = scope.resolve_existing("child")
    if isinstance(existing, TempViewName):
        return Required()
    answer = AnswerRule(filter=AnswerFilter.COLUMNS, table=existing.table)
    # SHOW COLUMNS IN t IN db writes the name in two places; what is not written in one piece is not pinned.
    pins = (existing,) if existing.relation.span is not None else ()
    if not pins and len(existing.relation.parts) < 2:
        raise CannotClassify("the table name is not literal")
    return Required(
        privileges=(Privilege(table_resource(existing.table), "show", visible_is_enough=True),),
        pins=pins,
        described=existing.table,
        answer=answer,
    )


def describe_table(scope: CommandScope) -> Required:
    existing = scope.resolve_existing("relation")
    if isinstance(existing, TempViewName):
        # EXTENDED would print the text that was guarded.
        # RULE (describe-temp-view)
        return Required(answer=AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, details=False))
    return Required(
        privileges=(Privilege(table_resource(existing.table), "show", visible_is_enough=True),),
        pins=(existing,),
        described=existing.table,
        answer=AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, table=existing.table),
    )


def describe_json(scope: CommandScope) -> Required:
    """DESCRIBE EXTENDED AS JSON: what DESCRIBE EXTENDED tells, in one cell."""
    if scope.field("partitionSpec"):
        return show_details(scope)
    return _describe(scope, AnswerFilter.DESCRIBE_JSON)


def show_properties(scope: CommandScope) -> Required:
    """SHOW TBLPROPERTIES: DESCRIBE EXTENDED tells them, too. A temporary view has none to Spark, and no row
    of its answer is relayed."""
    if isinstance(scope.resolve_existing("table"), TempViewName):
        # RULE (properties-temp-view)
        return Required(answer=AnswerRule(filter=AnswerFilter.PROPERTIES, details=False))
    required, key = _describe(scope, AnswerFilter.PROPERTIES), scope.field("propertyKey")
    asked = replace(required.answer, key=key if isinstance(key, str) else None)
    return replace(required, answer=asked)


def _describe(scope: CommandScope, answer: AnswerFilter) -> Required:
    existing = _describe_detail(scope)
    return Required(
        privileges=(Privilege(table_resource(existing.table), "show", visible_is_enough=True),),
        pins=(existing,),
        described=existing.table,
        answer=AnswerRule(filter=answer, table=existing.table),
    )


def _describe_detail(scope: CommandScope) -> Pin:
    existing = scope.resolve_existing("child" if "child" in scope.command.fields else "table")
    if isinstance(existing, TempViewName):
        # RULE (temp-view-details)
        raise CannotClassify("details of a temporary view would show row filters and masks")
    return existing


def show_create(scope: CommandScope) -> Required:
    """SHOW CREATE TABLE: what DESCRIBE EXTENDED tells, as a statement. AS SERDE it is raw."""
    if scope.flag("asSerde"):
        return replace(
            show_details(scope),
            instead="use SHOW CREATE TABLE without AS SERDE",
        )
    required = _describe(scope, AnswerFilter.CREATE_STATEMENT)
    # One that somebody makes in the meantime would have no column that may be seen.
    return replace(required, named=tuple(Named(table=pin.table, columns=()) for pin in required.pins))


def show_details(scope: CommandScope) -> Required:
    """SHOW PARTITIONS, and others: raw details, so select and no obligation at all."""
    existing = _describe_detail(scope)
    return Required(
        privileges=(Privilege(table_resource(existing.table), "select"),),
        pins=(existing,),
        read=(existing.table,),  # RULE (table-details-raw)
    )


def show_partition(scope: CommandScope) -> Required:
    """SHOW TABLE EXTENDED … PARTITION: one partition of the table that the pattern names."""
    shown = show_details(scope)
    (pin,) = shown.pins
    # The name stands in a string, beside its database: it cannot be written in full.
    return shown if pin.relation.span is not None else replace(shown, pins=())


def describe_column(scope: CommandScope) -> Required:
    """DESCRIBE of one column: its type and comment; EXTENDED has its statistics, which are details."""
    existing = scope.resolve_existing("relation")
    parts = name_parts(scope.node("column"), scope.command.node)
    if isinstance(existing, TempViewName):
        return Required()
    own = len(parts) > 1 and parts[0].lower() == existing.table.table.lower()
    if len(parts) > 2 or (len(parts) > 1 and not own):
        raise CannotClassify("DESCRIBE needs the plain name of one column")
    required = Required(
        privileges=(Privilege(table_resource(existing.table), "show", visible_is_enough=True),),
        pins=(existing,),
        named=(Named(table=existing.table, columns=parts),),
    )
    if scope.flag("isExtended"):  # RULE (describe-column-values)
        rule = AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, table=existing.table)
        return replace(required, described=existing.table, answer=rule)
    return required


def describe_database(scope: CommandScope) -> Required:
    catalog, database = scope.database("namespace")
    privilege = Privilege(
        Resource.database(catalog, database), "show", visible_is_enough=not scope.flag("extended")
    )
    return Required(privileges=(privilege,), namespaces=scope.pin_database("namespace"))


def describe_query(scope: CommandScope) -> Required:
    """DESCRIBE QUERY: the inner query is judged like any other; only its schema is shown."""
    return Required()


_PLAIN_MODES = frozenset({"simplemode", "extendedmode", "formattedmode"})
"""Ways to explain that print no statistics and no code."""


_LAID_OPEN = frozenset({"UncacheTable", "CreateUserDefinedFunction", "CreateSQLFunctionCommand"})
"""Commands whose plans have the text in them of what they name, a view's or a function's with its masks."""


def explain(scope: CommandScope) -> Required:
    """EXPLAIN: what it explains is judged; plans print filters and masks, so there must be none, or they are
    left out."""
    if not isinstance(scope.field("logicalPlan"), Mapping):
        raise CannotClassify("the statement after EXPLAIN could not be parsed")
    if any(
        isinstance(scope.names.table(relation.parts), TempViewName) for relation in scope.reading.relations
    ):
        # The text of a temporary view carries the masks of its sources. CACHE and UNCACHE show it, too.
        # RULE (explain-temp-view)
        raise CannotClassify("a plan over a temporary view would show the definition of the view")
    if any(one.node in _LAID_OPEN for one in scope.reading.commands):
        # RULE (explain-laid-open)
        raise CannotClassify("its plan would show the text of a view or function")
    if any(
        mark_reading_function(one.parts[-1].lower()) in scope.names.context.handles
        for one in scope.reading.functions
    ):
        # RULE (explain-reading-function)
        raise CannotClassify(
            "a plan with a temporary function would show the tables, filters and masks in it"
        )
    plain = str(scope.field("mode")).rstrip("$").lower() in _PLAIN_MODES  # RULE (explain-statistics)
    return Required(explains=True, sketches=plain)  # RULE (explain-filters)


def reset_nothing(text: str) -> Splice:
    """Return what stands for RESET without a key. What the session was given is reset one by one before it;
    the text itself would take what is pinned, too."""
    return Splice(
        span=Span(0, len(text)), text=f"RESET {quote(_NO_SETTING)}", kind="reset", parts=(_NO_SETTING,)
    )
