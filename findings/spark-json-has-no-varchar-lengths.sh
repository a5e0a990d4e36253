#!/usr/bin/env bash
# Spark 4.3.0: DESCRIBE TABLE EXTENDED … AS JSON has no CHAR and VARCHAR, and no lengths of theirs.
#
# In rows, DESCRIBE TABLE says char(3) and varchar(20). AS JSON, which is meant for programs, says of both that they are
# strings, with a collation and without a length, while it keeps precision and scale of a decimal. A tool that copies
# tables, compares schemas or casts to the declared type from the JSON loses the lengths, and with them the padding of
# CHAR and the length check of writes. Read types from the rows, or from SHOW CREATE TABLE.
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
Spark 4.3.0
code in rows: char(3) as JSON: {"name": "string", "collation": "UTF8_BINARY"}
name in rows: varchar(20) as JSON: {"name": "string", "collation": "UTF8_BINARY"}
price in rows: decimal(10,2) as JSON: {"name": "decimal", "precision": 10, "scale": 2}
EXPECTED
