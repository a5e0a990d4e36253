#!/usr/bin/env bash
# Spark 4.3.0: an expression over a subquery fails on rows that the subquery's OFFSET skips.
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

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
session.sql("CREATE TABLE t (n INT) USING parquet")
session.sql("INSERT INTO t SELECT * FROM VALUES (0), (1), (2) v(n)")


def ask(text):
    try:
        return [row[0] for row in session.sql(text).collect()]
    except Exception as error:
        return error.getCondition()


inner = "SELECT n FROM t ORDER BY n LIMIT 2 OFFSET 1"
print("Spark", session.version)
print("the subquery:", ask(inner))
print("over it:", ask(f"SELECT 6 / n FROM ({inner})"))
print("OFFSET alone:", ask("SELECT 6 / n FROM (SELECT n FROM t ORDER BY n OFFSET 1)"))
print("behind a sample:", ask(f"SELECT 6 / n FROM (SELECT * FROM ({inner}) TABLESAMPLE (100 PERCENT))"))
print("with WHERE instead:", ask("SELECT 6 / n FROM (SELECT n FROM t WHERE n > 0)"))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
EXPECTED
