#!/usr/bin/env bash
# Spark 4.3.0: a session reads a table by its former columns after another session has made it again.
#
# Sessions of one Spark share the catalog, and each caches what a table is when it first reads it. After another session
# has dropped and made the table again, the first one keeps the former columns, without an error. Files of CSV are read by
# position, so values come back under the names of other columns: here a pin as a name. REFRESH TABLE in each session
# mends it; the session that ran the DDL needs none. Whoever serves many sessions from one Spark (Thrift Server, Spark
# Connect) and lets users replace tables meets this.
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
Spark 4.3.0
both sessions: ann ann
the session that made it again: ann
the other session: secret
after REFRESH TABLE: ann
EXPECTED
