"""What commands of plans want: every case has a row, and each row what the SQL of the same meaning wants."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.handles import SparkHandle
from gateway.model.statement import CatalogChanged, CreateTempView, RegisterCode, SessionContext
from gateway.plan.commands import COMMANDS, REFUSED_COMMANDS, command_privileges
from gateway.plan.reading import CodeUse, PlanReading
from gateway.plan.scope import PlanRequired
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb

NAMES = Names(
    SessionContext(namespace=("sales",), temp_views=frozenset({"v"}), endpoint="connect"),
    frozenset({"spark_catalog", "lake"}),
)
TARGET = TableName("spark_catalog", "sales", "t")


def required_of(command: Any, *, code: bool = False) -> PlanRequired | Unsupported:
    use = [CodeUse(name="f", access="create", what="a function")] if code else []
    plan = pb.Plan(command=command)
    return command_privileges(PlanReading(message=plan, root="", command=plan.command, code=use), NAMES)


def accesses(found: PlanRequired | Unsupported) -> list[str]:
    assert isinstance(found, PlanRequired), found
    return [
        f"{privilege.access} {privilege.resource.kind} {privilege.resource}"
        for privilege in found.required.privileges
    ]


def write(**fields: Any) -> Any:
    return pb.Command(write_operation=pb.WriteOperation(**fields))


def table(name: str, method: Any) -> Any:
    return pb.WriteOperation.SaveTable(table_name=name, save_method=method)


def test_every_command_has_a_row() -> None:
    cases = {f.name for f in pb.Command.DESCRIPTOR.oneofs_by_name["command_type"].fields}
    assert cases == COMMANDS.keys() | REFUSED_COMMANDS.keys()
    assert not COMMANDS.keys() & REFUSED_COMMANDS.keys()


SAVE, INSERT = "TABLE_SAVE_METHOD_SAVE_AS_TABLE", "TABLE_SAVE_METHOD_INSERT_INTO"
T = "table spark_catalog.sales.t"


@pytest.mark.parametrize(
    ("fields", "wanted", "raw"),
    [
        ({"table": table("t", SAVE)}, [f"create {T}"], ()),
        ({"table": table("t", SAVE), "mode": "SAVE_MODE_OVERWRITE"}, [f"create {T}", f"drop {T}"], ()),
        ({"table": table("t", SAVE), "mode": "SAVE_MODE_APPEND"}, [f"create {T}", f"insert {T}"], ()),
        (
            {"table": table("t", SAVE), "options": {"path": "/p"}},
            [f"create {T}", "read url /p", "write url /p"],
            (),
        ),
        ({"table": table("t", INSERT), "mode": "SAVE_MODE_APPEND"}, [f"insert {T}"], ()),
        (
            {"table": table("t", INSERT), "mode": "SAVE_MODE_OVERWRITE"},
            [f"insert {T}", f"delete {T}"],
            (TARGET,),
        ),
        ({"path": "/out", "source": "parquet"}, ["write url /out"], ()),
        ({"source": "noop", "mode": "SAVE_MODE_OVERWRITE"}, [], ()),
    ],
)
def test_writes_want_what_the_same_sql_wants(fields: dict[str, Any], wanted: list[str], raw: Any) -> None:
    found = required_of(write(**fields))
    assert accesses(found) == wanted
    assert isinstance(found, PlanRequired)
    assert found.required.raw == raw


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"table": table("t", SAVE), "source": "jdbc"}, "access other systems"),
        ({"table": table("t", SAVE), "options": {"url": "x"}}, "the option `url`"),
        ({"table": table("t", SAVE), "with_schema_evolution": True}, "schema evolution"),
        ({"table": table("t", "TABLE_SAVE_METHOD_UNSPECIFIED")}, "save method"),
        ({"table": table("`/etc/x`", SAVE)}, "characters of paths"),
        ({"table": table("a b", SAVE)}, "cannot be parsed as a name"),
        ({"table": table("t", INSERT), "options": {"path": "/p"}}, "cannot have a path"),
        ({"path": "/out", "source": "jdbc"}, "access other systems"),
        ({"path": "/out", "source": "hive"}, "does not support paths"),
        ({"source": "parquet"}, "without a table or a path"),
        ({"table": table("t", SAVE), "mode": 9}, "save mode"),
    ],
)
def test_writes_that_are_refused(fields: dict[str, Any], words: str) -> None:
    found = required_of(write(**fields))
    assert isinstance(found, Unsupported)
    assert words in found.why


def test_targets_are_pinned_in_full_and_temporary_views_do_not_count() -> None:
    command = write(table=table("v", SAVE))
    plan = pb.Plan(command=command)
    found = command_privileges(PlanReading(message=plan, root="", command=plan.command), NAMES)
    assert isinstance(found, PlanRequired)
    (pin,) = found.names
    assert pin.text == "`spark_catalog`.`sales`.`v`"
    assert pin.message is plan.command.write_operation.table
    assert found.required.effects == (CatalogChanged((TableName("spark_catalog", "sales", "v"),)),)


@pytest.mark.parametrize(
    ("mode", "wanted", "raw"),
    [
        ("MODE_CREATE", ["create"], ()),
        ("MODE_OVERWRITE", ["insert", "delete"], (TARGET,)),
        ("MODE_OVERWRITE_PARTITIONS", ["insert", "delete"], (TARGET,)),
        ("MODE_APPEND", ["insert"], ()),
        ("MODE_REPLACE", ["create", "drop"], ()),
        ("MODE_CREATE_OR_REPLACE", ["create", "drop"], ()),
    ],
)
def test_every_mode_of_the_second_writer(mode: Any, wanted: list[str], raw: Any) -> None:
    found = required_of(pb.Command(write_operation_v2=pb.WriteOperationV2(table_name="t", mode=mode)))
    assert accesses(found) == [f"{access} {T}" for access in wanted]
    assert isinstance(found, PlanRequired)
    assert found.required.raw == raw
    # Its condition is on raw rows.
    assert found.required.read == ((TARGET,) if mode == "MODE_OVERWRITE" else ())
    assert all(written.by_name for written in found.required.written)
    assert bool(found.required.written) is ("insert" in wanted)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "MODE_UNSPECIFIED"}, "write mode"),
        ({"mode": "MODE_CREATE", "provider": "jdbc"}, "access other systems"),
        ({"mode": "MODE_CREATE", "table_properties": {"option.path": "/x"}}, "the property"),
        ({"mode": "MODE_APPEND", "options": {"path": "/x"}}, "the option"),
        ({"mode": "MODE_APPEND", "with_schema_evolution": True}, "schema evolution"),
    ],
)
def test_second_writes_that_are_refused(fields: dict[str, Any], words: str) -> None:
    found = required_of(pb.Command(write_operation_v2=pb.WriteOperationV2(table_name="t", **fields)))
    assert isinstance(found, Unsupported)
    assert words in found.why


def action(kind: Any) -> Any:
    return pb.Expression(merge_action=pb.MergeAction(action_type=kind))


def test_merge_wants_what_its_actions_do_and_no_obligation_on_its_target() -> None:
    merge = pb.MergeIntoTableCommand(
        target_table_name="t",
        match_actions=[action("ACTION_TYPE_UPDATE_STAR"), action("ACTION_TYPE_DELETE")],
        not_matched_actions=[action("ACTION_TYPE_INSERT")],
        not_matched_by_source_actions=[action("ACTION_TYPE_DELETE")],
    )
    found = required_of(pb.Command(merge_into_table_command=merge))
    assert accesses(found) == [f"update {T}", f"delete {T}", f"insert {T}"]
    assert isinstance(found, PlanRequired)
    assert found.required.read == (TARGET,)
    assert [pin.text for pin in found.names] == ["`spark_catalog`.`sales`.`t`"]


@pytest.mark.parametrize("actions", [[], [action("ACTION_TYPE_INVALID")], [pb.Expression()]])
def test_a_merge_without_known_actions_is_refused(actions: list[Any]) -> None:
    merge = pb.MergeIntoTableCommand(target_table_name="t", match_actions=actions)
    assert isinstance(required_of(pb.Command(merge_into_table_command=merge)), Unsupported)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "w", "is_global": True}, "global temporary view of a DataFrame"),
        ({"name": "a.b"}, "plain name"),
        ({"name": ""}, "plain name"),
        ({"name": "` `"}, "plain name"),
    ],
)
def test_views_that_are_refused(fields: dict[str, Any], words: str) -> None:
    found = required_of(pb.Command(create_dataframe_view=pb.CreateDataFrameViewCommand(**fields)))
    assert isinstance(found, Unsupported)
    assert words in found.why


def test_a_view_is_kept_under_its_quoted_name() -> None:
    command = pb.CreateDataFrameViewCommand(name="`people`", replace=True)
    found = required_of(pb.Command(create_dataframe_view=command))
    assert isinstance(found, PlanRequired)
    assert found.required.effects == (CreateTempView("people", "frame"),)
    assert [pin.text for pin in found.names] == ["`people`"]
    assert found.keeps


def stream(**fields: Any) -> Any:
    return pb.Command(write_stream_operation_start=pb.WriteStreamOperationStart(**fields))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"format": "console", "options": {"numRows": "3"}}, []),
        ({"format": "memory", "query_name": "q"}, []),
        (
            {"format": "parquet", "path": "/out", "options": {"checkpointLocation": "/c"}},
            ["read url /c", "write url /c", "read url /out", "write url /out"],
        ),
        ({"table_name": "t"}, [f"create {T}", f"insert {T}"]),
        ({"format": "parquet", "table_name": "t"}, [f"create {T}", f"insert {T}"]),
        ({"table_name": "t", "output_mode": "Append"}, [f"create {T}", f"insert {T}"]),
        ({"table_name": "t", "output_mode": "COMPLETE"}, [f"create {T}", f"insert {T}", f"delete {T}"]),
        (
            {"table_name": "t", "output_mode": "update"},
            [f"create {T}", f"insert {T}", f"delete {T}", f"update {T}"],
        ),
        ({"foreach_batch": pb.StreamingForeachFunction()}, []),
        # Spark writes to the destination, and calls no function.
        ({"foreach_batch": pb.StreamingForeachFunction(), "table_name": "t"}, [f"create {T}", f"insert {T}"]),
        ({"foreach_writer": pb.StreamingForeachFunction(), "path": "/o"}, ["read url /o", "write url /o"]),
    ],
)
def test_streams_want_their_sinks(fields: dict[str, Any], wanted: list[str]) -> None:
    assert accesses(required_of(stream(**fields))) == wanted


@pytest.mark.parametrize(
    ("output_mode", "replaces"), [("", False), ("append", False), ("Complete", True), ("update", True)]
)
def test_a_stream_that_replaces_rows_needs_a_table_that_is_there(output_mode: str, replaces: bool) -> None:
    found = required_of(stream(table_name="t", output_mode=output_mode))
    assert isinstance(found, PlanRequired)
    assert found.required.raw == ((TARGET,) if replaces else ())
    (written,) = found.required.written
    assert written.creates is not replaces


@pytest.mark.parametrize(
    "fields",
    [
        {"table_name": "t", "output_mode": "upsert"},
        {"format": "kafka"},
        {"format": "kafka", "options": {"kafka.bootstrap.servers": "x"}},
        {"format": "kafka", "path": "/x"},
        {"format": "memory", "query_name": "a.b"},
        {"format": "memory", "query_name": "`q`"},
        {"format": "memory", "query_name": "ü"},
        {"format": "memory"},
        {"format": "MEMORY", "query_name": "q"},
        {"format": "memory", "query_name": "q", "path": "/x"},
        {"format": "memory", "query_name": "q", "table_name": "t"},
        {"format": "memory", "query_name": "q", "foreach_batch": pb.StreamingForeachFunction()},
        {},
    ],
)
def test_streams_to_unknown_sinks_are_refused(fields: dict[str, Any]) -> None:
    assert isinstance(required_of(stream(**fields)), Unsupported)


def test_the_memory_sink_makes_a_temporary_view() -> None:
    found = required_of(stream(format="memory", query_name="q"))
    assert isinstance(found, PlanRequired)
    assert found.required.effects == (CreateTempView("q", "stream"),)


def test_the_plan_of_a_running_stream_is_not_shown() -> None:
    explain = pb.StreamingQueryCommand(explain=pb.StreamingQueryCommand.ExplainCommand(extended=True))
    assert isinstance(required_of(pb.Command(streaming_query_command=explain)), Unsupported)
    assert (
        accesses(required_of(pb.Command(streaming_query_command=pb.StreamingQueryCommand(stop=True)))) == []
    )


@pytest.mark.parametrize(
    ("case", "named"),
    [
        ("register_function", {"function_name": "f"}),
        ("register_table_function", {"function_name": "f"}),
        ("register_data_source", {"name": "f"}),
        ("pipeline_command", {}),
    ],
)
def test_a_command_that_is_code_passes_only_when_the_walk_saw_the_code(
    case: str, named: dict[str, str]
) -> None:
    command = pb.Command()
    held = getattr(command, case)
    held.SetInParent()
    for field, name in named.items():
        setattr(held, field, name)
    assert isinstance(required_of(command), Unsupported)
    assert isinstance(required_of(command, code=True), PlanRequired)


@pytest.mark.parametrize(
    ("case", "field", "handle"),
    [
        ("register_function", "function_name", SparkHandle("function", "twice")),
        ("register_table_function", "function_name", SparkHandle("table_function", "twice")),
        ("register_data_source", "name", SparkHandle("data_source", "twice")),
    ],
)
def test_what_is_registered_is_known_by_its_kind_and_name(case: str, field: str, handle: SparkHandle) -> None:
    command = pb.Command()
    setattr(getattr(command, case), field, "Twice")
    found = required_of(command, code=True)
    assert isinstance(found, PlanRequired)
    assert found.required.effects == (RegisterCode(handle),)
    for name in ("", "a.b", "`a`", "a b", "ſ", "1a"):
        setattr(getattr(command, case), field, name)
        assert isinstance(required_of(command, code=True), Unsupported), name


@pytest.mark.parametrize("name", ["jdbc", "JDBC", "Parquet", "noop", "rate", "memory", "org.apache.x.Source"])
def test_no_data_source_of_sparks_own_is_registered(name: str) -> None:
    command = pb.Command()
    command.register_data_source.name = name
    assert isinstance(required_of(command, code=True), Unsupported)


def test_an_unknown_command_is_refused() -> None:
    assert isinstance(required_of(pb.Command()), Unsupported)
    command = pb.Command()
    command.extension.SetInParent()
    assert isinstance(required_of(command), Unsupported)
