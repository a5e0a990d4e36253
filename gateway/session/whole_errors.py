"""Errors of statements in which nothing is guarded: Spark's own, whole, as if the user's text were Spark's.

What the gateway writes into such a text is full names for names; into that of a view, who defines it; and for
a table that is not there a guard, which keeps rows from showing should it appear. All are undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gateway.model.catalog import quote_parts, split_name
from gateway.model.definers import PREFIX
from gateway.model.statement import Cleared, RewrittenText
from gateway.session.error_places import in_users_text
from gateway.session.failures import StatementFailed
from gateway.session.ports import BackendError
from gateway.session.redact import UNKNOWN

_Parts = tuple[str, ...]
_Pair = tuple[_Parts, _Parts]
Missing = Sequence[_Pair]
"""(parts of the full name, parts as they were written) of tables that are not there."""

NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
"""The one error that Spark gives of a table that is not there, and one that tells names as they are written.
With any other one, a table that was missing has appeared, and nobody has judged what its columns are."""

_HIVE = "org.apache.hive.service.cli.HiveSQLException: "
_RUNNING = "\n\tat org.apache.spark.sql.hive.thriftserver.HiveThriftServerErrors$.runningQueryError("
_FRAME = "\n\tat "
_NOT_FOUND = re.compile(
    rf"(?:{re.escape(_HIVE)})?Error running query: \[{NOT_FOUND}\] org\.apache\.spark\.sql\."
    r"(?:AnalysisException|catalyst\.ExtendedAnalysisException): "
)
_APPEARED = "the table did not exist when the statement was authorized"
"""Of the guard over a table that is not there (`sql/guard.py`)."""
_GUARD = re.compile(
    r"^(?P<at>[ :|+-]*)(?P<over>'SubqueryAlias (?P<outer>[^\n]*)\n[ :|+-]*)?'Project \[[^\n]*\]\n"
    rf"[ :|+-]*'Filter [^\n]*{_APPEARED}[^\n]*\n[ :|+-]*'SubqueryAlias (?P<alias>[^\n]*)\n[ :|+-]*"
    r"(?='UnresolvedRelation \[(?P<relation>[^\]\n]*)\])",
    re.MULTILINE,
)
_PLAN = re.compile(r";\n(?='?[A-Z])")
_ALIAS = re.compile(
    r"^(?P<at>[ :|+-]*)'SubqueryAlias (?P<alias>[^\n]*)\n[ :|]*\+- "
    r"(?='UnresolvedRelation \[(?P<relation>[^\]\n]*)\])",
    re.MULTILINE,
)
_PLACE = re.compile(r"; line 1 pos \d{1,9}(?=;\n)")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^\s.`()]+)")
_NAMES = re.compile(r"`|Unresolved|CacheTable|CreateView")
"""What stands before every name that is put back."""
_RELATION = re.compile(r"((?:Unresolved\w{1,64}|CacheTable) \[)([^\]\n]{1,1024})\]")
_VIEW = re.compile(r"^[ :|+-]*'?CreateView[^\n]*", re.MULTILINE)
_DEFINER = re.compile(rf"{re.escape(PREFIX)}[0-9a-f]+=[0-9a-f]*(?:, )?")


def may_show_whole(message: str, cleared: Cleared) -> bool:
    """Whether a message of Thrift Server may be told whole, of a statement in which nothing is guarded."""
    return not cleared.missing or _NOT_FOUND.match(message) is not None


def whole_failure(fault: BackendError, cleared: Cleared, statement_id: str) -> StatementFailed:
    """Return an error of Thrift Server as it would be of the text that the user wrote."""
    named = _NOT_FOUND.match(fault.message) is not None
    text = as_written(fault.message, cleared.rewritten, cleared.missing, named=named)
    return StatementFailed(
        _without_stack(text),
        fault.sqlstate or "",
        fault.error_code,
        statement_id,
        trace=text if text.startswith(_HIVE) else "",
        details=tuple(
            as_written(line, cleared.rewritten, cleared.missing, named=named) for line in fault.details
        ),
    )


def as_written(message: str, texts: Sequence[RewrittenText], missing: Missing, *, named: bool = False) -> str:
    """Return a whole message with places and names as the user wrote them.

    `named`: it tells names as they are written; others tell full names, whatever is written.
    """
    message = in_users_text(message, texts)
    if missing:
        message = _without_aliases(_without_guards(message, missing), missing)
    if not _NAMES.search(message):
        return message
    pairs = dict.fromkeys((*_pins(texts), *missing))
    if named:
        for full, written in pairs:
            message = message.replace(quote_parts(full), quote_parts(written))
    message = _in_plan(message, pairs)
    return _VIEW.sub(lambda line: _view(line[0], pairs), message) if texts else message


def _without_stack(message: str) -> str:
    """Return what the exception itself says, of a text with its stack and causes."""
    if not message.startswith(_HIVE):
        return message
    message = message.removeprefix(_HIVE)
    frames = _RUNNING if _RUNNING in message else _FRAME
    return message.split(frames, 1)[0]


def _without_guards(message: str, missing: Missing) -> str:
    """Take the guards over missing tables out of a plan; a plan in which one stays is not told.

    INVARIANT (no values under obligations): in a plan, a table that has appeared stands under its guard.
    """
    aliases = {", ".join(full): full[-1] for full, _ in missing}
    message = _GUARD.sub(lambda found: _without_guard(found, aliases), message)
    if _APPEARED not in message:
        return message
    text = _PLAN.split(message, maxsplit=1)[0]
    return UNKNOWN if _APPEARED in text else text


def _without_aliases(message: str, missing: Missing) -> str:
    """Take out what a read in a DataFrame's plan was written as: its alias, and the place in its text."""
    ours = {(".".join(full), ", ".join(full)) for full, _ in missing}
    found_any = False

    def undone(found: re.Match[str]) -> str:
        nonlocal found_any
        if (found["alias"], found["relation"]) not in ours:
            return found[0]
        found_any = True
        return found["at"]

    message = _ALIAS.sub(undone, message)
    return _PLACE.sub("", message, count=1) if found_any else message


def _without_guard(found: re.Match[str], aliases: Mapping[str, str]) -> str:
    if aliases.get(found["relation"]) != found["alias"]:
        return found[0]
    if found["outer"] is None or found["outer"] == found["alias"]:
        return found["at"]
    return found["at"] + found["over"]


def _pins(texts: Sequence[RewrittenText]) -> Iterator[tuple[_Parts, _Parts]]:
    """Yield (what the gateway wrote, what the user wrote) of the names that were written out in full."""
    for text in texts:
        moved = 0
        for start, end, length in text.changes:
            ours = split_name(text.forwarded[start + moved : start + moved + length], _NAME)
            theirs = split_name(text.original[start:end], _NAME)
            moved += length - (end - start)
            if ours and theirs:
                yield ours, theirs


def _in_plan(message: str, pairs: Iterable[_Pair]) -> str:
    written: dict[str, str] = {}
    for full, theirs in pairs:
        written.setdefault(", ".join(full), ", ".join(theirs))
    return _RELATION.sub(lambda found: f"{found[1]}{written.get(found[2], found[2])}]", message)


def _view(line: str, pairs: Iterable[_Pair]) -> str:
    """Return a line of a plan about a new view with its text as it was written, and without its definer."""
    line = _DEFINER.sub("", line).replace("[], ", "")
    for full, written in pairs:
        line = line.replace(f"FROM {quote_parts(full)}", f"FROM {'.'.join(written)}")
    return line
