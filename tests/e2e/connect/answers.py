"""One answer from two doors: what PySpark collects, in the words of a client of HiveServer2."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.e2e.tpch_session import Answer

HIVE_TYPES = {
    "bigint": "BIGINT_TYPE",
    "date": "DATE_TYPE",
    "decimal": "DECIMAL_TYPE",
    "double": "DOUBLE_TYPE",
    "int": "INT_TYPE",
    "string": "STRING_TYPE",
}


def collected(frame: Any) -> Answer:
    """Return a DataFrame's answer as `Tpch.answer` gives that of a query."""
    columns = [
        (field.name, HIVE_TYPES[field.dataType.simpleString().partition("(")[0]])
        for field in frame.schema.fields
    ]
    return columns, [tuple(map(_as_hive_says, row)) for row in frame.collect()]


def _as_hive_says(value: Any) -> Any:
    """PyHive leaves dates as text."""
    return value.isoformat() if isinstance(value, dt.date) else value
