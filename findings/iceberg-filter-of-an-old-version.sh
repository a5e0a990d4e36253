#!/usr/bin/env bash
# Iceberg 1.12.0 on Spark 4.1.4: a filter on a version from before a rename fails.
#
# VERSION AS OF gives an old version's own column names, and Spark resolves them. But Iceberg binds the filter that
# Spark pushes down to the table's present schema, by name: after RENAME COLUMN a condition on the old name fails with
# Iceberg's ValidationException, while the same condition above a barrier (here LIMIT) gives its row. A condition on
# a column that was not renamed is fine. A tool that rewrites or generates time travel must not rely on push-down.
#
# Needs Python 3.11+, Java 17+, Maven, PyPI and Maven Central. Fails when any of this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark==4.1.4'
cd "$place"
mvn -q dependency:copy -DoutputDirectory="$place" \
  -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
cat >ask.py <<'PY'
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.jars", "iceberg-spark-runtime-4.1_2.13-1.12.0.jar")
    .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.ice.type", "hadoop")
    .config("spark.sql.catalog.ice.warehouse", "ice")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
print("Spark", session.version)
session.sql("CREATE TABLE ice.db.t (id INT, mail STRING) USING iceberg")
session.sql("INSERT INTO ice.db.t VALUES (1, 'a'), (2, 'b')")
first = session.sql("SELECT snapshot_id FROM ice.db.t.snapshots").first()[0]
session.sql("ALTER TABLE ice.db.t RENAME COLUMN mail TO contact")


def ask(text):
    try:
        return [tuple(row) for row in session.sql(text).collect()]
    except Exception as error:
        return "ValidationException" if "ValidationException" in str(error) else type(error).__name__


old = f"ice.db.t VERSION AS OF {first}"
print("columns of then:", session.sql(f"SELECT * FROM {old}").columns)
print("by the old name:", ask(f"SELECT id, mail FROM {old} WHERE mail = 'a'"))
print("by the new name:", ask(f"SELECT id FROM {old} WHERE contact = 'a'"))
print("not pushed down:", ask(f"SELECT id, mail FROM (SELECT * FROM {old} LIMIT 9) WHERE mail = 'a'"))
print("another column:", ask(f"SELECT id, mail FROM {old} WHERE id = 1"))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.1.4
columns of then: ['id', 'mail']
by the old name: ValidationException
by the new name: AnalysisException
not pushed down: [(1, 'a')]
another column: [(1, 'a')]
EXPECTED
