"""Column analysis: which columns of which table a statement uses.

It is found out from Spark's own tree, by the domain of `gateway.algebra.usage`. sqlglot reads the statement
too and has to agree (`gateway.sql.second_opinion`). What is not sure is answered by silence: then every
column counts as used, for `predicate: deny`, for what may not be read together, and for required columns.
Column analysis also explains refusals and names columns for the audit record. It never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.algebra.findings import ColumnFindings
from gateway.algebra.nodes import Expression, NamedCall, OneRow, Projection, RelationNode
from gateway.algebra.resolve import TooMuch
from gateway.algebra.spark import lower_expression, relation_of
from gateway.algebra.usage import (
    LITERAL_FUNCTIONS,
    StoredTable,
    Unclear,
    Unfound,
    UsageDomain,
)
from gateway.model.catalog import Column, TableName
from gateway.model.reading import Reading, RelationRole, Span, read_tree
from gateway.policy.column_types import has_no_fields
from gateway.sql.functions import ALLOWED_FUNCTIONS, GENERATORS, builtin_name
from gateway.sql.second_opinion import NamesRead, names_in_text, names_in_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedTable:
    """A relation that Spark's reading scans; `name` is None for a temporary view of unknown columns."""

    parts: tuple[str, ...]
    name: TableName | None
    columns: tuple[Column, ...] = ()
    guessed: frozenset[str] = frozenset()
    """Names, lower case, of columns that it may have besides."""
    span: Span | None = None
    """Where its name stands."""

    def build_stored_table(self, name: TableName | None) -> StoredTable:
        """Return it as the algebra has it, by a name."""
        return StoredTable(
            name,
            tuple([column.name for column in self.columns]),
            self.guessed,
            frozenset([column.name.lower() for column in self.columns if has_no_fields(column.type)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a statement uses. Column names are lower case; a table that is scanned has a key everywhere."""

    columns: Mapping[TableName, frozenset[str]]
    """Every column that is read, named or shown by a star. `count(*)` reads none."""
    named: Mapping[TableName, frozenset[str]]
    """Those that the statement names; the others are there because of a star alone."""
    computed: Mapping[TableName, frozenset[str]]
    """Those used anywhere but as a plain output column: in a predicate, a join, a sort, a function."""
    conditions: Mapping[TableName, frozenset[str]]
    """Those that conditions of WHERE and ON compare."""
    stars: frozenset[TableName]
    """Tables whose every column a star, a pivot or the like shows."""
    words: frozenset[str] = frozenset()
    """Names that columns were looked for by without saying of which relation, in lambda functions as well."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Column analysis does not know, and says why; the audit event keeps it."""

    reason: str
    unfound: bool = False
    """Whether the reason is a name that no column has, so that Spark refuses the statement."""
    stars: bool = False
    """Whether a star, or a pattern of columns, is written: hidden columns could be meant."""

    @property
    def disagrees(self) -> bool:
        """Whether it is silent because the two readers saw different relations or columns."""
        return self.reason.startswith("readers disagree")


def has_stars(*readings: Reading) -> bool:
    """Whether a star is in one of the texts."""
    return any(column.star for reading in readings for column in reading.columns)


def analyse(text: str, reading: Reading, scans: Sequence[ScannedTable]) -> Usage | Silent:
    """Say which columns of `scans` a statement uses; they are all the relations that its reading scans."""
    try:
        tree = read_agreed(text, reading)
        domain = UsageDomain(map_stored_tables(scans), cte_places(reading), many=may_be_many)
        domain.statement(tree)
    except Unclear as unclear:
        # Where nothing has a name, Spark refuses the statement, whatever a star means in it: one answer for
        # names of hidden columns and for those that nobody has.
        stars = has_stars(reading) and not unclear.sought
        return Silent(unclear.why, unfound=isinstance(unclear, Unfound), stars=stars)
    except TooMuch:
        return Silent("the statement has too many columns for column analysis", stars=has_stars(reading))
    except RecursionError:
        return Silent("the statement is nested too deep for column analysis", stars=has_stars(reading))
    return usage_of_findings(domain.found, {scan.name for scan in scans if scan.name is not None})


def read_agreed(text: str, reading: Reading, base: int = 0) -> RelationNode:
    """Return a statement's relation; raise Unclear where it has none, or where something else that is read
    in its text is not in it. Places in it are counted from `base`."""
    tree = relation_of(reading, base)
    if tree is None:
        raise Unclear("the statement is too large for column analysis")
    _agree(tree, reading, lambda bare: names_in_text(text, bare))
    return tree


def read_agreed_expression(text: str, reading: Reading, base: int = 0) -> Expression:
    """Return the same of an expression that stands by itself."""
    if reading.tree_json is None:
        raise Unclear("an expression is too large for column analysis")
    expression = lower_expression(read_tree(reading.tree_json, base))
    whole = Projection(OneRow(), (expression,))
    _agree(whole, reading, lambda bare: names_in_text(f"SELECT {text}", bare))
    return expression


def _agree(tree: RelationNode, reading: Reading, of_text: Callable[[frozenset[str]], NamesRead]) -> None:
    """Raise Unclear where the reading, or sqlglot, has names that the tree has not."""
    scans = [one for one in reading.relations if one.role is RelationRole.SCAN]
    seen = names_in_tree(tree, [tuple(part.lower() for part in one.parts) for one in scans])
    named = {tuple(part.lower() for part in one.parts) for one in reading.columns if not one.star}
    unseen = named - seen.columns
    if unseen:  # RULE (usage-sees-columns)
        words = ", ".join(f"`{'.'.join(parts)}`" for parts in sorted(unseen))
        raise Unclear(f"readers disagree: only Spark's reading has {words}, and its tree has not")
    bare = LITERAL_FUNCTIONS.intersection(parts[0] for parts in named if len(parts) == 1)
    missing = of_text(bare).explain_missing(seen)
    if missing:  # RULE (usage-second-opinion)
        raise Unclear(f"readers disagree: only sqlglot sees {missing}")


def map_stored_tables(scans: Iterable[ScannedTable]) -> dict[Span, StoredTable]:
    """Return what is read by where its name stands."""
    return {
        one.span: one.build_stored_table(None if one.name is None else one.name.fold())
        for one in scans
        if one.span is not None
    }


def cte_places(reading: Reading) -> frozenset[Span]:
    """Return the places that name common table expressions."""
    return frozenset(
        one.span for one in reading.relations if one.role is RelationRole.CTE and one.span is not None
    )


def may_be_many(call: NamedCall) -> bool:
    """Whether a function without an alias may make several columns, or none that is known."""
    name = builtin_name(call.parts)
    return name is None or name in GENERATORS or name not in ALLOWED_FUNCTIONS


def usage_of_findings(found: ColumnFindings, tables: set[TableName]) -> Usage:
    """Return what was found of tables, those of which nothing was found among them."""
    return Usage(
        columns=_by_table(found.used, tables),
        named=_by_table(found.named, tables),
        computed=_by_table(found.computed, tables),
        conditions=_by_table(found.conditions, tables),
        stars=frozenset(found.stars),
        words=frozenset(found.words),
    )


def _by_table(found: set[tuple[TableName, str]], tables: set[TableName]) -> dict[TableName, frozenset[str]]:
    columns: dict[TableName, set[str]] = {table: set() for table in tables}
    for table, column in found:
        columns[table].add(column)
    return {table: frozenset(names) for table, names in columns.items()}
