"""The generated classes of Spark Connect come without the rest of pyspark, and are those that it has."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys
from gateway.wire.connect import pb
assert pb.Plan().WhichOneof("op_type") is None
rest = [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "pandas")]
assert not rest, rest
"""
THEN_ALL = """
from pyspark.sql.connect import proto
from pyspark.sql.connect.session import SparkSession
assert proto.Plan is pb.Plan
proto.Plan(root=pb.Relation(range=pb.Range(end=1)))
"""
BEFORE = """
from pyspark.sql.connect import proto
from gateway.wire.connect import pb
assert proto is pb
"""


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_else_of_pyspark_is_imported() -> None:
    run(WITHOUT + THEN_ALL)


def test_what_is_imported_already_is_taken() -> None:
    run(BEFORE)
