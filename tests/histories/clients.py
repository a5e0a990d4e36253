"""Sessions of users, at the gateway and at Spark itself: what they are answered, whole."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pyhive import hive
from pyhive.exc import Error as HiveError
from pyspark.errors import PySparkException
from thrift.transport.TTransport import TTransportException

from tests.e2e.running import connect, connect_session
from tests.speed import patience

FAILURES = (HiveError, PySparkException, TTransportException)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client received: a result, or an error with everything that it says."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""

    def sorted(self) -> Answer:
        rows = tuple(sorted(self.rows, key=repr))
        return Answer(self.names, self.types, rows, self.error)

    def __str__(self) -> str:
        if self.error:
            return self.error.replace("\n", " ")[:600]
        columns = ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.types, strict=True))
        return f"({columns}) {list(self.rows)}"


class Session(Protocol):
    """An open session, of either kind of client."""

    def run(self, text: str) -> Answer: ...
    def open(self, name: str, text: str) -> Answer:
        """Run a query and take one row; the rest stays for `fetch`."""

    def fetch(self, name: str) -> Answer:
        """Return all rows of an opened result, those already taken among them."""

    def close(self) -> None: ...


def told(error: BaseException) -> str:
    """Return everything that an error tells its client."""
    if isinstance(error, HiveError) and error.args and hasattr(error.args[0], "status"):
        status = error.args[0].status
        return f"{status.sqlState} {status.errorMessage} {status.infoMessages or ''}"
    if isinstance(error, PySparkException):
        return f"{error.getSqlState()} {error.getMessageParameters()} {error}"
    return f"{type(error).__name__}: {error}"


class Thrift:
    """PyHive."""

    def __init__(self, host: str, port: int, user: str, password: str | None) -> None:
        self._connection = connect(host, port, user, password)
        self._opened: dict[str, tuple[Any, list[Any]]] = {}
        self._unwatched: list[Any] = []

    def run(self, text: str) -> Answer:
        cursor = self._connection.cursor()
        try:
            cursor.execute(text)
            rows = cursor.fetchall() if cursor.description else []
            return _of_thrift(cursor, rows)
        except FAILURES as error:
            return Answer(error=told(error))
        finally:
            with contextlib.suppress(*FAILURES):
                cursor.close()

    def open(self, name: str, text: str) -> Answer:
        cursor = self._connection.cursor(arraysize=1)
        try:
            cursor.execute(text)
            row = cursor.fetchone()
        except FAILURES as error:
            return Answer(error=told(error))
        self._opened[name] = (cursor, [] if row is None else [row])
        return _of_thrift(cursor, self._opened[name][1])

    def begin(self, text: str) -> Answer:
        """Send a statement to be run asynchronously, and ask no more of it."""
        cursor = self._connection.cursor()
        self._unwatched.append(cursor)
        try:
            cursor.execute(text, async_=True)
            return Answer()
        except FAILURES as error:
            return Answer(error=told(error))

    def fetch(self, name: str) -> Answer:
        cursor, rows = self._opened.pop(name)
        try:
            rows += cursor.fetchall()
            return _of_thrift(cursor, rows)
        except FAILURES as error:
            return Answer(error=told(error))
        finally:
            with contextlib.suppress(*FAILURES):
                cursor.close()

    def close(self) -> None:
        with contextlib.suppress(*FAILURES):
            self._connection.close()
        # PyHive leaves it open where nobody answers any more.
        self._connection._transport.close()


def _of_thrift(cursor: Any, rows: list[Any]) -> Answer:
    described = cursor.description or []
    names, types = tuple(column[0] for column in described), tuple(column[1] for column in described)
    return Answer(names, types, tuple(map(tuple, rows)))


class Connect:
    """PySpark."""

    def __init__(self, port: int, token: str, user: str = "", session_id: str = "") -> None:
        self._port, self._token = port, token
        self._stack = contextlib.ExitStack()
        self.frames: dict[str, Any] = {}
        self.spark = self._stack.enter_context(connect_session(port, token, user, session_id))
        self._opened: dict[str, tuple[Any, Iterator[Any], list[Any]]] = {}
        # A session is one when it has logged in: its groups are those of this moment.
        self.spark.sql("SELECT 1").collect()

    def clone(self) -> Connect:
        """Return a session that Spark begins as a copy of this one."""
        other = self.spark.cloneSession()
        other.release_session_on_close = False
        other.stop()
        return Connect(self._port, self._token, session_id=other.session_id)

    def come_back(self, port: int) -> Connect:
        """Return a new client in the same session of Spark's, at a gateway that was started anew."""
        self.spark.release_session_on_close = False
        self.close()
        return Connect(port, self._token, session_id=self.spark.session_id)

    def run(self, text: str) -> Answer:
        try:
            return collected(self._frame(text))
        except FAILURES as error:
            return Answer(error=told(error))

    def _frame(self, text: str) -> Any:
        # A query with a marker is one with an argument.
        return self.spark.sql(text, args={"low": 1} if ":low" in text else None)

    def keep(self, name: str, text: str, *, cache: bool) -> Answer:
        """Make a DataFrame and keep it."""
        try:
            frame = self._frame(text)
            if cache:
                frame = frame.cache()
            self.frames[name] = frame
            return Answer()
        except FAILURES as error:
            return Answer(error=told(error))

    def collect(self, name: str) -> Answer:
        try:
            return collected(self.frames[name])
        except FAILURES as error:
            return Answer(error=told(error))

    def stream(self, source: str, sink: str, checkpoint: str, *, fails: bool) -> Answer:
        """Have a stream read all that there is of a table and append it to another one."""
        try:
            stream = self.spark.readStream.table(source)
            if fails:
                first, second, *others = stream.columns
                stream = stream.selectExpr(f"{first} + CAST({second} AS INT) AS {first}", second, *others)
            writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            query = writer.toTable(sink)
            query.awaitTermination(patience(180))
            return Answer()
        except FAILURES as error:
            return Answer(error=told(error))

    def in_memory(self, source: str, name: str) -> Answer:
        """Have a stream read all that there is of a table into the sink `memory`, a temporary view."""
        try:
            writer = self.spark.readStream.table(source).writeStream.format("memory")
            query = writer.queryName(name).trigger(availableNow=True).start()
            query.awaitTermination(patience(180))
            return Answer()
        except FAILURES as error:
            return Answer(error=told(error))

    def filtered(self, table: str, condition: str) -> Answer:
        """Return the rows of a table for which an expression is true, as a DataFrame says it."""
        try:
            return collected(self.spark.table(table).filter(condition))
        except FAILURES as error:
            return Answer(error=told(error))

    def open(self, name: str, text: str) -> Answer:
        try:
            frame = self.spark.sql(text)
            rows = frame.toLocalIterator()
            first = [row for row in [next(rows, None)] if row is not None]
        except FAILURES as error:
            return Answer(error=told(error))
        self._opened[name] = (frame, rows, first)
        return _of_frame(frame, first)

    def fetch(self, name: str) -> Answer:
        frame, left, rows = self._opened.pop(name)
        try:
            return _of_frame(frame, [*rows, *left])
        except FAILURES as error:
            return Answer(error=told(error))

    def close(self) -> None:
        with contextlib.suppress(*FAILURES):
            self._stack.close()


def collected(frame: Any) -> Answer:
    return _of_frame(frame, frame.collect())


def _of_frame(frame: Any, rows: list[Any]) -> Answer:
    fields = frame.schema.fields
    return Answer(
        tuple(f.name for f in fields),
        tuple(f.dataType.simpleString() for f in fields),
        tuple(tuple(row) for row in rows),
    )


def seconds(value: Any) -> Any:
    """Return a timestamp that a client shows, in seconds since 1970; anything else as it is."""
    return value.timestamp() if isinstance(value, datetime.datetime) else value


def open_session(gateway: Any, by: str, password: str) -> Session:
    """Open a session of a user at a gateway; `by` is `u1 thrift 0`."""
    user, endpoint, _ = by.split(" ")
    if endpoint == "thrift":
        return Thrift(gateway.host, gateway.port, user, password)
    return Connect(gateway.connect_port, f"{user}:{password}")


__all__ = ["Answer", "Connect", "Session", "Thrift", "hive", "open_session", "seconds", "told"]
