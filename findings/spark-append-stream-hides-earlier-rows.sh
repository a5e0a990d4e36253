#!/usr/bin/env bash
# Spark 4.1.4: a stream in mode append into a plain table hides all rows that were there before.
#
# `writeStream.toTable(t)` in mode append adds rows to a parquet table, as its name says, and beside them the list of
# its own files, `_spark_metadata`. From then on Spark reads the files of that list alone: the rows of before stay on
# disk, and nobody's query shows them. A batch append afterwards succeeds and is not shown either. Whoever grants or
# checks rights by "append only adds" must count such a stream as an overwrite.
#
# Needs Python 3.11+, Java 17+ and PyPI. Fails when any of this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark==4.1.4'
cd "$place"
cat >ask.py <<'PY'
from pathlib import Path

from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
print("Spark", session.version)
session.sql("CREATE TABLE source USING parquet AS SELECT 9 AS id")
session.sql("CREATE TABLE kept USING parquet AS SELECT id FROM VALUES (1), (2) AS v(id)")


def ids():
    session.sql("REFRESH TABLE kept")
    return sorted(row.id for row in session.table("kept").collect())


def files():
    return len(list(Path("spark-warehouse/kept").glob("*.parquet")))


print("before:", ids(), files() >= 1)
before = files()
writer = session.readStream.table("source").writeStream.outputMode("append")
writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).toTable("kept").awaitTermination()
print("after the stream:", ids())
print("files of before are there:", files() > before)
session.sql("INSERT INTO kept VALUES (3)")
print("after INSERT INTO:", ids())
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.1.4
before: [1, 2] True
after the stream: [9]
files of before are there: True
after INSERT INTO: [9]
EXPECTED
