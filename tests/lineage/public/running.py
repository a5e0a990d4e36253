"""Runs cases of public suites through our lineage and compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.lineage.gathering import names_of_columns
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.lineage import Clause, EdgeType, StatementLineage
from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, LineageText, lineage_of
from gateway.sql.names import Names
from tests.lineage.public.cases import STAR, Case, Flow, Outcome, plain

CATALOG = "spark_catalog"
DATABASE = "default"
_CONTEXT = SessionContext(namespace=(DATABASE,))


async def run_case(reader: ReaderPool, case: Case) -> Outcome:
    """Return what our lineage says of a case, compared with what its suite expects."""
    reading = await reader.read(case.sql)
    if not isinstance(reading, Reading):
        return Outcome(case=case, refused=str(reading)[:200])
    written = reading.written or case.sql
    columns = await names_of_columns(reader, written, reading)
    if not isinstance(columns, tuple):
        return Outcome(case=case, refused=str(columns)[:200])
    names = Names(context=_CONTEXT, catalogs=frozenset({CATALOG}))
    text = LineageText(text=written, reading=reading, names=names, columns=columns)
    found = lineage_of(text, LineageCatalog(tables=dict(_tables(case)), views={}, temp_views={}, masks={}))
    if found is None:
        return Outcome(case=case, missing=case.flows)
    if found.table_level:
        return Outcome(case=case, table_level=found.table_level)
    ours, expected = frozenset(_flows(found)), _expected(case)
    return Outcome(case=case, missing=expected - ours, more=ours - expected)


def _tables(case: Case) -> Iterator[tuple[TableName, Table]]:
    """Yield the tables that a suite describes, and those of which it expects every column, with one."""
    described = {_full(name): columns for name, columns in case.schema.items()}
    for table, column, _ in case.flows:
        if column == STAR and table and _full(table) not in described:
            described[_full(table)] = (_only_column(table),)
    for name, columns in described.items():
        made = tuple(Column(name=column, type="string") for column in columns)
        yield name, Table(name=name, kind=TableKind.TABLE, columns=made)


def _full(name: str) -> TableName:
    parts = name.lower().split(".")
    return TableName(CATALOG, parts[-2] if len(parts) > 1 else DATABASE, parts[-1])


def _only_column(table: str) -> str:
    return f"every_{table.lower().rpartition('.')[2]}"


def _expected(case: Case) -> frozenset[Flow]:
    found = set()
    for table, column, to in case.flows:
        if column == STAR and table:
            only = _only_column(table)
            found.add((_short(table), only, only if to == STAR else plain(to)))
        else:
            found.add((_short(table), plain(column), plain(to)))
    return frozenset(found)


def _short(table: str) -> str:
    name = table.lower().replace("`", "").replace('"', "")
    return name.removeprefix(f"{CATALOG}.").removeprefix(f"{DATABASE}.").removeprefix("<default>.")


def _flows(found: StatementLineage) -> Iterator[Flow]:
    for edge in found.edges:
        # What a window is made by decides on a column and is not in it; suites have no such kind.
        if edge.type is EdgeType.PROJECTION or edge.clause is Clause.WINDOW:
            for source in edge.sources:
                table = _short(str(source.column.dataset))
                for target in edge.targets:
                    yield table, plain(source.column.column), plain(target.column)


async def run_cases(reader: ReaderPool, cases: Iterable[Case]) -> list[Outcome]:
    return [await run_case(reader, case) for case in cases]
