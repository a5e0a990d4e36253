"""A gateway of several Sparks, which are stubs: nothing that one says is used for a statement on another."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gateway.app import sparks as sparks_module
from gateway.app.gateway import Gateway
from gateway.app.gateway_requests import drain_backend, list_backends
from gateway.app.sparks import Sparks
from gateway.errors import BackendNotAllowed, BackendUnavailable, SluiceError
from gateway.frontends.users import set_user
from gateway.model.catalog import TableName
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.reader.pool import ReaderPool
from gateway.session.identifiers import Handle
from gateway.session.routing.thrift import RoutedSessions
from gateway.settings.loading import parse_settings
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.speed import patience

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANN, BOB = "ann", "bob"
"""Of the groups `etl` and `analysts`."""
PACK = """
service: spark
policies:
  - name: everybody reads
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{users: [ann, bob], access: [use, select, create, drop]}]
  - name: pay is hidden
    on: {catalog: spark_catalog, database: hr, table: employee, column: pay}
    mask: [{users: [bob], type: MASK_NULL}]
"""


def describe(server: FakeHiveServer, table: str, columns: dict[str, str]) -> None:
    """Have a Spark tell of a table."""
    told = {
        "catalog_name": "spark_catalog", "namespace": ["hr"], "schema_name": "hr", "table_name": table,
        "type": "MANAGED", "provider": "parquet", "location": f"file:/w/{server.port}/{table}",
        "columns": [{"name": name, "type": {"name": ddl}} for name, ddl in columns.items()],
    }  # fmt: skip
    asked = f"DESCRIBE TABLE EXTENDED `spark_catalog`.`hr`.`{table}` AS JSON"
    server.on(asked, Answer.text((json.dumps(told),)))


def script(server: FakeHiveServer) -> None:
    missing = Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no such table")
    server.on(re.compile("DESCRIBE .*"), missing)
    server.on(re.compile("SELECT .*"), Answer.text(("1",)))
    server.on(re.compile("(DROP|CREATE|REFRESH) .*"), Answer.done())
    server.on(re.compile("SHOW .*"), Answer.text())
    server.on("SHOW DATABASES LIKE 'default'", Answer.text(("default",)))


class Running:
    """A gateway, and the Sparks behind it."""

    def __init__(self, gateway: Gateway, sparks: Sparks, dsn: str) -> None:
        self.gateway = gateway
        self.sparks = sparks
        self.dsn = dsn
        main = sparks.main
        self.sessions = RoutedSessions(
            sparks.fleet,
            main.dependencies.recorder,
            main.dependencies.lifecycle,
            first_catalog="spark_catalog",
            named_catalogs=frozenset(),
        )
        host, port = gateway.addresses.endpoints["admin"]
        self.admin = f"http://{host}:{port}"

    def principal(self, user: str) -> Principal:
        return self.sparks.main.dependencies.policies.principals[user]

    async def open(self, user: str, backend: str = "") -> Handle:
        return await self.sessions.open_session(
            self.principal(user), Client(protocol="thrift", backend=backend), protocol_version=10
        )

    def spark(self, name: str) -> Any:
        return self.sparks.fleet.get(name)

    async def run(self, user: str, handle: Handle, text: str) -> None:
        await self.sessions.of(handle).execute(self.principal(user), handle, text, run_async=False)

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as http, http.get(self.admin + path) as answer:
            return answer.status, await answer.text()


@pytest_asyncio.fixture(loop_scope="session")
async def stubs() -> AsyncIterator[dict[str, FakeHiveServer]]:
    found = {name: FakeHiveServer() for name in ("main", "etl", "same")}
    for server in found.values():
        await server.start()
        script(server)
    yield found
    for server in found.values():
        await server.stop()


@asynccontextmanager
async def running(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: ReaderPool,
    dsn: str,
    stubs: dict[str, FakeHiveServer],
    pool: str = "",
) -> AsyncIterator[Running]:
    """Serve with a parser that is there."""
    made: list[Sparks] = []
    take = Sparks.add_main

    def note(self: Sparks, *args: Any) -> None:
        made.append(self)
        take(self, *args)

    async def there(_: object) -> ReaderPool:
        return reader

    monkeypatch.setattr(Sparks, "add_main", note)
    monkeypatch.setattr(Gateway, "_start_reader", there)
    monkeypatch.setattr(sparks_module, "RETRY_S", 0.2)
    monkeypatch.setenv("SEVERAL_DSN", dsn)
    for user, groups in (("ann", ["etl"]), ("bob", ["analysts"])):
        set_user(directory / "users.yaml", user, password="secret", groups=groups)
    (directory / "pack.yaml").write_text(PACK)
    at = {name: f"thrift: {{host: 127.0.0.1, port: {one.port}}}" for name, one in stubs.items()}
    text = f"""
listeners: {{thrift: {{port: 0}}, admin: {{port: 0}}}}
backends:
  main: {{{at["main"]}}}
  etl: {{{at["etl"]}, groups: [etl]}}
  same: {{{at["same"]}, metastore: shared}}
  shares: {{{at["same"]}, metastore: shared}}
{pool}
routing: {{check_s: 0.1, retry_s: 0.2}}
policies: {{paths: [pack.yaml]}}
users: {{file: users.yaml}}
ledger: {{directory: ledger, dsn: {{env: SEVERAL_DSN}}}}
lineage: {{enabled: false}}
tag_propagation: {{enabled: false}}
"""
    settings = parse_settings(text, "gateway.yaml", directory)
    async with Gateway(settings) as gateway:
        serving = asyncio.create_task(gateway.run())
        try:
            yield Running(gateway, made[0], dsn)
        finally:
            serving.cancel()
            await asyncio.wait({serving})


async def until(holds: Any, what: str) -> None:
    async with asyncio.timeout(patience()):
        while not holds():  # noqa: ASYNC110 - anything may make it so
            await asyncio.sleep(0.02)
    assert holds(), what


async def test_each_spark_is_judged_by_its_own_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: ReaderPool, database: str, stubs: Any
) -> None:
    """Two metastores have a table of one name: with other columns, or none at all."""
    describe(stubs["main"], "employee", {"id": "int", "pay": "int"})
    describe(stubs["etl"], "employee", {"id": "int", "pay": "int", "salary": "int"})
    async with running(tmp_path, monkeypatch, reader, database, stubs) as here:
        assert {one["backend"] for one in here.sparks.list_states()} == {"main", "etl", "same", "shares"}
        on_main, on_etl = await here.open(BOB), await here.open(ANN, "etl")
        for _ in range(2):
            await here.run(BOB, on_main, "SELECT * FROM hr.employee")
            await here.run(ANN, on_etl, "SELECT * FROM hr.employee")
        (masked,) = {text for text in stubs["main"].texts() if "FROM" in text and "DESCRIBE" not in text}
        assert "salary" not in masked
        assert "CASE WHEN FALSE THEN `pay` END" in masked
        seen = [one.text for one in stubs["etl"].statements if one.user == "ann"]
        assert seen == ["SELECT * FROM `spark_catalog`.`hr`.`employee`"] * 2
        # What only one has, the other one has not, whatever was learnt there.
        describe(stubs["etl"], "bonus", {"id": "int"})
        await here.run(ANN, on_etl, "SELECT id FROM hr.bonus")
        await here.run(BOB, on_main, "SELECT id FROM hr.bonus")
        bonus = TableName("spark_catalog", "hr", "bonus")
        known = {name: one.catalog.snapshot.table(bonus) for name, one in here.sparks.parts.items()}
        assert known["etl"] is not None
        assert known["main"] is None
        states = json.loads((await here.get("/readyz"))[1])
        assert states
        assert 'sluice_backend_up{backend="etl",endpoint="thrift"} 1.0' in (await here.get("/metrics"))[1]


async def test_a_change_on_one_spark_is_known_on_those_that_share_its_metastore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: ReaderPool, database: str, stubs: Any
) -> None:
    for server in stubs.values():
        describe(server, "employee", {"id": "int"})
    async with running(tmp_path, monkeypatch, reader, database, stubs) as here:
        handles = {name: await here.open(ANN, name) for name in ("main", "same", "shares")}
        for handle in handles.values():
            await here.run(ANN, handle, "SELECT id FROM hr.employee")
        catalogs = {name: here.sparks.parts[name].catalog for name in handles}
        before = {name: one.changed_names.generation for name, one in catalogs.items()}
        await here.run(ANN, handles["same"], "DROP TABLE hr.employee")
        after = {name: one.changed_names.generation for name, one in catalogs.items()}
        assert {name for name in after if after[name] != before[name]} == {"same", "shares"}
        locks = {name: here.sparks.parts[name].dependencies.locks for name in handles}
        assert locks["same"] is locks["shares"] is not locks["main"]


async def test_a_gateway_starts_while_its_main_spark_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: ReaderPool, database: str, stubs: Any
) -> None:
    await stubs["main"].stop()
    async with running(tmp_path, monkeypatch, reader, database, stubs) as here:
        with pytest.raises(BackendUnavailable):
            await here.open(BOB)
        describe(stubs["same"], "employee", {"id": "int"})
        handle = await here.open(BOB, "same")
        await here.run(BOB, handle, "SELECT id FROM hr.employee")
        assert (await here.get("/readyz"))[0] == 200, "others take sessions"
        await stubs["main"].start()
        await until(lambda: here.spark("main").breakers["thrift"].state == "closed", "is back")
        describe(stubs["main"], "employee", {"id": "int", "pay": "int"})
        await here.run(BOB, await here.open(BOB), "SELECT * FROM hr.employee")
        assert any("CASE WHEN FALSE THEN `pay` END" in text for text in stubs["main"].texts())


async def test_a_dead_spark_a_drained_one_and_one_that_comes_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: ReaderPool, database: str, stubs: Any
) -> None:
    await stubs["etl"].stop()
    async with running(tmp_path, monkeypatch, reader, database, stubs) as here:
        with pytest.raises(BackendNotAllowed):
            await here.open(ANN, "etl")  # not there yet
        assert "`etl` is not there" in (await here.get("/readyz"))[1]
        await stubs["etl"].start()
        await until(lambda: here.sparks.fleet.get("etl") is not None, "etl has joined")
        with pytest.raises(BackendNotAllowed, match="you may use"):
            await here.open(BOB, "etl")
        await here.open(ANN, "etl")
        # It dies: no more sessions, until it is back.
        await stubs["etl"].stop()
        with pytest.raises(SluiceError):
            await here.open(ANN, "etl")
        await until(lambda: here.spark("etl").breakers["thrift"].state == "open", "noticed")
        with pytest.raises(BackendUnavailable, match="`etl` does not answer"):
            await here.open(ANN, "etl")
        assert (await here.get("/readyz"))[0] == 200, "others take sessions"
        await stubs["etl"].start()
        await until(lambda: here.spark("etl").breakers["thrift"].state == "closed", "is back")
        handle = await here.open(ANN, "etl")
        # An operator drains it, through PostgreSQL: open sessions go on.
        done, troubles = await drain_backend(database, "etl", on=True, by="ops")
        assert (len(done), list(troubles)) == (1, [])
        with pytest.raises(BackendUnavailable, match="is being drained"):
            await here.open(ANN, "etl")
        describe(stubs["etl"], "employee", {"id": "int"})
        await here.run(ANN, handle, "SELECT id FROM hr.employee")
        listed, _ = await list_backends(database)
        assert {one["backend"]: one["drained"] for one in listed}["etl"]
        assert not (await drain_backend(database, "nowhere", on=True, by="ops"))[0]
        await drain_backend(database, "etl", on=False, by="ops")
        await here.open(ANN, "etl")


async def test_another_spark_under_an_address_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: ReaderPool, database: str, stubs: Any
) -> None:
    """One that reads texts otherwise is found out by its first session, and by the gateway's own trials."""
    async with running(tmp_path, monkeypatch, reader, database, stubs) as here:
        await here.open(ANN, "etl")
        await stubs["etl"].stop()
        stubs["etl"].version = "3.5.1"
        stubs["etl"].settings |= {"spark.app.id": "local-2"}
        await stubs["etl"].start()
        for _ in range(3):
            with pytest.raises(BackendUnavailable):
                await here.run(ANN, await here.open(ANN, "etl"), "SELECT 1")
        assert "SELECT 1" not in [one.text for one in stubs["etl"].statements if one.user == "ann"]


async def test_discovered_sparks_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: ReaderPool, database: str, stubs: Any
) -> None:
    port = stubs["same"].port
    pool = f"  pool: {{thrift: {{host: pool, port: {port}}}, discover: {{file: sparks, every_s: 0.1}}}}"
    (tmp_path / "sparks").write_text("")
    async with running(tmp_path, monkeypatch, reader, database, stubs, pool) as here:
        with pytest.raises(BackendNotAllowed):
            await here.open(ANN, "pool")
        assert "`pool` is not there" in (await here.get("/readyz"))[1]
        # One that takes no connection, and is told of no more, is expected no more.
        (tmp_path / "sparks").write_text("127.1.2.3\n")
        await until(lambda: "pool@127.1.2.3" in here.sparks.fleet.pending, "it is told of")
        (tmp_path / "sparks").write_text("127.0.0.1\n")
        await until(lambda: here.sparks.fleet.get("pool@127.0.0.1") is not None, "it is found")
        await until(lambda: not here.sparks.fleet.pending, "all are there")
        left = weakref.ref(here.spark("pool@127.0.0.1").thrift)
        handle = await here.open(ANN, "pool")
        describe(stubs["same"], "employee", {"id": "int"})
        (tmp_path / "sparks").write_text("\n")
        await until(lambda: here.spark("pool@127.0.0.1").is_gone, "it is missed")
        with pytest.raises(BackendUnavailable):
            await here.open(ANN, "pool")
        await here.run(ANN, handle, "SELECT id FROM hr.employee")
        await here.sessions.of(handle).close_session(here.principal(ANN), handle)
        await until(lambda: here.sparks.fleet.get("pool@127.0.0.1") is None, "it is let go")
        await until(lambda: gc.collect() >= 0 and left() is None, "nothing holds what was known of it")
        assert 'backend="pool@127.0.0.1"' not in (await here.get("/metrics"))[1]
        (tmp_path / "sparks").write_text("127.0.0.1\n")
        await until(lambda: here.sparks.fleet.get("pool@127.0.0.1") is not None, "it is found again")
