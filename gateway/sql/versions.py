"""Which version of a table a statement reads, as a clause that the gateway writes itself."""

from __future__ import annotations

import re

from gateway.model.catalog import SOME_VERSION, Column, Renamed, Table
from gateway.model.meaning_settings import TIME_ZONE
from gateway.policy.engine import TableView
from gateway.sql.names import Names

_AS_OF = re.compile(
    r"\s*(?:FOR\s+)?(?:SYSTEM_)?(VERSION|TIME|TIMESTAMP)\s+AS\s+OF\s+(.*?)\s*", re.IGNORECASE | re.DOTALL
)
_OPTIONS = re.compile(r"\s*WITH\b", re.IGNORECASE)
"""How a suffix begins that chooses no version."""
_NUMBER = re.compile(r"[0-9]{1,19}")
_TEXT = re.compile(r"'([\w.: +/-]{1,256})'", re.ASCII)
_MILLIS = re.compile(r"timestamp_millis\((-?[0-9]{1,19})\)", re.IGNORECASE)
_ZONED = re.compile(r".*[0-9](?:Z|[+-][0-9]{1,2}(?::?[0-9]{2})?)", re.ASCII)


def version_of(suffix: str, names: Names) -> str:
    """Return the clause for the version that a relation's suffix chooses, written anew: only numbers and
    plain literals are in it, so that it means the same in a session of the gateway's own. Any other is
    SOME_VERSION, read by the columns that its table has now; empty for a suffix that chooses none.
    """
    if _OPTIONS.match(suffix):
        return ""
    found = _AS_OF.fullmatch(suffix)
    if found is None:
        return SOME_VERSION
    kind, value = found[1].upper(), found[2]
    text = _TEXT.fullmatch(value)
    if kind == "VERSION":
        return f"VERSION AS OF {value}" if text or _NUMBER.fullmatch(value) else SOME_VERSION
    if millis := _MILLIS.fullmatch(value):
        return f"TIMESTAMP AS OF timestamp_millis({millis[1]})"
    if text is None or (TIME_ZONE in names.context.settings and not _ZONED.fullmatch(text[1])):
        return SOME_VERSION
    return f"TIMESTAMP AS OF {value}"


def renamed_columns(table: Table) -> list[tuple[Column, Renamed]]:
    """Return the columns of a version that have another name now, or none, each with what became of it."""
    now = {one.then: one for one in table.renamed}
    return [(column, now[column.name]) for column in table.columns if column.name in now]


def of_version(table: Table, then: TableView, now: TableView) -> TableView:
    """Return what may be seen of a version whose columns have other names now: `then` is what policies say of
    the names that it has, `now` of those that these columns have now.

    INVARIANT (a column is itself in every version): what holds for a column under its present name holds
    under its name of then. What policies say of a name that no column has any more holds as well.
    """
    allowed, masks, hidden = dict(then.allowed), dict(then.masks), set(then.hidden)
    for column, one in renamed_columns(table):
        name = column.name
        if one.gone and name in then.hidden:
            continue
        mask = masks.get(name) if one.gone else None
        masks.pop(name, None)
        allowed[name] = now.allowed[one.now]
        mask = now.masks.get(one.now, mask)
        if mask is not None:
            masks[name] = mask
        hidden.discard(name)
        if one.now in now.hidden:
            hidden.add(name)
    return TableView(
        allowed=allowed,
        masks=masks,
        row_filter=then.row_filter,
        hidden=frozenset(hidden),
        facets=then.facets | now.facets,
        uniform=lambda: then.uniform() and now.uniform(),
    )
