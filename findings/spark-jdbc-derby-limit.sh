#!/usr/bin/env bash
# Spark 4.3.0: ORDER BY … LIMIT on a Derby table of a JDBC catalog returns all rows.
#
# HEAD
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
EXPECTED
