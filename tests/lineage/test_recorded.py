"""The record keeps of a statement what its lineage is made of, whatever becomes of tables and policies."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from gateway.lineage.recorded import TOO_MUCH, LineageInput, masks_of, pack, read_statement, unpack
from gateway.model.audit import AuditEvent
from gateway.model.catalog import TableName
from gateway.model.handles import SparkHandle
from gateway.model.lineage import RESULT, Operation
from gateway.model.statement import AnswerFilter, AnswerRule, PlanRequest
from tests.audit.samples import completed, refused
from tests.lineage.recorded import cleared, decided, name_of, scan, table

RAW = table("raw", "id ssn")
VIEW = table("people", "name", view="SELECT ssn AS name FROM raw")


def with_lineage(event: AuditEvent, lineage: Any) -> AuditEvent:
    return replace(event, body={**event.body, "lineage": lineage})


def test_what_was_written_is_read_again() -> None:
    verdict = cleared("SELECT * FROM people", RAW, VIEW, scans=(scan("raw", "SSN"),))
    event = decided(verdict, views={"v": "019365a0-0000-7000-8000-000000000001"})
    found = read_statement(event, completed(event, "failed", error="no", sqlstate="22012"))
    assert found.text == "SELECT * FROM people"
    assert found.context.namespace == ("lab",)
    assert found.context.temp_views == {"v"}
    assert found.temp_views == {"v": UUID("019365a0-0000-7000-8000-000000000001")}
    assert found.tables == {name_of("raw"): RAW, name_of("people"): VIEW}
    assert found.masks == {name_of("raw"): {"ssn"}}
    assert (found.outcome, found.error) == ("failed", "no")
    assert found.ended is not None
    assert not found.over


def test_a_column_is_masked_where_every_scan_of_its_table_masks_it() -> None:
    assert masks_of([scan("raw", "ssn", "id"), scan("raw", "ssn")]) == {name_of("raw"): {"ssn"}}
    assert masks_of([scan("raw", "ssn"), scan("raw")]) == {}
    event = decided(cleared("SELECT 1", RAW, scans=(scan("raw", "ssn", "id"), scan("raw", "ssn"))))
    assert read_statement(event).masks == {name_of("raw"): {"ssn"}}
    old = replace(event, body={k: v for k, v in event.body.items() if k != "lineage"})
    assert read_statement(old).masks == {name_of("raw"): {"ssn"}}
    assert read_statement(old).tables is None


def sql_plan(text: str, *, command: bool) -> PlanRequest:
    from gateway.wire.connect import pb, serialize

    plan = pb.Plan()
    relation = plan.command.sql_command.input if command else plan.root
    relation.sql.query = text
    return PlanRequest(kind="execute", message=serialize(plan))


@pytest.mark.parametrize("command", [True, False])
def test_the_text_of_a_plan_is_that_of_its_sql(command: bool) -> None:
    verdict = cleared("spark.sql(...)", RAW, plan_texts=("SELECT * FROM raw",))
    plan = sql_plan("SELECT * FROM raw", command=command)
    sent = replace(verdict, statement=replace(verdict.statement, plan=plan))
    found = read_statement(decided(sent))
    assert found.text == "SELECT * FROM raw"
    assert found.runs_queries is not command
    looked_at = replace(plan, kind="analyze")
    assert LineageInput()(replace(sent, statement=replace(sent.statement, plan=looked_at)), {}, {}) is None


def data_frame(*, columns: int = 1) -> bytes:
    """The plan of `spark.table("raw").select("id")`."""
    from gateway.wire.connect import pb, serialize

    plan = pb.Plan()
    plan.root.project.input.read.named_table.unparsed_identifier = "raw"
    for number in range(columns):
        name = f"id_{number * 7919 % 100003}" if number else "id"
        plan.root.project.expressions.add().unresolved_attribute.unparsed_identifier = name
    return serialize(plan)


def test_the_plan_of_a_data_frame_is_kept() -> None:
    verdict = cleared("spark.table('raw')", RAW, plan=data_frame(), plan_texts=("id > 1",))
    made = "019365a0-0000-7000-8000-000000000002"
    found = read_statement(decided(verdict, relations={"7a1e": made}))
    assert found.plan == data_frame()
    assert found.text == "spark.table('raw')"
    assert found.tables == {name_of("raw"): RAW}
    assert found.relations == {"7a1e": UUID(made)}
    assert found.context.handles == {SparkHandle("relation", "7a1e")}
    assert found.tables_only is None
    assert found.runs_queries


def test_text_with_arguments_is_kept_as_a_plan() -> None:
    from gateway.wire.connect import parse, pb, serialize

    plan = parse(pb.Plan, sql_plan("SELECT * FROM raw", command=False).message)
    plan.root.sql.named_arguments["x"].literal.integer = 1
    verdict = cleared("spark.sql(...)", RAW, plan=serialize(plan), plan_texts=("SELECT * FROM raw",))
    assert read_statement(decided(verdict)).plan == serialize(plan)


def test_only_tables_are_known_of_a_plan_that_is_too_large() -> None:
    verdict = cleared("...", RAW, plan=data_frame(columns=2000), scans=(scan("raw"),))
    event = decided(verdict, input_=LineageInput(tables_bytes=2000))
    assert event.body["lineage"]["plan"] is None
    found = read_statement(event).tables_only
    assert found is not None
    assert found.table_level == TOO_MUCH
    assert [str(one) for one in found.inputs] == ["spark_catalog.lab.raw"]
    assert (found.operation, found.targets) == (Operation.QUERY, (RESULT,))
    written = [
        {"resource": "spark_catalog/lab/Out", "resType": "@table", "action": "insert", "result": 1},
        {"resource": "/out/x", "resType": "@url", "action": "write", "result": 1},
        {"resource": "/in/x", "resType": "@url", "action": "read", "result": 1},
        {"resource": "spark_catalog/lab/no", "resType": "@table", "action": "insert", "result": 0},
    ]
    found = read_statement(replace(event, body={**event.body, "decisions": written})).tables_only
    assert found is not None
    assert found.operation is Operation.INSERT
    assert {str(one) for one in found.targets} == {"spark_catalog.lab.out", "/out/x"}
    assert {str(one) for one in found.inputs} == {"spark_catalog.lab.raw", "/in/x"}


def test_without_queries_those_of_plans_are_not_counted() -> None:
    verdict = cleared("...", RAW, plan=data_frame(), plan_class="CheckpointCommand")
    found = read_statement(decided(verdict, input_=LineageInput(queries=False)))
    assert (found.caches, found.runs_queries) == (True, False)
    assert read_statement(decided(verdict)).runs_queries


def test_a_call_of_the_catalog_has_none() -> None:
    verdict = cleared("...", RAW, plan=data_frame(), plan_class="Catalog.CreateTable")
    assert LineageInput()(verdict, {}, {}) is None


def test_a_plan_from_before_has_none() -> None:
    event = decided(cleared("...", RAW, plan=data_frame(), plan_texts=("id > 1",)))
    body = {key: value for key, value in event.body.items() if key != "lineage"}
    with pytest.raises(ValueError, match="record"):
        read_statement(replace(event, body=body))


def test_too_many_tables_are_said_to_be() -> None:
    wide = table("wide", " ".join(f"column_{i * 7919 % 10007}" for i in range(3000)))
    event = decided(cleared("SELECT * FROM wide", wide), input_=LineageInput(tables_bytes=2000))
    assert event.body["lineage"] == {"tables": None}
    assert read_statement(event).over


@pytest.mark.parametrize("most", [1, 256 * 1024])
def test_wide_tables_are_packed_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []

    def counted(tables: Any, masks: Any) -> str | None:
        packed.append(len(tables))
        return pack(tables, masks)

    monkeypatch.setattr("gateway.lineage.recorded.pack", counted)
    write = LineageInput(tables_bytes=most)
    wide = [table(f"wide{t}", " ".join(f"c{hash((t, i))}" for i in range(4_000))) for t in range(2)]
    first = write(cleared("SELECT 1", *wide), {}, {})
    assert first is not None
    assert (first["tables"] is None) == (most == 1)
    assert write(cleared("SELECT 2", *wide), {}, {}) == first
    assert packed == [2]


def test_what_is_remembered_of_wide_tables_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.lineage.recorded._CACHED_BYTES", 10_000)
    write = LineageInput()
    for t in range(20):
        write(cleared("SELECT 1", table(f"t{t}", " ".join(f"c{hash((t, i))}" for i in range(200)))), {}, {})
    kept = [len(found or "") + len(facts or "") for _, found, facts in write._written.values()]
    assert 1 <= len(kept) < 20
    assert sum(kept) == write._written_bytes <= 10_000


def test_a_table_is_packed_again_when_it_or_its_masks_change() -> None:
    write = LineageInput()
    plain = cleared("SELECT * FROM raw", RAW)
    first = write(plain, {}, {})
    assert first == write(plain, {}, {})
    other = cleared("SELECT * FROM raw", table("raw", "id ssn more"))
    masked = cleared("SELECT * FROM raw", RAW, scans=(scan("raw", "ssn"),))
    packed = [found["tables"] for v in (plain, other, masked) if (found := write(v, {}, {})) is not None]
    assert len(set(packed)) == 3


@pytest.mark.parametrize(
    ("changes", "queries", "kept"),
    [
        ({}, True, True),
        ({"read_only": True}, True, True),
        ({"read_only": True}, False, False),
        ({"read_only": True, "makes": "v"}, False, True),
        ({"answer": AnswerRule(filter=AnswerFilter.TABLES)}, True, False),
    ],
)
def test_which_statements_are_kept(changes: dict[str, Any], queries: bool, kept: bool) -> None:
    event = decided(cleared("SELECT 1", RAW, **changes), input_=LineageInput(queries=queries))
    assert ("lineage" in event.body) is kept


def test_what_touches_nothing_has_none() -> None:
    assert LineageInput()(replace(cleared("SELECT 1"), decisions=()), {}, {}) is None


@pytest.mark.parametrize(
    "lineage",
    [
        [],
        {},
        {"tables": "no base64"},
        {"tables": base64.b64encode(b"no zlib").decode()},
        {"tables": base64.b64encode(zlib.compress(b"no json")).decode()},
        {"tables": base64.b64encode(zlib.compress(b'[["x"]]')).decode()},
        {"tables": base64.b64encode(zlib.compress(bytes(65 * 1024 * 1024))).decode()},
        {"tables": None, "temp_views": {"v": "no id"}},
        {"tables": None, "temp_views": ["v"]},
        {"tables": None, "plan": "no base64"},
        {"tables": None, "relations": {"r": "no id"}},
    ],
)
def test_a_broken_record_is_one_error(lineage: Any) -> None:
    with pytest.raises(ValueError, match="record"):
        read_statement(with_lineage(decided(cleared("SELECT 1", RAW)), lineage))


def test_no_lineage_of_what_was_refused() -> None:
    with pytest.raises(ValueError, match="cleared"):
        read_statement(refused())


def test_names_that_are_no_text_are_too_much() -> None:
    assert pack([table("raw", "a\ud800")], {}) is None
    assert unpack(pack([RAW], {}) or "") == ({TableName("spark_catalog", "lab", "raw"): RAW}, {})
