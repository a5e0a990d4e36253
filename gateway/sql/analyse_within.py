"""Column analysis of SQL text within something else: an expression, a query over given relations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

from sqlglot import exp

from gateway.model.reading import ColumnRef
from gateway.sql.analyse import ScannedTable, agree, bare_names, read, sources, statement
from gateway.sql.analyse_pipes import PipedColumnWalk
from gateway.sql.analyse_scope import ColumnEnvironment, ColumnFindings, Output, Unclear
from gateway.sql.analyse_walk import CteOutputs, PipedQueries


def expression(
    text: str,
    scans: Sequence[ScannedTable],
    references: Collection[ColumnRef] | None,
    place: ColumnEnvironment,
    into: ColumnFindings,
) -> Output:
    """Note in `into` what an expression reads, and return it as the columns of a select list with nothing
    but it: one, unless it is a generator. `scans` are the relations of its subqueries.

    Raises Unclear when that is not sure.
    """
    tree, pipes = _select(text)
    walk = PipedColumnWalk(sources(scans), into, pipes, bare=bare_names(references))
    output = walk.query(tree, place, {})
    agree(walk, scans, references, text)
    return output


def query(
    text: str,
    scans: Sequence[ScannedTable],
    references: Collection[ColumnRef] | None,
    ctes: CteOutputs,
    into: ColumnFindings,
) -> Output:
    """Note in `into` what a statement reads, and return its columns; `ctes` are in scope for it.

    Raises Unclear when that is not sure.
    """
    root, pipes = read(text)
    walk = PipedColumnWalk(sources(scans), into, pipes, bare=bare_names(references))
    output = statement(walk, root, ctes)
    agree(walk, scans, references, text)
    return output


@lru_cache(maxsize=1024)
def _select(text: str) -> tuple[exp.Select, PipedQueries]:
    """Return the tree of `SELECT text`, which is only read, and the piped queries in it."""
    tree, pipes = read(f"SELECT {text}")
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        raise Unclear("sqlglot does not read the text as one expression")
    if any(value for name, value in tree.args.items() if name != "expressions"):
        raise Unclear("sqlglot reads the expression as a query")
    return tree, pipes
