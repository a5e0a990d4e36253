#!/usr/bin/env bash
# Spark 4.3.0: a session that has called an SQL function runs its former body after another session has made it again.
#
# Sessions of one Spark share the catalog of functions, but each registers a permanent SQL function when it first calls it.
# CREATE OR REPLACE FUNCTION in another session leaves that registration alone: the first session goes on with the former
# body, scalar or table, without an error, while a view that was replaced beside it is read anew. REFRESH FUNCTION does not
# mend it, it fails with CANNOT_LOAD_FUNCTION_CLASS. DROP FUNCTION in the other session is noticed, but when the function is
# made again afterwards the former body is back. Whoever serves many sessions from one Spark (Thrift Server, Spark Connect)
# and judges or documents a function by what the catalog says has another text before him than the one that runs.
#
# Needs Python 3.11+, Java 17+ and PyPI. Fails when any of this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark==4.3.0'
cd "$place"
cat >ask.py <<'PY'
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

one = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
one.sparkContext.setLogLevel("OFF")
two = one.newSession()


def ask(session):
    try:
        scalar = session.sql("SELECT default.f()").first()[0]
        table = session.sql("SELECT * FROM default.g()").first()[0]
    except AnalysisException as error:
        return error.getCondition()
    view = session.sql("SELECT * FROM default.v").first()[0]
    return f"scalar {scalar}, table {table}, view {view}"


def make(session, value):
    session.sql(f"CREATE OR REPLACE FUNCTION default.f() RETURNS STRING RETURN '{value}'")
    session.sql(f"CREATE OR REPLACE FUNCTION default.g() RETURNS TABLE (c STRING) RETURN SELECT '{value}'")
    session.sql(f"CREATE OR REPLACE VIEW default.v AS SELECT '{value}' AS c")


print("Spark", one.version)
make(one, "first")
print("both sessions:", ask(one), "|", ask(two))
make(one, "second")
print("the session that replaced them:", ask(one))
print("the other session:", ask(two))
try:
    two.sql("REFRESH FUNCTION default.f")
except AnalysisException as error:
    print("REFRESH FUNCTION:", error.getCondition())
print("after it:", ask(two))
for name in ("f", "g"):
    one.sql(f"DROP FUNCTION default.{name}")
print("dropped:", ask(one), "|", ask(two))
make(one, "third")
print("made again:", ask(one), "|", ask(two))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.3.0
both sessions: scalar first, table first, view first | scalar first, table first, view first
the session that replaced them: scalar second, table second, view second
the other session: scalar first, table first, view second
REFRESH FUNCTION: CANNOT_LOAD_FUNCTION_CLASS
after it: scalar first, table first, view second
dropped: UNRESOLVED_ROUTINE | UNRESOLVED_ROUTINE
made again: scalar third, table third, view third | scalar first, table first, view third
EXPECTED
