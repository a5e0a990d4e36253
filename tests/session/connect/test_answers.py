"""Answers of Spark Connect lose what the principal may not know of, and keep the envelope that they came in.

`recorded_answers.json` holds responses of a Spark 4.3.0 server, as they came.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.catalog import TableName
from gateway.model.resource import Resource
from gateway.model.statement import RELAY, AnswerFilter, AnswerRule
from gateway.session.answers import UnknownShape, filter_rows
from gateway.session.connect.answers import filter_responses, patch_sql_result, tables_in_batches
from gateway.wire.connect import pb, serialize
from tests.session.test_answers import DESCRIBED

RECORDED: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "recorded_answers.json").read_text(encoding="utf-8")
)
SESSION, OPERATION = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
TABLE_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("catalog", pa.string()),
        pa.field("namespace", pa.list_(pa.field("element", pa.string()))),
        pa.field("description", pa.string()),
        pa.field("tableType", pa.string()),
        pa.field("isTemporary", pa.bool_(), nullable=False),
    ]
)
TABLES = AnswerRule(filter=AnswerFilter.CONNECT_TABLES, catalog="spark_catalog")
SHOW_TABLES = AnswerRule(filter=AnswerFilter.TABLES, catalog="spark_catalog")


EXTENDED = AnswerRule(filter=AnswerFilter.TABLE_EXTENDED, catalog="spark_catalog")
EXTENDED_SCHEMA = pa.schema(
    [
        pa.field("namespace", pa.string()),
        pa.field("tableName", pa.string()),
        pa.field("isTemporary", pa.bool_()),
        pa.field("information", pa.string()),
    ]
)


def recorded(name: str) -> list[Any]:
    return [pb.ExecutePlanResponse.FromString(base64.b64decode(data)) for data in RECORDED[name]]


def filtered(rule: AnswerRule, responses: Sequence[Any], visible: Any, **limits: int) -> list[bytes]:
    return filter_responses(rule, [serialize(one) for one in responses], visible, {}, **limits)


def patched_by(rule: AnswerRule, original_relation: bytes, response: Any, visible: Any) -> bytes:
    return patch_sql_result(rule, original_relation, serialize(response), visible)


def everything(resource: Resource) -> bool:
    return True


def nothing(resource: Resource) -> bool:
    return False


def hides(*hidden: str) -> Any:
    return lambda resource: str(resource) not in hidden


def table(name: str, database: str = "sales", **fields: Any) -> tuple[Any, ...]:
    row = {
        "name": name,
        "catalog": "spark_catalog",
        "namespace": [database],
        "description": "a comment",
        "tableType": "MANAGED",
        "isTemporary": False,
    }
    return tuple({**row, **fields}.values())


def stream(schema: Any, rows: Sequence[Sequence[Any]]) -> bytes:
    columns = [pa.array([row[i] for row in rows], type=field.type) for i, field in enumerate(schema)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def response(**case: Any) -> Any:
    return pb.ExecutePlanResponse(session_id=SESSION, operation_id=OPERATION, response_id="r", **case)


def batch(rows: Sequence[Sequence[Any]], *, offset: int = 0, schema: Any = TABLE_SCHEMA) -> Any:
    arrow = pb.ExecutePlanResponse.ArrowBatch(
        row_count=len(rows), data=stream(schema, rows), start_offset=offset
    )
    return response(arrow_batch=arrow)


def rows_of(data: bytes | list[bytes]) -> list[dict[str, Any]]:
    """Read the rows as pyspark does, with its checks of counts and offsets."""
    found: list[dict[str, Any]] = []
    for one in data if isinstance(data, list) else [data]:
        message = pb.ExecutePlanResponse.FromString(one)
        if not message.HasField("arrow_batch"):
            continue
        arrow = message.arrow_batch
        assert not arrow.HasField("start_offset") or arrow.start_offset == len(found)
        assert arrow.num_chunks_in_batch == 0
        read = pa.ipc.open_stream(arrow.data).read_all()
        assert read.num_rows == arrow.row_count
        found += read.to_pylist()
    return found


def shown(rule: AnswerRule, rows: Sequence[Sequence[Any]], visible: Any, schema: Any) -> list[Any]:
    answer = filtered(rule, [batch(rows, schema=schema)], visible)
    return [tuple(row.values()) for row in rows_of(answer)]


def test_a_recorded_list_keeps_its_envelope_and_loses_what_is_hidden() -> None:
    before = recorded("list_tables")
    after = [
        pb.ExecutePlanResponse.FromString(data)
        for data in filtered(TABLES, before, hides("spark_catalog.d1.t2"))
    ]
    assert [r.response_id for r in after] == [r.response_id for r in before]
    assert {(r.session_id, r.operation_id, r.server_side_session_id) for r in after} == {
        (before[0].session_id, before[0].operation_id, before[0].server_side_session_id)
    }
    assert any(r.HasField("schema") for r in after)
    names = [row["name"] for row in rows_of([r.SerializeToString() for r in after])]
    assert names == ["t", "v", "tv"]


def test_a_recorded_list_with_everything_visible_has_the_same_rows_and_schema() -> None:
    before = recorded("list_tables")
    after = filtered(TABLES, before, everything)
    assert rows_of(after) == rows_of([r.SerializeToString() for r in before])
    (one,) = (r for r in before if r.HasField("arrow_batch"))
    (other,) = (r for r in map(pb.ExecutePlanResponse.FromString, after) if r.HasField("arrow_batch"))
    schemas = [pa.ipc.open_stream(r.arrow_batch.data).schema for r in (one, other)]
    assert schemas[0].equals(schemas[1], check_metadata=True)


def test_what_spark_counts_of_the_plan_goes_since_it_tells_of_hidden_rows() -> None:
    before = recorded("SHOW TABLES as a relation")
    assert any(r.HasField("metrics") for r in before)
    after = filtered(SHOW_TABLES, before, hides("spark_catalog.d1.t2"))
    assert not any(pb.ExecutePlanResponse.FromString(r).HasField("metrics") for r in after)


def test_batches_are_numbered_anew() -> None:
    """Two batches of two rows: without `t2` the second one begins at 1, or pyspark would give up."""
    after = filtered(SHOW_TABLES, recorded("SHOW TABLES as a relation"), hides("spark_catalog.d1.t2"))
    assert [row["tableName"] for row in rows_of(after)] == ["t", "v", "tv"]


def test_a_list_taken_up_in_the_middle_is_not_numbered() -> None:
    (one,) = filtered(TABLES, [batch([table("a")], offset=7)], everything)
    assert not pb.ExecutePlanResponse.FromString(one).arrow_batch.HasField("start_offset")


def test_everybodys_temporary_views_are_not_shown() -> None:
    after = filtered(TABLES, recorded("list_tables of global_temp"), everything)
    assert [row["name"] for row in rows_of(after)] == ["tv"]


def chunked(rows: Sequence[Sequence[Any]], count: int) -> list[Any]:
    data = stream(TABLE_SCHEMA, rows)
    size = -(-len(data) // count)
    pieces = [data[i * size : (i + 1) * size] for i in range(count)]
    return [
        response(
            arrow_batch=pb.ExecutePlanResponse.ArrowBatch(
                row_count=len(rows), data=piece, start_offset=0, chunk_index=index, num_chunks_in_batch=count
            )
        )
        for index, piece in enumerate(pieces)
    ]


def test_a_batch_in_chunks_comes_whole_in_the_place_of_its_last_chunk() -> None:
    chunks = chunked([table("a"), table("secret"), table("b")], 3)
    for index, chunk in enumerate(chunks):
        chunk.response_id = f"r{index}"
    after = filtered(TABLES, chunks, hides("spark_catalog.sales.secret"))
    assert [pb.ExecutePlanResponse.FromString(r).response_id for r in after] == ["r2"]
    assert [row["name"] for row in rows_of(after)] == ["a", "b"]


@pytest.mark.parametrize("order", [[1, 0, 2], [0, 2], [0, 1], [1, 2], [0, 0, 1, 2], [2]])
def test_chunks_that_are_missing_or_out_of_order_are_not_shown(order: list[int]) -> None:
    chunks = chunked([table("a")], 3)
    with pytest.raises(UnknownShape):
        filtered(TABLES, [chunks[i] for i in order], everything)


def test_something_else_within_a_batch_is_not_shown() -> None:
    chunks = chunked([table("a")], 2)
    with pytest.raises(UnknownShape):
        filtered(TABLES, [chunks[0], response(), chunks[1]], everything)


def test_an_empty_list_stays_one() -> None:
    (one,) = filtered(TABLES, [batch([])], nothing)
    assert rows_of(one) == []
    (one,) = filtered(TABLES, [batch([table("a")])], nothing)
    assert rows_of(one) == []


def test_rows_of_tables_by_catalog_namespace_and_name() -> None:
    rows = [
        table("orders"),
        table("secret"),
        table("orders", "hr"),
        table("deep", namespace=["a", "b"]),
        table("deeper", namespace=["a", "c"]),
        table("dotted", namespace=["a.b"]),
        table("nowhere", namespace=None),
        table("mine", catalog=None, namespace=[], isTemporary=True),
        table("mine2", catalog=None, namespace=None, isTemporary=True),
        table("everybodys", namespace=["global_temp"], isTemporary=True),
        table("elsewhere", catalog="lake"),
        table("unnamed", catalog=None),
    ]
    secret = ("sales.secret", "hr.orders", "a.c.deeper")
    hidden = hides(*(f"spark_catalog.{name}" for name in secret), "lake.sales.elsewhere")
    names = [row[0] for row in shown(TABLES, rows, hidden, TABLE_SCHEMA)]
    assert names == ["orders", "deep", "mine", "mine2", "unnamed"]
    assert [row[3] for row in shown(TABLES, rows[:1], hidden, TABLE_SCHEMA)] == ["a comment"]
    without = AnswerRule(filter=AnswerFilter.CONNECT_TABLES, catalog="spark_catalog", details=False)
    assert [row[3] for row in shown(without, rows[:1], hidden, TABLE_SCHEMA)] == [None]


def strings(*names: str, flags: Sequence[str] = ()) -> Any:
    return pa.schema(
        [pa.field(n, pa.list_(pa.string()) if n == "namespace" else pa.string()) for n in names]
        + [pa.field(n, pa.bool_()) for n in flags]
    )


def test_rows_of_catalogs_and_databases() -> None:
    schema = strings("name", "description")
    rule = AnswerRule(filter=AnswerFilter.CONNECT_CATALOGS)
    rows: list[Any] = [("spark_catalog", "ours"), ("lake", None)]
    assert shown(rule, rows, hides("lake"), schema) == [("spark_catalog", "ours")]
    schema = strings("name", "catalog", "description", "locationUri")
    rows = [("sales", "spark_catalog", "x", "file:/wh/sales"), ("hr", "spark_catalog", "y", "file:/wh/hr")]
    rule = AnswerRule(filter=AnswerFilter.CONNECT_DATABASES)
    assert shown(rule, rows, hides("spark_catalog.hr"), schema) == rows[:1]
    rule = AnswerRule(filter=AnswerFilter.CONNECT_DATABASES, details=False)
    assert shown(rule, rows, everything, schema) == [
        ("sales", "spark_catalog", None, None),
        ("hr", "spark_catalog", None, None),
    ]


def test_rows_of_functions_built_in_ones_always_and_texts_of_others_as_details() -> None:
    schema = strings("name", "catalog", "namespace", "description", "className", flags=["isTemporary"])
    rows: list[Any] = [
        ("abs", None, None, "abs(expr)", "o.a.s.Abs", True),
        ("f", "spark_catalog", ["sales"], '{"expression":"salary"}', "sqlFunction.", False),
        ("f", "spark_catalog", ["hr"], "", "x.Y", False),
    ]
    rule = AnswerRule(filter=AnswerFilter.CONNECT_FUNCTIONS)
    assert shown(rule, rows, hides("spark_catalog.hr.f"), schema) == rows[:2]
    rule = AnswerRule(filter=AnswerFilter.CONNECT_FUNCTIONS, details=False)
    assert shown(rule, rows, everything, schema)[1] == ("f", "spark_catalog", ["sales"], None, None, False)
    assert shown(rule, rows, everything, schema)[0] == rows[0]
    # A temporary one can have row filters and masks in its text.
    own = ("own", None, None, '{"sqlFunction.query":"SELECT 4711"}', "sqlFunction.", True)
    rule = AnswerRule(filter=AnswerFilter.CONNECT_FUNCTIONS)
    assert shown(rule, [own], everything, schema) == [("own", None, None, None, "sqlFunction.", True)]


def test_rows_of_columns_by_the_rules_list() -> None:
    rule = AnswerRule(filter=AnswerFilter.CONNECT_COLUMNS, columns=frozenset({"id", "day"}))
    after = filtered(rule, recorded("list_columns"), nothing)
    assert [row["name"] for row in rows_of(after)] == ["id", "day"]
    schema = strings("name", "description", "dataType", flags=["nullable", "isPartition", "isBucket"])
    rows = [("id", None, "int", True, False, False), ("name", None, "string", True, False, False)]
    assert shown(rule, rows, nothing, schema) == rows[:1]


@pytest.mark.parametrize(
    "arrow",
    [
        b"",
        b"garbage",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        stream(TABLE_SCHEMA, [table("a")])[:-40],
        stream(TABLE_SCHEMA, [table("a")])[:16] + b"\x00" * 400,
        stream(pa.schema([("name", pa.int32())]), [(1,)]),
        stream(pa.schema([("name", pa.struct([("x", pa.string())]))]), [({"x": "secret"},)]),
        stream(pa.schema([("name", pa.string())]), [("a",)]),
        stream(TABLE_SCHEMA, [table(None)]),  # type: ignore[arg-type]
    ],
)
def test_rows_that_are_not_understood_are_not_shown(arrow: bytes) -> None:
    with pytest.raises(UnknownShape):
        filtered(
            TABLES,
            [response(arrow_batch=pb.ExecutePlanResponse.ArrowBatch(row_count=1, data=arrow))],
            everything,
        )


@given(st.binary(max_size=300), st.integers(0, 600))
def test_any_bytes_are_rows_or_unknown(noise: bytes, at: int) -> None:
    good = stream(TABLE_SCHEMA, [table("secret")])
    data = good[:at] + noise + good[at + len(noise) :]
    message = response(arrow_batch=pb.ExecutePlanResponse.ArrowBatch(row_count=1, data=data))
    try:
        after = filtered(TABLES, [message], nothing)
    except UnknownShape:
        return
    # Nothing may be known of tables; whatever stays says of itself that it is a temporary view.
    assert all(row["isTemporary"] for row in rows_of(after))


def test_deeply_nested_arrow_is_not_understood() -> None:
    kind = pa.string()
    for _ in range(60):
        kind = pa.list_(kind)
    with pytest.raises(UnknownShape):
        filtered(TABLES, [batch([], schema=pa.schema([("name", kind)]))], everything)


def test_a_batch_that_announces_other_rows_than_it_has() -> None:
    lying = batch([table("a")])
    lying.arrow_batch.row_count = 2
    with pytest.raises(UnknownShape):
        filtered(TABLES, [lying], everything)


def test_an_answer_has_bounds() -> None:
    answer = [batch([table(f"t{i}") for i in range(10)], offset=n * 10) for n in range(3)]
    assert len(rows_of(filtered(TABLES, answer, everything, max_rows=30))) == 30
    with pytest.raises(UnknownShape, match="rows"):
        filtered(TABLES, answer, everything, max_rows=29)
    with pytest.raises(UnknownShape, match="large"):
        filtered(TABLES, answer, everything, max_bytes=1000)


@pytest.mark.parametrize(
    "case",
    [
        {"sql_command_result": pb.ExecutePlanResponse.SqlCommandResult()},
        {"checkpoint_command_result": pb.CheckpointCommandResult()},
        {"extension": {}},
    ],
)
def test_a_response_of_another_kind_is_not_part_of_a_list(case: dict[str, Any]) -> None:
    with pytest.raises(UnknownShape):
        filtered(TABLES, [response(**case)], everything)


OWN = pb.Relation(common=pb.RelationCommon(plan_id=7), sql=pb.SQL(query="select * from t"))
GUARDED = pb.Relation(common=pb.RelationCommon(plan_id=7), sql=pb.SQL(query="select * from (SELECT 'MASK')"))


def sql_result(relation: Any) -> Any:
    return response(sql_command_result=pb.ExecutePlanResponse.SqlCommandResult(relation=relation))


def relation_of(data: bytes) -> Any:
    return pb.ExecutePlanResponse.FromString(data).sql_command_result.relation


@pytest.mark.parametrize(
    "sent", [GUARDED, pb.Relation(with_relations=pb.WithRelations(root=GUARDED, references=[GUARDED]))]
)
@pytest.mark.parametrize("rule", [RELAY, SHOW_TABLES])
def test_a_query_is_answered_with_the_clients_own_relation(sent: Any, rule: AnswerRule) -> None:
    patched = patched_by(rule, OWN.SerializeToString(), sql_result(sent), everything)
    assert relation_of(patched) == OWN
    assert b"MASK" not in patched
    assert pb.ExecutePlanResponse.FromString(patched).response_id == "r"


@pytest.mark.parametrize("original_relation", [b"", b"\xff\xff"])
def test_without_the_clients_own_relation_nothing_is_shown(original_relation: bytes) -> None:
    with pytest.raises(UnknownShape):
        patched_by(RELAY, original_relation, sql_result(GUARDED), everything)


@pytest.mark.parametrize(
    "relation",
    [
        pb.Relation(),
        pb.Relation(read=pb.Read(named_table=pb.Read.NamedTable(unparsed_identifier="t"))),
        pb.Relation(cached_remote_relation=pb.CachedRemoteRelation(relation_id="x")),
        pb.Relation(project=pb.Project(input=GUARDED)),
    ],
)
def test_another_relation_than_rows_or_the_query_is_not_shown(relation: Any) -> None:
    with pytest.raises(UnknownShape):
        patched_by(RELAY, OWN.SerializeToString(), sql_result(relation), everything)


def test_rows_of_a_command_are_filtered_like_those_over_thrift() -> None:
    before = recorded("SHOW TABLES")
    after = [patched_by(SHOW_TABLES, b"", r, hides("spark_catalog.d1.v")) for r in before]
    (data,) = (
        relation_of(r).local_relation.data
        for r in after
        if pb.ExecutePlanResponse.FromString(r).HasField("sql_command_result")
    )
    assert [row["tableName"] for row in pa.ipc.open_stream(data).read_all().to_pylist()] == ["t", "tv"]
    assert not any(pb.ExecutePlanResponse.FromString(r).HasField("metrics") for r in after)


def test_rows_of_a_command_that_lists_nothing_hidden_pass_as_they_are() -> None:
    for name in ("SHOW TABLES", "USE"):
        for before in recorded(name):
            after = patched_by(RELAY, b"", before, nothing)
            assert pb.ExecutePlanResponse.FromString(after) == before


def test_a_row_that_a_command_is_not_known_to_answer_is_not_shown() -> None:
    local = pb.Relation(local_relation=pb.LocalRelation(data=stream(TABLE_SCHEMA, [table("a")])))
    with pytest.raises(UnknownShape):
        patched_by(SHOW_TABLES, b"", sql_result(local), everything)


def test_rows_do_not_come_beside_the_result_of_a_command() -> None:
    with pytest.raises(UnknownShape):
        patched_by(RELAY, b"", batch([table("a")]), everything)


INFORMATION = "Type: MANAGED\nOwner: root\nSchema: root\n |-- id: integer (nullable = true)\n"


def test_what_a_list_tells_of_tables_is_what_describe_would_show() -> None:
    """A text that is all of a plan is answered with batches, in as many as Spark likes."""
    visible = hides("spark_catalog.sales.vault")
    answer = [
        batch([("sales", "orders", False, INFORMATION)], schema=EXTENDED_SCHEMA),
        response(),
        batch(
            [("sales", "vault", False, INFORMATION), ("sales", "staff", False, INFORMATION)],
            offset=1,
            schema=EXTENDED_SCHEMA,
        ),
    ]
    whole = [serialize(one) for one in answer]
    listed = tables_in_batches(EXTENDED, whole, visible)
    assert [name.table for name in listed] == ["orders", "staff"]
    assert tables_in_batches(SHOW_TABLES, whole, visible) == []
    shows = AnswerRule(
        filter=AnswerFilter.DESCRIBE_TABLE, catalog="spark_catalog", columns=frozenset({"id"}), details=True
    )
    told = {TableName("spark_catalog", "sales", "orders"): shows}
    found = rows_of(filter_responses(EXTENDED, whole, visible, told))
    assert [(row["tableName"], row["information"]) for row in found] == [
        ("orders", INFORMATION),
        ("staff", ""),
    ]
    with pytest.raises(UnknownShape):
        tables_in_batches(EXTENDED, whole, visible, max_rows=2)


DESCRIPTION = pa.schema([pa.field(name, pa.string()) for name in ("col_name", "data_type", "comment")])
ONE_COLUMN = pa.schema([pa.field(name, pa.string()) for name in ("info_name", "info_value")])
OF_ONE = [("col_name", "salary"), ("data_type", "int"), ("comment", None), ("min", "1"), ("max", "9")]


def in_batches(rows: Sequence[Sequence[Any]], size: int, schema: Any) -> list[Any]:
    return [batch(rows[at : at + size], offset=at, schema=schema) for at in range(0, len(rows), size)]


@pytest.mark.parametrize("size", range(1, len(DESCRIBED) + 1))
@pytest.mark.parametrize("columns", [None, frozenset({"id", "day", "salary"}), frozenset({"id", "day"})])
def test_a_description_in_batches_tells_what_it_tells_in_one(
    columns: frozenset[str] | None, size: int
) -> None:
    """Spark puts the rows of a command into as many batches as it has cores, and what one means is said by a
    heading that may be in another."""
    rule = AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, columns=columns, details=False)
    told = filter_rows(rule, DESCRIBED, everything)
    answer = [response(), *in_batches(DESCRIBED, size, DESCRIPTION), response()]
    after = filtered(rule, answer, everything)
    assert [tuple(row.values()) for row in rows_of(after)] == told
    assert len(after) == len(answer)
    assert not any(b"file:/wh/t" in one or b"12 bytes" in one for one in after)


@pytest.mark.parametrize("size", range(1, len(OF_ONE) + 1))
def test_a_description_of_a_column_in_batches(size: int) -> None:
    answer = in_batches(OF_ONE, size, ONE_COLUMN)
    for columns, details, count in (("salary", True, 5), ("salary", False, 3), ("id", True, 0)):
        rule = AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, columns=frozenset({columns}), details=details)
        assert len(rows_of(filtered(rule, answer, everything))) == count
