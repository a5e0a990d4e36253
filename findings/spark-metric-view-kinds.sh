#!/usr/bin/env bash
# Spark 4.3.0: what kind of object a metric view is depends on whom one asks.
#
# DESCRIBE TABLE EXTENDED, in rows and AS JSON, calls it METRIC_VIEW. SHOW VIEWS lists it among the views, and
# spark.catalog.listTables() says VIEW. A tool that governs, copies or documents views and asks whether the described
# type is exactly VIEW takes it for a table, though its rows come from the tables that its definition names, not from
# files of its own. count(*) over it counts the rows of its source and not those of its dimensions.
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

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
session.sql("CREATE TABLE sale USING parquet AS SELECT * FROM VALUES ('a', 1), ('a', 2), ('b', 4) t(shop, amount)")
session.sql("CREATE VIEW plain AS SELECT shop, sum(amount) AS total FROM sale GROUP BY shop")
session.sql(
    "CREATE VIEW metrics WITH METRICS LANGUAGE YAML AS $$\n"
    "version: 0.1\nsource: sale\n"
    "dimensions:\n  - name: shop\n    expr: shop\n"
    "measures:\n  - name: total\n    expr: sum(amount)\n$$"
)

told = json.loads(session.sql("DESCRIBE TABLE EXTENDED metrics AS JSON").first()[0])
rows = {row[0]: row[1] for row in session.sql("DESCRIBE TABLE EXTENDED metrics").collect()}
print("Spark", session.version)
print("described as JSON:", told["type"], "- in rows:", rows["Type"])
print("listTables:", sorted((table.name, table.tableType) for table in session.catalog.listTables()))
print("SHOW VIEWS:", sorted(row[1] for row in session.sql("SHOW VIEWS").collect()))
print("measures:", [tuple(r) for r in session.sql("SELECT shop, measure(total) FROM metrics GROUP BY shop ORDER BY shop").collect()])
print("count(*):", session.sql("SELECT count(*) FROM metrics").first()[0])
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.3.0
described as JSON: METRIC_VIEW - in rows: METRIC_VIEW
listTables: [('metrics', 'VIEW'), ('plain', 'VIEW'), ('sale', 'MANAGED')]
SHOW VIEWS: ['metrics', 'plain']
measures: [('a', 3), ('b', 4)]
count(*): 3
EXPECTED
