"""Starting and stopping in order: plain errors, threads that end before their undoing, one place each."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from gateway.app.catalog_access import open_catalog
from gateway.app.catalogs import SparkCatalogs
from gateway.app.certificates import tls_context
from gateway.app.concurrent_work import run_together, to_the_end
from gateway.app.embedded import build_embedded_conf
from gateway.app.endpoints import require_free
from gateway.app.explaining import make_upstream, own_extensions, own_places
from gateway.app.files import list_fixed_urls
from gateway.app.gateway import session_limits
from gateway.app.signals import until_signalled
from gateway.app.site_checks import only_one
from gateway.errors import BackendUnavailable, Faults
from gateway.model.spark_configuration import NOT_COMPARED
from gateway.model.table_formats import ICEBERG
from gateway.policy.reserved import ReservedPlace
from gateway.settings.backends import BackendSettings, EmbeddedBackend
from gateway.settings.listeners import Tls
from gateway.settings.loading import parse_settings
from gateway.settings.models import SessionSettings
from tests.speed import patience


async def test_parts_start_together_and_come_back_in_order() -> None:
    both = asyncio.Barrier(2)

    async def part(name: str) -> str:
        await both.wait()  # would hang if one started after the other
        return name

    async with asyncio.timeout(patience()):
        assert await run_together(part("a"), part("b")) == ["a", "b"]


async def test_faults_of_all_parts_come_together() -> None:
    async def part(name: str) -> None:
        raise Faults([name])

    with pytest.raises(Faults) as error:
        await run_together(part("a"), part("b"))
    assert error.value.faults == ("a", "b")


async def test_parts_that_are_unavailable_at_once_are_told_together() -> None:
    """Two workers without a Spark may end in the same turn."""

    async def part(name: str) -> None:
        raise BackendUnavailable(f"{name} has no Spark")

    with pytest.raises(BackendUnavailable, match="one has no Spark; two has no Spark"):
        await run_together(part("one"), part("two"))


@pytest.mark.parametrize("wish", ["iceberg: true", "iceberg: true, connectors: gravitino", "iceberg: false"])
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_an_embedded_spark_is_started_with_what_metalakes_may_bring(
    tmp_path: Path, wish: str, version: str
) -> None:
    """Extensions have to be there at its start; the metalake's catalogs come later."""
    jars = tmp_path / "sparks" / f"{version}.1" / "jars"
    jars.mkdir(parents=True)
    (jars / f"spark-catalyst_2.13-{version}.1.jar").touch()
    text = f"""
backend: {{embedded: {{directory: spark}}}}
reader: {{spark_version: "{version}", spark_jars: sparks}}
catalogs:
  - name: lake
    catalog: {{type: gravitino, connection-params: {{uri: "http://g", metalake: m, {wish}}}}}
"""
    settings = parse_settings(text, "gateway.yaml", tmp_path)
    found = own_extensions(settings)
    # There is no build of Iceberg for 4.2, so none of its catalogs is taken there.
    wanted = (wish, version) == ("iceberg: true", "4.1")
    assert found == ((ICEBERG.extension,) if wanted else ())
    told = build_embedded_conf(settings, found)
    assert told == ({"spark.sql.extensions": ICEBERG.extension} if wanted else {})


async def test_the_first_error_cancels_the_other_parts_and_is_the_one_raised() -> None:
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def broken() -> None:
        raise BackendUnavailable("no address of Spark")

    with pytest.raises(BackendUnavailable, match="no address of Spark"):
        await run_together(slow(), broken())
    assert cancelled.is_set()


async def test_a_thread_ends_before_its_canceller_goes_on() -> None:
    """Else PostgreSQL would start after `stop` has looked for it."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(patience(10))
        ended.set()

    task = asyncio.create_task(to_the_end(work))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_a_directory_belongs_to_one_gateway(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with only_one(ledger), pytest.raises(Faults, match="another gateway already"), only_one(ledger):
        pass
    with only_one(ledger):
        pass


def test_a_port_that_is_taken_is_a_fault_and_a_free_one_stays_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Faults, match=f"cannot listen on 127.0.0.1:{port}"):
            require_free("127.0.0.1", port)
    require_free("127.0.0.1", port)
    require_free("::1", 0)
    require_free("127.0.0.1", 0)


def test_a_certificate_that_cannot_be_used_is_a_fault(tmp_path: Path) -> None:
    assert tls_context(None) is None
    (tmp_path / "x").write_text("not a certificate")
    for path in (tmp_path / "x", tmp_path / "absent"):
        with pytest.raises(Faults, match=r"in PEM format|cannot be read"):
            tls_context(Tls(certificate=path, key=path))


def test_every_limit_of_the_settings_reaches_the_sessions() -> None:
    settings = SessionSettings(idle_s=1, operation_idle_s=2, total=3, per_user=4, operations=5, fetch_rows=6)
    backend = BackendSettings(embedded=EmbeddedBackend(), statements=7, waiting=8, wait_s=9)
    limits = session_limits(settings, backend)
    assert (limits.session_idle_s, limits.operation_idle_s) == (1, 2)
    assert (limits.sessions, limits.sessions_per_user) == (3, 4)
    assert (limits.operations_per_session, limits.fetch_rows) == (5, 6)
    assert (limits.statements, limits.statements_waiting, limits.spark_wait_s) == (7, 8, 9)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_once_and_a_second_one_does_not_disturb_the_cleaning_up(
    number: signal.Signals,
) -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
            cleaned = True

    await until_signalled(work())
    assert cleaned


async def test_work_that_ends_or_fails_by_itself_is_told() -> None:
    async def fails() -> None:
        raise BackendUnavailable("gone")

    with pytest.raises(BackendUnavailable):
        await until_signalled(fails())


def test_places_of_the_gateways_own(tmp_path: Path) -> None:
    text = "backend: {thrift: {host: s}}"
    assert own_places(parse_settings(text, "g.yaml", tmp_path)) == (None, ())
    chosen = ReservedPlace("s3://ops/ck")
    both = f"{text}\nsessions: {{checkpoints: '{chosen.url}'}}"
    assert own_places(parse_settings(both, "g.yaml", tmp_path)) == (chosen, ())


def test_what_the_gateway_keeps_is_nobodys_table(tmp_path: Path) -> None:
    text = """
backend: {thrift: {host: s}}
sessions: {checkpoints: "s3://ops/ck"}
policies: {paths: [packs]}
catalogs:
  - {name: ice, catalog: {type: iceberg, connection-params: {type: hadoop, warehouse: "s3a://b/ice"}}}
  - {name: rest, catalog: {type: iceberg, connection-params: {type: rest, uri: "http://r", warehouse: w}}}
"""
    found = list_fixed_urls(parse_settings(text, "g.yaml", tmp_path))
    assert {"s3://ops/ck", "s3a://b/ice", f"file:{tmp_path}/packs", f"file:{tmp_path}/run/ledger"} <= {*found}
    assert "w" not in found
    embedded = list_fixed_urls(parse_settings("backend: {embedded: {directory: spark}}", "g.yaml", tmp_path))
    assert f"file:{tmp_path}/spark" in embedded


def test_the_warehouse_of_a_catalog_is_nobodys_table_however_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("s3a://b/kept\n")
    text = """
backend: {thrift: {host: s}}
catalogs:
  - name: spark_catalog
    catalog:
      type: hive
      connection-params:
        hive.metastore.uris: "thrift://h:9083"
        hive.metastore.warehouse.dir: "hdfs://nn/warehouse"
        hive.metastore.warehouse.external.dir: /external
  - name: ice
    catalog:
      type: iceberg
      connection-params:
        type: nessie
        uri: "https://h/api/v2"
        warehouse: "s3://whole"
        hadoop.fs.defaultFS: "hdfs://nn:8020/"
        table-default.write.data.path: "s3a://b/data"
        s3.endpoint: "https://s3.internal/x"
        header.User-Agent: "s3a://no/place"
  - name: own
    catalog: {type: spark, connection-params: {default-base-location: "abfss://c@a.x/base", keytab: /etc/k}}
  - name: kept
    catalog: {type: paimon, connection-params: {warehouse: {file: place}}}
  - name: lake
    catalog:
      type: gravitino
      connection-params:
        uri: "https://g/x"
        metalake: m
        set.shop.warehouse: "s3a://b/shop"
        set.own.warehouse: {file: place}
"""
    plain = parse_settings("backend: {thrift: {host: s}}", "g.yaml", tmp_path)
    found = {*list_fixed_urls(parse_settings(text, "g.yaml", tmp_path))} - {*list_fixed_urls(plain)}
    assert found == {
        "hdfs://nn/warehouse",
        "/external",
        "s3://whole",
        "s3a://b/data",
        "abfss://c@a.x/base",
        "s3a://b/kept",
        "s3a://b/shop",
    }


def test_a_password_in_an_address_is_a_secret_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("URL", "jdbc:postgresql://h/d?user=u&password=hunter2")
    text = "catalogs: [{name: pg, catalog: {type: jdbc, connection-params: {driver: D, url: {env: URL}}}}]"
    secrets = SparkCatalogs(parse_settings(text, "g.yaml", tmp_path).catalogs).secrets()
    assert {*secrets} == {"jdbc:postgresql://h/d?user=u&password=hunter2", "hunter2"}


def test_iceberg_in_spark_s_own_metastore_is_asked_through_spark(tmp_path: Path) -> None:
    """Only Spark knows where that is."""
    text = "catalogs: [{{name: i, catalog: {{type: iceberg, connection-params: {{type: hive{}}}}}}}]"
    for uri, direct in (("", False), (", uri: 'thrift://h:9083'", True)):
        (entry,) = parse_settings(text.format(uri), "g.yaml", tmp_path).catalogs
        assert (open_catalog(entry) is not None) is direct


async def test_both_endpoints_of_spark_have_to_have_the_catalogs_that_are_named(tmp_path: Path) -> None:
    text = """
backend: {thrift: {host: s}, connect: {host: s}}
listeners: {connect: {}}
policies: {catalogs: {spark_catalog: spark, own: spark}}
catalogs: [{name: told, catalog: {type: spark, connection-params: {class: x.Y}}}]
"""
    upstream = make_upstream(parse_settings(text, "g.yaml", tmp_path), None, NOT_COMPARED)
    assert upstream.thrift is not None
    assert upstream.connect is not None
    for backend in (upstream.thrift, upstream.connect.backend):
        assert backend._options.named_catalogs == {"own", "told"}
    await upstream.close()


def test_sources_do_not_lie_in_each_other(tmp_path: Path) -> None:
    text = "files: {{a: {{root: 's3a://b/lake'}}, b: {{root: '{}'}}}}"
    for root in ("s3a://b/lake", "s3://b/lake/raw", "s3a://b/"):
        with pytest.raises(Faults, match="`a` and `b` of `files` overlap"):
            parse_settings(text.format(root), "g.yaml", tmp_path)
    parse_settings(text.format("s3a://b/lakes"), "g.yaml", tmp_path)


def test_an_embedded_spark_has_places_that_no_policy_opens(tmp_path: Path) -> None:
    text = "backend: {embedded: {directory: spark}}"
    checkpoints, others = own_places(parse_settings(text, "g.yaml", tmp_path))
    assert checkpoints is not None
    directory = checkpoints.url.removesuffix("/checkpoints")
    assert [place.url for place in others] == [f"{directory}/tmp"]
    chosen = f"{text}\nsessions: {{checkpoints: 's3://ops/ck'}}"
    assert own_places(parse_settings(chosen, "g.yaml", tmp_path)) == (ReservedPlace("s3://ops/ck"), others)
    odd = parse_settings("backend: {embedded: {directory: '50%'}}", "g.yaml", tmp_path)
    with pytest.raises(Faults, match=r"backend\.embedded\.directory"):
        own_places(odd)
