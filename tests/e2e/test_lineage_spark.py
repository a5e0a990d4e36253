"""Lineage says what Spark's analysed plan says: base columns of every output, and those that decide on rows.

By day one statement in eight, on each day others; by night all. What a
plan cannot be asked about (UPDATE, DELETE and MERGE need tables of another format; names of results) is in
tests/sql/test_lineage.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from gateway.model.catalog import TableName
from gateway.model.lineage import ANY_COLUMN, Clause, EdgeType, Operation, StatementLineage
from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, lineage_of
from tests.algebra.origins import origins_of
from tests.e2e.analysed_plan import Columns, analysed, dependencies
from tests.e2e.running import Spark, connect
from tests.lineage_world import DATABASE, TABLES, VIEWS, catalog_of, columns_of, tables, text_of
from tests.shares import in_turn, todays
from tests.tpcds.corpus import QUERIES as TPCDS
from tests.tpcds.corpus import TABLES as TPCDS_TABLES
from tests.tpch.schema import QUERIES as TPCH
from tests.tpch.schema import TABLES as TPCH_TABLES

pytestmark = pytest.mark.asyncio(loop_scope="session")


def cases(name: str) -> list[str]:
    lines = (Path(__file__).parents[1] / "cases" / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


SUITE = cases("lineage.sql")
Explain = Callable[[str, str], str]


@pytest.fixture(scope="module")
def explain(spark: Spark) -> Iterator[Explain]:
    """What Spark says of a statement in a database; the databases have every table that is asked about."""
    connection = connect(spark.host, spark.port, "loader")
    cursor = connection.cursor()
    databases = {"ln_tpcds": TPCDS_TABLES, "ln_tpch": TPCH_TABLES}
    made = [f"CREATE DATABASE {name}" for name in (DATABASE, *databases)]
    made += [f"CREATE TABLE {DATABASE}.{name} ({ddl}) USING parquet" for name, ddl in TABLES.items()]
    made += [
        f"CREATE TABLE {name}.{table} ({', '.join(f'{c} {t}' for c, t in columns.items())}) USING parquet"
        for name, described in databases.items()
        for table, columns in described.items()
    ]
    made += [f"USE {DATABASE}", "SET spark.sql.debug.maxToStringFields=100000"]
    made += [f"CREATE VIEW {name} ({', '.join(c.split())}) AS {sql}" for name, (c, sql) in VIEWS.items()]
    for statement in made:
        cursor.execute(statement)

    def explained(database: str, sql: str) -> str:
        cursor.execute(f"USE {database}")
        cursor.execute(f"EXPLAIN EXTENDED {sql}")
        return str(cursor.fetchall()[0][0])

    yield explained
    for name in (DATABASE, *databases):
        cursor.execute(f"DROP DATABASE {name} CASCADE")
    connection.close()


@pytest.fixture(scope="module")
def answer(spark: Spark, explain: Explain) -> Iterator[Callable[[str], list[str]]]:
    """The names of the columns that Spark answers a query with."""
    connection = connect(spark.host, spark.port, "loader")
    cursor = connection.cursor()

    def answered(sql: str) -> list[str]:
        cursor.execute(sql)
        return [column[0].lower() for column in cursor.description or ()]

    yield answered
    connection.close()


def projected(found: StatementLineage, catalog: LineageCatalog) -> list[Columns]:
    """Return the sources of each column, those of an INSERT for every column of its table."""
    sources: dict[str, Columns] = {}
    for edge in found.edges:
        if edge.type is EdgeType.PROJECTION:
            sources[edge.targets[0].column] = frozenset(str(s.column) for s in edge.sources)
    names = [vertex.column for vertex in found.columns]
    if found.operation is Operation.INSERT:
        names = [c.name for c in catalog.tables[TableName(*found.targets[0].parts)].columns]
    return [sources.get(name, frozenset()) for name in names]


def sources_of(found: StatementLineage, *clauses: Clause) -> Columns:
    return frozenset(
        str(source.column)
        for edge in found.edges
        if edge.clause in clauses and edge.expression not in ("DISTINCT", "UNION")
        for source in edge.sources
    )


async def compare(
    reader: ReaderPool, explain: Explain, catalog: LineageCatalog, database: str, sql: str
) -> None:
    found = lineage_of(await text_of(reader, sql, database=database), catalog)
    assert found is not None
    assert found.table_level == ""
    assert found.guessed == ()
    plan = dependencies(analysed(await asyncio.to_thread(explain, database, sql)))
    assert projected(found, catalog) == plan.outputs
    windows = sources_of(found, Clause.WINDOW)
    assert windows == plan.windows
    # A filter on what a window computes is decided by the window's columns; in the plan that is two nodes.
    deciding = sources_of(
        found, Clause.JOIN, Clause.WHERE, Clause.HAVING, Clause.QUALIFY, Clause.GROUP_BY, Clause.MERGE
    )
    assert deciding | windows == plan.deciding | plan.windows


@pytest.mark.parametrize("sql", in_turn(SUITE, 8))
async def test_the_suite(reader: ReaderPool, explain: Explain, sql: str) -> None:
    await compare(reader, explain, await catalog_of(reader, views=VIEWS), DATABASE, sql)


NAMED = (Path(__file__).parents[1] / "cases" / "column_names.txt").read_text(encoding="utf-8")


async def test_columns_without_an_alias_are_called_as_spark_calls_them(
    reader: ReaderPool, answer: Callable[[str], list[str]]
) -> None:
    catalog = await catalog_of(reader)
    _, of_rows, of_groups = (part.splitlines()[1:] for part in f"\n{NAMED}".split("# of a "))
    for items in (of_rows, of_groups):
        written = [item.removeprefix("? ") for item in items]
        query = f"SELECT {', '.join(written)} FROM {DATABASE}.named p"
        said = await asyncio.to_thread(answer, f"{query} LIMIT 0")
        assert len(said) == len(items)
        wrong = {}
        for item, text, name in zip(items, written, said, strict=True):
            sql = f"CREATE TABLE made AS SELECT {text} FROM named p"
            found = lineage_of(await text_of(reader, sql), catalog)
            assert found is not None
            assert found.table_level == ""
            column = found.columns[0].column
            if column != (ANY_COLUMN if item.startswith("?") else name):
                wrong[item] = (column, name)
        assert not wrong


@pytest.mark.parametrize("name", in_turn(TPCDS, 8))
async def test_tpcds(reader: ReaderPool, explain: Explain, name: str) -> None:
    catalog = LineageCatalog(tables=tables(TPCDS_TABLES, "ln_tpcds"))
    await compare(reader, explain, catalog, "ln_tpcds", TPCDS[name])


@pytest.mark.parametrize("name", in_turn(TPCH, 8))
async def test_tpch(reader: ReaderPool, explain: Explain, name: str) -> None:
    catalog = LineageCatalog(tables=tables(TPCH_TABLES, "ln_tpch"))
    await compare(reader, explain, catalog, "ln_tpch", TPCH[name])


RESOLVING = cases("resolving.sql")


async def resolved(
    reader: ReaderPool, explain: Explain, database: str, sql: str, known: Mapping[str, Iterable[str]]
) -> bool | None:
    """Whether the resolver makes of a query what Spark's plan does; None where it does not know it all."""
    reading = await reader.read(sql)
    assert isinstance(reading, Reading)
    found = origins_of(reading, known, f"spark_catalog.{database}")
    if found is None:
        return None
    return found == dependencies(analysed(await asyncio.to_thread(explain, database, sql))).outputs


LINEAGE_TABLES = {name: columns_of(ddl) for name, ddl in TABLES.items()}


@pytest.mark.parametrize("sql", RESOLVING)
async def test_names_mean_what_they_mean_to_spark(reader: ReaderPool, explain: Explain, sql: str) -> None:
    assert await resolved(reader, explain, DATABASE, sql, LINEAGE_TABLES)


async def test_names_of_other_queries_mean_what_they_mean_to_spark(
    reader: ReaderPool, explain: Explain
) -> None:
    asked = [(DATABASE, sql, LINEAGE_TABLES) for sql in todays(SUITE, 8)]
    asked += [("ln_tpcds", TPCDS[name], TPCDS_TABLES) for name in todays(TPCDS, 8)]
    asked += [("ln_tpch", TPCH[name], TPCH_TABLES) for name in todays(TPCH, 8)]
    known = [await resolved(reader, explain, *one) for one in asked]
    assert [sql for (_, sql, _), same in zip(asked, known, strict=True) if same is False] == []
    assert known.count(True) > len(known) // 4
