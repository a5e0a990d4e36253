"""The check that Spark and the parser are of one minor version."""

from __future__ import annotations

from gateway.app.doors import Queries
from gateway.errors import BackendUnavailable, Faults
from gateway.session.ports import BackendError


async def check_version(spark: Queries, parser: str) -> str:
    """Return Spark's version. Raises Faults unless it is the parser's minor version."""
    try:
        rows = await spark.query("SELECT version()")
    except BackendError as error:
        raise BackendUnavailable("Spark does not tell its version") from error
    told = str(rows[0][0]).split()[0] if rows and rows[0] else ""
    if told.split(".")[:2] != parser.split(".")[:2]:
        raise Faults(
            [
                f"Spark is version {told or 'unknown'}, but the parser is {parser}: a proof by another minor "
                "version says nothing; set `reader.spark_home` to a Spark of the backend's version"
            ]
        )
    return told
