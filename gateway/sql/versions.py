"""Which version of a table a statement reads, as a clause that the gateway writes itself."""

from __future__ import annotations

import re

from gateway.model.catalog import FEED, MOVING, SOME_VERSION, Column, Renamed, Table, TableName
from gateway.model.meaning_settings import ANSI_MODE, TIME_ZONE
from gateway.model.reading import Relation
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
_MAX_EXPRESSION = 512
"""Characters."""
_TOKEN = re.compile(r"\s*('[\w.: +/-]{0,256}'|[0-9]{1,19}|[a-z_]+|::|[()+,-])", re.ASCII | re.IGNORECASE)
_CONSTANT = frozenset(
    "timestamp timestamp_ltz date cast as string interval to_timestamp to_date timestamp_seconds "
    "timestamp_millis timestamp_micros make_date make_timestamp date_add date_sub add_months date_trunc "
    "trunc year years month months week weeks day days hour hours minute minutes second seconds".split()
)
"""Words of an expression that reads nothing, and that Spark folds to the same time everywhere."""
_ZONED = re.compile(r".*[0-9](?:Z|[+-][0-9]{1,2}(?::?[0-9]{2})?)", re.ASCII)


def version_of(suffix: str, names: Names) -> str:
    """Return the clause for the version that a relation's suffix chooses, written anew: only numbers, plain
    literals and times that Spark computes of them are in it, so that it means the same in a session of the
    gateway's own. Any other is SOME_VERSION, read by the columns that its table has now; empty for a suffix
    that chooses none.
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
    if TIME_ZONE in names.context.settings and (text is None or not _ZONED.fullmatch(text[1])):
        return SOME_VERSION
    if text is None and ANSI_MODE in names.context.settings:
        return SOME_VERSION
    computed = value if text is not None else _write_computed_time(value)
    return f"TIMESTAMP AS OF {computed}" if computed else SOME_VERSION


def is_version_by_name(relation: Relation, name: TableName) -> bool:
    """Whether a version is named below its table, `t.branch_b`, and not by a clause."""
    return bool(name.version) and name.version != FEED and relation.suffix is None


def suffix_of(text: str, relation: Relation, name: TableName) -> str:
    """Return the clause behind the name of what is read."""
    if is_version_by_name(relation, name):
        return name.clause
    return relation.suffix.of(text) if relation.suffix else ""


def _write_computed_time(value: str) -> str:
    """Return a time that Spark computes of literals, or of the present one, written anew; empty for what may
    be anything else."""
    if len(value) > _MAX_EXPRESSION:
        return ""
    found: list[str] = []
    at = 0
    while at < len(value):
        token = _TOKEN.match(value, at)
        if token is None:
            return ""
        word = token[1]
        if word[0].isalpha() and word.lower() not in _CONSTANT | MOVING:  # RULE (time-travel-words)
            return ""
        found.append(word if word[0] == "'" else word.lower())
        at = token.end()
    # Blanks between them: two signs together would begin a comment.
    return " ".join(found)


def list_renamed_columns(table: Table) -> list[tuple[Column, Renamed]]:
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
    for column, one in list_renamed_columns(table):
        name = column.name
        if one.gone and name in then.hidden:
            continue
        mask = masks.get(name) if one.gone else None
        masks.pop(name, None)
        allowed[name] = now.allowed[one.now]
        mask = now.masks.get(one.now, mask)  # RULE (version-mask-of-now)
        if mask is not None:
            masks[name] = mask
        hidden.discard(name)
        if one.now in now.hidden:  # RULE (version-hidden-of-now)
            hidden.add(name)
    return TableView(
        allowed=allowed,
        masks=masks,
        row_filter=then.row_filter,
        hidden=frozenset(hidden),
        context_dependencies=then.context_dependencies | now.context_dependencies,
        uniform=lambda: then.uniform() and now.uniform(),
    )
