#!/usr/bin/env bash
# Spark 4.3.0: ORDER BY … LIMIT on a table of a JDBC catalog on Derby returns all rows.
#
# Spark pushes sort and limit into the database and drops its own limit, since the catalog said that it took both. But the
# SQL that it makes for Derby has no limit, so SELECT … ORDER BY n LIMIT 1 gives every row, sorted, without an error. A
# LIMIT without ORDER BY is kept. With pushDownLimit=false among the catalog's parameters the answer is right. Whoever
# tests JDBC catalogs on Derby, which every Spark brings, should know.
#
# Needs Python 3.11+, Java 17+ and PyPI. Fails when any of this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark==4.3.0'
cd "$place"
cat >ask.py <<'PY'
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name, more in (("shop", {}), ("careful", {"pushDownLimit": "false"})):
    builder = builder.config(f"spark.sql.catalog.{name}", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    builder = builder.config(f"spark.sql.catalog.{name}.url", "jdbc:derby:memory:shop;create=true")
    builder = builder.config(f"spark.sql.catalog.{name}.driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
    for key, value in more.items():
        builder = builder.config(f"spark.sql.catalog.{name}.{key}", value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")
session.sql("CREATE TABLE shop.APP.sale (n INT)")
session.sql("INSERT INTO shop.APP.sale SELECT * FROM VALUES (3), (1), (2) v(n)")


def ask(text):
    return [row[0] for row in session.sql(text).collect()]


print("Spark", session.version)
print("LIMIT 1:", len(ask("SELECT n FROM shop.APP.sale LIMIT 1")), "row")
print("ORDER BY n LIMIT 1:", ask("SELECT n FROM shop.APP.sale ORDER BY n LIMIT 1"))
print("with pushDownLimit=false:", ask("SELECT n FROM careful.APP.sale ORDER BY n LIMIT 1"))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.3.0
LIMIT 1: 1 row
ORDER BY n LIMIT 1: [1, 2, 3]
with pushDownLimit=false: [1]
EXPECTED
