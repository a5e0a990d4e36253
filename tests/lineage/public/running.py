"""Runs cases of public suites through our lineage and compares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

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
_INSERT = re.compile(
    r"\bINSERT\s+(?:INTO|OVERWRITE)\s+(?:TABLE\s+)?([\w.`\"]+)\s+(?=SELECT|WITH|\(\s*SELECT)", re.IGNORECASE
)
_CONTEXT = SessionContext(namespace=(DATABASE,))


async def run_cases(reader: ReaderPool, cases: Iterable[Case]) -> list[Outcome]:
    return [await run_case(reader, case) for case in cases]


async def run_case(reader: ReaderPool, case: Case) -> Outcome:
    """Return what our lineage says of a case, compared with what its suite expects."""
    sql = _without_target(case)
    reading = await reader.read(sql)
    if not isinstance(reading, Reading):
        return Outcome(case=case, refused=str(reading))
    columns = await names_of_columns(reader, reading.written or sql, reading)
    if not isinstance(columns, tuple):
        return Outcome(case=case, refused=str(columns))
    tables = dict(_tables(case, reading))
    catalogs = frozenset({CATALOG, *(name.catalog for name in tables)})
    names = Names(context=_CONTEXT, catalogs=catalogs)
    text = LineageText(text=reading.written or sql, reading=reading, names=names, columns=columns)
    found = lineage_of(text, LineageCatalog(tables=tables))
    if found is None:
        return Outcome(case=case, missing=case.flows)
    if found.table_level:
        return Outcome(case=case, table_level=found.table_level)
    expected = frozenset(_expected(case, tables))
    return _compare(
        case, expected, frozenset(_flows(found, windows=False)), frozenset(_flows(found, windows=True))
    )


def _compare(
    case: Case, expected: frozenset[Flow], ours: frozenset[Flow], windows: frozenset[Flow]
) -> Outcome:
    """Compare. What a window is made by decides on a column and is not in it: suites count it or do not."""
    if case.target not in ("", STAR):
        ours = frozenset(flow for flow in ours if flow[2] == plain(case.target))
    unsure = {flow[1:] for flow in expected if not flow[0]}
    anywhere = {flow[1:] for flow in ours | windows}
    return Outcome(
        case=case,
        missing=frozenset(flow for flow in expected - ours - windows if flow[0] or flow[1:] not in anywhere),
        more=frozenset(flow for flow in ours - expected - windows if flow[1:] not in unsure),
    )


def _without_target(case: Case) -> str:
    """Return the text, without the table that it inserts into where nobody says what columns that has: suites
    then take the names of what is selected."""
    found = _INSERT.search(case.sql)
    if found is None or _full(found[1]) in {_full(name) for name in case.schema}:
        return case.sql
    return case.sql[: found.start()] + case.sql[found.end() :]


def _tables(case: Case, reading: Reading) -> Iterator[tuple[TableName, Table]]:
    """Yield the tables that a suite describes; and those of which it expects every column, with one more than
    the text names."""
    described = {_full(name): columns for name, columns in case.schema.items()}
    named = tuple(dict.fromkeys(one.parts[-1].lower() for one in reading.columns if not one.star))
    for table, column, to in case.flows:
        if column == to == STAR and table and _full(table) not in described:
            described[_full(table)] = (*named, _only_column(table))
    for name, columns in described.items():
        made = tuple(Column(name=column, type="string") for column in columns)
        yield name.fold(), Table(name=name, kind=TableKind.TABLE, columns=made)


def _full(name: str) -> TableName:
    parts = re.sub(r"[`\"]", "", name).lower().split(".")
    return TableName(*((CATALOG, DATABASE, "")[: max(0, 3 - len(parts))]), *parts[-3:])


def _only_column(table: str) -> str:
    return f"every_{_full(table).table}"


def _expected(case: Case, tables: Mapping[TableName, Table]) -> Iterator[Flow]:
    for table, column, to in case.flows:
        if column == STAR and table:
            if to == STAR:  # else `count(*)`, which is of no column
                for one in tables[_full(table).fold()].columns:
                    yield _short(_full(table)), plain(one.name), plain(one.name)
        else:
            yield _short(_full(table)) if table else "", plain(column), plain(to)


def _short(table: TableName) -> str:
    return table.table if table.database == DATABASE else f"{table.database}.{table.table}"


def _flows(found: StatementLineage, *, windows: bool) -> Iterator[Flow]:
    for edge in found.edges:
        if edge.type is EdgeType.PROJECTION if not windows else edge.clause is Clause.WINDOW:
            for source in edge.sources:
                table = _short(_full(str(source.column.dataset)))
                for target in edge.targets:
                    yield table, plain(source.column.column), plain(re.sub(r"#\d+$", "", target.column))
