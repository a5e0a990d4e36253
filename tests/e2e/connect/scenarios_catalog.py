"""The Catalog API and session settings."""

from __future__ import annotations

from typing import Any

from tests.e2e.connect.framework import Place, error_of, fresh, scenario


@scenario("catalog")
def current_names(x: Place) -> Any:
    c = x.spark.catalog
    return [c.currentCatalog(), c.currentDatabase()]


@scenario("catalog", governed="elsewhere")
def list_databases(x: Place) -> Any:
    """Under allow-all everything is listed; `test_listings.py` has what others see."""
    return sorted(d.name for d in x.spark.catalog.listDatabases() if d.name in ("default", "cw", x.db))


@scenario("catalog")
def list_databases_by_pattern(x: Place) -> Any:
    return [(d.name, d.catalog) for d in x.spark.catalog.listDatabases(x.db)]


@scenario("catalog")
def list_tables(x: Place) -> Any:
    found = x.spark.catalog.listTables(x.db)
    return sorted((t.name, t.tableType, t.isTemporary, t.namespace) for t in found if "vault" not in t.name)


@scenario("catalog")
def list_tables_by_pattern(x: Place) -> Any:
    return sorted(t.name for t in x.spark.catalog.listTables(x.db, "*o*"))


@scenario("catalog")
def list_tables_with_temporary_views(x: Place) -> Any:
    x.dept.createOrReplaceTempView("temporary_one")
    found = x.spark.catalog.listTables(x.db)
    return sorted((t.name, t.isTemporary) for t in found if "vault" not in t.name)


@scenario("catalog")
def list_columns(x: Place) -> Any:
    return [(c.name, c.dataType, c.isPartition) for c in x.spark.catalog.listColumns(f"{x.db}.people")]


@scenario("catalog")
def list_columns_of_partitioned(x: Place) -> Any:
    return [(c.name, c.dataType, c.isPartition) for c in x.spark.catalog.listColumns("parts", x.db)]


@scenario("catalog")
def list_catalogs(x: Place) -> Any:
    return [c.name for c in x.spark.catalog.listCatalogs() if c.name == "spark_catalog"]


@scenario("catalog")
def list_functions(x: Place) -> Any:
    return sorted(f.name for f in x.spark.catalog.listFunctions() if f.name in ("sha2", "upper", "count"))


@scenario("catalog")
def get_database(x: Place) -> Any:
    d = x.spark.catalog.getDatabase(x.db)
    return [d.name, d.catalog]


@scenario("catalog")
def get_table(x: Place) -> Any:
    t = x.spark.catalog.getTable(f"{x.db}.dept")
    return [t.name, t.catalog, t.namespace, t.tableType, t.isTemporary]


@scenario("catalog")
def get_function(x: Place) -> Any:
    f = x.spark.catalog.getFunction("sha2")
    return [f.name, f.isTemporary]


@scenario("catalog")
def exists(x: Place) -> Any:
    c = x.spark.catalog
    return [
        c.tableExists(f"{x.db}.people"),
        c.tableExists("people", x.db),
        c.tableExists(f"{x.db}.nothing"),
        c.databaseExists(x.db),
        c.databaseExists("no_such_database"),
        c.functionExists("upper"),
        c.functionExists("no_such_function"),
    ]


@scenario("catalog")
def get_unknown(x: Place) -> Any:
    c = x.spark.catalog
    return [error_of(lambda: c.getTable(f"{x.db}.nothing"))]


@scenario("catalog")
def caching_of_tables(x: Place) -> Any:
    c, name = x.spark.catalog, f"{x.scratch}.{fresh('cached')}"
    x.spark.range(3).write.saveAsTable(name)
    c.cacheTable(name)
    before = c.isCached(name)
    c.uncacheTable(name)
    after = c.isCached(name)
    c.refreshTable(name)
    x.spark.sql(f"DROP TABLE {name}")
    return [before, after]


@scenario("catalog")
def create_table_by_api(x: Place) -> Any:
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    name = f"{x.scratch}.{fresh('made')}"
    schema = StructType([StructField("a", IntegerType()), StructField("b", StringType())])
    made = x.spark.catalog.createTable(name, source="parquet", schema=schema, description="of the API")
    result = [made.columns, x.spark.catalog.tableExists(name)]
    x.spark.sql(f"DROP TABLE {name}")
    return result


@scenario("catalog")
def recover_partitions(x: Place) -> Any:
    name = f"{x.scratch}.{fresh('parted')}"
    x.table("parts").write.partitionBy("p").saveAsTable(name)
    x.spark.catalog.recoverPartitions(name)
    result = x.spark.table(name)
    rows = sorted(result.collect())
    x.spark.sql(f"DROP TABLE {name}")
    return rows


# --- settings


@scenario("settings")
def conf_set_get_unset(x: Place) -> Any:
    c = x.spark.conf
    c.set("spark.sql.shuffle.partitions", "7")
    first = c.get("spark.sql.shuffle.partitions")
    c.set("spark.sql.shuffle.partitions", 3)
    second = c.get("spark.sql.shuffle.partitions")
    c.unset("spark.sql.shuffle.partitions")
    return [first, second, c.get("spark.sql.shuffle.partitions") not in ("3", "7")]


@scenario("settings")
def conf_of_the_client(x: Place) -> Any:
    """What PySpark itself asks for."""
    c = x.spark.conf
    return [
        c.get("spark.sql.session.timeZone"),
        c.get("spark.sql.timestampType"),
        c.get("spark.sql.execution.arrow.maxRecordsPerBatch"),
        c.get("spark.sql.execution.pandas.structHandlingMode"),
        c.get("spark.sql.session.localRelationCacheThreshold"),
    ]


@scenario("settings")
def conf_default(x: Place) -> Any:
    return [
        x.spark.conf.get("spark.sql.pyspark.inferNestedDictAsStruct.enabled", "true"),
        x.spark.conf.isModifiable("spark.sql.shuffle.partitions"),
        x.spark.conf.isModifiable("spark.sql.warehouse.dir"),
    ]


@scenario("settings")
def conf_by_sql(x: Place) -> Any:
    x.spark.sql("SET spark.sql.shuffle.partitions=5")
    return [x.spark.conf.get("spark.sql.shuffle.partitions"), x.spark.sql("SET spark.sql.shuffle.partitions")]


@scenario("settings")
def conf_ansi(x: Place) -> Any:
    x.spark.conf.set("spark.sql.ansi.enabled", "false")
    lenient = x.spark.sql("SELECT CAST('x' AS INT) AS i, 1/0 AS q").collect()
    x.spark.conf.set("spark.sql.ansi.enabled", "true")
    return [lenient, error_of(lambda: x.spark.sql("SELECT CAST('x' AS INT)").collect())]


@scenario("settings", governed="elsewhere")
def conf_unknown(x: Place) -> Any:
    return error_of(lambda: x.spark.conf.get("spark.sql.no.such.setting"))


@scenario("settings")
def version(x: Place) -> Any:
    return x.spark.version
