"""A world of failures: what fails in Spark directly, and how it fails through the gateway, word by word."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gateway.wire.tcli import TOperationState, TSessionHandle
from tests.e2e.running import Spark
from tests.e2e.wire_client import TERMINAL, WireClient
from tests.e2e.wire_comparison import Side

DATABASE = "failing"
FILE = Path(__file__).parents[1] / "cases" / "errors.yaml"

TABLES = (
    f"CREATE DATABASE {DATABASE}",
    f"CREATE TABLE {DATABASE}.t USING parquet AS "
    "SELECT /*+ COALESCE(1) */ id, concat('name ', id) AS name, CAST(id AS INT) AS n, "
    "array('a', 'b') AS tags, map('k', 1) AS m, named_struct('x', 1) AS s, TIMESTAMP'2020-01-01' AS at "
    "FROM VALUES (1), (2), (3) AS r(id)",
    f"CREATE TABLE {DATABASE}.u USING parquet AS SELECT * FROM VALUES (1, 'one'), (2, 'two') AS r(id, label)",
    f"CREATE TABLE {DATABASE}.w (a INT, day STRING) USING parquet PARTITIONED BY (day)",
    f"INSERT INTO {DATABASE}.w VALUES (1, 'monday')",
    f"CREATE TABLE {DATABASE}.gone USING parquet AS SELECT 1 AS a",
    f"CREATE TABLE {DATABASE}.strict (a INT NOT NULL) USING parquet",
    f"CREATE VIEW {DATABASE}.v AS SELECT id, name, n FROM {DATABASE}.t",
)


def statements() -> Mapping[str, tuple[str, ...]]:
    """Return the statements by kind."""
    kinds = yaml.safe_load(FILE.read_text())
    return {kind: tuple(text.replace("{db}", DATABASE) for text in texts) for kind, texts in kinds.items()}


def make_world(spark: Spark) -> None:
    spark.query(*TABLES, user="loader")


def lose_files(spark: Spark) -> None:
    """Take the files of `gone` away, after every session that asks for them has looked at it."""
    for file in spark.directory.glob(f"**/{DATABASE}.db/gone/*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


@dataclass(frozen=True)
class Failure:
    """What a client can tell of a failure."""

    kind: str
    """The exception's class, or over Thrift what stands before the message."""
    sqlstate: str
    text: str
    more: tuple[str, ...] = ()
    """Over Connect: condition, parameters and query contexts."""


_FRAMES = re.compile(r"\n\t(?:at |\.\.\. \d+ more)[^\n]*")
_NUMBERS = (
    (re.compile(r"#\d+L?"), "#"),
    (re.compile(r"(stage|TID|Task) \d+(?:\.\d+)?"), r"\1 N"),
    (re.compile(r"in stage N \(TID N\)|@[0-9a-f]{5,8}\b"), "N"),
    (re.compile(r"part-[0-9a-f-]+"), "part"),
    (re.compile(r"\(executor [^)]*\)|\([\w.-]+ executor driver\)"), "(executor)"),
    (re.compile(r"\[id=#?\d*\]|plan_id=\d+"), "[id]"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
)


def comparable(text: str) -> str:
    """Return a text without what differs between two runs of one statement: frames, ids, addresses."""
    text = _FRAMES.sub("", text.split("\n\nJVM stacktrace:")[0])
    # What an exception calls itself in a stack, and its class.
    text = text.replace("catalyst.ExtendedAnalysisException", "AnalysisException")
    for pattern, instead in _NUMBERS:
        text = pattern.sub(instead, text)
    return text.rstrip()


def over_thrift(side: Side, text: str, *, run_async: bool = True) -> Failure | None:
    """Return how a statement fails for a HiveServer2 client; None when it does not."""
    started = side.execute(text, runAsync=run_async)
    told: Any = started.status
    if started.operationHandle is not None:
        ended = side.client.ended(started.operationHandle)
        assert ended.operationState in TERMINAL
        told = ended
        failed = ended.operationState != TOperationState.FINISHED
        if not failed:
            fetched = side.fetch(started.operationHandle)
            told, failed = fetched.status, fetched.status.statusCode != 0
        side.ask("CloseOperation", operationHandle=started.operationHandle)
        if not failed:
            return None
    message = told.errorMessage or ""
    details = tuple(line for line in getattr(told, "infoMessages", None) or () if line.startswith("*"))
    return Failure(
        kind=message.split(": ", 1)[0],
        sqlstate=told.sqlState or "",
        text=comparable(message),
        more=tuple(comparable(re.sub(r":\d+:-?\d+$", "", line)) for line in details),
    )


def over_connect(session: Any, program: Any) -> Failure | None:
    """Return how a program fails for PySpark; None when it does not."""
    from pyspark.errors import PySparkException

    try:
        program(session)
    except PySparkException as error:
        contexts = [
            repr((c.contextType(), c.objectName(), c.startIndex(), c.stopIndex(), c.fragment(), c.summary()))
            if c.contextType().name == "SQL"
            else repr((c.contextType(), c.fragment()))
            for c in error.getQueryContext() or ()
        ]
        return Failure(
            kind=type(error).__name__,
            sqlstate=error.getSqlState() or "",
            text=comparable(str(error)),
            more=(
                error.getCondition() or "",
                comparable(repr(sorted((error.getMessageParameters() or {}).items()))),
                *contexts,
            ),
        )
    return None


def in_sql(text: str) -> Any:
    return lambda session: session.sql(text).collect()


def side_of(client: WireClient) -> Side:
    session: TSessionHandle = client.open_session()
    side = Side(client, session)
    side.execute(f"USE {DATABASE}")
    side.execute("SELECT * FROM gone")
    return side


def every() -> Iterator[tuple[str, str]]:
    for kind, texts in statements().items():
        for text in texts:
            yield kind, text
