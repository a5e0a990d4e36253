"""The catalog port: one contract for a file and for a scripted Spark, then what only the live one has."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import SparkThriftOptions
from gateway.backends.spark_thrift_service import SparkThriftService
from gateway.catalog.live import LiveCatalog
from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendUnavailable, Faults
from gateway.model.catalog import Column, TableKind, TableName, ViewBody
from gateway.session.ports import BackendError, Catalog
from tests.backends.fake_hive_server import Answer, FakeHiveServer, Silence
from tests.speed import patience

EMPLOYEE = TableName("spark_catalog", "hr", "employee")
NAMES = TableName("spark_catalog", "hr", "names")
NOTHING = TableName("spark_catalog", "hr", "nothing")
ORDERS = TableName("lake", "sales", "orders")

FILE = """
catalogs:
  spark_catalog:
    hr:
      employee:
        columns: {id: int, name: string, pay: "decimal(10,2)", tags: "array<struct<k:string,v:int>>"}
        owner: hr_admin
        provider: parquet
        location: file:/w/hr.db/employee
      names:
        columns: {who: string}
        owner: hr_admin
        view: {text: SELECT name FROM employee, output: [name]}
    default: {}
  lake:
    sales:
      orders: {columns: {id: bigint}}
"""


def _type(ddl: str) -> dict[str, Any]:
    nested: dict[str, dict[str, Any]] = {
        "decimal(10,2)": {"name": "decimal", "precision": 10, "scale": 2},
        "array<struct<k:string,v:int>>": {
            "name": "array",
            "element_type": {
                "name": "struct",
                "fields": [{"name": "k", "type": {"name": "string"}}, {"name": "v", "type": {"name": "int"}}],
            },
        },
    }
    return nested.get(ddl, {"name": ddl})


def script(server: FakeHiveServer) -> None:
    """Answer as a Spark with the tables of FILE does; `lake` is a DataSource V2 catalog."""
    base = {"catalog_name": "spark_catalog", "namespace": ["hr"], "schema_name": "hr", "owner": "hr_admin"}
    columns = {"id": "int", "name": "string", "pay": "decimal(10,2)", "tags": "array<struct<k:string,v:int>>"}
    employee = {
        **base, "table_name": "employee", "type": "MANAGED", "provider": "parquet",
        "location": "file:/w/hr.db/employee",
        "columns": [{"name": name, "type": _type(ddl)} for name, ddl in columns.items()],
    }  # fmt: skip
    names = {
        **base, "table_name": "names", "type": "VIEW",
        "columns": [{"name": "who", "type": {"name": "string"}}],
        "view_text": "SELECT name FROM employee", "view_catalog_and_namespace": "spark_catalog.hr",
        "view_query_output_columns": ["name"],
    }  # fmt: skip
    missing = Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no such table")
    server.on(re.compile("DESCRIBE TABLE EXTENDED .*"), missing)
    describe = "DESCRIBE TABLE EXTENDED `spark_catalog`.`hr`.`{}` AS JSON"
    server.on(describe.format("employee"), Answer.text((json.dumps(employee),)))
    server.on(describe.format("names"), Answer.text((json.dumps(names),)))
    v2 = Answer.error("0A000", "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] not for v2 tables")
    server.on("DESCRIBE TABLE EXTENDED `lake`.`sales`.`orders` AS JSON", v2)
    server.on(
        "DESCRIBE TABLE EXTENDED `lake`.`sales`.`orders`",
        Answer.text(("id", "bigint", None), ("", "", ""), ("# Detailed Table Information", "", ""),
                    ("Catalog", "lake", ""), ("Database", "sales", ""), ("Table", "orders", "")),
    )  # fmt: skip
    server.on("SHOW DATABASES IN `spark_catalog`", Answer.text(("default",), ("hr",)))
    server.on("SHOW DATABASES IN `lake`", Answer.text(("sales",)))
    gone = Answer.error("42704", "[SCHEMA_NOT_FOUND] no such schema")
    server.on(re.compile("SHOW (TABLES|VIEWS|DATABASES) IN .*nowhere.*"), gone)
    none = Answer.text()
    server.on(re.compile("SHOW (TABLES|VIEWS) IN `spark_catalog`.`default`"), none)
    rows: list[tuple[Any, ...]] = [("hr", "employee", "false"), ("hr", "names", "false")]
    server.on("SHOW TABLES IN `spark_catalog`.`hr`", _listing([*rows, ("", "temp", "true")]))
    server.on("SHOW VIEWS IN `spark_catalog`.`hr`", _listing([rows[1], ("", "temp", "true")]))
    server.on(
        "SHOW TABLES IN `lake`.`sales`", _listing([("sales", "orders", "false"), ("sales", "of.2", "false")])
    )
    server.on("SHOW VIEWS IN `lake`.`sales`", Answer.error("0A000", "[MISSING_CATALOG_ABILITY.VIEWS]"))


def _listing(rows: Sequence[tuple[Any, ...]]) -> Answer:
    from gateway.wire.tcli import TTypeId

    return Answer.of(
        [("namespace", TTypeId.STRING), ("tableName", TTypeId.STRING), ("isTemporary", TTypeId.BOOLEAN)],
        [(namespace, name, temporary == "true") for namespace, name, temporary in rows],
    )


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Live:
    """A live catalog on a scripted server, with its clock."""

    def __init__(self, server: FakeHiveServer) -> None:
        address = SparkAddress(
            host=server.host, port=server.port, call_timeout_s=patience(5), connect_timeout_s=patience(5)
        )
        self.server = server
        self.clock = Clock()
        self.service = SparkThriftService(SparkThriftBackend(SparkThriftOptions(address=address)))
        self.catalog = LiveCatalog(
            self.service.query,
            refusal=BackendError,
            catalogs=["spark_catalog", "lake"],
            timeout_s=5,
            clock=self.clock,
        )

    def described(self) -> list[str]:
        return [text for text in self.server.texts() if text.startswith("DESCRIBE")]


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with FakeHiveServer() as server:
        script(server)
        made = Live(server)
        yield made
        await made.catalog.close()
        await made.service.close()


@pytest.fixture
def static(tmp_path: Path) -> StaticCatalog:
    path = tmp_path / "catalog.yaml"
    path.write_text(FILE)
    return StaticCatalog.load(path)


@pytest.fixture(params=["static", "live"])
def catalog(request: pytest.FixtureRequest) -> Catalog:
    made = request.getfixturevalue(request.param)
    found: Catalog = made.catalog if isinstance(made, Live) else made
    return found


# -- contract ------------------------------------------------------------------------------------------------


async def test_a_table_is_found_with_its_columns_in_order(catalog: Catalog) -> None:
    snapshot = await catalog.look_up([TableName("SPARK_CATALOG", "Hr", "EMPLOYEE")])
    table = snapshot.table(EMPLOYEE)
    assert table is not None
    assert (table.name, table.kind) == (EMPLOYEE, TableKind.TABLE)
    assert [column.name for column in table.columns] == ["id", "name", "pay", "tags"]
    assert table.columns[2] == Column(name="pay", type="decimal(10,2)")
    assert table.columns[3].type.replace("`", "") == "array<struct<k:string,v:int>>"
    assert (table.owner, table.provider, table.location) == (
        "hr_admin",
        "parquet",
        "file:/w/hr.db/employee",
    )


async def test_a_view_is_found_with_its_text(catalog: Catalog) -> None:
    table = (await catalog.look_up([NAMES])).table(NAMES)
    assert table is not None
    assert table.kind is TableKind.VIEW
    assert table.view == ViewBody(
        text="SELECT name FROM employee", catalog="spark_catalog", database="hr", output=("name",)
    )


async def test_a_table_of_another_catalog_is_found(catalog: Catalog) -> None:
    table = (await catalog.look_up([ORDERS])).table(ORDERS)
    assert table is not None
    assert table.columns == (Column(name="id", type="bigint"),)


async def test_what_does_not_exist_is_known_to_be_missing(catalog: Catalog) -> None:
    snapshot = await catalog.look_up([NOTHING, EMPLOYEE])
    assert snapshot.knows(NOTHING)
    assert snapshot.table(NOTHING) is None
    assert snapshot.knows(EMPLOYEE)
    assert catalog.snapshot.knows(NOTHING)


async def test_a_look_up_of_nothing_answers_a_snapshot(catalog: Catalog) -> None:
    assert (await catalog.look_up([])).version == catalog.snapshot.version


async def test_databases_and_tables_are_listed(catalog: Catalog) -> None:
    assert sorted(await catalog.databases("SPARK_CATALOG")) in (["default", "hr"], ["hr"])
    assert await catalog.databases("lake") == ("sales",)
    assert await catalog.list_tables("spark_catalog", "HR") == (("employee", False), ("names", True))
    assert await catalog.list_tables("lake", "sales") == (("orders", False),)
    assert await catalog.list_tables("spark_catalog", "default") == ()
    assert await catalog.list_tables("spark_catalog", "nowhere") == ()
    assert await catalog.databases("nowhere") == ()


async def test_the_catalogs_are_named_in_lower_case(catalog: Catalog) -> None:
    assert catalog.snapshot.catalogs == {"spark_catalog", "lake"}


async def test_looking_up_again_keeps_the_version(catalog: Catalog) -> None:
    first = await catalog.look_up([EMPLOYEE])
    catalog.invalidate([], [("spark_catalog", "other")])
    assert (await catalog.look_up([EMPLOYEE, NAMES, NOTHING])).version == first.version


# -- live ----------------------------------------------------------------------------------------------------


async def test_names_are_quoted_and_nothing_breaks_out(live: Live) -> None:
    evil = TableName("spark_catalog", "h`; drop", "x` AS JSON --")
    assert (await live.catalog.look_up([evil])).knows(evil)
    assert live.server.texts() == [
        "DESCRIBE TABLE EXTENDED `spark_catalog`.`h``; drop`.`x`` as json --` AS JSON"
    ]


async def test_a_name_is_asked_for_once_by_all_who_ask_at_the_same_time(live: Live) -> None:
    gate = asyncio.Event()
    live.server.on(re.compile("DESCRIBE .*employee.*"), Answer.error("42P01", "x"))
    live.server._script[0][1].until = gate  # type: ignore[union-attr]
    asking = [asyncio.create_task(live.catalog.look_up([EMPLOYEE, NAMES])) for _ in range(20)]
    await live.server.until(lambda: len(live.described()) == 2)
    asking[0].cancel()
    gate.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(not isinstance(result, BaseException) for result in results[1:])
    assert len(live.described()) == 2


async def test_facts_are_used_until_they_are_too_old(live: Live) -> None:
    version = (await live.catalog.look_up([EMPLOYEE, NOTHING])).version
    live.clock.now += 0.9
    await live.catalog.look_up([EMPLOYEE, NOTHING])
    assert len(live.described()) == 2
    live.clock.now += 2
    assert not live.catalog.snapshot.knows(NOTHING)
    live.clock.now += 28
    assert not live.catalog.snapshot.knows(EMPLOYEE)
    assert (await live.catalog.look_up([EMPLOYEE])).version == version
    assert len(live.described()) == 3


async def test_a_change_that_somebody_else_made_raises_the_version(live: Live) -> None:
    before = await live.catalog.look_up([EMPLOYEE])
    live.server.on(re.compile("DESCRIBE .*employee.*"), Answer.error("42P01", "gone"))
    live.clock.now += 31
    after = await live.catalog.look_up([EMPLOYEE])
    assert after.version > before.version
    assert after.table(EMPLOYEE) is None


async def test_invalidated_names_are_looked_up_again(live: Live) -> None:
    before = await live.catalog.look_up([EMPLOYEE, NAMES])
    await live.catalog.list_tables("spark_catalog", "hr")
    live.catalog.invalidate([EMPLOYEE], [])
    assert live.catalog.snapshot.version > before.version
    assert not live.catalog.snapshot.knows(EMPLOYEE)
    assert live.catalog.snapshot.knows(NAMES)
    await live.catalog.look_up([EMPLOYEE, NAMES])
    assert len(live.described()) == 3
    listings = len(live.server.statements)
    await live.catalog.list_tables("spark_catalog", "hr")
    assert len(live.server.statements) == listings + 2


async def test_an_answer_from_before_an_invalidation_does_not_count(live: Live) -> None:
    """DESCRIBE is on its way while the table changes: what it brings is the past."""
    gate = asyncio.Event()
    old = Answer.error("42P01", "not yet there", sync=False)
    old.until = gate
    live.server.on(re.compile("DESCRIBE .*employee.*"), old)
    asking = asyncio.create_task(live.catalog.look_up([EMPLOYEE]))
    await live.server.until(lambda: len(live.described()) == 1)
    live.catalog.invalidate([EMPLOYEE], [])
    script(live.server)
    gate.set()
    snapshot = await asking
    assert snapshot.table(EMPLOYEE) is not None
    assert len(live.described()) == 2


async def test_a_dropped_database_takes_its_tables_and_listings_along(live: Live) -> None:
    await live.catalog.look_up([EMPLOYEE, ORDERS])
    await live.catalog.databases("spark_catalog")
    live.catalog.invalidate([], [("spark_catalog", "HR")])
    assert not live.catalog.snapshot.knows(EMPLOYEE)
    assert live.catalog.snapshot.knows(ORDERS)
    # Of all statements these alone: how many sessions the look-ups opened is a matter of timing.
    assert live.server.texts().count("SHOW DATABASES IN `spark_catalog`") == 1
    await live.catalog.databases("spark_catalog")
    assert live.server.texts().count("SHOW DATABASES IN `spark_catalog`") == 2


async def test_listings_are_kept_for_a_while(live: Live) -> None:
    for _ in range(3):
        await live.catalog.databases("lake")
    assert live.server.texts().count("SHOW DATABASES IN `lake`") == 1
    live.clock.now += 31
    await live.catalog.databases("lake")
    assert live.server.texts().count("SHOW DATABASES IN `lake`") == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer.error("42501", "[INSUFFICIENT_PERMISSIONS] secret detail"),
        Answer.error("", "metastore is down"),
        Answer.text(("not json",)),
        Answer.text(("{}",), ("{}",)),
        Answer.text(("{}", "x")),
        Answer.text(),
    ],
)
async def test_any_other_answer_is_an_error_and_not_a_missing_table(live: Live, answer: Answer) -> None:
    live.server.on(re.compile("DESCRIBE .*"), answer)
    with pytest.raises(BackendUnavailable) as caught:
        await live.catalog.look_up([EMPLOYEE])
    assert "secret" not in caught.value.message
    assert not live.catalog.snapshot.knows(EMPLOYEE)
    script(live.server)
    assert (await live.catalog.look_up([EMPLOYEE])).table(EMPLOYEE) is not None


async def test_a_spark_that_is_away_or_silent_is_an_error(live: Live) -> None:
    live.server.misbehave("ExecuteStatement", Silence())
    quick = LiveCatalog(live.service.query, refusal=BackendError, timeout_s=0.1)
    with pytest.raises(BackendUnavailable):
        await quick.look_up([EMPLOYEE])
    await quick.close()
    await live.server.stop()
    with pytest.raises(BackendUnavailable):
        await live.catalog.look_up([EMPLOYEE])
    await live.server.start()
    assert (await live.catalog.look_up([EMPLOYEE])).knows(EMPLOYEE)


class NoSuch(Exception):
    sqlstate = "42P01"


async def test_who_asks_for_a_thousand_names_does_not_stand_before_everybody_else() -> None:
    asked: list[str] = []

    async def query(sql: str) -> Sequence[Sequence[Any]]:
        asked.append(sql)
        await asyncio.sleep(0)
        raise NoSuch

    catalog = LiveCatalog(query, refusal=NoSuch)
    many = asyncio.create_task(
        catalog.look_up([TableName("spark_catalog", "x", f"t{n}") for n in range(1000)])
    )
    await asyncio.sleep(0)
    assert (await catalog.look_up([EMPLOYEE])).knows(EMPLOYEE)
    assert len(asked) < 20
    many.cancel()
    await asyncio.gather(many, return_exceptions=True)
    # Who has gone away has nothing asked any more, beyond what was on its way.
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(asked) < 40
    await catalog.close()


async def test_closing_stops_what_is_on_its_way(live: Live) -> None:
    live.server.on(re.compile("DESCRIBE .*"), Answer(until=asyncio.Event()))
    asking = asyncio.create_task(live.catalog.look_up([EMPLOYEE]))
    await live.server.until(lambda: len(live.described()) == 1)
    await live.catalog.close()
    with pytest.raises(asyncio.CancelledError):
        await asking


# -- static --------------------------------------------------------------------------------------------------


def test_every_fault_of_a_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(
        'catalogs: {c: {d: {t: {columns: {a: "what?", b: int}, colour: red, owner: 5},'
        " v: {columns: {a: int}, view: {output: [a, b]}}, 5: {}, w: []}}}\nmore: x\n"
    )
    with pytest.raises(Faults) as caught:
        StaticCatalog.load(path)
    told = "\n".join(caught.value.faults)
    for word in (
        "`what?`",
        "`colour`",
        "`owner` must be text",
        "`output`",
        "`text`",
        "`5`",
        "c.d.w",
        "`more`",
    ):
        assert word in told, word
    assert all(fault.startswith(f"{path}: ") for fault in caught.value.faults)


@pytest.mark.parametrize(
    "text", ["", "[]", "catalogs: [", "catalogs: {a: {}, a: {}}", "catalogs: x", "\x00", "{[]: 1}"]
)
def test_a_file_that_is_no_catalog_is_a_fault(tmp_path: Path, text: str) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(text)
    with pytest.raises(Faults):
        StaticCatalog.load(path)


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Faults):
        StaticCatalog.load(tmp_path / "nothing.yaml")


async def test_json_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps({"catalogs": {"c": {"d": {"t": {"columns": {"a": "int"}}}}}}))
    assert await StaticCatalog.load(path).list_tables("c", "d") == (("t", False),)
