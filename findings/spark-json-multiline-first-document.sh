#!/usr/bin/env bash
# Spark 4.3.0: of a JSON file with several documents, multiLine reads the first one only.
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
from pathlib import Path

from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
Path("pretty.json").write_text('{\n  "n": 1\n}\n{\n  "n": 2\n}\n')
Path("lines.json").write_text('{"n": 1}\n{"n": 2}\n')


def ask(name, mode="PERMISSIVE"):
    try:
        return [row[0] for row in session.read.schema("n INT").json(name, multiLine=True, mode=mode).collect()]
    except Exception as error:
        return type(error).__name__


print("Spark", session.version)
print("two documents:", ask("pretty.json"))
print("two documents, FAILFAST:", ask("pretty.json", "FAILFAST"))
print("two lines, FAILFAST:", ask("lines.json", "FAILFAST"))
print("without multiLine:", [row[0] for row in session.read.schema("n INT").json("lines.json").collect()])
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
EXPECTED
