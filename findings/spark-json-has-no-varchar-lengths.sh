#!/usr/bin/env bash
# Spark 4.3.0: DESCRIBE TABLE EXTENDED … AS JSON has no lengths of CHAR and VARCHAR columns.
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
import json

from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
session.sql("CREATE TABLE t (code CHAR(3), name VARCHAR(20), price DECIMAL(10, 2)) USING parquet")
print("Spark", session.version)
rows = {row[0]: row[1] for row in session.sql("DESCRIBE TABLE t").collect()}
told = json.loads(session.sql("DESCRIBE TABLE EXTENDED t AS JSON").first()[0])
for column in told["columns"]:
    print(column["name"], "in rows:", rows[column["name"]], "as JSON:", json.dumps(column["type"]))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
EXPECTED
