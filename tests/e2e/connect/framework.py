"""What a scenario is, and what of its result is compared: this file and its likes import pyspark only.

They run in processes of their own, one for each client; the second client's environment has no pytest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import io
import math
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

RewrittenStatement = Literal["same", "refused", "elsewhere"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a scenario runs in."""

    spark: Any
    """A `pyspark.sql.connect.session.SparkSession` of its own; its current database is `db`."""
    db: str
    """The database with the tables; texts name it by this, since the governed copy is called differently."""
    scratch: str
    """A database to write to."""
    directory: Path
    """A directory that Spark's user can write to and the client, too."""

    def table(self, name: str) -> Any:
        return self.spark.table(f"{self.db}.{name}")

    @property
    def people(self) -> Any:
        return self.table("people")

    @property
    def orders(self) -> Any:
        return self.table("orders")

    @property
    def dept(self) -> Any:
        return self.table("dept")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing that users of PySpark do."""

    name: str
    group: str
    run: Callable[[Place], Any] = field(repr=False)
    governed: RewrittenStatement
    """Under masks, filters and hidden columns: the `same` as over a governed copy, `refused` by the gateway,
    or compared `elsewhere` (what it shows differs between a table and its copy)."""
    since: tuple[int, int]
    """The client that first has what it calls."""
    daily: bool
    """Whether it is run every day, since it was written for a fault; the others take turns."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    group: str, *, governed: RewrittenStatement = "same", since: tuple[int, int] = (4, 2), daily: bool = False
) -> Callable[[Callable[[Place], Any]], Callable[[Place], Any]]:
    """Register a function as a scenario under its own name."""

    def register(run: Callable[[Place], Any]) -> Callable[[Place], Any]:
        name = run.__name__
        assert name not in SCENARIOS, name
        SCENARIOS[name] = Scenario(
            name=name, group=group, run=run, governed=governed, since=since, daily=daily
        )
        return run

    return register


@dataclass(frozen=True)
class Ordered:
    """A DataFrame whose order of rows is defined and is compared, too."""

    frame: Any


def printed(work: Callable[[], Any]) -> str:
    """Return what a call prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        work()
    return out.getvalue()


def error_of(work: Callable[[], Any]) -> dict[str, Any]:
    """Return what identifies the error that a call raises; fails when it raises none."""
    try:
        given = work()
    except Exception as error:  # noqa: BLE001 - whatever PySpark raises is the result
        return told(error)
    return {"error": "none", "given": plain(given)}


def told(error: Exception) -> dict[str, Any]:
    """Return class, condition and SQLSTATE of an error."""
    try:
        state = error.getSqlState()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - errors of Python have none, and some of PySpark's fail to tell it
        state = None
    condition = getattr(error, "getCondition", getattr(error, "getErrorClass", lambda: None))()
    return {"error": type(error).__name__, "condition": condition, "sqlstate": state}


def fresh(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:12]}"


def outcome_of(item: Scenario, place: Place) -> dict[str, Any]:
    """Run a scenario; return its normal result, or its error with the message beside it."""
    try:
        return {"result": plain(item.run(place), place)}
    except Exception as error:  # noqa: BLE001 - an error is a result like another
        return {"result": {"raised": told(error)}, "message": f"{type(error).__name__}: {error}"[:4000]}


def plain(value: Any, place: Place | None = None) -> Any:
    """Return a value as JSON has it: frames with columns, types and rows; names of databases levelled."""
    return _level(_plain(value), place)


def _plain(value: Any) -> Any:
    if isinstance(value, Ordered):
        return _frame(value.frame, ordered=True)
    kind = type(value).__name__
    module = type(value).__module__
    if kind == "DataFrame" and module.startswith("pyspark.sql"):
        return _frame(value, ordered=False)
    if kind == "DataFrame" and module.startswith("pandas"):
        rows = [[_plain(cell) for cell in row] for row in value.itertuples(index=True, name=None)]
        return {
            "pandas": [str(c) for c in value.columns],
            "types": [str(t) for t in value.dtypes],
            "rows": rows,
        }
    if kind == "Series" and module.startswith("pandas"):
        return {"series": [_plain(cell) for cell in value.tolist()], "index": [str(i) for i in value.index]}
    if module.startswith("pyspark.pandas"):
        return _plain(value.to_pandas())
    if module.startswith("pyarrow"):
        return {"arrow": str(value.schema), "rows": [_plain(row) for row in value.to_pylist()]}
    if kind == "Row" and hasattr(value, "asDict"):
        return {"row": [[name, _plain(cell)] for name, cell in zip(value.__fields__, value, strict=True)]}
    return _scalar(value)


def _frame(frame: Any, *, ordered: bool) -> dict[str, Any]:
    rows = [[_plain(cell) for cell in row] for row in frame.collect()]
    if not ordered:
        rows.sort(key=repr)
    return {"columns": frame.columns, "types": [kind for _, kind in frame.dtypes], "rows": rows}


def _scalar(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return "nan" if math.isnan(value) else repr(value)
        case decimal.Decimal():
            return f"decimal {value}"
        case datetime.timedelta():
            return f"interval {value.total_seconds()!r}"
        case datetime.date() | datetime.time():
            return f"{type(value).__name__} {value.isoformat()}"
        case bytes() | bytearray():
            return f"bytes {bytes(value).hex()}"
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case set() | frozenset():
            return sorted((_plain(item) for item in value), key=repr)
        case list() | tuple():
            return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) or hasattr(value, "_asdict"):
        return repr(value)
    if type(value).__module__.startswith("numpy"):
        return _plain(value.tolist())
    return f"{type(value).__name__} {value}"


_NUMBERED = re.compile(r"#\d+L?|plan_id=\d+|\[\d{1,2}/\d{1,2}\]|_pre_\d+")


def _level(value: Any, place: Place | None) -> Any:
    if isinstance(value, str):
        if place is not None:
            value = re.sub(rf"\b{place.scratch}\b", "{scratch}", value)
            value = re.sub(rf"\b{place.db}\b", "{db}", value)
            value = value.replace(str(place.directory), "{directory}")
        return _NUMBERED.sub("#", value)
    if isinstance(value, list):
        return [_level(item, place) for item in value]
    if isinstance(value, dict):
        return {_level(key, place): _level(item, place) for key, item in value.items()}
    return value


@contextlib.contextmanager
def place_of(remote: str, db: str, scratch: str, directory: Path) -> Iterator[Place]:
    """A place with a session of its own."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(remote).create()
    try:
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.catalog.setCurrentDatabase(db)
        yield Place(spark=session, db=db, scratch=scratch, directory=directory)
    finally:
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        session.stop()
