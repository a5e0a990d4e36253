"""Histories of metalakes: catalogs that come, change and go, two that name the same, servers that fail."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.app.catalogs import SparkCatalogs
from gateway.app.files import list_reserved_urls
from gateway.app.metalakes import fetch_metalake, load_cached_metalakes, metalakes_of
from gateway.app.policy_diff import combine_policies, load_side, parts_beside, settings_side
from gateway.app.replaying import replay_options
from gateway.app.state_metrics import metalake_gauges
from gateway.errors import BackendUnavailable, Faults
from gateway.jobs.replay.judging import Judges, Known, Parcel
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.context import AccessContext
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.spark_minors import NEWEST, Minor
from gateway.policy.engine import engine_for
from gateway.policy.parts import Part
from gateway.settings.catalogs import CatalogConnection, CatalogEntry
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings
from gateway.settings.section import Secret
from gateway.sources.metalakes import MetalakeState
from tests.catalog.gravitino_double import METALAKE, Gravitino
from tests.jobs.records import question
from tests.speed import patience

DRIVER = "org.postgresql.Driver"


def settings(directory: Path, *doubles: Gravitino, more: str = "", **parameters: Any) -> Settings:
    lines = ["catalogs:"]
    for number, double in enumerate(doubles):
        given = {"uri": double.url, "metalake": METALAKE, "poll-s": 1, "timeout-s": 1, **parameters}
        inner = ", ".join(f"{key}: {value}" for key, value in given.items())
        lines.append(
            f"  - {{name: lake{number}, catalog: {{type: gravitino, connection-params: {{{inner}}}}}}}"
        )
    lines += [more, f"ledger: {{directory: {directory / 'ledger'}}}"]
    return parse_settings("\n".join(lines), "gateway.yaml", directory)


class Clock:
    """What time it is for sources, which age."""

    def __init__(self) -> None:
        self.now = 0.0


class Running:
    """Metalakes that were started, and what policies got of them."""

    def __init__(self, made: Settings, clock: Clock | None = None, minor: Minor = NEWEST) -> None:
        from functools import partial

        from gateway.sources.metalake import MetalakeSource

        told = clock or Clock()
        source = partial(MetalakeSource, clock=lambda: told.now, wall_clock=lambda: 1e9 + told.now)
        self.settings = made
        self.metalakes = metalakes_of(made, minor, make_source=source)
        self.parts: dict[str, Part] = {}
        self.refuse = ""
        self.seen: list[tuple[frozenset[str], frozenset[str]]] = []
        """Whenever policies changed: the names that could be used, and those that policies then spoke for."""

    async def take(self, name: str, part: Part) -> None:
        if self.refuse:
            raise Faults([self.refuse])
        self.parts[name] = part
        spoken = frozenset(c.lower() for one in self.parts.values() for c in one.catalogs)
        self.seen.append((frozenset(self.metalakes.list_catalogs().revisions), spoken))

    @property
    def names(self) -> list[str]:
        return sorted(self.metalakes.list_catalogs().revisions)

    def state(self, at: int = 0) -> MetalakeState:
        return self.metalakes.states()[at]

    def why(self, name: str, at: int = 0) -> str:
        return next(one.why for one in self.state(at).left_out if one.name == name)


@asynccontextmanager
async def started(*doubles: Gravitino) -> AsyncIterator[None]:
    for double in doubles:
        await double.start()
    try:
        yield
    finally:
        for double in doubles:
            await double.stop()


@asynccontextmanager
async def running(made: Settings, clock: Clock | None = None) -> AsyncIterator[Running]:
    one = Running(made, clock)
    await one.metalakes.start(one.take)
    try:
        yield one
    finally:
        await one.metalakes.close()


def lake() -> Gravitino:
    double = Gravitino()
    double.add(
        "pg",
        "jdbc-postgresql",
        jdbc_url="jdbc:postgresql://db/x",
        jdbc_driver=DRIVER,
        jdbc_user="u",
        jdbc_password="hush",
    )
    double.add("meta", "hive", metastore__uris="thrift://m:9083")
    return double


async def test_what_is_taken_and_what_is_left_out(tmp_path: Path) -> None:
    double = lake()
    double.add("files", "hadoop", "fileset")
    double.add("ice", "lakehouse-iceberg", catalog_backend="rest", uri="http://i")
    double.add("odd", "lakehouse-unheard-of")
    double.add("blank", "")
    double.add("spark_catalog", "hive", metastore__uris="thrift://m:9083")
    double.add("own", "hive", metastore__uris="thrift://m:9083")
    for name in ("PG", "Default", "default"):
        double.add(name, "hive", metastore__uris="thrift://m:9083")
    more = "policies: {catalogs: {spark_catalog: spark, own: spark}}"
    async with started(double), running(settings(tmp_path, double, more=more)) as one:
        assert one.names == ["meta", "pg"]
        left = {found.name: found.why for found in one.state().left_out}
        told = str(await one.metalakes.report_trouble())
    assert left == {
        "PG": "its name has capitals; Spark distinguishes case here and policies do not",
        "Default": "its name has capitals; Spark distinguishes case here and policies do not",
        "default": "its name is reserved by Spark",
        "blank": "without a provider",
        "files": "of type FILESET, which has no tables",
        "ice": "unknown provider `lakehouse-iceberg` for Spark 4.3",
        "odd": "unknown provider `lakehouse-unheard-of`",
        "own": "its name is already used in the settings",
        "spark_catalog": "its name is already used in the settings",
    }
    assert "odd" in told
    assert "files" not in told


class OwnSpark:
    """What Spark says of the catalogs that it has by itself."""

    def __init__(self, **catalogs: str) -> None:
        self.catalogs = catalogs
        self.away = False

    async def __call__(self) -> dict[str, str]:
        if self.away:
            raise BackendUnavailable("Spark cannot be reached")
        return self.catalogs


async def test_names_that_spark_has_itself_are_those_that_it_has_now(tmp_path: Path) -> None:
    double, spark = lake(), OwnSpark(META="org.own.Catalog")
    async with started(double):
        one = Running(settings(tmp_path, double))
        await one.metalakes.start(one.take, spark)
        assert one.names == ["pg"]
        assert one.why("meta") == "its name is already used by Spark"
        # Spark is started anew, with others.
        spark.catalogs = {"pg": "org.own.Catalog"}
        await one.metalakes.look_at_spark()
        assert one.names == ["meta"]
        assert one.metalakes.list_catalogs().refused == {"pg": "which is now one of Spark's own"}
        spark.away = True
        await one.metalakes.look_at_spark()
        assert one.names == ["meta"]
        await one.metalakes.close()


async def test_while_it_is_not_known_what_spark_has_no_catalog_is_in_force(tmp_path: Path) -> None:
    double, spark = lake(), OwnSpark(meta="org.own.Catalog")
    spark.away = True
    async with started(double):
        one = Running(settings(tmp_path, double))
        await one.metalakes.start(one.take, spark)
        assert one.names == []
        assert "are not known yet" in one.why("pg")
        spark.away = False
        await one.metalakes.look_at_spark()
        assert one.names == ["pg"]
        await one.metalakes.close()


async def test_what_gravitinos_connector_made_known_to_spark_is_the_metalakes(tmp_path: Path) -> None:
    double = Gravitino()
    double.add("pg", "jdbc-postgresql", jdbc_url="jdbc:postgresql://db/x", jdbc_driver=DRIVER)
    double.add("my", "jdbc-mysql", jdbc_url="jdbc:mysql://db/x", jdbc_driver=DRIVER)
    kind = "org.apache.gravitino.spark.connector.jdbc.postgresql.GravitinoPostgreSqlCatalogSpark35"
    async with started(double):
        made = settings(tmp_path, double, connectors="gravitino")
        one = Running(made, minor=Minor(3, 5))
        await one.metalakes.start(one.take, OwnSpark(pg=kind, my="org.own.Catalog"))
        assert one.names == ["pg"]
        await one.metalakes.close()


async def test_catalogs_come_change_and_go(tmp_path: Path) -> None:
    double = lake()
    async with started(double), running(settings(tmp_path, double)) as one:
        catalogs = SparkCatalogs((), one.metalakes)
        first = dict(one.metalakes.list_catalogs().revisions)
        assert one.parts["the metalake `lake0`"].catalogs == {"meta": "spark", "pg": "spark"}
        await one.metalakes.look()
        assert one.metalakes.list_catalogs().revisions == first
        assert catalogs.list_session_catalogs() == first
        # One comes.
        double.add("new", "hive", metastore__uris="thrift://n:9083")
        await one.metalakes.look()
        assert one.names == ["meta", "new", "pg"]
        assert {name: one.metalakes.list_catalogs().revisions[name] for name in first} == first
        # One changes its provider: a session that has it as it was cannot use it.
        double.catalogs["meta"]["provider"] = "jdbc-mysql"
        double.catalogs["meta"]["properties"] = {
            "jdbc-url": "jdbc:mysql://db",
            "jdbc-driver": "com.mysql.cj.jdbc.Driver",
        }
        await one.metalakes.look()
        assert one.metalakes.list_catalogs().revisions["meta"] > first["meta"]
        assert one.metalakes.list_catalogs().revisions["pg"] == first["pg"]
        conf = catalogs.of_sessions()
        assert conf["spark.sql.catalog.meta"].endswith("JDBCTableCatalog")
        # One goes, and its name means nothing else for as long as the gateway runs.
        del double.catalogs["meta"]
        await one.metalakes.look()
        assert one.names == ["new", "pg"]
        assert "no longer has" in one.metalakes.list_catalogs().refused["meta"]
        assert "spark.sql.catalog.meta" not in catalogs.of_sessions()
        # It comes back: as another one.
        double.add("meta", "hive", metastore__uris="thrift://m:9083")
        await one.metalakes.look()
        assert one.metalakes.list_catalogs().revisions["meta"] > first["meta"]
        assert one.metalakes.list_catalogs().refused == {}
        # Whenever policies changed, nothing could be used that they did not speak for before or after.
        spoken: frozenset[str] = frozenset()
        for usable, now in one.seen:
            assert usable <= now & (spoken | now)
            assert usable <= spoken or not spoken
            spoken = now


@pytest.mark.parametrize("mood", ["garbage", "empty", "oversize", "slow", "redirect", "error", "down"])
async def test_a_server_that_fails_leaves_the_last_list(tmp_path: Path, mood: str) -> None:
    double, clock = lake(), Clock()
    limits: dict[str, Any] = {"max-stale-s": 60, "max-bytes": 1_000_000}
    async with started(double), running(settings(tmp_path, double, **limits), clock) as one:
        before = one.metalakes.list_catalogs()
        if mood == "down":
            await double.stop()
        double.mood = mood
        clock.now += 60
        await one.metalakes.look()
        assert one.metalakes.list_catalogs() is before
        assert "the last catalogs are in force" in str(await one.metalakes.report_trouble())
        clock.now += 1
        assert one.names == []
        refused = one.metalakes.list_catalogs().refused
        assert set(refused) == {"meta", "pg"}
        assert "has not answered" in refused["pg"]
        assert one.metalakes.reveal_catalogs() == []
        assert one.metalakes.list_catalogs() is one.metalakes.list_catalogs()
        assert "its catalogs are refused" in str(await one.metalakes.report_trouble())
        assert "hush" not in str(await one.metalakes.report_trouble())
        double.mood = ""
        if mood == "down":
            await double.again()
        await one.metalakes.look()
        assert one.metalakes.list_catalogs().revisions == before.revisions
        assert await one.metalakes.report_trouble() is None


async def test_where_its_catalogs_keep_tables_nobody_promotes_files(tmp_path: Path) -> None:
    double = lake()
    async with started(double):
        one = Running(settings(tmp_path, double, iceberg="true"), minor=Minor(4, 1))
        await one.metalakes.start(one.take)
        try:
            assert list_reserved_urls((), one.metalakes.states) == []
            ice = {"catalog_backend": "hive", "uri": "thrift://m:9083", "warehouse": "s3a://b/ice"}
            double.add("ice", "lakehouse-iceberg", **ice)
            await one.metalakes.look()
            assert list_reserved_urls(["file:/own"], one.metalakes.states) == ["file:/own", "s3a://b/ice"]
            # Nor where a catalog has them that Spark is not told of; a bucket of files is no catalog's.
            double.add("odd", "unheard-of", warehouse="s3a://b/odd")
            double.add("raw", "", "fileset", location="s3a://b/raw")
            await one.metalakes.look()
            assert list_reserved_urls((), one.metalakes.states) == ["s3a://b/ice", "s3a://b/odd"]
        finally:
            await one.metalakes.close()
        # Its own connector asks the server by itself where that is.
        connectors = Running(
            settings(tmp_path, double, iceberg="true", connectors="gravitino"), minor=Minor(3, 5)
        )
        await connectors.metalakes.start(connectors.take)
        try:
            assert "ice" in connectors.names
            assert list_reserved_urls((), connectors.metalakes.states) == ["s3a://b/ice", "s3a://b/odd"]
        finally:
            await connectors.metalakes.close()


async def test_a_restart_without_the_server(tmp_path: Path) -> None:
    double, clock = lake(), Clock()
    await double.start()
    made = settings(tmp_path, double)
    async with running(made, clock):
        pass
    await double.stop()
    clock.now += 100
    async with running(made, clock) as one:
        # Its password was not kept, so that it cannot be had.
        assert one.names == ["meta"]
        assert "`jdbc-password` is not known" in one.why("pg")
        assert "hush" not in (tmp_path / "ledger" / "metalake_lake0.json").read_text()
        await double.again()
        await one.metalakes.look()
        assert one.names == ["meta", "pg"]
        await double.stop()
    clock.now += 86_401
    async with running(made, clock) as one:
        assert one.names == []
        assert "has not answered" in one.metalakes.list_catalogs().refused["meta"]


async def test_secrets_as_references_hold_over_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_TEST_PG", "ours")
    double = lake()
    await double.start()
    made = settings(tmp_path, double, **{"set.pg.password": "{env: SLUICE_TEST_PG}"})
    async with running(made) as one:
        catalogs = SparkCatalogs((), one.metalakes)
        assert catalogs.of_sessions()["spark.sql.catalog.pg.password"] == "ours"
        assert "ours" in list(catalogs.secrets())
        assert "ours" not in repr(one.metalakes.states())
        first = one.metalakes.list_catalogs().revisions
        monkeypatch.setenv("SLUICE_TEST_PG", "rotated")
        assert catalogs.of_sessions()["spark.sql.catalog.pg.password"] == "rotated"
        # Sessions of before were told the old one.
        assert {"ours", "rotated"} <= set(catalogs.secrets())
        assert one.metalakes.list_catalogs().revisions == first
    await double.stop()
    async with running(made) as one:
        assert one.names == ["meta", "pg"]
    monkeypatch.delenv("SLUICE_TEST_PG")
    async with running(made) as one:
        with pytest.raises(Faults, match=r"set\.pg\.password"):
            one.metalakes.reveal_catalogs()


def test_secrets_of_the_settings_are_hidden_as_they_are_told(tmp_path: Path) -> None:
    """Those of now and of before: a session has what it was told. A secret that is away hides them all the
    same."""
    password, url = tmp_path / "password", tmp_path / "url"
    password.write_text("old")
    url.write_text("jdbc:postgresql://db/x?password=within")
    parameters: dict[str, str | Secret] = {
        "url": Secret(file=url),
        "driver": DRIVER,
        "password": Secret(file=password),
    }
    connection = CatalogConnection(type="jdbc", connection_params=parameters)
    catalogs = SparkCatalogs([CatalogEntry(name="pg", catalog=connection)])
    secrets = catalogs.secrets()
    assert {"old", "within"} <= set(secrets)
    password.write_text("new")
    assert catalogs.of_sessions()["spark.sql.catalog.pg.password"] == "new"
    assert {"old", "new", "within"} <= set(secrets)
    password.unlink()
    with pytest.raises(Faults):
        catalogs.of_sessions()
    assert {"old", "new"} <= set(secrets)
    assert "new" not in repr(secrets)


def test_the_login_of_gravitinos_connector_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark has it, since it started."""
    monkeypatch.setenv("SLUICE_TEST_LAKE", "me:hush")
    credential = {"auth": "oauth2", "oauth2-server-uri": "http://l", "credential": "{env: SLUICE_TEST_LAKE}"}
    made = settings(tmp_path, Gravitino(url="http://g"), connectors="gravitino", **credential)
    assert set(SparkCatalogs(made.catalogs).secrets()) == {"me:hush", "hush"}
    made = settings(tmp_path, Gravitino(url="http://g"), **credential)
    assert list(SparkCatalogs(made.catalogs).secrets()) == []


async def test_a_role_that_the_server_does_not_show_is_told_loudly(tmp_path: Path) -> None:
    double = lake()
    double.users["ann"] = ["denies"]
    double.grant("denies", "catalog", "pg", "!select_table")
    double.hidden = {"denies": 403}
    async with started(double), running(settings(tmp_path, double, privileges="true")) as one:
        assert one.names == ["meta", "pg"]
        assert one.state().hidden_roles == ("denies",)
        assert (
            "whoever has one of 1 roles that the server does not show is denied everything: `denies`"
            in str(await one.metalakes.report_trouble())
        )
        denied = [p for p in one.parts["the metalake `lake0`"].policies if p.deny]
        assert {item.users for policy in denied for item in policy.deny} == {frozenset({"ann"})}
        double.hidden = {}
        await one.metalakes.look()
        assert one.state().hidden_roles == ()
        assert await one.metalakes.report_trouble() is None


async def test_what_a_server_may_not_say_is_left_out_and_counted(tmp_path: Path) -> None:
    double = lake()
    double.catalogs["pg"]["properties"] |= {
        "spark.bypass.sessionInitStatement": "DROP TABLE x",
        "spark.bypass.fetchsize": "10",
    }
    async with started(double), running(settings(tmp_path, double)) as one:
        conf = SparkCatalogs((), one.metalakes).of_sessions()
        assert conf["spark.sql.catalog.pg.fetchsize"] == "10"
        assert "DROP" not in str(conf)
        assert one.state().unmapped_privileges == {"property spark.bypass.sessionInitStatement of pg": 1}
        assert "1 tags, privileges and properties cannot be mapped" in str(
            await one.metalakes.report_trouble()
        )
        double.catalogs["pg"]["properties"].pop("spark.bypass.sessionInitStatement")
        await one.metalakes.look()
        assert one.state().unmapped_privileges == {}


async def test_passwords_of_the_server_are_hidden_from_clients_and_reprs(tmp_path: Path) -> None:
    double = lake()
    async with started(double), running(settings(tmp_path, double)) as one:
        catalogs = SparkCatalogs((), one.metalakes)
        secrets = catalogs.secrets()
        assert list(secrets) == ["hush"]
        double.catalogs["pg"]["properties"]["jdbc-password"] = "hush2"
        await one.metalakes.look()
        assert list(secrets) == ["hush", "hush2"]
        for shown in (one.metalakes.states(), one.metalakes.reveal_catalogs(), secrets, one.parts):
            assert "hush" not in repr(shown)


async def test_of_two_metalakes_with_one_name_the_first_keeps_it(tmp_path: Path) -> None:
    first, second = lake(), Gravitino()
    second.add("pg", "hive", metastore__uris="thrift://second:9083")
    async with started(first, second), running(settings(tmp_path, first, second)) as one:
        owner = one.metalakes.list_catalogs().revisions["pg"]
        assert one.why("pg", at=1) == "its name is already used by the metalake `lake0`"
        assert one.parts["the metalake `lake1`"].catalogs == {}
        # When the first lets go of it, the second has it; the first does not get it back.
        kept = first.catalogs.pop("pg")
        await one.metalakes.look()
        assert one.metalakes.list_catalogs().revisions["pg"] > owner
        assert one.parts["the metalake `lake1`"].catalogs == {"pg": "spark"}
        first.catalogs["pg"] = kept
        await one.metalakes.look()
        assert one.why("pg") == "its name is already used by the metalake `lake1`"
        assert one.parts["the metalake `lake0`"].catalogs == {"meta": "spark"}


async def test_tags_move_and_roles_are_revoked(tmp_path: Path) -> None:
    double = lake()
    double.tag("pii", "column", "pg.shop.person.card")
    double.grant("reader", "catalog", "pg", "use_catalog", "use_schema", "select_table")
    double.users["ann"] = ["reader"]
    async with started(double), running(settings(tmp_path, double, privileges="true")) as one:
        revisions = one.metalakes.list_catalogs().revisions

        def part() -> Part:
            return one.parts["the metalake `lake0`"]

        assert part().tagged[0].resources["column"].values == ("card",)
        assert part().policies
        versions = part().versions
        double.tagged["pii"] = [("schema", "pg.shop")]
        await one.metalakes.look()
        assert set(part().tagged[0].resources) == {"catalog", "database"}
        assert part().versions != versions
        double.users["ann"] = []
        await one.metalakes.look()
        assert part().policies == ()
        # No catalog is another for that: sessions go on.
        assert one.metalakes.list_catalogs().revisions == revisions
        double.grant("reader", "catalog", "pg", "create_view")
        await one.metalakes.look()
        assert one.state().unmapped_privileges == {"ALLOW CREATE_VIEW on CATALOG": 1}
        assert "1 tags, privileges and properties cannot be mapped" in str(
            await one.metalakes.report_trouble()
        )
        double.broken, double.mood = "/tags/", "error"
        double.tags.clear()
        double.tags["pii"] = {}
        await one.metalakes.look()
        # Tags that cannot be read are not lost.
        assert part().tagged


async def test_tags_and_privileges_are_taken_where_they_are_wanted(tmp_path: Path) -> None:
    double = lake()
    double.tag("pii", "catalog", "pg")
    double.grant("reader", "catalog", "pg", "use_catalog")
    double.users["ann"] = ["reader"]
    async with started(double), running(settings(tmp_path, double, tags="false")) as one:
        part = one.parts["the metalake `lake0`"]
        assert (part.tagged, part.policies) == ((), ())
        assert not any("/tags" in path or "/roles" in path for path in double.paths)


async def test_what_policies_refuse_changes_nothing(tmp_path: Path) -> None:
    double = lake()
    async with started(double), running(settings(tmp_path, double)) as one:
        before = one.metalakes.list_catalogs()
        double.add("new", "hive", metastore__uris="thrift://n:9083")
        del double.catalogs["meta"]
        double.add("odd", "unheard-of")
        one.refuse = "no"
        await one.metalakes.look()
        assert one.state().left_out == ()
        assert one.metalakes.list_catalogs() == before
        assert one.state().trouble == "no"
        assert "spark.sql.catalog.meta" in SparkCatalogs((), one.metalakes).of_sessions()
        one.refuse = ""
        await one.metalakes.look()
        assert one.names == ["new", "pg"]


def table(catalog: str, owner: str | None = "spark") -> Table:
    return Table(name=TableName(catalog, "shop", "person"), kind=TableKind.TABLE, columns=(), owner=owner)


async def test_owners_are_the_metalakes(tmp_path: Path) -> None:
    double, clock = lake(), Clock()
    double.owners["TABLE", "pg.shop.person"] = ("olga", "USER")
    double.owners["TABLE", "meta.shop.person"] = ("keepers", "GROUP")
    limits: dict[str, Any] = {"max-stale-s": 60}
    async with started(double), running(settings(tmp_path, double, **limits), clock) as one:
        owner = one.metalakes.owner
        assert await owner(table("pg")) == "olga"
        assert await owner(table("meta")) is None
        assert await owner(table("spark_catalog")) == "spark"
        double.owners["TABLE", "pg.shop.person"] = ("bob", "USER")
        assert await owner(table("pg")) == "bob"
        # A silent server: the last answer counts for as long as its list does.
        await double.stop()
        assert await owner(table("pg")) == "bob"
        await one.metalakes.look()
        assert await owner(table("pg")) == "bob"
        clock.now += 61
        assert await owner(table("pg")) is None
        await double.again()
        await one.metalakes.look()
        del double.owners["TABLE", "pg.shop.person"]
        assert await owner(table("pg")) is None
    async with started(double), running(settings(tmp_path, double, owners="false")) as one:
        assert await one.metalakes.owner(table("pg")) == "spark"


async def test_commands_beside_the_gateway_see_the_same(tmp_path: Path) -> None:
    double = lake()
    await double.start()
    made = settings(tmp_path, double, **{"set.pg.password": "{env: HOME}"})
    (state,) = (await load_cached_metalakes(made))[0].states()
    assert (state.catalogs, state.age_s) == ((), None)
    async with running(made):
        pass
    asked = await fetch_metalake(made, NEWEST, made.catalogs[0])
    assert (len(asked.catalogs), asked.trouble) == (2, "")
    await double.stop()
    (state,) = (await load_cached_metalakes(made))[0].states()
    assert sorted(one.name for one in state.catalogs) == ["meta", "pg"]
    assert os.environ["HOME"] not in repr(state)
    asked = await fetch_metalake(made, NEWEST, made.catalogs[0])
    assert "no answer" in asked.trouble


async def test_it_polls_by_itself_and_tells_its_figures(tmp_path: Path) -> None:
    double = lake()
    async with started(double), running(settings(tmp_path, double)) as one:
        polling = asyncio.create_task(one.metalakes.run())
        double.add("new", "hive", metastore__uris="thrift://n:9083")
        for _ in range(200):
            if "new" in one.names:
                break
            await asyncio.sleep(0.05)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        figures = {f.name: f.samples[0].value for f in _collected(one)}
    assert figures["sluice_metalake_catalogs"] == 3
    assert figures["sluice_metalake_stale"] == 0


def _collected(one: Running) -> Iterator[Any]:
    return metalake_gauges(one.metalakes.states())


PERSON = Table(
    name=TableName("pg", "shop", "person"),
    kind=TableKind.TABLE,
    columns=(Column(name="id", type="int"), Column(name="email", type="string")),
)
READS = """\
service: spark
policies:
  - name: analysts read
    on: {catalog: pg, database: shop, table: person, column: "*"}
    allow: [{users: [ann], access: [select]}]
"""
MASKS = """\
  - name: hide
    on: {tag: PII}
    mask: [{users: [ann], access: [select], type: MASK_NULL}]
"""


async def left(directory: Path, double: Gravitino, **chosen: str) -> Settings:
    """Return settings of a gateway that is stopped, and its metalake is gone."""
    async with started(double):
        made = settings(directory, double, **{"set.pg.password": "{env: HOME}"}, **chosen)
        clock = Clock()
        clock.now = time.time() - 1e9
        async with running(made, clock):
            return made


def test_a_replay_judges_what_lies_in_metalakes_by_their_tags(tmp_path: Path) -> None:
    double = lake()
    double.tag("PII", "column", "pg.shop.person.email")
    more = f"reader: {{timeout_s: {patience()}}}\nusers: {{file: {tmp_path / 'users'}}}"
    made = asyncio.run(left(tmp_path, double, more=more))
    sides = tmp_path / "old.yaml", tmp_path / "new.yaml"
    sides[0].write_text(READS)
    sides[1].write_text(READS + MASKS)
    plan = replay_options(made, sides=sides).proposal()
    assert sorted(plan.listed.revisions) == ["meta", "pg"]
    row = question("SELECT email FROM pg.shop.person")
    judges = Judges(plan.reader)
    try:
        known = Known(catalogs=plan.catalogs, listed=plan.listed)
        (asked,) = judges.answers([row], Parcel.of(plan.sides), Parcel.of(known))
        assert asked["needs"] == [["pg", "shop", "person", ""]]
        known = replace(known, tables={PERSON.name: PERSON})
        (answer,) = judges.answers([row], Parcel.of(plan.sides), Parcel.of(known))
    finally:
        judges.close()
    assert (answer["old"], answer["new"], answer["reason"]) == ("cleared", "cleared", None)
    (change,) = answer["changes"]
    assert (change["kind"], change["resource"], change["column_name"]) == ("mask", "pg.shop.person", "email")


def test_policies_beside_the_gateway_have_what_its_metalakes_say(tmp_path: Path) -> None:
    double = lake()
    double.tag("PII", "column", "pg.shop.person.email")
    double.grant("reader", "table", "pg.shop.person", "!select_table")
    double.users["ann"] = ["reader"]
    (tmp_path / "pack.yaml").write_text(READS)
    more = f"policies: {{paths: [{tmp_path / 'pack.yaml'}]}}"
    made = asyncio.run(left(tmp_path, double, more=more, privileges="true"))
    policies = settings_side(made, {}, None)
    assert {"pg", "meta"} <= policies.catalog_services.keys()
    assert "metalake.lake0" in policies.origins
    engine = engine_for(policies)
    email = Resource.table("pg", "shop", "person").child("column", "email")
    assert [tag.type for tag in engine.tags(email, AccessContext())] == ["PII"]
    asked = AccessRequest(principal=Principal(user="ann"), resource=email, access="select")
    # Allowed by the pack, denied by the metalake.
    assert not engine.decide(asked).allowed
    # Whose service is not there is left out, as its gateway does; the files are for its Spark.
    assert (
        "pg"
        not in combine_policies(Part(name="none", services={}), parts_beside(made, None), {}).catalog_services
    )
    assert asyncio.run(load_cached_metalakes(made))[0]._minor == NEWEST
    kept_file = tmp_path / "ledger" / "metalake_lake0.json"
    kept_file.write_text(kept_file.read_text().replace(f'"minor":"{NEWEST}"', '"minor":"3.5"'))
    assert asyncio.run(load_cached_metalakes(made))[0]._minor == Minor(3, 5)
    # A pack by itself has them too.
    pack = load_side(tmp_path / "pack.yaml", {}, {}, beside=parts_beside(made, None))
    assert not engine_for(pack).decide(asked).allowed
