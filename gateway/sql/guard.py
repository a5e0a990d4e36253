"""Relation → guarded relation, spliced into the original text at Spark's own spans.

A guarded relation is a subquery that lists the columns which the principal may see, masked ones as their
mask, over the rows that the filter leaves. Everything outside sees masked values only: predicates, joins,
grouping and ordering on a masked column cannot leak. A scan without obligations becomes its full name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.model.catalog import Table, TableKind, TableName, ViewBody, quote, quote_parts
from gateway.model.decision import ColumnMask, RowFilter
from gateway.model.definers import definer_property, is_definer_property
from gateway.model.reading import ColumnRef, Reading, Relation, RelationForm, RelationRole, Splice
from gateway.model.statement import Definition, RewrittenText
from gateway.policy.engine import TableView
from gateway.policy.masks import QUALIFIER
from gateway.sql.change_feeds import ChangeFeed, feed_source, write_feed
from gateway.sql.evaluate import list_hidden_columns, masks_of
from gateway.sql.leakproof import OuterConditions, Passed
from gateway.sql.names import MAX_LEVELS, MetadataTable, Names, TempViewName
from gateway.sql.required import Required, Unsupported
from gateway.sql.versions import is_version_by_name, suffix_of

_APPEARED = "the table did not exist when the statement was authorized; run the statement again"
_CHANGED = "the table was changed after the statement was authorized; run the statement again"
_OPTIONS = re.compile(r"\s*WITH\b", re.IGNORECASE)
"""How a suffix begins that is no time travel."""
BARRIER = "TABLESAMPLE (100 PERCENT) REPEATABLE ({period})"  # RULE (filter-first)
"""Every row, and Spark moves no condition past a sample. It counts as deterministic, as correlated subqueries
must be. (`LIMIT ALL` and `OFFSET 0` Spark leaves out.) The seed changes with the period where masks or the
filter read tables: with a plan that it has analysed Spark keeps what files these had. Conditions that may be
tried on hidden rows stand below it as well (`gateway.sql.leakproof`)."""
_STREAMBARRIER = "WHERE {builtin}spark_partition_id() >= 0"  # RULE (filter-first-streams)
"""The same for streams, which cannot be sampled: always true, and not deterministic. (`rand() >= 0` Spark
knows to be true, and leaves it out.)"""


@dataclass(frozen=True, slots=True)
class Below:
    """What of the query around a table stands with its row filter."""

    conditions: tuple[str, ...] = ()
    """Leakproof ones, below the barrier."""
    types_relied_on: tuple[tuple[str, str], ...] | None = None
    """Set where no barrier is needed, since nothing in the query can fail: the columns, and their types
    (lower case), that this rests on."""
    cast: tuple[tuple[str, str], ...] = ()
    """The same of a table beside one without a barrier: what the columns are cast to."""


NO_CONDITIONS: Final = Below()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRelation:
    """What stands in for one scan: the query without brackets and alias, or None for a plain full name."""

    relation: Relation
    table: Table
    query: str | None
    has_obligations: bool = False
    """Whether it hides or masks something; a view may also be written out for what its text asks."""
    sketched: bool = False
    """Whether neither its filter nor its masks are written: the query is explained and not run."""


def write_guarded_query(
    table: Table,
    *,
    visible: Sequence[str],
    masks: Mapping[str, ColumnMask],
    row_filter: RowFilter | None,
    source: str,
    stream: bool = False,
    period: int = 0,
    barrier: bool = False,
    below: Below = NO_CONDITIONS,
    bare: bool = False,
) -> str:
    """Write the query that shows `visible` columns in the table's order, masked, over filtered rows.

    `source` is what stands after FROM: a full name with its time-travel clause, or a guarded view body;
    `stream`: it is read as a stream; `period`: other than 0 where masks or the filter read tables;
    `barrier`: no condition from around may go below it, filter or not; `below`: what of the query around
    stands with the filter. `bare`: built-in functions are called by bare names.

    INVARIANT (types as judged): where a query has no barrier, no column beside the filtered ones is of a type
    that it was not judged by. Spark would cast hidden values to that type, to compare them; a cast to the
    type that a column has is none.
    """
    shown = {name.lower() for name in visible}
    types = dict(below.cast)
    now = {one.then: one.now for one in table.renamed}
    columns = []
    for column in table.columns:
        folded = column.name.lower()
        if folded not in shown:
            continue
        mask = masks.get(column.name)
        name = quote(column.name)
        within = quote(now.get(column.name, column.name))
        if mask is not None:
            columns.append(f"{mask.expression} AS {name}")  # RULE (mask)
        elif column.name in types:
            columns.append(f"CAST({within} AS {types[column.name]}) AS {name}")
        else:
            columns.append(name if within == name else f"{within} AS {name}")
    shown_columns = ", ".join(columns)
    alias = quote(table.name.table)
    # The source has an alias of its own: after a bare name, Spark would take `WHERE (active)` for one.
    conditions = [] if row_filter is None else [f"({row_filter.expression})"]  # RULE (row-filter)
    opened = below.types_relied_on is not None and not stream and not period
    if opened:
        conditions += _types_as_judged(below.types_relied_on or (), bare=bare)
    else:
        conditions += below.conditions
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if opened or not (row_filter is not None or barrier or (period and not stream)):
        return f"SELECT {shown_columns} FROM {source}{where}"
    # INVARIANT (filter first): Spark tries the user's conditions on rows that the filter has not dropped yet:
    # what it infers from `a = b`, what occurs twice, what is on partition columns, whatever can go below the
    # join that a subquery becomes. One that fails on a value (a division by zero) would tell of hidden rows.
    if stream:
        rows = _STREAMBARRIER.format(builtin=_qualifier(bare))
        return f"SELECT {shown_columns} FROM (SELECT * FROM {source}{where}) AS {alias} {rows}"
    rows = BARRIER.format(period=period)
    return f"SELECT {shown_columns} FROM (SELECT * FROM {source}{where}) {rows} AS {alias}"


def _types_as_judged(types: Sequence[tuple[str, str]], *, bare: bool) -> Iterator[str]:
    """Write a condition that holds while columns have their types, and fails on every row once they have not.
    Spark knows which it is before it reads anything, and leaves out one that holds."""
    tests = []
    for name, kind in types:
        found = f"{_qualifier(bare)}typeof({quote(name)})"
        tests.append(
            f"{found} IN ('string', '{kind}')" if kind.startswith("varchar") else f"{found} = '{kind}'"
        )
    if tests:  # RULE (judged-column-types)
        failing = f"{_qualifier(bare)}raise_error('{_CHANGED}') IS NULL"
        yield f"CASE WHEN {' AND '.join(tests)} THEN TRUE ELSE {failing} END"


def view_source(table: Table, view: ViewBody, body: str) -> str | Unsupported:
    """Write a view's guarded body as a source: its columns by the names that the body gives them, or by their
    places, as Spark finds them, cast and named as the view has them.

    The line break keeps a comment at the end of the body from swallowing the bracket.
    """
    found = tuple([c.name for c in table.columns]) if view.by_position else view.output
    output = [name.lower() for name in found]
    # RULE (view-columns-apart)
    if len(set(output)) != len(table.columns) or len(output) != len(table.columns):
        return Unsupported(f"the columns of the view {table.name} have ambiguous names")
    # CHAR and VARCHAR are strings outside of table schemas, so a cast to them would change nothing.
    columns = ", ".join(
        (
            quote(name)
            if c.type.lower().startswith(("char", "varchar"))
            else f"CAST({quote(name)} AS {c.type})"
        )
        + f" AS {quote(c.name)}"
        for name, c in zip(found, table.columns, strict=True)
    )
    alias = quote(table.name.table)
    places = f"({', '.join(map(quote, found))})" if view.by_position else ""
    return f"(SELECT {columns} FROM ({body}\n) AS {alias}{places}) AS {alias}"  # RULE (view-end-comment)


def above_view(table: Table, view: ViewBody, conditions: Sequence[Passed]) -> OuterConditions | None:
    """Return what is asked of a view, for its text; None where its columns are found by their places."""
    if view.by_position or len(view.output) != len(table.columns):
        return None
    columns = tuple([(c.name, within, c.type) for c, within in zip(table.columns, view.output, strict=True)])
    return OuterConditions(columns, tuple(conditions))


def guard_scan(
    text: str,
    relation: Relation,
    table: Table,
    view: TableView,
    *,
    body: str | None,
    within: bool,
    period: int = 0,
    barrier: bool = False,
    below: Below = NO_CONDITIONS,
    bare: bool = False,
) -> GuardedRelation | Unsupported:
    """Return what stands in for one scan.

    `body` is the text that a view is written out as; without one a view is a table. `within`: its sources
    carry obligations. `barrier`, `below`, `bare`: as in `write_guarded_query`.
    """
    suffix = suffix_of(text, relation, table.name)
    within = within or (bool(suffix) and not _OPTIONS.match(suffix) and _is_narrowed(view))
    query = table_query(
        table,
        view,
        source=feed_source(relation, table.name) if isinstance(relation, ChangeFeed) else "",
        suffix=suffix,
        body=body,
        period=period,
        barrier=barrier,
        below=below,
        bare=bare,
    )
    if isinstance(query, Unsupported):
        return query
    if query is None and is_version_by_name(relation, table.name):
        query = f"SELECT * FROM {write_table_name(table, suffix)}"
    return GuardedRelation(
        relation=relation, table=table, query=query, has_obligations=within or has_obligations(table, view)
    )


def define_scan(
    text: str, relation: Relation, table: Table, view: TableView, *, within: bool
) -> GuardedRelation:
    """Return what stands for one scan in the text that a persistent view keeps: what is the same for all
    who will read it, without masks and filters, which each of them gets by himself.

    INVARIANT (hidden is not there): of a table with columns that the definer may not select, the text has a
    list of the others, so that Spark does not find them when it analyses the text as it is.
    """
    suffix = suffix_of(text, relation, table.name)
    source = write_table_name(table, suffix)
    query = f"SELECT * FROM {source}" if is_version_by_name(relation, table.name) else None
    if hidden := list_hidden_columns(table, view):  # RULE (stored-text-hidden-columns)
        visible = [c.name for c in table.columns if c.name not in hidden]
        query = write_guarded_query(table, visible=visible, masks={}, row_filter=None, source=source)
    return GuardedRelation(
        relation=relation, table=table, query=query, has_obligations=within or has_obligations(table, view)
    )


def has_obligations(table: Table, view: TableView) -> bool:
    """Whether rows, columns or values of the table are not for the principal."""
    return bool(list_hidden_columns(table, view)) or bool(masks_of(view)) or view.row_filter is not None


def _is_narrowed(view: TableView) -> bool:
    """Whether a table is read by the columns that it was judged with, named one by one.

    INVARIANT (what is judged is what is read): policies say something of some columns by name, and were asked
    about those of the description. One that was renamed outside since then, or that an old version has, is
    not found under a name that nobody judged.
    """
    return not view.uniform()  # RULE (judged-columns)


def table_query(
    table: Table,
    view: TableView,
    *,
    source: str | Unsupported = "",
    suffix: str = "",
    stream: bool = False,
    body: str | None,
    period: int = 0,
    barrier: bool = False,
    below: Below = NO_CONDITIONS,
    bare: bool = False,
) -> str | Unsupported | None:
    """Return the query that stands in for a table wherever it is read; None where its full name will do.

    `source`: what is read, where that is not its name; `suffix`: a time-travel or options clause that belongs
    to the name; `stream`: it is read as a stream.
    """
    plain = not has_obligations(table, view) and not barrier
    plain = plain and not (below.cast or below.conditions or below.types_relied_on)
    if body is None and plain and not _is_narrowed(view):
        return None
    if table.unfollowed and not (plain and view.uniform()):  # RULE (unfollowed-version)
        return Unsupported(
            f"a row filter or mask of {table.name} applies to you, and for this version {table.unfollowed}"
        )
    hidden = list_hidden_columns(table, view)  # RULE (hidden-columns)
    masks = masks_of(view)
    source = source or write_table_name(table, suffix, stream=stream)
    if body is not None and table.view is not None:  # RULE (view-bodies-guarded)
        source = view_source(table, table.view, body)
    # RULE (version-names-of-now, version-conditions-above)
    elif table.renamed or (table.conditions_above and not plain):
        # Conditions from around would ask by the names of then, below what has those of now.
        source, below = _source_named_now(table, suffix), replace(below, conditions=(), types_relied_on=None)
    if isinstance(source, Unsupported):
        return source
    gone = {name.lower() for name in hidden}
    return write_guarded_query(
        table,
        visible=[c.name for c in table.columns if c.name.lower() not in gone],
        masks=masks,
        row_filter=view.row_filter,
        source=source,
        stream=stream,
        period=period,
        barrier=barrier,
        below=below,
        bare=bare,
    )


def guard_missing(text: str, relation: Relation, name: TableName, *, bare: bool = False) -> GuardedRelation:
    """Let Spark say that a table does not exist, and fail on its first row should it appear meanwhile."""
    table = Table(name=name, kind=TableKind.TABLE, columns=())
    suffix = suffix_of(text, relation, name)
    query = write_missing_query(table, suffix, bare=bare)
    return GuardedRelation(relation=relation, table=table, query=query, has_obligations=True)


def write_missing_query(table: Table, suffix: str = "", *, stream: bool = False, bare: bool = False) -> str:
    """Return the query that stands in for a table that does not exist: should it appear, not even its columns
    show."""
    source = write_table_name(table, suffix, stream=stream)
    # RULE (appearing-table)
    return f"SELECT NULL FROM {source} WHERE {_qualifier(bare)}raise_error('{_APPEARED}') IS NULL"


def _qualifier(bare: bool) -> str:
    return "" if bare else QUALIFIER


def write_table_name(table: Table, suffix: str = "", *, stream: bool = False) -> str:
    """Write what stands after FROM for a table by its full name."""
    name = f"{'STREAM ' if stream else ''}{quote_parts(list_name_parts(table))}"
    return f"{name}{f' {suffix}' if suffix else ''} AS {quote(table.name.table)}"


def _source_named_now(table: Table, suffix: str) -> str:
    """Write a version as a source whose columns have the names that they have now, which masks and filters
    speak of.

    No condition goes below it: Iceberg looks up a condition's columns by name in another schema than the
    version's, where the name may be another column's.
    """
    now = {one.then: one for one in table.renamed}
    columns: list[str] = []
    for column in table.columns:
        name, one = quote(column.name), now.get(column.name)
        if one is not None:
            columns.append(f"{name} AS {quote(one.now)}")
        if one is None or one.gone:
            columns.append(name)
    source = write_table_name(table, suffix)
    barrier = BARRIER.format(period=0)
    return f"(SELECT {', '.join(columns)} FROM {source}) {barrier} AS {quote(table.name.table)}"


def list_name_parts(table: Table) -> tuple[str, ...]:
    return table.name.parts_read


def splices(
    text: str, reading: Reading, guarded: Sequence[GuardedRelation]
) -> tuple[tuple[Splice, ...], tuple[tuple[str, str], ...]] | Unsupported:
    """Return the splices for all scans, and (what we wrote, what the user wrote) pairs for messages.

    References such as `db.t.c` lose their qualifier where the relation loses its database; where that could
    make them mean another relation, the relation takes an alias of its own instead.
    """
    hidden_names = [g for g in guarded if g.query is not None and g.relation.form is RelationForm.BARE]
    aliases: dict[int, str] = {}
    columns: dict[int, Splice] = {}
    words: list[tuple[str, str]] = []
    for guard in hidden_names:
        alias = guard.relation.parts[-1]
        # Spark knows a version that is named below its table by that name, and not by the table's.
        by_name = is_version_by_name(guard.relation, guard.table.name)
        references = [r for r in reading.columns if not by_name and _qualifies(r, guard.table) is not None]
        if references:
            if _is_shadowed(guard, guarded, reading):  # RULE (shadowed-table)
                if any(
                    r.parts[0].lower() == alias.lower() and _qualifies(r, guard.table) is None
                    for r in reading.columns
                    if len(r.parts) > (0 if r.star else 1)
                ):
                    return Unsupported(
                        f"several relations have the alias `{alias}` of "
                        f"`{'.'.join(guard.relation.parts)}`; give each of them its own alias"
                    )
                alias = f"{guard.table.name.database}.{guard.table.name.table}"
                if alias.lower() in reading.subquery_aliases:
                    return Unsupported(f"the alias `{alias}` is needed for a rewritten table; choose another")
            for reference in references:
                if reference.span is None:
                    return Unsupported(f"`{'.'.join(reference.parts)}` is not a literal name")
                parts = (alias, *reference.parts[_qualifies(reference, guard.table) or 0 :])
                columns[reference.span.start] = Splice(
                    span=reference.span,
                    text=quote_parts(parts) + (".*" if reference.star else ""),
                    kind="column",
                    parts=parts,
                )
                words.append((quote_parts(parts), reference.span.of(text)))
        aliases[id(guard)] = alias
    result = list(columns.values())
    for guard in guarded:
        if isinstance(guard.relation, ChangeFeed):
            fed = () if guard.query is None else write_feed(guard.relation, guard.query)
            if isinstance(fed, Unsupported):
                return fed
            result += fed
            continue
        splice = _splice(text, guard, aliases.get(id(guard), guard.relation.parts[-1]))
        if isinstance(splice, Unsupported):
            return splice
        if splice is not None:
            result.append(splice)
            written = guard.relation.span.of(text) if guard.relation.span else ".".join(guard.relation.parts)
            words.append((splice.text, written))
            words.append((quote_parts(list_name_parts(guard.table)), quote_parts(guard.relation.parts)))
    return tuple(sorted(result, key=lambda s: s.span.start)), tuple(words)


def _qualifies(reference: ColumnRef, table: Table) -> int | None:
    """Return how many leading parts name the table with its database, or None when they do not.

    As Spark compares them: with the end of the full name, from whichever of its parts on.
    """
    folded = tuple(part.lower() for part in reference.parts)
    name = table.name.fold().parts
    rest = 0 if reference.star else 1
    for count in range(len(name), 1, -1):  # RULE (nested-name-suffixes)
        if folded[:count] == name[-count:] and len(folded) >= count + rest:
            return count
    return None


def _is_shadowed(guard: GuardedRelation, guarded: Sequence[GuardedRelation], reading: Reading) -> bool:
    """Whether the table's last name part means something else too, anywhere in the statement."""
    alias = guard.relation.parts[-1].lower()
    if alias in reading.subquery_aliases:
        return True
    return any(
        other.table.name.fold() != guard.table.name.fold()
        and other.relation.form is RelationForm.BARE
        and other.relation.parts[-1].lower() == alias
        for other in guarded
    )


def _splice(text: str, guard: GuardedRelation, alias: str) -> Splice | Unsupported | None:
    relation = guard.relation
    if relation.span is None or relation.whole is None:
        return Unsupported(f"`{'.'.join(relation.parts)}` is not a literal name")
    if guard.query is None:
        parts = list_name_parts(guard.table)
        if parts == relation.parts:  # RULE (full-name-read)
            return None
        return Splice(span=relation.span, text=quote_parts(parts), kind="pin", parts=parts)
    query = guard.query
    match relation.form:
        case RelationForm.BARE:
            written = f"({query}) AS {quote(alias)}"
            if relation.sample is not None:
                # A sample applies to the aliased relation, as it does to a named table.
                written = f"({written})"
        case RelationForm.ALIASED:
            written = f"({query})"
            if relation.sample is not None and relation.alias is not None:
                written = f"(({query}) AS {relation.alias.of(text)}) {relation.sample.of(text)}"
        case _:
            # Without brackets: `IN (TABLE t)` must not become a list with one scalar subquery.
            query = f"SELECT * FROM ({query}) AS {quote(alias)}"
            written = query
    return Splice(
        span=relation.whole,
        text=written,
        kind="guard",
        query=query,
        alias=alias if relation.form is RelationForm.BARE else "",
    )


def pin_metadata(read: Sequence[tuple[Relation, MetadataTable]]) -> tuple[Splice, ...]:
    """Write full names over the names of metadata tables."""
    return tuple(
        Splice(span=relation.span, text=quote_parts(one.parts), kind="pin", parts=one.parts)
        for relation, one in read
        if relation.span is not None and one.parts != relation.parts
    )


_SPLIT_NAMES: Mapping[str, int] = {"ShowColumns": 2, "ShowTablePartition": 1}
"""Commands that write a name beside its database, or as a pattern in that: from how many parts on they say
what it means."""
_NEW_OF_SESSION = frozenset({"CreateTempViewUsing", "CreateVariable", "CreateViewCommand", "DropVariable"})
"""Commands whose target is a name of the session's, and nothing of a catalog."""


def _write_target(name: TableName) -> tuple[str, ...]:
    """Return the name of a target as Spark finds it: that of a global temporary view has no catalog."""
    return (name.database, name.table) if name.is_global_view else name.parts


def pin_targets(
    reading: Reading, required: Required, names: Names
) -> tuple[tuple[Splice, ...], frozenset[tuple[str, ...]]] | Unsupported:
    """Write full names over the names of targets; return the splices and every name that may stay.

    A target that no command's row has pinned must be a temporary view: a new one, or one of this session.
    """
    allowed: set[tuple[str, ...]] = set()
    result: dict[int, Splice] = {}
    targets = [relation for relation in reading.relations if relation.role is RelationRole.TARGET]
    judged: set[int] = set()
    # One command may name its target twice, as two INSERTs into one table do.
    mentions = [
        (pin, relation)
        for pin in required.pins
        for relation in targets
        if (relation.parts, relation.holder) == (pin.relation.parts, pin.relation.holder)
    ]
    for pin, relation in mentions:
        judged.add(id(relation))
        parts = (*_write_target(pin.table), *filter(None, (pin.below,)))
        if relation.span is None:
            if relation.parts != parts:
                return Unsupported(
                    f"`{'.'.join(relation.parts)}` is not contiguous in the statement; write "
                    "catalog.database.table"
                )
            allowed.add(relation.parts)
            continue
        allowed.add(parts)
        if parts != relation.parts:  # RULE (full-name-target)
            result[relation.span.start] = Splice(
                span=relation.span, text=quote_parts(parts), kind="pin", parts=parts
            )
    for relation in targets:
        if id(relation) not in judged:
            temporary = isinstance(names.table(relation.parts), TempViewName)
            # SHOW COLUMNS IN t IN db writes its name in two places and says what it means in full.
            split_name = len(relation.parts) >= _SPLIT_NAMES.get(relation.holder, MAX_LEVELS)
            new = relation.holder in _NEW_OF_SESSION
            # RULE (unjudged-target)
            if not (temporary or split_name or new):
                return Unsupported(f"`{'.'.join(relation.parts)}` was not authorized with the statement")
            allowed.add(relation.parts)
    for namespace in required.namespaces:  # RULE (full-name-database)
        result[namespace.span.start] = Splice(
            span=namespace.span, text=quote_parts(namespace.parts), kind="pin", parts=namespace.parts
        )
    return tuple(result.values()), frozenset(allowed)


def define_view(
    text: str, reading: Reading, view: TableName, splices: Sequence[Splice], identity: str, stored: str = ""
) -> Splice | Definition | Unsupported:
    """Say how it is recorded that who has the identity defines the view with the text that is stored once
    `splices` are written in: with the statement that makes it, or by one before a view's text changes.

    `stored`: what is stored, where that is not a part of the statement as it stands there.
    """
    found = reading.view_text
    if found is None:
        return Unsupported("the definition of the view was not found in the statement")
    start, end = found.query.start, found.query.end
    within = [
        replace(splice, span=splice.span.move(-start))
        for splice in splices
        if start <= splice.span.start and splice.span.end <= end
    ]
    # RULE (definer-of-stored-text)
    key, value = definer_property(stored or apply(found.query.of(text), within), identity)
    if found.place is None:
        return Definition(view=view, key=key, value=value)
    others = [one.of(text) for one in found.properties]
    kept = [one for one in others if not is_definer_property(one.lstrip("'\""))]  # RULE (given-definer)
    listed = ", ".join((f"'{key}' = '{value}'", *kept))
    written = f"({listed})" if others else f"TBLPROPERTIES ({listed}) {found.place.of(text)}"
    return Splice(span=found.place, text=written, kind="property", parts=(key, value))


def apply(text: str, all_splices: Sequence[Splice]) -> str:
    """Return the text with the splices written in, the last first; spans must not overlap."""
    pieces: list[str] = []
    until = len(text)
    for splice in sorted(all_splices, key=lambda s: (s.span.start, s.span.end), reverse=True):
        pieces += text[splice.span.end : until], splice.text
        until = splice.span.start
    return "".join((text[:until], *reversed(pieces)))


def locate_rewritten_texts(
    text: str, forwarded: str, all_splices: Sequence[Splice]
) -> tuple[RewrittenText, ...]:
    """Return where the text stands in the forwarded one; nothing when they are the same."""
    if not all_splices:
        return ()
    ordered = sorted(all_splices, key=lambda s: s.span.start)
    changes = tuple((s.span.start, s.span.end, len(s.text)) for s in ordered)
    return (RewrittenText(original=text, forwarded=forwarded, changes=changes),)
