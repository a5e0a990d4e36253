"""Lineage is made in processes that a statement can take down, and only itself with them."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from gateway.lineage.gathering import GatheredLineage, Gatherer
from gateway.lineage.workers import LineageWorkers
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.lineage import Operation, StatementLineage
from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from tests.lineage_world import DATABASE, Endless, tables
from tests.speed import patience

pytestmark = pytest.mark.asyncio(loop_scope="session")

SQL = "CREATE TABLE ln.copy AS SELECT a.ssn, b.p FROM a JOIN b ON a.i = b.i"


async def gathered(reader: ReaderPool, sql: str) -> GatheredLineage:
    snapshot = CatalogSnapshot(version=1, catalogs=frozenset({"spark_catalog"}), tables=tables())

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        return snapshot

    gatherer = Gatherer(reader=reader, look_up=look_up, catalogs=snapshot.catalogs)
    found = await gatherer.gather(sql, SessionContext(namespace=(DATABASE,)), {}, {})
    assert isinstance(found, GatheredLineage)
    return found


async def test_a_worker_makes_what_the_pure_function_makes(reader: ReaderPool) -> None:
    statement = await gathered(reader, SQL)
    async with LineageWorkers(2, deadline_s=patience()) as workers:
        lineage = await workers.lineage(statement)
    assert lineage is not None
    assert not lineage.table_level
    assert [str(vertex) for vertex in lineage.columns] == [
        "spark_catalog.ln.copy.ssn",
        "spark_catalog.ln.copy.p",
    ]


async def test_what_takes_too_long_is_known_by_tables_and_the_next_is_not_hurt(reader: ReaderPool) -> None:
    statement = await gathered(reader, SQL)
    async with LineageWorkers(1, deadline_s=0.0) as workers:
        late = await workers.lineage(Endless(statement))
        workers.deadline_s = 120
        after = await workers.lineage(statement)
    assert late is not None
    assert late.table_level == "it took longer than 0 seconds"
    assert late.operation is Operation.CREATE
    assert [str(target) for target in late.targets] == ["spark_catalog.ln.copy"]
    assert {str(dataset) for dataset in late.inputs} == {"spark_catalog.ln.a", "spark_catalog.ln.b"}
    assert after is not None
    assert not after.table_level


async def test_a_worker_that_was_killed_is_replaced(reader: ReaderPool) -> None:
    statement = await gathered(reader, SQL)
    async with LineageWorkers(1, deadline_s=patience()) as workers:
        await workers.lineage(statement)
        for pid in workers.pids:
            os.kill(pid, signal.SIGKILL)
        found = [await workers.lineage(statement) for _ in range(3)]
        assert found[-1] is not None
        assert not found[-1].table_level
        pids = workers.pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


WIDE = " UNION ALL ".join(
    f"SELECT {', '.join(f'a.i + {n} AS x{n}' for n in range(50))}, a.ssn FROM a WHERE a.i > {branch}"
    for branch in range(60)
)
DEEP = f"SELECT {' || '.join(['a.ssn'] * 400)} AS x0, a.i FROM a"


@pytest.mark.parametrize(
    ("query", "column"), [(WIDE, "i"), (DEEP, "ssn")], ids=["13,000 nodes", "400 levels"]
)
async def test_columns_are_known_of_trees_that_no_decision_rests_on(
    reader: ReaderPool, query: str, column: str
) -> None:
    assert isinstance(read := await reader.read(query), Reading)
    assert read.tree_json is None
    statement = await gathered(reader, f"CREATE TABLE ln.copy AS {query}")
    assert statement.statement.reading.tree_json is not None
    async with LineageWorkers(1, deadline_s=patience()) as workers:
        lineage = await workers.lineage(statement)
    assert lineage is not None
    assert not lineage.table_level
    edge = lineage.edges[0]
    assert [str(target) for target in edge.targets] == ["spark_catalog.ln.copy.x0"]
    assert {str(source.column) for source in edge.sources} == {f"spark_catalog.ln.a.{column}"}


async def test_only_tables_are_known_of_still_larger_trees(reader: ReaderPool) -> None:
    statement = await gathered(reader, f"SELECT {' || '.join(['a.ssn'] * 460)} FROM a")
    lineage = statement.lineage()
    assert lineage is not None
    assert lineage.table_level == "the statement is too large for column lineage"


ASKING = """
import asyncio, pickle, sys
from gateway.lineage.workers import LineageWorkers

async def ask():
    async with LineageWorkers(1, deadline_s=float(sys.argv[2])) as workers:
        await workers.lineage(pickle.load(open(sys.argv[1], "rb")))
        print(workers.pids[0], flush=True)
        await asyncio.sleep(3600)

asyncio.run(ask())
"""


async def test_a_worker_that_hangs_ends_with_a_gateway_that_is_killed(
    reader: ReaderPool, tmp_path: Path
) -> None:
    statement = tmp_path / "statement"
    statement.write_bytes(pickle.dumps(await gathered(reader, SQL)))
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASKING, str(statement), str(patience()), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    worker = psutil.Process(int(await parent.stdout.readline()))
    worker.suspend()
    parent.kill()
    await parent.wait()
    await asyncio.to_thread(worker.wait, patience())


async def test_what_is_in_scripts_and_in_texts_that_are_run(reader: ReaderPool) -> None:
    """A script's is that of all of its statements, with edges between columns."""
    script = (
        "BEGIN DECLARE n INT DEFAULT 1; CREATE TABLE ln.copy AS SELECT a.ssn FROM a WHERE a.i > 1; "
        "IF (SELECT max(i) FROM b) > 1 THEN INSERT INTO ln.other SELECT upper(p) AS p FROM b; END IF; END"
    )
    run = "EXECUTE IMMEDIATE 'CREATE TABLE ln.copy AS ' || 'SELECT a.ssn FROM a WHERE a.i > :n' USING 1 AS n"
    found = (await gathered(reader, script)).lineage()
    assert found is not None
    assert not found.table_level
    assert found.operation is Operation.CREATE
    assert [str(target) for target in found.targets] == ["spark_catalog.ln.copy", "spark_catalog.ln.other"]
    assert {str(dataset) for dataset in found.inputs} == {"spark_catalog.ln.a", "spark_catalog.ln.b"}
    edges = _edges(found)
    assert ("spark_catalog.ln.a.ssn", "spark_catalog.ln.copy.ssn") in edges
    # Where a variable's value is from, nobody follows: every input may feed every target.
    of_variable = (await gathered(reader, script.replace("> 1;", "> n;"))).lineage()
    assert of_variable is not None
    assert of_variable.table_level == "`n` is not in any relation in scope"
    assert not of_variable.edges
    assert of_variable.inputs == found.inputs
    by_text = (await gathered(reader, run)).lineage()
    assert by_text is not None
    assert not by_text.table_level
    assert ("spark_catalog.ln.a.ssn", "spark_catalog.ln.copy.ssn") in _edges(by_text)
    assert (await gathered(reader, "EXECUTE IMMEDIATE upper('select 1')")).lineage() is None


def _edges(found: StatementLineage) -> set[tuple[str, str]]:
    return {
        (str(source.column), str(target))
        for edge in found.edges
        for source in edge.sources
        for target in edge.targets
    }
