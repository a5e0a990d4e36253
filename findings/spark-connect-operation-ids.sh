#!/usr/bin/env bash
# Spark Connect 4.3.0: an operation id works once, even if its operation failed.
#
# A client of Spark Connect may choose the id of an operation. After an operation has ended, well or not, its id is spent:
# another ExecutePlan with it, also of another text, is refused with INVALID_HANDLE.OPERATION_ABANDONED. That reads as if
# a client had gone away, and it comes even where the first plan failed in its analysis and nothing ran. A client or
# proxy that derives ids from requests, or that sends a corrected plan again under the id of the one that failed, must
# make a new id for each attempt.
#
# Needs Python 3.11+, Java 17+ and PyPI. Fails when any of this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check 'pyspark[connect]==4.3.0'
cd "$place"
cat >ask.py <<'PY'
import re
import uuid

import grpc
import pyspark.sql.connect.proto as pb2
from pyspark.sql import SparkSession

session = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
client = session.client


def execute(operation, text):
    request = client._execute_plan_request_with_metadata(operation_id=operation)
    request.plan.CopyFrom(pb2.Plan(root=pb2.Relation(sql=pb2.SQL(query=text))))
    try:
        seen = [one.WhichOneof("response_type") for one in client._stub.ExecutePlan(request, metadata=client._builder.metadata())]
        return "rows" if "arrow_batch" in seen else str(seen)
    except grpc.RpcError as error:
        return f"{error.code().name} {re.findall(r'[A-Z][A-Z_]+(?:[.][A-Z_]+)?', error.details())[0]}"


print("Spark", session.version)
failed, done = str(uuid.uuid4()), str(uuid.uuid4())
print("an analysis that fails:", execute(failed, "SELECT * FROM missing"))
print("the id once more:", execute(failed, "SELECT 1"))
print("one that ends well:", execute(done, "SELECT 1"))
print("the id once more:", execute(done, "SELECT 1"))
print("another id:", execute(str(uuid.uuid4()), "SELECT 1"))
PY
"$place/venv/bin/python" ask.py 2>/dev/null | tee seen.txt
diff seen.txt - <<'EXPECTED'
Spark 4.3.0
an analysis that fails: INTERNAL TABLE_OR_VIEW_NOT_FOUND
the id once more: INTERNAL INVALID_HANDLE.OPERATION_ABANDONED
one that ends well: rows
the id once more: INTERNAL INVALID_HANDLE.OPERATION_ABANDONED
another id: rows
EXPECTED
