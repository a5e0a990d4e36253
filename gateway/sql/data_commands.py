"""What commands on tables, views and databases want."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gateway.model.catalog import GLOBAL_TEMP, TableName
from gateway.model.definers import is_definer_property
from gateway.model.files import SESSION_CATALOG
from gateway.model.reading import FieldValue, RelationRole
from gateway.model.resource import Resource
from gateway.model.statement import CatalogChanged, CreateTempView, DropTempView, Meaning
from gateway.sql import storage
from gateway.sql.names import TempViewName, Ungovernable, name_global_view, namespace_above
from gateway.sql.path_commands import partition_locations
from gateway.sql.required import Named, Pin, Privilege, Required, Written
from gateway.sql.scope import CannotClassify, CommandScope, name_parts, table_resource
from gateway.sql.spark_errors import build_temporary_reference_refusal


def insert(scope: CommandScope) -> Required:
    """INSERT INTO and OVERWRITE; each of a multi-insert comes here by itself."""
    # Spark has it since 4.2.
    # RULE (insert-schema-evolution)
    if scope.has("withSchemaEvolution") and scope.flag("withSchemaEvolution"):
        raise CannotClassify("INSERT WITH SCHEMA EVOLUTION changes the target's columns")
    pin = scope.target("table")
    required = [Privilege(table_resource(pin.table), "insert")]
    raw = []
    if scope.flag("overwrite"):
        # Overwriting deletes rows that a filter hides from the principal.
        required.append(Privilege(table_resource(pin.table), "delete"))  # RULE (overwrite-deletes)
        raw.append(pin.table)  # RULE (overwrite-deletes-raw)
    columns = scope.field("userSpecifiedCols")
    if not isinstance(columns, tuple):
        raise CannotClassify("the columns of INSERT could not be parsed")
    names = (*(str(column) for column in columns), *scope.node("partitionSpec"))
    return Required(
        privileges=tuple(required),
        pins=(pin,),
        raw=tuple(raw),
        named=(Named(table=pin.table, columns=names),) if names else (),
        written=(Written(table=pin.table, by_name=scope.flag("byName")),),
    )


def replace_where(scope: CommandScope) -> Required:
    """INSERT … REPLACE WHERE before Spark 4.3: rows that a condition takes are replaced by others."""
    storage.check_options(storage.keys(scope.field("writeOptions"), "write options"))
    pin = scope.target("table")
    return Required(
        privileges=(
            Privilege(table_resource(pin.table), "insert"),
            Privilege(table_resource(pin.table), "delete"),
        ),
        pins=(pin,),
        raw=(pin.table,),
        read=(pin.table,),
        written=(Written(table=pin.table, by_name=scope.flag("isByName")),),
    )


def _create_table(scope: CommandScope, *, replacing: bool) -> Required:
    spec = scope.node("tableSpec")
    location = storage.check_table_spec(spec)  # RULE (create-table-location)
    pin = scope.resolve_created("name")
    required = [Privilege(table_resource(pin.table), "create")]
    if replacing:  # RULE (replace-table-drops)
        required.append(Privilege(table_resource(pin.table), "drop"))
    if location is not None:
        required += [Privilege(Resource.url(location), "read"), Privilege(Resource.url(location), "write")]
    return Required(privileges=tuple(required), pins=(pin,), effects=(CatalogChanged((pin.table,)),))


def create_table(scope: CommandScope) -> Required:
    return _create_table(scope, replacing=False)


def replace_table(scope: CommandScope) -> Required:
    return _create_table(scope, replacing=True)


def create_table_as(scope: CommandScope) -> Required:
    storage.check_options(storage.keys(scope.field("writeOptions"), "write options"))
    return _create_table(scope, replacing=False)


def replace_table_as(scope: CommandScope) -> Required:
    storage.check_options(storage.keys(scope.field("writeOptions"), "write options"))
    return _create_table(scope, replacing=True)


def drop(scope: CommandScope) -> Required:
    """DROP TABLE, DROP VIEW."""
    existing = scope.resolve_existing("child")
    if isinstance(existing, TempViewName):
        return Required(effects=(DropTempView(existing.name),))
    return Required(
        privileges=(Privilege(table_resource(existing.table), "drop"),),
        pins=(existing,),
        effects=(CatalogChanged((existing.table,)),),
    )


def truncate(scope: CommandScope) -> Required:
    """TRUNCATE TABLE; with a partition, Spark tells whether there is such a value."""
    pin = scope.target("table")
    return Required(
        privileges=(Privilege(table_resource(pin.table), "delete"),),
        pins=(pin,),
        raw=(pin.table,),  # RULE (truncate-raw)
        read=(pin.table,) if scope.command.node == "TruncatePartition" else (),
    )


def _alter_table(scope: CommandScope, pin: Pin, *, tells: bool, meaning: Meaning = "changes") -> Required:
    """`tells`: it names columns or values, and Spark says which of them there are."""
    # RULE (rename-column-raw)
    return Required(
        privileges=(Privilege(table_resource(pin.table), "alter"),),
        pins=(pin,),
        raw=(pin.table,),
        read=(pin.table,) if tells else (),
        effects=(CatalogChanged((pin.table,), meaning=meaning),),
    )


def alter_table(scope: CommandScope) -> Required:
    """ALTER TABLE on columns, and on partitions that exist.

    Renaming or dropping a column would take it out of the reach of a policy that names it.
    """
    # RULE (alter-columns-changes-name)
    meaning: Meaning = "stays" if scope.command.node in _ON_PARTITIONS else "changes"
    return _alter_table(scope, scope.target("table"), tells=True, meaning=meaning)


_ON_PARTITIONS = ("DropPartitions", "RenamePartitions")


def alter_columns(scope: CommandScope) -> Required:
    """ALTER COLUMN and COMMENT ON COLUMN: a comment changes as little as one on the table."""
    fields = scope.command.fields
    specs = fields.get("specs", (fields,))
    if not isinstance(specs, tuple) or not specs or not all(_is_comment(spec) for spec in specs):
        return alter_table(scope)
    pin = scope.target("table")
    columns = tuple(name_parts(_column_of(spec), scope.command.node)[0] for spec in specs)
    # RULE (comment-hidden-column)
    return replace(comment_on_table(scope), named=(Named(table=pin.table, columns=columns),))


_OF_COMMENTS = frozenset({"node", "table", "column", "newComment", "dropComment", "comment", "fromCommentOn"})


def _is_comment(spec: FieldValue) -> bool:
    """Whether what is said of a column is a comment, and nothing else of it."""
    if not isinstance(spec, Mapping):
        return False
    others = any(v is not None and v is not False for k, v in spec.items() if k not in _OF_COMMENTS)
    told = isinstance(spec.get("newComment", spec.get("comment")), str) or spec.get("dropComment") is True
    return told and not others  # RULE (comment-alone)


def _column_of(spec: FieldValue) -> Mapping[str, FieldValue]:
    column = spec.get("column") if isinstance(spec, Mapping) else None
    return column if isinstance(column, Mapping) else {}


def comment_on_table(scope: CommandScope) -> Required:
    return replace(_alter_table(scope, scope.target("table"), tells=False, meaning="stays"), raw=())


def add_partitions(scope: CommandScope) -> Required:
    places = partition_locations(scope.field("parts"))
    required = _alter_table(scope, scope.target("table"), tells=True, meaning="stays")
    return replace(required, privileges=(*required.privileges, *places))


def set_table_properties(scope: CommandScope) -> Required:
    return _alter_properties(scope, storage.keys(scope.field("properties"), "table properties"))


def _alter_properties(scope: CommandScope, keys: tuple[str, ...]) -> Required:
    pin = scope.target("table")
    unlisted = tuple((pin.table, key) for key in storage.list_unlisted_properties(keys))
    required = _alter_table(scope, pin, tells=False)
    raw = required.raw if storage.are_of_formats(keys) else ()  # RULE (notes-past-obligations)
    # Of a table with the property its format is to be known.
    named = (Named(table=pin.table, columns=()),) if unlisted else ()
    return replace(required, properties=unlisted, raw=raw, named=named)


def _property_keys(scope: CommandScope, field: str) -> tuple[str, ...]:
    names = scope.field(field)
    if not isinstance(names, tuple):
        raise CannotClassify("the property keys could not be parsed")
    return tuple([str(name) for name in names])


def unset_table_properties(scope: CommandScope) -> Required:
    return _alter_properties(scope, _property_keys(scope, "propertyKeys"))


def repair_table(scope: CommandScope) -> Required:
    """MSCK REPAIR TABLE and RECOVER PARTITIONS: the table's partitions as a whole."""
    return _alter_table(scope, scope.target("child"), tells=False, meaning="stays")


def analyze_table(scope: CommandScope) -> Required:
    """ANALYZE TABLE: the count of its rows is kept and not told; whether there is a partition is."""
    return _alter_table(
        scope, scope.target("child"), tells=bool(scope.node("partitionSpec")), meaning="stays"
    )


def analyze_tables(scope: CommandScope) -> Required:
    """ANALYZE TABLES: the counts of rows of every table of a database are kept and not told."""
    catalog, database = scope.database("namespace")
    every = Privilege(Resource.table(catalog, database, "*"), "alter")
    # RULE (analyze-every-table)
    return Required(
        privileges=(every,),
        namespaces=scope.pin_database("namespace"),
        effects=(CatalogChanged(databases=((catalog, database),), meaning="stays"),),
    )


def add_check(scope: CommandScope) -> Required:
    """ADD CONSTRAINT … CHECK: all rows are checked, and what breaks it is told."""
    held = {
        relation.parts
        for relation in scope.reading.relations
        if relation.role is RelationRole.TARGET and relation.holder == scope.command.node
    }
    if len(held) != 1:
        raise CannotClassify("the table of the constraint could not be read")
    return _alter_table(scope, scope.pin(held.pop()), tells=True)


def analyze_column(scope: CommandScope) -> Required:
    """ANALYZE TABLE … FOR COLUMNS: it reads their values."""
    return _alter_table(scope, scope.target("child"), tells=True, meaning="stays")


def set_view_properties(scope: CommandScope) -> Required:
    pin = scope.target("child")
    _check_own_properties(storage.keys(scope.field("properties"), "view properties"), pin.table.catalog)
    return _alter_view(scope, pin)


def unset_view_properties(scope: CommandScope) -> Required:
    pin = scope.target("child")
    _check_own_properties(_property_keys(scope, "propertyKeys"), pin.table.catalog)
    return _alter_view(scope, pin)


def _check_own_properties(keys: Iterable[str], catalog: str) -> None:
    """Refuse properties that Spark, or another catalog, may read of a view or a database."""
    storage.check_properties(keys, storage.OF_SPARK if catalog.lower() == SESSION_CATALOG else None)


def create_table_like(scope: CommandScope) -> Required:
    """CREATE TABLE … LIKE: the new table has every column of the source, so none may be hidden."""
    storage.check_provider(scope.field("provider"))
    storage.check_properties(storage.keys(scope.field("properties"), "table properties"))
    storage.check_serde(scope.field("serdeInfo"))
    location = scope.text("location")
    source = scope.resolve_existing("source")
    if isinstance(source, TempViewName):
        raise CannotClassify("CREATE TABLE … LIKE does not support temporary views; use CREATE TABLE … AS")
    pin = scope.resolve_created("name")
    required = [
        Privilege(table_resource(pin.table), "create"),
        Privilege(table_resource(source.table), "select"),
    ]
    if location is not None:
        required += [Privilege(Resource.url(location), "read"), Privilege(Resource.url(location), "write")]
    return Required(
        privileges=tuple(required),
        pins=(pin, source),
        read=(source.table,),  # RULE (create-like-reads)
        # Rows stay where they are; with the options of other tables the new one could have the same rows.
        structure=location is None,
        effects=(CatalogChanged((pin.table,)),),
    )


def rename_table(scope: CommandScope) -> Required:
    existing = scope.resolve_existing("child")
    if isinstance(existing, TempViewName):
        raise CannotClassify("renaming a temporary view is not supported")
    value = scope.field("newName")
    if not isinstance(value, tuple):
        raise CannotClassify("the new name could not be parsed")
    parts = tuple(str(part) for part in value)
    # Spark completes a one-part new name with the table's own database, not with the session's.
    *database, _ = existing.table.parts
    new = scope.names.new_table((*database, *parts) if len(parts) == 1 else parts)
    # Beyond one level catalogs differ in whether a name of several parts begins with the catalog.
    long = 2 if len(database) == 2 else 1
    # RULE (rename-within-database)
    if isinstance(new, Ungovernable) or [*new.parts[:-1]] != database or len(parts) > long:
        raise CannotClassify("RENAME TO needs a name in the table's own database")
    return Required(
        privileges=(
            Privilege(table_resource(existing.table), "alter"),
            Privilege(table_resource(new), "create"),  # RULE (rename-wants-create)
        ),
        pins=(existing,),
        # Views name what they read, and vouch for it: what is renamed may be read through one from then on.
        read=(existing.table,),  # RULE (renaming-reads)
        renamed=((existing.table, new),),
        effects=(CatalogChanged((existing.table, new)),),
    )


def refresh_table(scope: CommandScope) -> Required:
    existing = scope.resolve_existing("child")
    if isinstance(existing, TempViewName):
        return Required()
    return Required(
        privileges=(Privilege(table_resource(existing.table), "refresh"),),
        pins=(existing,),
        effects=(CatalogChanged((existing.table,), meaning="stays"),),
    )


def create_temp_view(scope: CommandScope) -> Required:
    """CREATE TEMPORARY VIEW … AS: its sources are judged, and Spark keeps the guarded text."""
    parts = scope.parts("name")
    if len(parts) != 1:
        raise CannotClassify("the name of a temporary view must have one part")
    _check_own_properties(storage.keys(scope.field("properties"), "view properties"), SESSION_CATALOG)
    match str(scope.field("viewType")).rstrip("$"):
        case "LocalTempView":
            return Required(effects=(CreateTempView(parts[0]),))
        case "GlobalTempView":
            return _create_global_view(scope, parts[0])
        case other:
            raise CannotClassify(f"a view of the kind {other} is not supported")


def _create_global_view(scope: CommandScope, view: str) -> Required:
    """CREATE GLOBAL TEMPORARY VIEW … AS: Spark keeps the text as a persistent view has it, without masks and
    filters. Whoever reads it does so by his own access: Spark has no place for who defined it."""
    name = name_global_view(view)
    if isinstance(name, Ungovernable):
        raise CannotClassify(name.refusal(view))
    for relation in scope.reading.relations:
        found = scope.names.table(relation.parts) if relation.role is RelationRole.SCAN else None
        if isinstance(found, TempViewName):  # RULE (global-view-on-temp-view)
            raise CannotClassify(f"`{found.name}` is of this session, and a global temporary view is of all")
        if isinstance(found, TableName) and found.is_global_view:
            raise CannotClassify("a global temporary view that reads another one is not supported")
    required = [Privilege(table_resource(name), "create")]
    if scope.flag("replace"):  # RULE (replace-global-view-drops)
        required.append(Privilege(table_resource(name), "drop"))
    # RULE (global-view-shares)
    return Required(privileges=tuple(required), effects=(CatalogChanged((name,)),), shares=True)


def create_view(scope: CommandScope) -> Required:
    """CREATE VIEW: persistent, so it serves everybody, by the access of who creates it."""
    pin = scope.target("child")
    keys = storage.keys(scope.field("properties"), "view properties")
    # What SHOW CREATE TABLE tells of a view's definer is left out of the text: it is whoever runs that.
    _check_own_properties((key for key in keys if not is_definer_property(key)), pin.table.catalog)
    _rests_on_tables(scope, pin.table)
    required = [Privilege(table_resource(pin.table), "create")]
    if scope.flag("replace"):  # RULE (replace-view-drops)
        required.append(Privilege(table_resource(pin.table), "drop"))
    # RULE (create-view-shares)
    return Required(
        privileges=tuple(required), pins=(pin,), effects=(CatalogChanged((pin.table,)),), shares=True
    )


def create_metric_view(scope: CommandScope) -> Required:
    """CREATE VIEW … WITH METRICS: as CREATE VIEW; what it reads stands in its definition."""
    text = scope.field("originalText")
    if not isinstance(text, str) or not text:
        raise CannotClassify("the definition of the metric view could not be parsed")
    return replace(create_view(scope), metrics=text)


def _rests_on_tables(scope: CommandScope, view: TableName) -> None:
    for relation in scope.reading.relations:
        found = scope.names.table(relation.parts) if relation.role is RelationRole.SCAN else None
        if isinstance(found, TempViewName):  # RULE (view-on-temp-view)
            raise CannotClassify(build_temporary_reference_refusal(view.parts, (found.name,)))
        if isinstance(found, TableName) and found.is_global_view:
            raise CannotClassify(build_temporary_reference_refusal(view.parts, (GLOBAL_TEMP, found.table)))


def alter_view_as(scope: CommandScope) -> Required:
    """ALTER VIEW … AS: as CREATE VIEW. The view is there for others, with what policies say of it."""
    existing = scope.resolve_existing("child")
    if isinstance(existing, TempViewName):
        raise CannotClassify(
            "ALTER VIEW does not support temporary views; use CREATE OR REPLACE TEMPORARY VIEW"
        )
    _rests_on_tables(scope, existing.table)
    return replace(_alter_table(scope, existing, tells=False), shares=True)  # RULE (alter-view-shares)


def alter_view_binding(scope: CommandScope) -> Required:
    """ALTER VIEW … WITH SCHEMA …: what Spark does when what the view reads has other columns."""
    existing = scope.resolve_existing("child")
    if isinstance(existing, TempViewName):
        raise CannotClassify("ALTER VIEW does not support temporary views")
    return _alter_view(scope, existing)


def _alter_view(scope: CommandScope, pin: Pin) -> Required:
    """What changes nothing of the rows that a view reads."""
    return replace(_alter_table(scope, pin, tells=False), raw=())


def create_database(scope: CommandScope) -> Required:
    catalog, database = scope.database("name")
    required = [Privilege(Resource.database(catalog, database), "create")]
    properties = scope.field("properties")
    if not isinstance(properties, Mapping):
        raise CannotClassify("the database properties could not be parsed")
    location = properties.get("location")
    if location is not None:  # RULE (database-location)
        required += [
            Privilege(Resource.url(str(location)), "read"),
            Privilege(Resource.url(str(location)), "write"),
        ]
    _check_own_properties((k for k in properties if k.lower() not in ("location", "comment")), catalog)
    effects = (build_create_database_effect(catalog, database),)
    return Required(privileges=tuple(required), namespaces=scope.pin_database("name"), effects=effects)


def build_create_database_effect(catalog: str, database: str) -> CatalogChanged:
    """What making a database changes: of a table with the name of a nested one, what is named below it."""
    above = namespace_above(TableName(catalog, database, ""))
    if above is None:  # RULE (nested-namespace-created)
        return CatalogChanged(databases=((catalog, database),), meaning="stays")
    return CatalogChanged((above,), databases=((catalog, database),))


def list_cascade_privileges(catalog: str, database: str) -> Iterator[Privilege]:
    """What CASCADE wants: it drops every table of the database, and of those that lie in it where databases
    nest, so one must be allowed to drop any of them."""
    yield Privilege(Resource.table(catalog, database, "*"), "drop", and_below=True)
    if catalog.lower() != SESSION_CATALOG:
        # RULE (cascade-nested-namespaces)
        yield Privilege(Resource.table(catalog, f"{database}.*", "*"), "drop")


def drop_database(scope: CommandScope) -> Required:
    catalog, database = scope.database("namespace")
    resource = Resource.database(catalog, database)
    required = [Privilege(resource, "drop")]
    if scope.flag("cascade"):
        required += list_cascade_privileges(catalog, database)  # RULE (cascade-every-table)
    return Required(
        privileges=tuple(required),
        namespaces=scope.pin_database("namespace"),
        effects=(CatalogChanged(databases=((catalog, database),)),),
    )


def alter_database(scope: CommandScope) -> Required:
    """COMMENT ON DATABASE, and its properties."""
    if scope.command.node == "CommentOnNamespace":
        return _alter_database(scope, "child")
    keys = storage.keys(scope.field("properties"), "database properties")
    _check_own_properties((k for k in keys if k.lower() != "comment"), scope.database("namespace")[0])
    return _alter_database(scope, "namespace")


def unset_database_properties(scope: CommandScope) -> Required:
    _check_own_properties(_property_keys(scope, "propKeys"), scope.database("ident")[0])
    return _alter_database(scope, "ident")


def _alter_database(scope: CommandScope, field: str) -> Required:
    catalog, database = scope.database(field)
    return Required(
        privileges=(Privilege(Resource.database(catalog, database), "alter"),),
        namespaces=scope.pin_database(field),
        effects=(CatalogChanged(databases=((catalog, database),), meaning="stays"),),
    )
