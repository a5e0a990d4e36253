"""PyHive and impyla as people have them, against the frontend over a fake Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import impala.dbapi
import impala.error
import pytest
import sqlalchemy
from pyhive import exc, hive

from gateway.model.statement import AnswerFilter, AnswerRule, UseNamespace
from gateway.wire.rows import ColumnSpec, table_schema
from gateway.wire.tcli import TTypeId
from tests.frontends.listening import SCHEMA, Gateway, listening
from tests.session.fakes import until
from tests.speed import patience

T = TypeVar("T")

NAMES = table_schema([ColumnSpec("namespace", TTypeId.STRING)], first_position=0)
TABLES = table_schema(
    [
        ColumnSpec("namespace", TTypeId.STRING),
        ColumnSpec("tableName", TTypeId.STRING),
        ColumnSpec("isTemporary", TTypeId.BOOLEAN),
    ],
    first_position=0,
)


def answers(gateway: Gateway) -> None:
    """Give the fake Spark a table of two rows for every query."""
    start = gateway.world.backend.start

    async def with_rows(session: Any, text: str) -> Any:
        operation = await start(session, text)
        if text == "SHOW DATABASES":
            operation.rows, operation.spark_schema = [("default",), ("hidden",)], NAMES
        elif text == "SHOW TABLES":
            operation.rows, operation.spark_schema = [("hr", "employee", False)], TABLES
        elif text.startswith("SELECT"):
            operation.rows, operation.spark_schema = [(1, "one"), (2, None)], SCHEMA
        else:
            operation.rows, operation.spark_schema = [], NAMES
        return operation

    gateway.world.backend.start = with_rows  # type: ignore[method-assign]
    gateway.world.judge.effects = [("^USE", (UseNamespace(None, ("default",)),))]
    gateway.world.judge.rules["SHOW DATABASES"] = AnswerRule(
        filter=AnswerFilter.DATABASES, catalog="spark_catalog"
    )
    gateway.world.judge.rules["SHOW TABLES"] = AnswerRule(
        filter=AnswerFilter.TABLES, catalog="spark_catalog", database="hr"
    )
    gateway.world.hidden = {"spark_catalog.hidden"}
    gateway.world.judge.refused = "secret"


async def in_thread(work: Callable[[], T]) -> T:
    async with asyncio.timeout(patience()):
        return await asyncio.to_thread(work)


def pyhive(gateway: Gateway, password: str = "secret") -> Any:
    return hive.connect("127.0.0.1", gateway.port, username="bob", password=password, auth="LDAP")


def alchemy(gateway: Gateway) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(f"hive://bob:secret@127.0.0.1:{gateway.port}/default?auth=LDAP")


def impyla(gateway: Gateway) -> Any:
    return impala.dbapi.connect(
        "127.0.0.1", gateway.port, user="bob", password="secret", auth_mechanism="LDAP"
    )


@pytest.fixture(params=[pyhive, impyla], ids=["pyhive", "impyla"])
def connect(request: pytest.FixtureRequest) -> Callable[[Gateway], Any]:
    chosen: Callable[[Gateway], Any] = request.param
    return chosen


async def test_rows_and_types_arrive(connect: Callable[[Gateway], Any]) -> None:
    def work() -> tuple[list[Any], list[str]]:
        connection = connect(gateway)
        cursor = connection.cursor()
        cursor.execute("SELECT id, name FROM t")
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
        cursor.close()
        connection.close()
        return rows, names

    async with listening() as gateway:
        answers(gateway)
        rows, names = await in_thread(work)
        assert rows == [(1, "one"), (2, None)]
        assert names == ["id", "name"]
        await until(lambda: len(gateway.world.sessions) == 0)
        assert set(gateway.world.ledger.outcomes()) == {"finished"}
        assert len(gateway.world.ledger.of("decided")) == len(gateway.world.ledger.of("completed"))


async def test_a_refusal_says_why_and_what_to_quote(connect: Callable[[Gateway], Any]) -> None:
    def work() -> str:
        connection = connect(gateway)
        cursor = connection.cursor()
        with pytest.raises((exc.OperationalError, impala.error.OperationalError)) as refused:
            cursor.execute("SELECT secret FROM t")
        cursor.execute("SELECT 1")
        assert len(cursor.fetchall()) == 2
        cursor.close()  # one of impyla that outlives its connection opens another when it is collected
        connection.close()
        return str(refused.value)

    async with listening() as gateway:
        answers(gateway)
        text = await in_thread(work)
        event = next(e for e in gateway.world.ledger.of("decided") if e.body["verdict"] == "refused")
        assert "[SLUICE_ACCESS_DENIED]" in text
        assert event.statement_id in text


async def test_filtered_answers_arrive(connect: Callable[[Gateway], Any]) -> None:
    def work() -> list[Any]:
        connection = connect(gateway)
        cursor = connection.cursor()
        cursor.execute("SHOW DATABASES")
        rows: list[Any] = cursor.fetchall()
        cursor.close()
        connection.close()
        return rows

    async with listening() as gateway:
        answers(gateway)
        assert await in_thread(work) == [("default",)]


async def test_a_wrong_password_is_told() -> None:
    def work() -> str:
        with pytest.raises(Exception) as refused:
            pyhive(gateway, "wrong")
        return str(refused.value)

    async with listening() as gateway:
        assert "Error validating the login" in await in_thread(work)


async def test_pyhive_polls_and_cancels_an_asynchronous_statement() -> None:
    def work() -> tuple[int, int]:
        connection = pyhive(gateway)
        cursor = connection.cursor()
        cursor.execute("SELECT slow", async_=True)
        running = cursor.poll().operationState
        cursor.cancel()
        cancelled = cursor.poll().operationState
        connection.close()
        return running, cancelled

    async with listening() as gateway:
        answers(gateway)
        gateway.world.backend.slow = "slow"
        assert await in_thread(work) == (1, 3)


async def test_impyla_lists_what_may_be_seen() -> None:
    def work() -> tuple[list[Any], list[Any], list[Any]]:
        connection = impyla(gateway)
        cursor = connection.cursor()
        cursor.get_databases()
        databases = cursor.fetchall()
        cursor.get_tables(database_name="hr")
        tables = cursor.fetchall()
        columns = cursor.get_table_schema("employee", "hr")
        cursor.close()
        connection.close()
        return databases, tables, columns

    async with listening() as gateway:
        answers(gateway)
        catalog = gateway.world.catalog
        catalog.add("spark_catalog.hr.employee", ("id", "int"), ("salary", "decimal(10,2)"))
        catalog.add("spark_catalog.hidden.x", ("id", "int"))
        gateway.world.hidden |= {"spark_catalog.hr.employee.salary"}
        databases, tables, columns = await in_thread(work)
        assert databases == [("hr", "spark_catalog")]
        assert [row[:4] for row in tables] == [("spark_catalog", "hr", "employee", "TABLE")]
        assert [column[0] for column in columns] == ["id"]


async def test_sqlalchemy_runs_statements_and_takes_the_databases_of_show_tables_for_tables() -> None:
    """PyHive's dialect reads the first column of SHOW TABLES, which in Hive is the table's name."""

    def work() -> tuple[list[Any], list[str]]:
        engine = alchemy(gateway)
        try:
            with engine.connect() as connection:
                rows = [tuple(row) for row in connection.exec_driver_sql("SHOW TABLES")]
            return rows, sqlalchemy.inspect(engine).get_table_names()
        finally:
            engine.dispose()

    async with listening() as gateway:
        answers(gateway)
        rows, names = await in_thread(work)
        assert rows == [("hr", "employee", False)]
        assert names == ["hr"]
