"""The Iceberg REST catalog that a gateway serves, in front of Iceberg's own: PyIceberg, DuckDB, Iceberg's own
client and a Spark get what policies let them, or a refusal that says why, and never a raw value."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from gateway.frontends.users import add_token
from gateway.model.spark_minors import minor_of
from gateway.reader.java_runtime import find_java
from tests.e2e import one_pack
from tests.e2e.lake.formats import jars_of, spark_home_of
from tests.e2e.lake.servers import iceberg_rest
from tests.e2e.lake.worlds import LakeSpark, OpenLake
from tests.e2e.running import LoopThread, RunningGateway, until
from tests.speed import patience

pytestmark = pytest.mark.in_turn(3)

HERE = Path(__file__).parent / "pyiceberg_client"
JAVA = Path(__file__).parent / "java_client" / "IcebergClient.java"
CANARY = "canary-7719"
ROWS = f"(1, 'Ann', 'ann@{CANARY}', 'EMEA'), (2, '{CANARY}', 'bob@x.example', 'AMER'), (3, NULL, NULL, NULL)"
PACK = """
service: spark
policies:
  - name: everything
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{users: [loader], access: [all, metadata]}]
  - name: the shop
    on:
      - {catalog: [lake, narrow]}
      - {catalog: [lake, narrow], database: shop}
      - {catalog: lake, database: shop, table: [customer, plain, masked], column: "*"}
      - {catalog: narrow, database: shop, table: timed, column: "*"}
    allow: [{groups: [analysts], access: [use, show, select]}]
  - name: customers of a region
    on: {catalog: lake, database: shop, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: lake, database: shop, table: [customer, masked], column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
"""
RESTRICTIONS = {
    "required-row-filter": {"type": "eq", "left": {"type": "reference", "id": 4}, "right": "EMEA"},
    "required-column-projections": [{"field-id": 3, "action": "replace-with-null"}],
}
"""What a catalog says of `shop.timed`, whoever asks it."""
USERS = {"loader": [], "bob": ["analysts"], "engine": ["analysts"], "eve": []}


@pytest.fixture(scope="module")
def lake(lakes: OpenLake) -> LakeSpark:
    return lakes("4.1")


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark, session_loop: LoopThread) -> Iterator[RunningGateway]:
    directory = lake.directory / "served"
    directory.mkdir()
    directory.chmod(0o777)
    with iceberg_rest(session_loop, directory) as url, restricting(session_loop, url) as narrow:
        direct = connect_to("direct", url)
        lake.spark.query(
            *direct,
            *(f"CREATE NAMESPACE direct.{name}" for name in ("shop", "hidden")),
            *(
                f"CREATE TABLE direct.{name} (id INT, name STRING, email STRING, region STRING) USING iceberg"
                for name in ("shop.customer", "shop.masked", "hidden.secret")
            ),
            *(
                f"INSERT INTO direct.{name} VALUES {ROWS}"
                for name in ("shop.customer", "shop.masked", "hidden.secret")
            ),
            "CREATE TABLE direct.shop.plain (id INT, note STRING) USING iceberg",
            "INSERT INTO direct.shop.plain VALUES (1, 'a'), (2, 'b')",
            "CREATE TABLE direct.shop.timed (id INT, name STRING, email STRING, region STRING) USING iceberg",
            f"INSERT INTO direct.shop.timed VALUES {ROWS}",
            "ALTER TABLE direct.shop.timed RENAME COLUMN email TO mail",
            "ALTER TABLE direct.shop.timed ADD COLUMN email STRING",
            "INSERT INTO direct.shop.timed VALUES (4, 'Dan', 'dan@x', 'EMEA', 'new')",
        )
        entry: dict[str, Any] = {
            "name": "lake",
            "catalog": {"type": "iceberg", "connection-params": {"type": "rest", "uri": url}},
            "policies": "spark",
        }
        others = {
            "name": "narrow",
            "catalog": {**entry["catalog"], "connection-params": {"type": "rest", "uri": narrow}},
        }
        listeners = {
            **{name: {"port": 0} for name in ("thrift", "connect", "admin")},
            "iceberg_rest": {
                "port": 0,
                "catalogs": ["lake"],
                "enforcing": {"users": ["engine"]},
                "writers": {"users": ["loader"]},
            },
        }
        more: dict[str, Any] = {"catalogs": [entry, {**entry, **others}], "listeners": listeners}
        with lake.gateway("served-catalog", PACK, USERS, **more) as running:
            yield running


@contextlib.contextmanager
def restricting(loop: LoopThread, url: str) -> Iterator[str]:
    """Have the same catalog with restrictions in its answers, which Iceberg's own server has none of."""

    async def relay(request: web.Request) -> web.Response:
        async with (
            ClientSession() as http,
            http.request(request.method, f"{url}{request.raw_path}", data=await request.read(),
                         headers={"Content-Type": "application/json"}) as answer,
        ):  # fmt: skip
            body = await answer.read()
        if request.method == "GET" and answer.status == 200 and request.path.endswith("/tables/timed"):
            body = json.dumps({**json.loads(body), "read-restrictions": RESTRICTIONS}).encode()
        return web.Response(status=answer.status, body=body, content_type="application/json")

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", relay)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = loop.run(start())
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        loop.run(runner.cleanup())


def connect_to(name: str, url: str, **more: str) -> list[str]:
    """The statements by which a session of Spark has a REST catalog."""
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": url,
        ".cache-enabled": "false",
    }
    settings |= {f".{key}": value for key, value in more.items()}
    return [f"SET `spark.sql.catalog.{name}{key}`=`{value}`" for key, value in settings.items()]


def as_user(gateway: RunningGateway, name: str, user: str) -> list[str]:
    """The same at the gateway, as a user."""
    login = {"type": "basic", "basic.username": user, "basic.password": one_pack.PASSWORD}
    told = {f"rest.auth.{key}": value for key, value in login.items()}
    return connect_to(name, f"http://127.0.0.1:{gateway.iceberg_rest_port}", warehouse="lake", **told)


def ask(gateway: RunningGateway, user: str, path: str) -> tuple[int, Any]:
    """Ask as no client does."""
    login = base64.b64encode(f"{user}:{one_pack.PASSWORD}".encode()).decode()
    return ask_by(gateway, f"Basic {login}", path)


def ask_by(gateway: RunningGateway, login: str, path: str) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{gateway.iceberg_rest_port}{path}", headers={"Authorization": login}
    )
    try:
        with urllib.request.urlopen(request, timeout=patience()) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module")
def pyiceberg(gateway: RunningGateway) -> Iterator[Any]:
    python = HERE / ".venv" / "bin" / "python"
    assert python.exists(), f"no {python}: `make lake-jars`"
    url = f"http://127.0.0.1:{gateway.iceberg_rest_port}"
    with subprocess.Popen(
        [python, HERE / "client.py", url, "lake"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def act(user: str, action: str, *arguments: Any, password: str = one_pack.PASSWORD) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([user, password, action, arguments]) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield act
        process.stdin.close()
        process.wait(patience())


@pytest.fixture(scope="module")
def java_client(gateway: RunningGateway) -> Iterator[Any]:
    """Iceberg's own client, by the jars of a Spark, and no Spark."""
    minor = minor_of("4.1")
    places = ":".join([*map(str, jars_of(minor, ["iceberg"])), f"{spark_home_of(minor)}/jars/*"])
    url = f"http://127.0.0.1:{gateway.iceberg_rest_port}"
    command = [str(find_java()), "-Xmx300m", "-cp", places, str(JAVA), url, "lake"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def act(user: str, action: str, *names: str) -> tuple[str, str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\t".join((user, one_pack.PASSWORD, action, *names)) + "\n")
            process.stdin.flush()
            kind, _, told = process.stdout.readline().rstrip("\n").partition("\t")
            return kind, told

        yield act
        process.stdin.close()
        process.wait(patience())


@pytest.fixture(scope="module")
def token(gateway: RunningGateway, lake: LakeSpark) -> Any:
    """A token of a user, which the gateway has read."""

    def make(user: str) -> str:
        before = gateway.count_events("users_reloaded")
        secret = add_token(lake.directory / "served-catalog" / "users.yaml", user)
        # Not by asking: each login that fails before counts, and an address may have so many.
        until(lambda: gateway.count_events("users_reloaded") > before, "the token is in force")
        return secret

    return make


def test_pyiceberg_gets_what_policies_let_it(gateway: RunningGateway, pyiceberg: Any) -> None:
    assert pyiceberg("bob", "namespaces") == {"answer": ["shop"]}
    assert pyiceberg("loader", "namespaces") == {"answer": ["hidden", "shop"]}
    assert pyiceberg("bob", "tables", "shop") == {"answer": ["shop.customer", "shop.masked", "shop.plain"]}
    plain = {"answer": [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}]}
    assert pyiceberg("bob", "rows", "shop", "plain") == plain
    for table, why in (("customer", "a row filter"), ("masked", "a mask of column `email`")):
        refused = pyiceberg("bob", "rows", "shop", table)["error"]
        assert refused.startswith("ForbiddenError")
        assert why in refused
        assert CANARY not in refused
        assert CANARY in str(pyiceberg("loader", "rows", "shop", table)["answer"])
    assert "ForbiddenError" in pyiceberg("bob", "rows", "hidden", "secret")["error"]
    assert "ForbiddenError" in pyiceberg("eve", "rows", "shop", "plain")["error"]
    assert pyiceberg("bob", "exists", "hidden", "secret") == {"answer": False}
    assert pyiceberg("bob", "exists", "shop", "customer") == {"answer": True}


def test_who_enforces_is_told_what_to(gateway: RunningGateway, pyiceberg: Any) -> None:
    status, told = ask(gateway, "engine", "/v1/lake/namespaces/shop/tables/customer")
    assert status == 200
    assert told["read-restrictions"]["required-column-projections"] == [
        {"field-id": 3, "action": "sha-256-global"}
    ]
    assert told["read-restrictions"]["required-row-filter"]["left"]["right"] == "EMEA"
    status, told = ask(gateway, "bob", "/v1/lake/namespaces/shop/tables/customer")
    assert (status, told["error"]["type"]) == (403, "ForbiddenException")
    # Why only engines that enforce may be named: this one does not know the field.
    assert CANARY in str(pyiceberg("engine", "rows", "shop", "customer"))


def test_pyiceberg_writes_by_the_same_policies(
    gateway: RunningGateway, lake: LakeSpark, pyiceberg: Any
) -> None:
    for action, arguments in (
        ("make", ["shop", "made"]),
        ("append", [["shop", "plain"], [{"id": 9, "note": "x"}]]),
        ("rename column", [["shop", "plain"], "note", "free"]),
        ("drop", ["shop", "plain"]),
    ):
        refused = pyiceberg("bob", action, *arguments)
        assert "ForbiddenError" in refused["error"], (action, refused)
    assert "answer" in pyiceberg("loader", "make", "shop", "made")
    assert pyiceberg("loader", "append", ["shop", "made"], [{"id": 9, "note": "x"}]) == {"answer": 1}
    assert pyiceberg("loader", "rename column", ["shop", "made"], "note", "free") == {"answer": "free"}
    assert pyiceberg("loader", "rows", "shop", "made") == {"answer": [{"id": 9, "free": "x"}]}
    with one_pack.session(gateway, "thrift", "loader") as session:
        assert session("SELECT * FROM lake.shop.made") == [(9, "x")]
    assert "answer" in pyiceberg("loader", "drop", "shop", "made")
    with (
        one_pack.session(gateway, "thrift", "loader") as session,
        pytest.raises(Exception, match="NOT_FOUND"),
    ):
        session("SELECT * FROM lake.shop.made")


def test_a_spark_of_ones_own_is_refused_or_reads(gateway: RunningGateway, lake: LakeSpark) -> None:
    bob, loader = as_user(gateway, "bobs", "bob"), as_user(gateway, "loaders", "loader")
    assert lake.spark.query(*bob, "SELECT * FROM bobs.shop.plain ORDER BY id") == [(1, "a"), (2, "b")]
    assert lake.spark.query(*bob, "SHOW NAMESPACES IN bobs") == [("shop",)]
    for text in ("SELECT * FROM bobs.shop.customer", "SELECT count(*) FROM bobs.hidden.secret",
                 "INSERT INTO bobs.shop.plain VALUES (3, 'c')", "DROP TABLE bobs.shop.plain",
                 "CREATE TABLE bobs.shop.more (id INT) USING iceberg"):  # fmt: skip
        with pytest.raises(Exception, match=r"SLUICE_|Forbidden|403") as refused:
            lake.spark.query(*bob, text)
        assert CANARY not in str(refused.value)
    made = lake.spark.query(
        *loader,
        "CREATE TABLE loaders.shop.more USING iceberg AS SELECT 1 AS id, 'a' AS note",
        "INSERT INTO loaders.shop.more VALUES (2, 'b')",
        "ALTER TABLE loaders.shop.more ADD COLUMN n INT",
        "DELETE FROM loaders.shop.more WHERE id = 1",
        "SELECT * FROM loaders.shop.more",
    )
    assert made == [(2, "b", None)]
    lake.spark.query(*loader, "DROP TABLE loaders.shop.more")


def test_icebergs_own_client_gets_what_policies_let_it(gateway: RunningGateway, java_client: Any) -> None:
    assert java_client("bob", "namespaces") == ("answer", "shop")
    assert java_client("bob", "tables", "shop") == ("answer", "shop.customer; shop.masked; shop.plain")
    assert java_client("bob", "rows", "shop", "plain") == ("answer", "Record(1, a); Record(2, b)")
    for table, why in (("customer", "a row filter"), ("masked", "a mask of column `email`")):
        kind, told = java_client("bob", "rows", "shop", table)
        assert (kind, CANARY in told) == ("error", False)
        assert told.startswith("ForbiddenException")
        assert why in told
        assert CANARY in java_client("loader", "rows", "shop", table)[1]
    for user, action, names in (
        ("bob", "rows", ("hidden", "secret")),
        ("eve", "rows", ("shop", "plain")),
        ("bob", "make", ("shop", "javas")),
        ("bob", "make staged", ("shop", "javas")),
        ("bob", "drop", ("shop", "plain")),
    ):
        kind, told = java_client(user, action, *names)
        assert (kind, told.partition(":")[0]) == ("error", "ForbiddenException"), (user, action, told)
    assert java_client("bob", "exists", "hidden", "secret") == ("answer", "false")
    # What a table is staged with is nobody's property after.
    kind, told = java_client("loader", "make staged", "shop", "javas")
    assert kind == "answer", told
    assert "sluice" not in told
    assert java_client("loader", "drop", "shop", "javas") == ("answer", "true")


def test_duckdb_gets_what_policies_let_it(gateway: RunningGateway, pyiceberg: Any, token: Any) -> None:
    bobs, loaders = token("bob"), token("loader")

    def duckdb(shown: str, *texts: str) -> Any:
        return pyiceberg("nobody", "duckdb", *texts, password=shown)

    assert duckdb(bobs, "SELECT * FROM lake.shop.plain") == {"answer": [[1, "a"], [2, "b"]]}
    for table, why in (("customer", "a row filter"), ("masked", "a mask of column")):
        refused = duckdb(bobs, f"SELECT * FROM lake.shop.{table}").get("error", "")
        assert why in refused or "403" in refused or "Forbidden" in refused, refused
        assert CANARY not in refused
        assert CANARY in str(duckdb(loaders, f"SELECT * FROM lake.shop.{table}")["answer"])
    for text in (
        "SELECT * FROM lake.hidden.secret",
        "INSERT INTO lake.shop.plain VALUES (3, 'c')",
        "CREATE TABLE lake.shop.ducks (id INTEGER)",
        "DROP TABLE lake.shop.plain",
    ):
        assert "error" in duckdb(bobs, text), text
    assert duckdb(bobs, "SELECT * FROM lake.shop.plain") == {"answer": [[1, "a"], [2, "b"]]}
    assert "error" in duckdb("sluice_00000000_nobodys", "SELECT 1 FROM lake.shop.plain")


def test_earlier_snapshots_are_of_who_may_have_the_table(
    gateway: RunningGateway, lake: LakeSpark, pyiceberg: Any, java_client: Any
) -> None:
    loader, bob = as_user(gateway, "timed", "loader"), as_user(gateway, "bobs_times", "bob")
    lake.spark.query(
        *loader,
        "INSERT INTO timed.shop.plain VALUES (3, 'c')",
        "ALTER TABLE timed.shop.masked DROP COLUMN email",
    )
    try:
        first = [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}]
        assert pyiceberg("bob", "rows at first", "shop", "plain") == {"answer": first}
        assert len(pyiceberg("bob", "rows", "shop", "plain")["answer"]) == 3
        assert java_client("bob", "rows at first", "shop", "plain")[1] == "Record(1, a); Record(2, b)"
        ((snapshot,),) = lake.spark.query(
            *bob, "SELECT snapshot_id FROM bobs_times.shop.plain.snapshots ORDER BY committed_at LIMIT 1"
        )
        travelled = f"SELECT * FROM bobs_times.shop.plain VERSION AS OF {snapshot} ORDER BY id"
        assert lake.spark.query(*bob, travelled) == [(1, "a"), (2, "b")]
        # The masked column is gone, and in its files and snapshots still.
        for act in (pyiceberg, java_client):
            assert "a mask of column `email`" in str(act("bob", "rows at first", "shop", "masked"))
        with pytest.raises(Exception, match=r"SLUICE_|Forbidden|403") as refused:
            lake.spark.query(*bob, "SELECT * FROM bobs_times.shop.masked.files")
        assert CANARY not in str(refused.value)
    finally:
        lake.spark.query(*loader, "DELETE FROM timed.shop.plain WHERE id = 3")


@pytest.mark.parametrize("endpoint", one_pack.ENDPOINTS)
def test_what_a_catalog_restricts_holds_for_every_version(
    gateway: RunningGateway, lake: LakeSpark, endpoint: str
) -> None:
    """The column `email` of then is `mail` now, and another one is called `email`."""
    loader = as_user(gateway, "looked", "loader")
    text = "SELECT snapshot_id FROM looked.shop.timed.snapshots ORDER BY committed_at"
    snapshots = lake.spark.query(*loader, text)
    first, second = (one for (one,) in snapshots)
    with one_pack.session(gateway, endpoint, "bob") as bob:
        table = "narrow.shop.timed"
        assert bob(f"SELECT id, mail, email FROM {table}") == [(1, None, None), (4, None, "new")]
        assert bob(f"SELECT id, email FROM {table} VERSION AS OF {first}") == [(1, None)]
        assert bob(f"SELECT id, email FROM {table} VERSION AS OF {second}") == [(1, None), (4, "new")]
        assert bob(f"SELECT count(*) FROM {table} VERSION AS OF {first} WHERE email LIKE 'ann%'") == [(0,)]
        for name in ("snapshots", "files", "history", "partitions", "manifests", "entries", "all_data_files"):
            with pytest.raises(Exception, match=r"restricts|SLUICE_") as refused:
                bob(f"SELECT * FROM {table}.{name}")
            assert CANARY not in str(refused.value)
