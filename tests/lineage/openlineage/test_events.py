"""Events say of a statement what its lineage says, in shapes that OpenLineage publishes."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lineage.openlineage import events as made
from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.names import Naming
from gateway.lineage.rows import IMPORTED, SeenStatement
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.lineage import (
    ANY_COLUMN,
    Clause,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    LineageEdge,
    Operation,
    SourceColumn,
    StatementLineage,
    Subtype,
    Transformation,
)
from tests.effort import tries
from tests.lineage.openlineage.shapes import check
from tests.lineage.statements import BEGINNING, seen

ID = uuid.UUID("0199c7d1-6a2e-7c3b-9f0e-2b6f5a1d8e44")
PAY = replace(
    seen(
        "people.ssn -> pay.id: sha2(ssn, 256) TRANSFORMATION masked",
        "orders.amount -> pay.total: sum(amount) AGGREGATION",
        "orders.region -> pay.id, pay.total: region = 'EMEA' FILTER",
        statement_id=ID,
    ),
    session_id="s-1",
    ended=BEGINNING + timedelta(seconds=2),
)
NAMING = Naming(namespace="prod", catalogs={"spark_catalog": "hive://metastore:9083"})
WRITER = EventWriter(naming=NAMING, spark_version="4.0.1")


def named(name: str) -> dict[str, str]:
    return {"namespace": "hive://metastore:9083", "name": f"lab.{name}"}


def checked(writer: EventWriter, statement: SeenStatement) -> list[dict[str, Any]]:
    """Return the events of a statement as a reader of the lines has them."""
    events = [json.loads(line) for line in writer.lines([statement]).splitlines()]
    for event in events:
        check(event)
    return events


def test_a_run_begins_and_ends_when_the_statement_did() -> None:
    begin, end = checked(WRITER, PAY)
    assert (begin["eventType"], begin["eventTime"]) == ("START", "2026-11-01T12:00:00.000000Z")
    assert (end["eventType"], end["eventTime"]) == ("COMPLETE", "2026-11-01T12:00:02.000000Z")
    assert begin["run"]["runId"] == end["run"]["runId"] == str(ID)
    job = {"namespace": "prod", "name": "insert.spark_catalog.lab.pay"}
    assert {k: end["job"][k] for k in job} == {k: begin["job"][k] for k in job} == job
    assert end["job"]["facets"]["sql"]["query"] == PAY.text
    assert end["job"]["facets"]["sql"]["dialect"] == "spark"
    assert end["run"]["facets"]["processing_engine"]["version"] == "4.0.1"


def test_columns_have_their_sources_and_rows_their_conditions() -> None:
    end = checked(WRITER, PAY)[-1]
    (output,) = end["outputs"]
    facet = output["facets"]["columnLineage"]
    assert facet["fields"] == {
        "id": {
            "inputFields": [
                {
                    **named("people"),
                    "field": "ssn",
                    "transformations": [
                        {
                            "type": "DIRECT",
                            "subtype": "TRANSFORMATION",
                            "masking": True,
                            "description": "sha2(ssn, 256)",
                        }
                    ],
                }
            ]
        },
        "total": {
            "inputFields": [
                {
                    **named("orders"),
                    "field": "amount",
                    "transformations": [
                        {
                            "type": "DIRECT",
                            "subtype": "AGGREGATION",
                            "masking": False,
                            "description": "sum(amount)",
                        }
                    ],
                }
            ]
        },
    }
    assert facet["dataset"] == [
        {
            **named("orders"),
            "field": "region",
            "transformations": [
                {"type": "INDIRECT", "subtype": "FILTER", "masking": False, "description": "region = 'EMEA'"}
            ],
        }
    ]
    assert end["run"]["facets"]["sluice_statement"]["maskedColumns"] == [{**named("people"), "field": "ssn"}]


def test_a_condition_on_some_columns_is_with_those() -> None:
    end = checked(WRITER, seen("a.x -> b.y: x IDENTITY", "a.z -> b.z: z IDENTITY", "a.k -> b.y: m > 1 JOIN"))[
        -1
    ]
    facet = end["outputs"][0]["facets"]["columnLineage"]
    assert [f["field"] for f in facet["fields"]["y"]["inputFields"]] == ["x", "k"]
    assert [f["field"] for f in facet["fields"]["z"]["inputFields"]] == ["z"]
    assert facet["dataset"] == []


def test_two_conditions_on_a_column_are_two_transformations() -> None:
    end = checked(WRITER, seen("a.x -> b.y: x IDENTITY", "a.x -> b.y: x > 1 FILTER", "a.x -> b.y: x FILTER"))[
        -1
    ]
    (source,) = end["outputs"][0]["facets"]["columnLineage"]["dataset"]
    assert [t["description"] for t in source["transformations"]] == ["x > 1", "x"]


@pytest.mark.parametrize(
    ("outcome", "ended", "types"),
    [
        ("finished", True, ["START", "COMPLETE"]),
        ("failed", True, ["START", "FAIL"]),
        ("canceled", True, ["START", "ABORT"]),
        ("timed_out", True, ["START", "ABORT"]),
        ("not_forwarded", False, ["START", "ABORT"]),
        ("unknown", True, ["START", "ABORT"]),
        ("unknown", False, ["START"]),
        ("finished", False, ["START", "COMPLETE"]),
    ],
)
def test_a_run_ends_as_the_statement_did(outcome: str, ended: bool, types: list[str]) -> None:
    statement = replace(PAY, outcome=outcome, ended=PAY.ended if ended else None, error="[DIVIDE] by zero")
    events = checked(WRITER, statement)
    assert [e["eventType"] for e in events] == types
    errors = [e["run"]["facets"].get("errorMessage") for e in events]
    assert [bool(e) for e in errors] == [t in ("FAIL", "ABORT") for t in types]
    assert "columnLineage" in events[-1]["outputs"][0]["facets"]
    assert all(e["message"] == "[DIVIDE] by zero" for e in errors if e)


def test_a_script_has_no_run() -> None:
    (event,) = checked(WRITER, replace(PAY, outcome=IMPORTED, ended=None))
    assert "run" not in event
    assert "eventType" not in event
    assert event["schemaURL"].endswith("/JobEvent")
    assert "columnLineage" in event["outputs"][0]["facets"]


def test_a_session_is_the_parent_and_of_one_user_only() -> None:
    parents = [
        checked(WRITER, replace(PAY, user=user, session_id=session))[0]["run"]["facets"].get("parent")
        for user, session in (("ann", "s-1"), ("ann", "s-1"), ("bob", "s-1"), ("ann", "s-2"), ("ann", ""))
    ]
    ids = [p["run"]["runId"] if p else None for p in parents]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4
    assert ids[-1] is None
    assert parents[0] is not None
    assert parents[0]["job"] == {"namespace": "prod", "name": "session.ann"}


def test_what_the_catalog_knows_is_told_and_nothing_else() -> None:
    known = Table(
        name=TableName("spark_catalog", "lab", "orders"),
        kind=TableKind.TABLE,
        columns=(Column(name="amount", type="decimal(10,2)"), Column(name="region", type="string")),
        location="s3a://lake/orders/",
    )
    writer = replace(WRITER, tables=lambda name: known if name == known.name else None)
    end = checked(writer, PAY)[-1]
    people, orders = end["inputs"]
    assert orders["facets"]["schema"]["fields"] == [
        {"name": "amount", "type": "decimal(10,2)"},
        {"name": "region", "type": "string"},
    ]
    assert orders["facets"]["symlinks"]["identifiers"] == [
        {"namespace": "s3://lake", "name": "orders", "type": "LOCATION"}
    ]
    assert "schema" not in people["facets"]
    assert [f["name"] for f in end["outputs"][0]["facets"]["schema"]["fields"]] == ["id", "total"]


def test_what_create_makes_has_the_columns_that_it_makes() -> None:
    old = Table(
        name=TableName("spark_catalog", "lab", "pay"),
        kind=TableKind.TABLE,
        columns=(Column(name="old", type="int"),),
    )
    writer = replace(WRITER, tables=lambda name: old if name == old.name else None)
    create = replace(PAY, lineage=replace(PAY.lineage, operation=Operation.CREATE))
    assert checked(writer, create)[-1]["outputs"][0]["facets"]["schema"]["fields"] == [
        {"name": "id"},
        {"name": "total"},
    ]


def test_tables_only_is_said_and_makes_no_columns() -> None:
    lineage = replace(PAY.lineage, edges=(), columns=(), table_level="not read")
    end = checked(WRITER, replace(PAY, lineage=lineage))[-1]
    assert "columnLineage" not in end["outputs"][0]["facets"]
    assert end["run"]["facets"]["sluice_statement"]["tableLevel"] == "not read"


def test_without_texts_there_are_no_literals() -> None:
    statement = replace(PAY, outcome="failed", error="cannot cast 'EMEA'")
    lines = replace(WRITER, texts=False).lines([statement])
    assert b"EMEA" in WRITER.lines([statement])
    assert b"EMEA" not in lines
    for line in lines.splitlines():
        check(json.loads(line))


def test_plain_queries_can_be_left_out() -> None:
    query = replace(PAY, lineage=replace(PAY.lineage, operation=Operation.QUERY))
    assert len(checked(WRITER, query)) == 2
    assert replace(WRITER, queries=False).lines([query, PAY]) == WRITER.lines([PAY])


def test_a_view_on_the_way_is_an_input() -> None:
    view = Dataset(DatasetKind.VIEW, ("spark_catalog", "lab", "v"))
    end = checked(WRITER, replace(PAY, lineage=replace(PAY.lineage, views=(view,))))[-1]
    assert end["inputs"][-1]["name"] == "lab.v"
    assert end["inputs"][-1]["facets"]["datasetType"]["datasetType"] == "VIEW"


def test_a_table_that_is_read_and_written_is_both() -> None:
    end = checked(WRITER, seen("t.a -> t.b: a + 1 TRANSFORMATION"))[-1]
    assert [d["name"] for d in end["inputs"]] == [d["name"] for d in end["outputs"]] == ["lab.t"]


def test_the_text_of_a_data_frame_is_source_code() -> None:
    facets = checked(WRITER, replace(PAY, text="df.write…", is_sql=False))[-1]["job"]["facets"]
    assert list(facets) == ["sourceCode"]
    assert (
        facets["sourceCode"]["language"],
        facets["sourceCode"]["sourceCode"],
    ) == ("python", "df.write…")


def test_an_event_that_is_too_long_is_shortened_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    long = seen(*(f"a.c{i} -> b.d{i}: {'x' * 100} IDENTITY" for i in range(100)))
    whole = len(WRITER.lines([long]).splitlines()[-1])
    monkeypatch.setattr(made, "CUT_CHARS", 100)
    monkeypatch.setattr(made, "MAX_EVENT_BYTES", whole - 1)
    end = checked(WRITER, long)[-1]
    assert len(end["outputs"][0]["facets"]["columnLineage"]["fields"]) == 100
    assert "xxx" not in json.dumps(end["outputs"])
    assert end["job"]["facets"]["sql"]["query"] == long.text[:100]
    monkeypatch.setattr(made, "MAX_EVENT_BYTES", 5000)
    end = checked(WRITER, long)[-1]
    assert "columnLineage" not in end["outputs"][0]["facets"]
    assert end["run"]["facets"]["sluice_statement"]["shortened"] is True


TEXTS = st.one_of(
    st.sampled_from(
        ["a", "b", "spark_catalog", "lab", "t.u", "`", ANY_COLUMN, "", "s3a://k:s@lake/x/", "\0"]
    ),
    st.text(max_size=12),
    st.text(alphabet=st.characters(categories=["Cs", "Lu"]), max_size=4),
)
DATASETS = st.one_of(
    st.builds(
        lambda kind, parts: Dataset(kind, tuple(parts)),
        st.sampled_from([DatasetKind.TABLE, DatasetKind.VIEW]),
        st.lists(TEXTS, min_size=3, max_size=3),
    ),
    st.builds(lambda name: Dataset(DatasetKind.TEMP_VIEW, (name,)), TEXTS),
    st.builds(lambda place: Dataset(DatasetKind.PATH, (place,)), TEXTS),
    st.just(Dataset(DatasetKind.RESULT, ())),
)
VERTICES = st.builds(ColumnVertex, DATASETS, TEXTS)
SOURCES = st.builds(
    SourceColumn,
    VERTICES,
    st.lists(st.builds(Transformation, st.sampled_from(Subtype), st.booleans()), min_size=1, max_size=3).map(
        tuple
    ),
)
EDGES = st.builds(
    LineageEdge,
    type=st.sampled_from(EdgeType),
    sources=st.lists(SOURCES, max_size=3).map(tuple),
    targets=st.lists(VERTICES, max_size=3).map(tuple),
    expression=TEXTS,
    clause=st.sampled_from([None, *Clause]),
)
LINEAGES = st.builds(
    StatementLineage,
    operation=st.sampled_from(Operation),
    targets=st.lists(DATASETS, max_size=3).map(tuple),
    inputs=st.lists(DATASETS, max_size=3).map(tuple),
    views=st.lists(DATASETS, max_size=2).map(tuple),
    columns=st.lists(VERTICES, max_size=4).map(tuple),
    edges=st.lists(EDGES, max_size=4).map(tuple),
    table_level=st.sampled_from(["", "not read\ud800"]),
    unread=st.lists(st.tuples(DATASETS, TEXTS), max_size=2).map(tuple),
)
ZONES = st.integers(-14, 14).map(lambda hours: timezone(timedelta(hours=hours)))
TIMES = st.builds(
    lambda seconds, zone: (BEGINNING + timedelta(seconds=seconds)).astimezone(zone),
    st.floats(-1e9, 1e9),
    ZONES,
)
STATEMENTS = st.builds(
    SeenStatement,
    statement_id=st.uuids(),
    time=TIMES,
    user=TEXTS,
    text=TEXTS,
    session_id=TEXTS,
    outcome=st.sampled_from(["finished", "failed", "canceled", "unknown", "", IMPORTED]),
    ended=st.none() | TIMES,
    error=TEXTS,
    lineage=LINEAGES,
)
WRITERS = st.builds(
    EventWriter,
    naming=st.builds(
        Naming,
        catalogs=st.dictionaries(
            TEXTS,
            st.sampled_from(["hive://m:9083", "postgres://db:5432/sales", "arn:aws:glue:eu:1", "bigquery"]),
            max_size=3,
        ),
    ),
    spark_version=st.sampled_from(["", "4.0.1"]),
    texts=st.booleans(),
)


@given(WRITERS, STATEMENTS)
@settings(max_examples=tries(300), deadline=None)
def test_events_of_any_lineage_are_as_openlineage_has_them(
    writer: EventWriter, statement: SeenStatement
) -> None:
    events = checked(writer, statement)
    assert events
    times = [datetime.fromisoformat(e["eventTime"]) for e in events]
    assert times == sorted(times)
    assert times[0] == statement.time.astimezone(UTC)
    if not statement.lineage.table_level:
        outputs = {(d["namespace"], d["name"]) for d in events[-1]["outputs"]}
        for edge in statement.lineage.edges:
            for target in edge.targets:
                assert writer.naming.dataset(target.dataset, statement) in outputs
