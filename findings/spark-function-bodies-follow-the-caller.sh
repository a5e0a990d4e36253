#!/usr/bin/env bash
# Spark 4.3.0: names in the body of an SQL function follow the session that calls it; those in a view do not.
#
# A view keeps the catalog in which it was made, so `app.t` in its text means the same table for ever. A permanent SQL
# function, scalar or table, keeps its text alone: after USE of another catalog the same `app.t` in its body is the
# table of that catalog, silently, if both have one. A body that is to mean one table has to name it with its catalog,
# and whoever caches, checks or reports what a function reads has to do it for each current catalog.
#
# Needs Python 3.11+, Java 17+ and PyPI; the second catalog is Derby in memory, from Spark's own jars. Fails when any of
# this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark==4.3.0'
cd "$place"
cat >ask.py <<'PY'
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.catalog.other", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    .config("spark.sql.catalog.other.url", "jdbc:derby:memory:other;create=true")
    .config("spark.sql.catalog.other.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    .getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
print("Spark", session.version)
session.sql("CREATE DATABASE APP")
session.sql("CREATE TABLE APP.T USING parquet AS SELECT 'first' AS catalog")
session.sql("CREATE TABLE other.APP.T (catalog STRING)")
session.sql("INSERT INTO other.APP.T VALUES ('other')")
body = "SELECT max(catalog) AS catalog FROM APP.T"
session.sql(f"CREATE VIEW default.v AS {body}")
session.sql(f"CREATE FUNCTION default.f() RETURNS STRING RETURN ({body})")
session.sql(f"CREATE FUNCTION default.g() RETURNS TABLE (catalog STRING) RETURN {body}")

for current in ("spark_catalog", "other"):
    session.sql(f"USE {current}")
    for kind, text in {
        "view": "SELECT catalog FROM spark_catalog.default.v",
        "scalar function": "SELECT spark_catalog.default.f()",
        "table function": "SELECT catalog FROM spark_catalog.default.g()",
    }.items():
        print(f"USE {current}, {kind}: {session.sql(text).first()[0]}")
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.3.0
USE spark_catalog, view: first
USE spark_catalog, scalar function: first
USE spark_catalog, table function: first
USE other, view: first
USE other, scalar function: other
USE other, table function: other
EXPECTED
