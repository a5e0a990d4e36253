"""The gateway's own statements on tables that were made of files, which Spark's parser does not know.

    ALTER TABLE name PROMOTE METADATA
    ALTER TABLE name REFRESH METADATA
    ALTER TABLE name FORGET METADATA

The whole text is one of them, or none of it is. The name is left to Spark's parser: what is judged, proved
and forwarded is a statement of Spark's on that name, which does what is left to do once the gateway has done
its part, and has no rows to answer with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.model.catalog import FileNames, TableName
from gateway.model.files import decode_table_name
from gateway.model.statement import CatalogChanged, DatasetAction, TendDataset
from gateway.sql.required import Privilege, Required, Unsupported
from gateway.sql.scope import table_resource

"""Makes a table's name of a path, or raises ValueError."""

_SPACE = r"[ \t\r\n]"
_PART = r"(?:[A-Za-z0-9_]+|`(?:[^`]|``)+`)"
_STATEMENT = re.compile(
    rf"{_SPACE}*ALTER{_SPACE}+TABLE{_SPACE}+(?P<name>{_PART}(?:{_SPACE}*\.{_SPACE}*{_PART})*)"
    rf"{_SPACE}+(?P<action>PROMOTE|REFRESH|FORGET){_SPACE}+METADATA{_SPACE}*;?{_SPACE}*",
    re.IGNORECASE | re.ASCII,
)
_SPARKS: Mapping[DatasetAction, str] = {
    "promote": "REFRESH TABLE {}",
    "refresh": "REFRESH TABLE {}",
    "forget": "UNCACHE TABLE IF EXISTS {}",
}
"""FORGET drops nothing here: whatever has the name by now is another's."""
_LONGEST = 4_096
"""Characters of such a statement."""


@dataclass(frozen=True, slots=True)
class DatasetStatement:
    """What is to be done, and Spark's own statement on the same name."""

    action: DatasetAction
    text: str


def dataset_statement(text: str) -> DatasetStatement | None:
    """Return the statement that a whole text is; None when it is one for Spark's parser."""
    found = _STATEMENT.fullmatch(text) if len(text) <= _LONGEST else None  # RULE (dataset-statement-whole)
    if found is None:
        return None
    action = next(one for one in _SPARKS if one == found["action"].lower())
    return DatasetStatement(action, _SPARKS[action].format(found["name"]))


def dataset_privileges(
    statement: DatasetStatement, required: Required, sources: Mapping[str, FileNames]
) -> Required | Unsupported:
    """Return what the statement wants, from what Spark's own on the same name would: `promote` on the table,
    which may be another one afterwards."""
    table = required.pins[0].table if len(required.pins) == 1 else None
    # RULE (dataset-statement-on-files)
    if table is None or not any(_is_of(one, table.fold()) for one in sources.values()):
        return Unsupported("PROMOTE, REFRESH and FORGET METADATA need the name of a table made of files")
    return replace(
        required,
        privileges=(Privilege(table_resource(table), "promote"),),  # RULE (dataset-promote-privilege)
        effects=(CatalogChanged((table,)), TendDataset(statement.action, table)),
    )


def _is_of(source: FileNames, table: TableName) -> bool:
    """Say whether a table has the name of a path of the source."""
    path = decode_table_name(table.table)
    try:
        return path is not None and source.table(path) == table
    except ValueError:
        return False
