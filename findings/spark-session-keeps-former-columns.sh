#!/usr/bin/env bash
# Spark 4.3.0: a session reads a table by its former columns after another session made it again.
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

one = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
one.sparkContext.setLogLevel("OFF")
two = one.newSession()
folder = Path("people").absolute()
folder.mkdir()
(folder / "a.csv").write_text("ann,secret\n")


def make(session, columns):
    session.sql("DROP TABLE IF EXISTS people")
    session.sql(f"CREATE TABLE people ({columns}) USING csv LOCATION '{folder}'")


def ask(session):
    return session.sql("SELECT name FROM people").first()[0]


print("Spark", one.version)
make(one, "name STRING, pin STRING")
print("both sessions:", ask(one), ask(two))
(folder / "a.csv").write_text("secret,ann\n")
make(one, "pin STRING, name STRING")
print("the session that made it again:", ask(one))
print("the other session:", ask(two))
two.sql("REFRESH TABLE people")
print("after REFRESH TABLE:", ask(two))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
EXPECTED
