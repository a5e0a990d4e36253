"""The tables and metadata tables that a text reads, as its names resolve."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gateway.model.catalog import FEED, TableName, ViewBody
from gateway.model.files import SESSION_CATALOG
from gateway.model.reading import ExpressionNode, Reading, Relation, RelationForm, RelationRole, Span
from gateway.sql.call_texts import GuardedFunction, find_calls
from gateway.sql.change_feeds import FUNCTION, ChangeFeed, is_changes
from gateway.sql.evaluate import ScannedRelation
from gateway.sql.names import MetadataTable, Names, TempViewName, Ungovernable
from gateway.sql.required import Privilege, Required, Unsupported
from gateway.sql.scope import table_resource
from gateway.sql.versions import version_of

_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
_PARAMETERS: Final = ("table_name", "start", "end")
_CALLED: Final = GuardedFunction(
    name=TableName("system", "builtin", FUNCTION),
    view=ViewBody(
        text="",
        catalog="",
        database="",
        output=(),
        parameters=tuple([(name, "string") for name in _PARAMETERS]),
        is_table=True,
        defaults=("", "", "NULL"),
    ),
    body="",
    lends=False,
)


def scans_of(reading: Reading, names: Names, text: str) -> tuple[ScannedRelation, ...] | Unsupported:
    """Return the catalog tables that are read, and which version; temporary views of the session were judged
    when created."""
    scans: list[ScannedRelation] = []
    for relation in reading.relations:
        if relation.role is not RelationRole.SCAN:
            continue
        written = ".".join(relation.parts)
        if relation.span is None or relation.whole is None:
            return Unsupported(f"`{written}` is not a literal name in the statement")
        if relation.options:  # RULE (relation-options)
            return Unsupported(f"options on `{written}` could redirect to other data and are not supported")
        if names.metadata_table(relation.parts) is not None or names.files(relation.parts) is not None:
            continue
        if (below := names.version(relation.parts)) is not None:
            if relation.suffix is not None:  # RULE (version-of-version)
                return Unsupported(f"`{written}` names a version; it takes no other one")
            scans.append((relation, below))
            continue
        match names.table(relation.parts):
            case Ungovernable() as resolved:
                return resolved.refusal(written)
            case TempViewName():
                continue
            case TableName() as name:
                version = version_of(relation.suffix.of(text), names) if relation.suffix else ""
                scans.append((relation, replace(name, version=version)))
    return tuple(scans)


def metadata_of(reading: Reading, names: Names) -> tuple[tuple[Relation, MetadataTable], ...]:
    """Return the metadata tables that are read."""
    found = []
    for relation in reading.relations:
        meant = names.metadata_table(relation.parts) if relation.role is RelationRole.SCAN else None
        if meant is not None:
            found.append((relation, meant))
    return tuple(found)


def metadata_privileges(tables: Iterable[MetadataTable]) -> Required:
    """Return what reading metadata wants: it has values of all rows and columns in it."""
    names = tuple(dict.fromkeys(one.table for one in tables))
    return Required(
        privileges=tuple(Privilege(table_resource(name), "metadata") for name in names),
        read=names,
        past=names,
    )


def list_feeds(
    text: str, reading: Reading, names: Names
) -> tuple[tuple[ChangeFeed, TableName], ...] | Unsupported:
    """Return each call that reads a change feed, and of which table."""
    written = {(one.parts, True): _CALLED for one in reading.functions if is_changes(one)}
    if not written:
        return ()
    calls = find_calls(text, reading, written)
    if isinstance(calls, Unsupported) and calls.sqlstate:
        return calls
    asked: list[tuple[str | None, Span | None, tuple[Span, ...], str]]
    if isinstance(calls, Unsupported):
        # Where nothing is written for a call it passes, or is refused, as it is.
        asked = [
            (one.arguments[0].literal if one.arguments else None, None, (), "")
            for one in filter(is_changes, reading.functions)
        ]
    else:
        asked = [
            (
                _text_of(call.arguments[0][1]),
                call.span,
                tuple([span for _, _, span in call.arguments]),
                call.alias,
            )
            for call in calls
        ]
    found = []
    for literal, call, arguments, alias in asked:
        table = _fed_table(literal, names)
        if isinstance(table, Unsupported):
            return table
        found.append((_feed(table, call, arguments, alias), table))
    return tuple(found)


def _text_of(node: ExpressionNode) -> str | None:
    return node.value if node.node == "Literal" and node.type.lower() == "string" else None


def _fed_table(literal: str | None, names: Names) -> TableName | Unsupported:
    if literal is None or not _NAME.fullmatch(literal):
        return Unsupported(
            f"{FUNCTION} needs its table as a plain string with the database, such as 'sales.orders'"
        )
    table = names.new_table(tuple(literal.split(".")))
    if isinstance(table, Ungovernable):
        return table.refusal(literal)
    if table.catalog.lower() != SESSION_CATALOG:
        return Unsupported(f"{FUNCTION} supports tables of the catalog {SESSION_CATALOG} only")
    return TableName(table.catalog, table.database, table.table, FEED)


def _feed(name: TableName, call: Span | None, arguments: tuple[Span, ...], called: str) -> ChangeFeed:
    return ChangeFeed(
        parts=(name.database, name.table),
        role=RelationRole.SCAN,
        node="UnresolvedTableValuedFunction",
        holder="",
        span=None if call is None else Span(call.start, call.start + len(FUNCTION)),
        form=RelationForm.ALIASED,
        whole=call,
        arguments=arguments,
        called=called,
    )
