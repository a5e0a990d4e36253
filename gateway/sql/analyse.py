"""Column analysis: which columns of which table a statement uses, as sqlglot reads it.

An advisor, not a guard. It explains refusals and names columns for the audit record; enforcement rests on
the guarded relation. It answers only what it is sure of and keeps silent about the rest: when sqlglot cannot
parse the text, when it sees other relations or column references than Spark's parser, or when a name could
mean two things. It never raises.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.parser import logger as sqlglot_logger

from gateway.model.catalog import Column, TableName
from gateway.model.reading import ColumnRef
from gateway.sql.analyse_pipes import PipedColumnWalk
from gateway.sql.analyse_scope import (
    GUESSED,
    LITERAL_FUNCTIONS,
    Output,
    OutputColumn,
    Parts,
    ScopeSource,
    Unclear,
    Unfound,
    is_literal,
)
from gateway.sql.analyse_tree import bare_in, parse_statement, query_of
from gateway.sql.analyse_walk import CteOutputs, PipedQueries, SqlColumnWalk
from gateway.sql.pipes import PIPE, Pipes, find_unused_prefix, with_tables_selected
from gateway.sql.tokens import tokens_of

MAX_LENGTH = 65_536
"""Characters; above this column analysis keeps silent. A generated TPC-DS query has at most 10,000."""

# What it says ("contains unsupported syntax") is answered by silence; the log is not for statement text.
sqlglot_logger.disabled = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedTable:
    """A relation that Spark's reading scans; `name` is None for a temporary view of unknown columns."""

    parts: tuple[str, ...]
    name: TableName | None
    columns: tuple[Column, ...] = ()
    guessed: frozenset[str] = frozenset()
    """Names, lower case, of columns that it may have besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a statement uses. Column names are lower case; a table that is scanned has a key everywhere."""

    columns: Mapping[TableName, frozenset[str]]
    """Every column that is read, named or shown by a star. `count(*)` reads none."""
    named: Mapping[TableName, frozenset[str]]
    """Those that the statement names; the others are there because of a star alone."""
    computed: Mapping[TableName, frozenset[str]]
    """Those used anywhere but as a plain output column: in a predicate, a join, a sort, a function."""
    stars: frozenset[TableName]
    """Tables whose every column a star, a pivot or the like shows."""
    outputs: tuple[OutputColumn, ...]
    """The statement's result columns with the base columns that each passes on unchanged."""
    words: frozenset[str] = frozenset()
    """Names that columns were looked for by without saying of which relation, in lambda functions as well."""
    complete: bool = True
    """Whether `outputs` has every column at its position; what is missing comes from no base column."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Column analysis does not know, and says why; the audit event keeps it."""

    reason: str
    unfound: bool = False
    """Whether the reason is a name that no column has, so that Spark refuses the statement."""
    stars: bool = False
    """Whether a star, or what means columns by place or pattern, is written: hidden ones could be meant."""

    @property
    def disagrees(self) -> bool:
        """Whether it is silent because the two readers saw different relations or columns."""
        return self.reason.startswith("readers disagree")


def has_stars(references: Iterable[ColumnRef] | None) -> bool:
    """Whether a star is among the references."""
    return any(reference.star for reference in references or ())


def analyse(
    text: str,
    scans: Sequence[ScannedTable],
    references: Collection[ColumnRef] | None = None,
    *,
    limit: int = MAX_LENGTH,
) -> Usage | Silent:
    """Say which columns of `scans` the statement uses.

    `references` are the column references of Spark's reading. One that sqlglot does not see silences
    column analysis; without them it cannot notice that sqlglot took a column for a keyword.
    """
    try:
        root, pipes = read(text, limit)
        walk = PipedColumnWalk(sources(scans), pipes=pipes, bare=bare_names(references))
        output = statement(walk, root, {})
        agree(walk, scans, references, text)
    except Unclear as unclear:
        return Silent(unclear.why, unfound=isinstance(unclear, Unfound), stars=has_stars(references))
    except RecursionError:
        return Silent("the statement is nested too deeply for column analysis", stars=has_stars(references))
    tables = {scan.name for scan in scans if scan.name is not None}
    return Usage(
        columns=_by_table(walk.found.used, tables),
        named=_by_table(walk.found.named, tables),
        computed=_by_table(walk.found.computed, tables),
        stars=frozenset(walk.found.stars),
        outputs=tuple(output.columns),
        words=frozenset(walk.found.words),
        complete=output.complete,
    )


def read(text: str, limit: int = MAX_LENGTH) -> tuple[exp.Expr, PipedQueries]:
    """Return the tree of one statement and the piped queries that names in it stand for.

    Raises Unclear when sqlglot has no tree or the text goes too deep.
    """
    if len(text) > limit:
        raise Unclear(f"the statement has more than {limit} characters")
    tokens = tokens_of(text)
    written = with_tables_selected(text, tokens)  # RULE (table-statement-all-columns)
    if PIPE not in text:
        return parse_statement(written, tokens if written is text else tokens_of(written)), {}
    pipes = Pipes(find_unused_prefix(text))
    cut = pipes.cut(written)
    return parse_statement(cut, tokens_of(cut)), pipes.operators


def sources(scans: Sequence[ScannedTable]) -> dict[Parts, ScopeSource]:
    """Return the relations by the name that is written, lower case."""
    found: dict[Parts, ScopeSource] = {}
    for scan in scans:
        written = tuple(part.lower() for part in scan.parts)
        if scan.name is None:
            found[written] = ScopeSource(written, [], None, complete=False)
            continue
        folded = scan.name.fold()
        names = [(column.name.lower(),) * 2 for column in scan.columns]
        names += [(name, GUESSED + name) for name in sorted(scan.guessed - LITERAL_FUNCTIONS)]
        columns = [OutputColumn(name, frozenset({(scan.name, column)})) for name, column in names]
        found[written] = ScopeSource(folded.parts, columns, scan.name)
    return found


def statement(walk: SqlColumnWalk, root: exp.Expr, ctes: CteOutputs) -> Output:
    """Walk a query, or the query of an INSERT, CREATE … AS or CACHE … AS; their targets are not scans."""
    return walk.query(query_of(root), None, ctes)


def bare_names(references: Collection[ColumnRef] | None) -> frozenset[str]:
    """Return the functions that a text may name without brackets: any, where its references are not known."""
    if references is None:
        return LITERAL_FUNCTIONS
    return bare_in(tuple(part.lower() for part in one.parts) for one in references if not one.star)


def agree(
    walk: SqlColumnWalk, scans: Sequence[ScannedTable], references: Collection[ColumnRef] | None, text: str
) -> None:
    """Raise Unclear when Spark's parser saw a relation or a column reference that sqlglot did not see."""
    missing = {tuple(part.lower() for part in scan.parts) for scan in scans} - walk.relations
    if missing:  # RULE (usage-sees-relations)
        raise Unclear(f"readers disagree: only Spark sees {_join_names(missing)}")
    if references is None:
        return
    seen = walk.references
    unseen = {
        parts
        for reference in references
        if not reference.star
        and (parts := tuple(part.lower() for part in reference.parts)) not in seen
        and not (is_literal(parts) and _only_function(parts[0], scans, text))
    }
    if unseen:  # RULE (usage-sees-columns)
        raise Unclear(f"readers disagree: only Spark sees the columns {_join_names(unseen)}")
    stars = {tuple(p.lower() for p in r.parts) for r in references if r.star} - walk.star_references
    if stars:
        raise Unclear(
            f"readers disagree: only Spark sees the stars {_join_names({(*s, '*') for s in stars})}"
        )


def _only_function(name: str, scans: Sequence[ScannedTable], text: str) -> bool:
    """Whether no column has the name of a function: no table has it, and nothing in the text gives it."""
    columns = (column.name.lower() for scan in scans for column in scan.columns)
    return name not in columns and text.lower().count(name) == 1


def _join_names(names: Collection[Parts]) -> str:
    return ", ".join(f"`{'.'.join(name)}`" for name in sorted(names))


def _by_table(found: set[tuple[TableName, str]], tables: set[TableName]) -> dict[TableName, frozenset[str]]:
    columns: dict[TableName, set[str]] = {table: set() for table in tables}
    for table, column in found:
        columns[table].add(column)
    return {table: frozenset(names) for table, names in columns.items()}
