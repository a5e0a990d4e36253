"""No text reaches a Spark that may read it otherwise than the parser, over either endpoint."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.backends.spark_connect import SparkConnectBackend, SparkConnectOptions
from gateway.backends.spark_connect_service import SparkConnectService
from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import SparkThriftOptions
from gateway.backends.spark_thrift_questions import MAX_SETTINGS
from gateway.backends.spark_thrift_service import SparkThriftService
from gateway.errors import BackendMismatch, BackendUnavailable, SessionElsewhere
from gateway.model.meaning_settings import list_changed_settings
from gateway.model.principal import Principal
from gateway.model.reading_settings import READING_SETTINGS, list_overridden_settings, may_be_set
from gateway.model.spark_configuration import (
    NOT_COMPARED,
    PARSER,
    PARSER_CLASSES,
    PROBE_TEXT,
    ParserConfiguration,
    SparkConfiguration,
    differences,
    parsers_in,
)
from gateway.session.ports import ASKER, CatalogAsker
from tests.backends.fake_connect_server import Configured, rows, spark_connect
from tests.backends.fake_hive_server import ASKED, Answer, Cut, FakeHiveServer, Garbage, Refuse
from tests.speed import patience

SESSION = "00112233-4455-6677-8899-aabbccddeeff"
EXTENSIONS = "spark.sql.extensions"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"
ICEBERG_PARSER = "org.apache.spark.sql.catalyst.parser.extensions.IcebergSparkSqlExtensionsParser"
VERSION = "4.3.0"
READER = ParserConfiguration(version=VERSION)


@dataclass
class Endpoint:
    """A Spark behind one of its endpoints, and how the gateway opens a session there."""

    spark: Any
    """Has `version`, `settings` and `parsers`, and `asked`."""
    open: Callable[[], Any]
    probe: Callable[[], Any]

    async def refusal(self) -> str:
        with pytest.raises(BackendMismatch) as caught:
            await self.open()
        return caught.value.message


@contextlib.asynccontextmanager
async def thrift(secrets: Sequence[str] = ()) -> AsyncIterator[Endpoint]:
    async with FakeHiveServer() as server:
        server.on("SELECT 1", Answer.of([("1", 3)], [(1,)]))  # type: ignore[list-item]  # INT
        address = SparkAddress(
            host=server.host, port=server.port, call_timeout_s=patience(5), connect_timeout_s=patience(5)
        )
        backend = SparkThriftBackend(SparkThriftOptions(address=address, reader=READER, secrets=secrets))

        async def opened() -> None:
            session = await backend.open_session(Principal(user="bob"), protocol_version=9, settings={})
            try:
                await session.read_spark_configuration()
            finally:
                await session.close()

        yield Endpoint(server, opened, backend.probe)
        await backend.close()
        await server.until(lambda: server.connections == 0)
        assert server.texts() in ([], ["SELECT 1"])


@contextlib.asynccontextmanager
async def connect() -> AsyncIterator[Endpoint]:
    async with spark_connect() as server:
        spark = Configured(server)
        backend = SparkConnectBackend(SparkConnectOptions(host="127.0.0.1", port=server.port, reader=READER))

        async def opened() -> None:
            session = await backend.own.open_session(SESSION, "bob")
            assert session.id == f"{SESSION}@{spark.process}"

        yield Endpoint(spark, opened, backend.probe)
        await backend.close()


@pytest.fixture(params=[thrift, connect])
async def endpoint(request: pytest.FixtureRequest) -> AsyncIterator[Endpoint]:
    async with request.param() as made:
        yield made


# -- what is refused -----------------------------------------------------------------------------------------


async def test_a_spark_that_reads_as_the_parser_does_is_used(endpoint: Endpoint) -> None:
    with capture_logs() as logs:
        await endpoint.open()
        assert (await endpoint.probe()).version == "4.3.0"
    (attested,) = [log for log in logs if log["event"] == "spark_attested"]
    assert (attested["version"], attested["catalogs"]) == ("4.3.0", {})


async def test_a_secret_that_is_a_word_of_sparks_hides_no_parser() -> None:
    async with thrift(secrets=("spark", "sql", "at", "org.apache")) as endpoint:
        await endpoint.open()


@pytest.mark.parametrize(
    "value", [DELTA, f" {DELTA} ", f"a.B,{DELTA}", "does.not.Exist", "*********(redacted)"]
)
async def test_an_extension_that_the_reader_does_not_have_refuses_everything(
    endpoint: Endpoint, value: str
) -> None:
    endpoint.spark.settings[EXTENSIONS] = value
    with capture_logs() as logs:
        assert f"`{EXTENSIONS}` has `{value.split(',')[0].strip()}`" in await endpoint.refusal()
        with pytest.raises(BackendMismatch):
            await endpoint.probe()
    told = [log for log in logs if log["event"] == "spark_reads_otherwise"]
    assert [log["log_level"] for log in told] == ["error", "error"]


async def test_a_place_for_checkpoints_by_names_that_users_choose_is_refused(endpoint: Endpoint) -> None:
    endpoint.spark.settings["spark.sql.streaming.checkpointLocation"] = "s3://bucket/checkpoints"
    told = await endpoint.refusal()
    assert "`spark.sql.streaming.checkpointLocation` is set" in told
    assert "s3://bucket" not in told


@pytest.mark.parametrize("value", ["", " ", ",", " , "])
async def test_a_list_of_extensions_that_has_none_is_none(endpoint: Endpoint, value: str) -> None:
    endpoint.spark.settings[EXTENSIONS] = value
    await endpoint.open()


@pytest.mark.parametrize(
    "strange", [ICEBERG_PARSER, "other.Ext$P", "org.apache.spark.sql.execution.SparkSqlParser2"]
)
@pytest.mark.parametrize("at", [0, 3, 99])
async def test_a_parser_that_came_without_the_setting_is_seen_on_the_stack(
    endpoint: Endpoint, strange: str, at: int
) -> None:
    endpoint.spark.parsers.insert(at, strange)
    assert f"Spark parses with `{strange}`" in await endpoint.refusal()


@pytest.mark.parametrize(
    "parsers", [[], sorted(PARSER_CLASSES - {"org.apache.spark.sql.execution.SparkSqlParser"})]
)
async def test_a_spark_that_does_not_tell_its_parsers_is_refused(
    endpoint: Endpoint, parsers: list[str]
) -> None:
    endpoint.spark.parsers[:] = parsers
    assert "does not report its parser classes" in await endpoint.refusal()


@pytest.mark.parametrize("version", ["4.2.0", "5.3.0", "", "4.30.0"])
async def test_another_minor_version_is_refused(endpoint: Endpoint, version: str) -> None:
    endpoint.spark.version = version
    assert f"Spark has version {version or 'unknown'}, but the parser 4.3.0" in await endpoint.refusal()


async def test_all_that_is_wrong_is_told_together(endpoint: Endpoint) -> None:
    endpoint.spark.version = "4.1.4"
    endpoint.spark.settings[EXTENSIONS] = DELTA
    endpoint.spark.parsers.insert(2, "io.delta.sql.parser.DeltaSqlParser")
    told = await endpoint.refusal()
    assert all(word in told for word in ("4.1.4", DELTA, "DeltaSqlParser"))


def configuration(settings: Mapping[str, str], **more: Any) -> SparkConfiguration:
    parsers = sorted(PARSER_CLASSES)
    return SparkConfiguration(**{"version": VERSION, "settings": settings, "parsers": parsers, **more})


@pytest.mark.parametrize("key", sorted(READING_SETTINGS))
def test_a_pinned_setting_that_did_not_take_is_a_difference(key: str) -> None:
    assert differences(configuration(READING_SETTINGS), reader=READER) == ()
    for settings in (
        {k: v for k, v in READING_SETTINGS.items() if k != key},
        {**READING_SETTINGS, key: "*********(redacted)"},
    ):
        (told,) = differences(configuration(settings), reader=READER)
        assert key in told


def test_a_version_is_compared_only_where_there_is_a_parser() -> None:
    assert differences(configuration(READING_SETTINGS, version="3.5.1"), reader=NOT_COMPARED) == ()


def test_another_build_of_an_extension_has_other_lines() -> None:
    def through(line: int) -> tuple[str, ...]:
        return parsers_in([(PARSER, line), ("io.delta.sql.parser.DeltaSqlParser", line), (PARSER, 1)])

    reader = ParserConfiguration(version=VERSION, extensions=(DELTA,), parsers=through(105))
    settings = {**READING_SETTINGS, EXTENSIONS: DELTA}
    assert differences(configuration(settings, parsers=through(105)), reader=reader) == ()
    for line in (0, 106):
        (told,) = differences(configuration(settings, parsers=through(line)), reader=reader)
        assert "another build of `io.delta.sql.parser.DeltaSqlParser` than" in told
        assert "reader.extension_jars" in told


async def test_catalogs_are_told_by_name_and_class_without_their_options(endpoint: Endpoint) -> None:
    endpoint.spark.settings |= {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.password": "hunter2",
        "spark.sql.catalog.spark_catalog": "some.SessionCatalog",
        "spark.sql.catalogImplementation": "hive",
    }
    with capture_logs() as logs:
        await endpoint.open()
    (attested,) = [log for log in logs if log["event"] == "spark_attested"]
    assert attested["catalogs"] == {
        "lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark_catalog": "some.SessionCatalog",
    }
    assert "hunter2" not in str(logs)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({}, "the settings name the catalog `lake`, and Spark does not have it"),
        ({"Lake": "x.Y"}, "and Spark has `Lake` and distinguishes capitals"),
        ({"lake.type": "x", "lakes": "x.Y"}, "and Spark does not have it"),
    ],
)
async def test_a_spark_without_a_catalog_that_names_begin_with_gets_no_statement(
    known: Mapping[str, str], why: str
) -> None:
    """Its name would be one of the current catalog's databases, for which others policies speak."""
    place = "spark.sql.catalog."
    async with FakeHiveServer() as hive, spark_connect() as server:
        spark = Configured(server)
        thrift = SparkThriftBackend(
            SparkThriftOptions(
                address=SparkAddress(host=hive.host, port=hive.port), named_catalogs=frozenset({"lake"})
            )
        )
        connect = SparkConnectBackend(
            SparkConnectOptions(host="127.0.0.1", port=server.port, named_catalogs=frozenset({"lake"}))
        )
        for settings in (hive.settings, spark.settings):
            settings |= {place + name: value for name, value in known.items()}
        for opened in (
            lambda: thrift.open_session(Principal(user="bob"), protocol_version=9, settings={}),
            lambda: connect.own.open_session(SESSION, "bob"),
        ):
            with pytest.raises(BackendMismatch) as caught:
                await opened()
            assert why in caught.value.message
        for settings in (hive.settings, spark.settings):
            settings |= {f"{place}lake": "x.Y"}
        await (await thrift.open_session(Principal(user="bob"), protocol_version=9, settings={})).close()
        await connect.own.open_session(SESSION, "bob")
        await connect.close()
        await thrift.close()


# -- when it is asked ----------------------------------------------------------------------------------------


async def test_every_connection_is_asked_for_settings_and_each_process_for_its_parsers_once(
    endpoint: Endpoint,
) -> None:
    for _ in range(3):
        await endpoint.open()
    asked = endpoint.spark.asked
    # Spark Connect is asked once more, what is set in a session that no client has touched.
    untouched = 1 if isinstance(endpoint.spark, Configured) else 0
    assert asked.count("SET") + asked.count("Config.get_all") == 3 + untouched
    assert asked.count(PROBE_TEXT) == 1
    endpoint.spark.settings["spark.app.id"] = "local-2"  # a Spark that was started anew
    endpoint.spark.parsers.insert(0, "other.Parser")
    if isinstance(endpoint.spark, Configured):
        endpoint.spark.restart()
    await endpoint.refusal()
    assert asked.count(PROBE_TEXT) == 2


async def test_what_was_refused_is_asked_anew(endpoint: Endpoint) -> None:
    endpoint.spark.parsers.insert(0, "other.Parser")
    await endpoint.refusal()
    await endpoint.refusal()
    endpoint.spark.parsers.remove("other.Parser")
    await endpoint.open()


async def test_a_spark_that_does_not_name_its_process_is_asked_each_time(endpoint: Endpoint) -> None:
    del endpoint.spark.settings["spark.app.startTime"]
    await endpoint.open()
    endpoint.spark.parsers.insert(0, "other.Parser")
    await endpoint.refusal()


async def test_an_extension_of_a_known_process_is_refused_all_the_same(endpoint: Endpoint) -> None:
    """Two Sparks of one name are not to be, but nothing rests on that they are not."""
    await endpoint.open()
    endpoint.spark.settings[EXTENSIONS] = DELTA
    await endpoint.refusal()


@pytest.mark.parametrize("key", ["spark.app.id", "Spark.App.StartTime", EXTENSIONS, "spark.sql.catalog.x"])
def test_nobody_sets_what_is_asked_for(key: str) -> None:
    """A session of Spark Connect outlives a gateway, and the next one asks in it."""
    assert not may_be_set(key)


async def test_settings_that_were_cut_short_are_not_looked_at() -> None:
    async with thrift() as endpoint:
        endpoint.spark.settings |= {f"a.{n}": "x" for n in range(MAX_SETTINGS)}
        with pytest.raises(BackendUnavailable, match="does not report its configuration"):
            await endpoint.open()


# -- Thrift --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Refuse(), Cut(), Garbage(b"\0\0\0\x04what")])
@pytest.mark.parametrize("before", [0, 1, 2, 4, 5, 6])  # nobody waits for the others
async def test_a_thrift_server_that_does_not_answer_the_questions_gives_no_session(
    fault: Any, before: int
) -> None:
    async with thrift() as endpoint:
        endpoint.spark.misbehave(ASKED, *[None] * before, fault)
        with pytest.raises(BackendUnavailable):
            await endpoint.open()


@pytest.mark.parametrize("form", ["MINIMAL", "standard"])
async def test_errors_without_stacks_are_asked_for_with_them(form: str) -> None:
    async with thrift() as endpoint:
        key = "spark.sql.error.messageFormat"
        endpoint.spark.settings[key] = form
        endpoint.spark.on(f"SET {key}=PRETTY", Answer.text([key, "PRETTY"]))
        endpoint.spark.on(f"SET {key}={form.upper()}", Answer.text([key, form.upper()]))
        await endpoint.open()
        assert endpoint.spark.texts() == [f"SET {key}=PRETTY", f"SET {key}={form.upper()}"]
        endpoint.spark.statements.clear()


# -- Connect -------------------------------------------------------------------------------------------------


async def test_stacks_that_are_not_told_are_asked_for_and_hidden_again() -> None:
    key = "spark.sql.connect.serverStacktrace.enabled"
    async with connect() as endpoint:
        endpoint.spark.settings[key] = "false"
        await endpoint.open()
        assert endpoint.spark.sessions[SESSION][key] == "false"
        endpoint.spark.restart()
        endpoint.spark.parsers.insert(0, "other.Parser")
        assert "other.Parser" in await endpoint.refusal()


async def test_a_spark_that_does_not_name_its_session_is_not_used() -> None:
    async with spark_connect() as server:

        async def nameless(_request: bytes, _context: Any) -> bytes:
            return b""

        server.answers["Config"] = nameless
        backend = SparkConnectBackend(SparkConnectOptions(host="127.0.0.1", port=server.port))
        with pytest.raises(BackendUnavailable, match="newer"):
            await backend.own.open_session(SESSION, "bob")
        await backend.close()


async def test_the_catalog_asks_nothing_of_a_spark_that_was_started_anew_before_it_was_asked() -> None:
    """Without the session's own id Spark would make a new one, with other settings, and run the text."""
    async with spark_connect() as server:
        spark = Configured(server)
        ran: list[str] = []

        async def execute(request: bytes, context: Any) -> AsyncIterator[bytes]:
            message = server_request(request)
            await spark._open(message, context)
            ran.append(message.plan.root.sql.query)
            yield rows(name=["a"])

        server.answers["ExecutePlan"] = execute
        backend = SparkConnectBackend(SparkConnectOptions(host="127.0.0.1", port=server.port))
        service = SparkConnectService(backend)
        assert await service.query("SHOW a") == [("a",)]
        spark.restart()
        spark.settings[EXTENSIONS] = DELTA
        with pytest.raises(BackendUnavailable, match="ended the session"):
            await service.query("SHOW b")
        with pytest.raises(BackendMismatch):
            await service.query("SHOW c")
        del spark.settings[EXTENSIONS]
        await service.query("SHOW d")
        assert ran == ["SHOW a", "SHOW d"]
        await backend.close()


def server_request(data: bytes) -> Any:
    from gateway.wire.connect import pb

    return pb.ExecutePlanRequest.FromString(data)


async def test_a_session_of_before_says_which_catalogs_it_was_told_of() -> None:
    async with spark_connect() as server:
        spark = Configured(server)
        told: dict[str, int] = {}
        place = "spark.sql.catalog."
        options = SparkConnectOptions(
            host="127.0.0.1",
            port=server.port,
            catalogs=lambda: {f"{place}Grav": "x.Catalog", f"{place}Grav.url": "y", f"{place}own": "z"},
            session_catalogs=lambda: told,
        )
        backend = SparkConnectBackend(options)
        # Where nothing comes and goes nobody asks.
        assert (await backend.own.open_session(SESSION, "bob")).known_catalogs == frozenset()
        told["grav"] = 1
        assert (await backend.own.open_session(SESSION, "bob")).known_catalogs == {"grav", "own"}
        spark.sessions.clear()
        assert (await backend.own.open_session(SESSION, "bob")).known_catalogs == frozenset()
        await backend.close()


async def test_a_session_logs_in_to_catalogs_in_its_users_name_and_the_gateways_own_in_its() -> None:
    key = "spark.sql.catalog.lake.token"

    async def logins() -> dict[str, str]:
        asker = ASKER.get()
        return {key: "of the gateway" if asker.is_gateway else asker.token}

    ASKER.set(CatalogAsker("bobs"))
    async with spark_connect() as server:
        spark = Configured(server)
        connect = SparkConnectBackend(
            SparkConnectOptions(host="127.0.0.1", port=server.port, catalog_logins=logins)
        )
        opened = await connect.own.open_session(SESSION, "bob")
        assert spark.sessions[SESSION][key] == "bobs"
        # What Spark itself has is asked in a session of the gateway's, and the token is no setting of bob's.
        assert opened.own_settings[key] == "of the gateway"
        assert list_changed_settings(opened.settings, opened.own_settings) == frozenset()
        assert list_overridden_settings(opened.settings, opened.own_settings) == frozenset()
        own, _ = await SparkConnectService(connect)._open()
        assert spark.sessions[own][key] == "of the gateway"
        await connect.probe()
        assert [one[key] for one in spark.sessions.values()].count("bobs") == 1
        await connect.close()
    async with FakeHiveServer() as hive:
        options = SparkThriftOptions(
            address=SparkAddress(host=hive.host, port=hive.port), catalog_logins=logins
        )
        backend = SparkThriftBackend(options)
        bobs = await backend.open_session(Principal(user="bob"), protocol_version=9, settings={})
        owns, _ = await SparkThriftService(backend)._open()
        with contextlib.suppress(BackendUnavailable):
            await backend.ready()
        told = [one.configuration[f"set:hiveconf:{key}"] for one in hive.opened]
        assert told == ["bobs", "of the gateway", "of the gateway"]
        await bobs.close()
        await owns.close()


@pytest.mark.parametrize("told", [{}, {"grav": 1}])
async def test_a_session_is_one_gateways(told: dict[str, int]) -> None:
    async with spark_connect() as server:
        spark = Configured(server)

        def of(gateway: str) -> SparkConnectBackend:
            options = SparkConnectOptions(
                host="127.0.0.1",
                port=server.port,
                gateway=gateway,
                catalogs=lambda: {"spark.sql.catalog.grav": gateway},
                session_catalogs=lambda: told,
            )
            return SparkConnectBackend(options)

        one, again, two = of("g-1"), of("g-1"), of("g-2")
        opened = await one.own.open_session(SESSION, "bob")
        # The mark means nothing to masks and filters, and a gateway that was started anew knows its own.
        assert list_changed_settings(opened.settings, opened.own_settings) == frozenset()
        assert (await again.own.open_session(SESSION, "bob")).id == opened.id
        before = dict(spark.sessions[SESSION])
        with pytest.raises(SessionElsewhere, match="through another gateway"):
            await two.own.open_session(SESSION, "bob")
        if told:
            assert spark.sessions[SESSION] == before, "nothing is told otherwise in it"
        assert [key for key in spark.sessions[SESSION] if "sluice" in key] == ["spark.sluice.gateway.g-1"]
        # Of two that come at once neither has looked before the other has left its mark.
        spark.sessions.clear()
        both = await asyncio.gather(
            *(backend.own.open_session(SESSION, "bob") for backend in (one, two)), return_exceptions=True
        )
        assert any(isinstance(found, SessionElsewhere) for found in both)
        # Probes of all gateways have one session.
        for backend in (one, two):
            assert (await backend.probe()).version == "4.3.0"
            await backend.close()
        await again.close()


async def test_the_catalogs_own_session_is_another_when_catalogs_are() -> None:
    async with spark_connect() as server:
        spark = Configured(server)
        ran: list[str] = []

        async def execute(request: bytes, context: Any) -> AsyncIterator[bytes]:
            message = server_request(request)
            await spark._open(message, context)
            ran.append(message.session_id)
            yield rows(name=["a"])

        server.answers["ExecutePlan"] = execute
        told = {"grav": 1}
        backend = SparkConnectBackend(SparkConnectOptions(host="127.0.0.1", port=server.port))
        service = SparkConnectService(backend, session_catalogs=lambda: told)
        for _ in range(2):
            await service.query("SHOW a")
        told = {"grav": 2}
        await service.query("SHOW a")
        assert ran[0] == ran[1] != ran[2]
        await service.close()
        await backend.close()
