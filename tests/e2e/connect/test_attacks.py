"""Attacks on what lies between plans and Spark: errors as an oracle, schemas that compute, views that dangle.

Where an attack can be made on Spark itself it is, so that its failure at the gateway means something.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyhive.exc import OperationalError
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import functions
from pyspark.sql.connect.proto import AddArtifactsRequest, Plan, Relation
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

from tests.e2e.connect import world
from tests.e2e.connect.framework import fresh
from tests.e2e.running import RunningGateway, Spark, query

pytestmark = pytest.mark.in_turn(2)

SECRET = f"{world.CANARY}-in-a-file"


@pytest.fixture
def session(connect_gateway: RunningGateway) -> Iterator[Any]:
    with connect_gateway.session(world.ATTACKER, world.PASSWORD) as session:
        session.sql(f"USE {world.DATABASE}")
        yield session


@pytest.fixture
def thrift(connect_gateway: RunningGateway) -> Callable[..., list[Any]]:
    def run(*statements: str) -> list[Any]:
        where = connect_gateway.host, connect_gateway.port
        return query(*where, world.ATTACKER, f"USE {world.DATABASE}", *statements, password=world.PASSWORD)

    return run


# Errors as an oracle: does a row that the filter hides have this value?


def fails_on(prefix: str) -> str:
    return f"1 / (CASE WHEN item LIKE '{prefix}%' THEN 0 ELSE 1 END) > 0"


def test_a_filter_with_a_subquery_is_no_barrier_to_spark(connect_world: Spark) -> None:
    filtered = "SELECT * FROM cw.orders WHERE person_id IN (SELECT id FROM cw.people WHERE active)"
    with pytest.raises(OperationalError, match="DIVIDE_BY_ZERO"):
        connect_world.query(f"SELECT count(*) FROM ({filtered}) WHERE {fails_on(world.CANARY)}")


def test_errors_do_not_tell_of_rows_that_a_subquery_hides(session: Any, thrift: Any) -> None:
    orders = session.table("orders")
    visible = orders.count()
    assert orders.filter(fails_on(world.CANARY)).count() == visible
    assert orders.filter(fails_on(world.CANARY)).alias("o").groupBy().count().collect()[0][0] == visible
    assert session.sql(f"SELECT * FROM orders WHERE {fails_on(world.CANARY)}").count() == visible
    assert thrift(f"SELECT count(*) FROM orders WHERE {fails_on(world.CANARY)}") == [(visible,)]
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        orders.filter(fails_on("pen")).count()


# Schemas that compute: their defaults are expressions, and Spark takes any built-in function there.


@pytest.fixture(scope="module")
def default(open_directory: Path) -> str:
    """An expression that reads a file of the server's."""
    file = open_directory / "attack.dtd"
    file.write_text(f'<!ENTITY e "{SECRET}">')
    file.chmod(0o644)
    document = f'<!DOCTYPE a SYSTEM "file://{file}"><a>&e;</a>'
    return f"xpath_string('{document}', 'a')"


def schema(default: str) -> str:
    field = {"name": "a", "type": "string", "nullable": True, "metadata": metadata(default)}
    return json.dumps({"type": "struct", "fields": [field]})


def metadata(default: str) -> dict[str, str]:
    return {"CURRENT_DEFAULT": default, "EXISTS_DEFAULT": default}


def from_json(default: str) -> str:
    text = schema(default).replace("\\", "\\\\").replace("'", "\\'")
    return f"SELECT from_json('{{}}', '{text}') AS x"


def rows_of(*, metadata: dict[str, str] | None = None) -> bytes:
    kept = {"SPARK::metadata::json": json.dumps(metadata)} if metadata else None
    table = pa.table({"a": ["x"]}, schema=pa.schema([pa.field("a", pa.string(), metadata=kept)]))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_spark_itself_evaluates_a_schema(connect_world: Spark, default: str) -> None:
    assert SECRET in str(connect_world.query(from_json(default)))


def test_a_schema_in_a_call_computes_nothing(session: Any, thrift: Any, default: str) -> None:
    literal = session.range(1).select(functions.from_json(functions.lit("{}"), schema(default)))
    built = session.range(1).select(
        functions.from_json(
            functions.lit("{}"), functions.concat(functions.lit(schema(default)), functions.lit(""))
        )
    )
    variant = functions.parse_json(functions.lit("{}"))
    argument = "SELECT from_json('{}', :schema) AS x"
    attacks = [
        lambda: thrift(from_json(default)),
        lambda: session.sql(from_json(default)).collect(),
        lambda: session.sql(argument, {"schema": schema(default)}).collect(),
        literal.collect,
        built.collect,
        lambda: session.range(1).select(functions.try_variant_get(variant, "$", schema(default))).schema,
    ]
    for attack in attacks:
        with pytest.raises((OperationalError, PySparkException), match="SLUICE_NOT_GOVERNABLE") as refused:
            attack()
        assert SECRET not in str(refused.value)
    parsed = session.range(1).select(functions.from_json(functions.lit('{"a": "x"}'), "a STRING").alias("x"))
    assert parsed.collect()[0].x.a == "x"
    assert session.sql(argument, {"schema": "a STRING"}).collect()[0].x.a is None


class Upload:
    """Uploads to a session's cache, past the checks of a client."""

    def __init__(self, gateway: RunningGateway, session: Any) -> None:
        self._id = session.session_id
        self._metadata = [("authorization", f"Bearer {world.ATTACKER}:{world.PASSWORD}")]
        self._channel = grpc.insecure_channel(f"{gateway.host}:{gateway.connect_port}")

    def __call__(self, data: bytes, pieces: int = 1) -> str:
        digest = hashlib.sha256(data).hexdigest()
        name, size = f"cache/{digest}", -(-len(data) // pieces)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        requests = [AddArtifactsRequest(session_id=self._id, client_type="raw") for _ in parts]
        if len(parts) == 1:
            single = requests[0].batch.artifacts.add(name=name)
            single.data.data, single.data.crc = data, zlib.crc32(data)
        else:
            begin = requests[0].begin_chunk
            begin.name, begin.total_bytes, begin.num_chunks = name, len(data), len(parts)
            for request, part in zip(requests, parts, strict=True):
                chunk = begin.initial_chunk if request is requests[0] else request.chunk
                chunk.data, chunk.crc = part, zlib.crc32(part)
        SparkConnectServiceStub(self._channel).AddArtifacts(iter(requests), metadata=self._metadata)  # type: ignore[no-untyped-call]
        return digest

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def upload(connect_gateway: RunningGateway, session: Any) -> Iterator[Upload]:
    upload = Upload(connect_gateway, session)
    yield upload
    upload.close()


@pytest.mark.parametrize("pieces", [1, 3])
def test_an_uploaded_schema_computes_nothing(upload: Upload, default: str, pieces: int) -> None:
    local = Relation()
    local.local_relation.data, local.local_relation.schema = rows_of(), schema(default)
    for data in (
        local.local_relation.SerializeToString(),
        schema(default).encode(),
        rows_of(metadata=metadata(default)),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            upload(data, pieces)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "expression that Spark would evaluate" in refused.value.details()


def test_uploaded_rows_work(session: Any, upload: Upload) -> None:
    plan = Plan()
    plan.root.chunked_cached_local_relation.dataHashes.append(upload(rows_of(), 3))
    plan.root.chunked_cached_local_relation.schemaHash = upload(b"a STRING")
    assert session.client.to_table(plan, {})[0].to_pylist() == [{"a": "x"}]


def test_rows_within_a_plan_compute_nothing(session: Any, default: str) -> None:
    plan = Plan()
    plan.root.local_relation.data = rows_of(metadata=metadata(default))
    with pytest.raises(PySparkException, match="expression that Spark would evaluate"):
        session.client.to_table(plan, {})
    plan.root.local_relation.data = rows_of(metadata={"comment": "x"})
    assert session.client.to_table(plan, {})[0].to_pylist() == [{"a": "x"}]


# The sink `memory`: a temporary view that Spark makes by itself.


def stream(session: Any, table: str, name: str) -> None:
    query = session.readStream.table(table).writeStream.format("memory").queryName(name)
    query.trigger(availableNow=True).start().awaitTermination(120)


def test_a_stream_into_memory_is_a_view_of_guarded_rows(session: Any) -> None:
    name = fresh("m")
    stream(session, "orders", name)
    assert sorted(session.table(name).collect()) == sorted(session.table("orders").collect())
    assert session.sql(f"SELECT count(*) FROM {name}").collect()[0][0] == session.table("orders").count()


def test_a_stream_into_memory_shadows_a_table_and_does_not_dangle(session: Any) -> None:
    stream(session, "people", "people")
    session.sql("CREATE TEMP VIEW b AS SELECT * FROM people")
    with pytest.raises(PySparkException, match="SLUICE_VIEW_IN_USE"):
        session.catalog.dropTempView("people")
    assert world.CANARY not in str(session.table("b").collect())
    session.sql("DROP VIEW b")
    assert session.catalog.dropTempView("people")
    assert world.CANARY not in str(session.table("people").collect())


@pytest.mark.parametrize("name", ["cw.people", "`people`", ""])
def test_a_stream_into_memory_has_a_plain_name(session: Any, name: str) -> None:
    plan = Plan()
    start = plan.command.write_stream_operation_start
    start.input.read.named_table.unparsed_identifier = "people"
    start.input.read.is_streaming = True
    start.format, start.query_name, start.available_now = "memory", name, True
    with pytest.raises(PySparkException, match="SLUICE_NOT_GOVERNABLE"):
        session.client.execute_command(plan.command)


# Views over views: what is left when the lower one goes


DROPS: dict[str, Callable[[Any], Any]] = {
    "view": lambda session: session.sql("DROP VIEW people"),
    "if exists": lambda session: session.sql("DROP VIEW IF EXISTS `PEOPLE`"),
    "table": lambda session: session.sql("DROP TABLE people"),
    "catalog": lambda session: session.catalog.dropTempView("People"),
}
REPLACEMENTS: dict[str, Callable[[Any], Any]] = {
    "sql": lambda session: session.sql("CREATE OR REPLACE TEMP VIEW people AS SELECT 2 AS id"),
    "frame": lambda session: session.range(2, 3).createOrReplaceTempView("people"),
    "guarded": lambda session: session.sql("CREATE OR REPLACE TEMP VIEW people AS SELECT * FROM cw.people"),
}


@pytest.mark.parametrize("how", DROPS)
def test_a_view_that_a_dataframes_view_has_within_it_can_be_dropped(session: Any, how: str) -> None:
    session.sql("USE cw")
    session.sql("CREATE TEMP VIEW people AS SELECT 1 AS id")
    session.table("people").createTempView("b")
    session.sql("SELECT id + 1 AS id FROM people").createTempView("c")
    DROPS[how](session)
    for view, value in (("b", 1), ("c", 2)):
        assert [tuple(row) for row in session.table(view).collect()] == [(value,)]
        assert [tuple(row) for row in session.sql(f"SELECT * FROM {view}").collect()] == [(value,)]


@pytest.mark.parametrize("how", DROPS)
def test_a_view_that_a_text_reads_cannot_be_dropped(session: Any, how: str) -> None:
    session.sql("CREATE TEMP VIEW people AS SELECT 1 AS id")
    session.sql("CREATE TEMP VIEW b AS SELECT * FROM people")
    with pytest.raises(PySparkException, match="SLUICE_VIEW_IN_USE"):
        DROPS[how](session)
    assert [tuple(row) for row in session.table("b").collect()] == [(1,)]


@pytest.mark.parametrize("how", REPLACEMENTS)
def test_a_view_that_another_one_reads_can_be_replaced_and_stays_governed(session: Any, how: str) -> None:
    session.range(1, 2).createTempView("people")
    session.sql("CREATE TEMP VIEW b AS SELECT * FROM people")
    try:
        REPLACEMENTS[how](session)
        shown = str(session.table("b").collect())
    except PySparkException as error:
        shown = str(error)
    assert world.CANARY not in shown


@pytest.mark.parametrize("drop", ["DROP VIEW people", "DROP TABLE people", "DROP VIEW IF EXISTS `People`"])
def test_over_thrift_a_view_that_another_one_reads_cannot_be_dropped(thrift: Any, drop: str) -> None:
    made = ("CREATE TEMP VIEW people AS SELECT 1 AS id", "CREATE TEMP VIEW b AS SELECT id FROM people")
    with pytest.raises(OperationalError, match="SLUICE_VIEW_IN_USE"):
        thrift(*made, drop, "SELECT * FROM b")
    replaced = "CREATE OR REPLACE TEMP VIEW people AS SELECT * FROM cw.people"
    assert world.CANARY not in str(thrift(*made, replaced, "SELECT * FROM b"))
