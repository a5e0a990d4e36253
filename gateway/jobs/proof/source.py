"""Samples of tables, read by a client of the gateway: each of its statements is judged and recorded."""

from __future__ import annotations

from typing import Any

from gateway.errors import BackendUnavailable
from gateway.jobs.spark import condition_of, spark_errors
from gateway.model.catalog import Table, quote, quote_parts

FIRST_ROWS = 20
"""Rows by which a row's bytes are told."""


class GatewaySamples:
    """Asks a PySpark session. Its calls block, and belong into a thread."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def read(self, table: Table, rows: int, max_bytes: int) -> Any:
        """Return the first rows of a table as a `pyarrow.Table`; None where it is refused.

        Raises BackendUnavailable when the gateway does not answer any more.
        """
        name = table.name
        full_name = quote_parts(name.parts)
        shown = ", ".join(quote(column.name) for column in table.columns)
        first = self._arrow(f"SELECT {shown} FROM {full_name} LIMIT {min(FIRST_ROWS, rows)}")
        if first is None or first.num_rows < FIRST_ROWS:
            return first
        fit = max(1, min(rows, max_bytes * first.num_rows // max(1, first.nbytes)))
        found = self._arrow(f"SELECT {shown} FROM {full_name} LIMIT {fit}")
        # Rows that follow may be larger than the first ones.
        while found is not None and found.nbytes > max_bytes and found.num_rows > 1:
            found = found.slice(0, max(1, found.num_rows // 2)).combine_chunks()
        return found

    def reader(self) -> str:
        """Return as whom the tables are read. Raises BackendUnavailable."""
        found = self._arrow("SELECT current_user() AS reader")
        return "" if found is None else str(found["reader"][0].as_py())

    def _arrow(self, text: str) -> Any:
        try:
            return self._session.sql(text).toArrow()
        except spark_errors():
            self._check()
            return None

    def _check(self) -> None:
        try:
            self._session.sql("SELECT 1").collect()
        except spark_errors() as error:
            raise BackendUnavailable(f"the gateway does not answer: {condition_of(error)}") from None
