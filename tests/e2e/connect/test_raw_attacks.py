"""What no client library sends: messages by hand, other people's ids, bytes that are no messages at all."""

from __future__ import annotations

import importlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
import zstandard
from google.protobuf.any_pb2 import Any as AnyMessage

from tests.e2e.connect import world
from tests.e2e.connect.attacker import REFUSED, RawClient, check_bytes, raw
from tests.e2e.running import RunningGateway, Spark
from tests.speed import patience

proto: Any = importlib.import_module("pyspark.sql.connect.proto")
"""Its classes are made at run time."""

UNARY = (
    "AnalyzePlan",
    "Config",
    "ArtifactStatus",
    "Interrupt",
    "ReleaseExecute",
    "ReleaseSession",
    "FetchErrorDetails",
    "CloneSession",
    "GetStatus",
)
METHODS = (*UNARY, "ExecutePlan", "ReattachExecute", "AddArtifacts")
VAULT = "SELECT * FROM cw.vault"


def table(name: str, **options: str) -> Any:
    relation = proto.Relation()
    relation.read.named_table.unparsed_identifier = name
    relation.read.named_table.options.update(options)
    return relation


def text(query: str) -> Any:
    relation = proto.Relation()
    relation.sql.query = query
    return relation


def plan(relation: Any) -> Any:
    return proto.Plan(root=relation)


def command(**fields: Any) -> Any:
    return proto.Plan(command=proto.Command(**fields))


def column(name: str, **fields: Any) -> Any:
    expression = proto.Expression()
    expression.unresolved_attribute.unparsed_identifier = name
    for key, value in fields.items():
        setattr(expression.unresolved_attribute, key, value)
    return expression


def projected(*expressions: Any, of: Any = None) -> Any:
    relation = proto.Relation()
    relation.project.input.CopyFrom(of if of is not None else table("cw.people"))
    relation.project.expressions.extend(expressions)
    return plan(relation)


def compressed(data: bytes) -> Any:
    made = proto.Plan()
    made.compressed_operation.data = data
    made.compressed_operation.op_type = 1
    made.compressed_operation.compression_codec = 1
    return made


def something() -> AnyMessage:
    return AnyMessage(type_url="type.googleapis.com/org.example.Evil", value=b"\x08\x01")


def shadowed() -> Any:
    relation = proto.Relation()
    relation.with_relations.root.CopyFrom(text(VAULT))
    reference = relation.with_relations.references.add()
    reference.subquery_alias.input.CopyFrom(text("SELECT 1 AS code"))
    reference.subquery_alias.alias = "vault"
    return plan(relation)


def inline_function(kind: str) -> Any:
    expression = proto.Expression()
    function = expression.common_inline_user_defined_function
    function.function_name = "upper"
    if kind == "python_udf":
        function.python_udf.command = b"x"
        function.python_udf.eval_type = 100
        function.python_udf.output_type.string.SetInParent()
    elif kind == "java_udf":
        function.java_udf.class_name = "org.example.Evil"
    else:
        function.scalar_scala_udf.payload = b"x"
    return projected(expression)


def in_function(name: str, *arguments: str, **fields: Any) -> Any:
    expression = proto.Expression()
    expression.unresolved_function.function_name = name
    for argument in arguments:
        expression.unresolved_function.arguments.add().literal.string = argument
    for key, value in fields.items():
        setattr(expression.unresolved_function, key, value)
    return projected(expression)


def remote_relation(number: str) -> Any:
    relation = proto.Relation()
    relation.cached_remote_relation.relation_id = number
    return plan(relation)


def nested_catalog() -> Any:
    relation = proto.Relation()
    relation.limit.limit = 5
    relation.limit.input.catalog.list_tables.db_name = "cw"
    return plan(relation)


def path_read() -> Any:
    relation = proto.Relation()
    relation.read.data_source.format = "text"
    relation.read.data_source.paths.append("/etc/passwd")
    return plan(relation)


def changes() -> Any:
    relation = proto.Relation()
    relation.relation_changes.unparsed_identifier = "cw.people"
    return plan(relation)


def unknown_enum() -> Any:
    relation = proto.Relation()
    relation.join.left.CopyFrom(table("cw.people"))
    relation.join.right.CopyFrom(table("cw.dept"))
    relation.join.join_type = 99
    return plan(relation)


def of_fields(build: Callable[[Any], None]) -> Any:
    made = proto.Plan()
    build(made)
    return made


def _sql_command(made: Any, old: str = "", new: str = "") -> None:
    made.command.sql_command.SetInParent()
    if old:
        made.command.sql_command.sql = old
    if new:
        made.command.sql_command.input.CopyFrom(text(new))


def _merge(made: Any) -> None:
    merge = made.command.merge_into_table_command
    merge.target_table_name = "cw.people"
    merge.source_table_plan.CopyFrom(text("SELECT 1 AS id"))
    merge.merge_condition.expression_string.expression = "ssn LIKE 'C%'"
    merge.match_actions.add().merge_action.action_type = 1


def _write_path(made: Any) -> None:
    made.command.write_operation.input.CopyFrom(table("cw.people"))
    made.command.write_operation.path = "/tmp/stolen"
    made.command.write_operation.source = "parquet"
    made.command.write_operation.mode = 1


def _view(made: Any) -> None:
    made.command.create_dataframe_view.input.CopyFrom(table("cw.vault"))
    made.command.create_dataframe_view.name = "v"


def _checkpoint(made: Any) -> None:
    made.command.checkpoint_command.relation.CopyFrom(table("cw.vault"))
    made.command.checkpoint_command.local = True


def _listener(made: Any) -> None:
    made.command.streaming_query_manager_command.add_listener.listener_payload = b"x"


def _pipeline(made: Any) -> None:
    made.command.pipeline_command.create_dataflow_graph.default_database = "cw"


def _external(made: Any) -> None:
    made.command.execute_external_command.runner = "org.example.Runner"
    made.command.execute_external_command.command = "id"


def _profile(made: Any) -> None:
    made.command.create_resource_profile_command.profile.SetInParent()


def _ml(made: Any) -> None:
    made.command.ml_command.fit.dataset.CopyFrom(table("cw.people"))


def _ml_read(made: Any) -> None:
    made.command.ml_command.read.path = "/etc"


def _register_java(made: Any) -> None:
    made.command.register_function.function_name = "sha2"
    made.command.register_function.java_udf.class_name = "org.example.Evil"


def _data_source(made: Any) -> None:
    made.command.register_data_source.name = "parquet"
    made.command.register_data_source.python_data_source.command = b"x"


def _unknown_relation(made: Any) -> None:
    made.root.unknown.SetInParent()


def _bomb() -> Any:
    return compressed(zstandard.ZstdCompressor().compress(b"\0" * (1 << 30)))


REFUSALS: dict[str, Callable[[], Any]] = {
    "the older form of SqlCommand": lambda: of_fields(lambda m: _sql_command(m, old=VAULT)),
    "SqlCommand with both forms, the older worse": lambda: of_fields(
        lambda m: _sql_command(m, old=VAULT, new="SELECT 1")
    ),
    "SqlCommand with both forms, the newer worse": lambda: of_fields(
        lambda m: _sql_command(m, old="SELECT 1", new=VAULT)
    ),
    "a reference that shadows a table": shadowed,
    "a cached relation that was never made": lambda: remote_relation(str(uuid.uuid4())),
    "an extension as a relation": lambda: plan(proto.Relation(extension=something())),
    "an extension as a command": lambda: command(extension=something()),
    "an extension as an expression": lambda: projected(proto.Expression(extension=something())),
    "an unknown relation": lambda: of_fields(_unknown_relation),
    "an empty relation": lambda: plan(proto.Relation()),
    "an empty plan": proto.Plan,
    "an empty command": command,
    "an unknown value of an enum": unknown_enum,
    "a list of the catalog within a relation": nested_catalog,
    "files by their path": path_read,
    "a table's changes": changes,
    "an option with a path": lambda: plan(table("cw.people", path="/etc")),
    "a Python function": lambda: inline_function("python_udf"),
    "a Java function": lambda: inline_function("java_udf"),
    "a Scala function": lambda: inline_function("scalar_scala_udf"),
    "reflect as an internal function": lambda: in_function(
        "reflect", "java.lang.System", "getenv", is_internal=True
    ),
    "reflect as a user's function": lambda: in_function(
        "reflect", "java.lang.System", "getenv", is_user_defined_function=True
    ),
    "a metadata column": lambda: projected(column("_metadata", is_metadata_column=True)),
    "a table's name with a path": lambda: plan(table("parquet.`/etc`")),
    "the vault": lambda: plan(table("cw.vault")),
    "the vault, compressed": lambda: compressed(zstandard.compress(table("cw.vault").SerializeToString())),
    "compressed garbage": lambda: compressed(b"garbage"),
    "a bomb of a gigabyte": _bomb,
    "compression within compression": lambda: compressed(zstandard.compress(_bomb().SerializeToString())),
    "merge into a governed table": lambda: of_fields(_merge),
    "write to a path": lambda: of_fields(_write_path),
    "a view of the vault": lambda: of_fields(_view),
    "a checkpoint of the vault": lambda: of_fields(_checkpoint),
    "a listener's code": lambda: of_fields(_listener),
    "a pipeline": lambda: of_fields(_pipeline),
    "an external command": lambda: of_fields(_external),
    "a resource profile": lambda: of_fields(_profile),
    "machine learning": lambda: of_fields(_ml),
    "a model of a path": lambda: of_fields(_ml_read),
    "a Java function with a builtin's name": lambda: of_fields(_register_java),
    "a data source in Python": lambda: of_fields(_data_source),
}


@pytest.fixture
def mallory(connect_gateway: RunningGateway, connect_world: Spark) -> Iterator[RawClient]:
    with raw(connect_gateway) as client:
        yield client
    check_bytes(client.seen, [connect_world.connect_token.encode()])


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_plan_is_refused(mallory: RawClient, name: str) -> None:
    answer = mallory.execute(REFUSALS[name]())
    assert answer.refused, answer
    assert "[SLUICE_" in answer.details


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", [n for n in REFUSALS if "command" not in n.lower()])
def test_a_plan_is_refused_when_it_is_analysed(mallory: RawClient, name: str) -> None:
    made = REFUSALS[name]()
    if not made.HasField("root") and not made.HasField("compressed_operation"):
        made = plan(table("cw.vault"))
    request = proto.AnalyzePlanRequest(session_id=mallory.session_id)
    request.schema.plan.CopyFrom(made)
    answer = mallory.call("AnalyzePlan", request)
    assert answer.refused, answer


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: of_fields(_sql_command), id="a SqlCommand without text"),
        pytest.param(lambda: projected(column("ssn", plan_id=1)), id="a hidden column by a plan's id"),
    ],
)
def test_a_plan_gives_nothing(mallory: RawClient, made: Callable[[], Any]) -> None:
    """Whoever refuses it."""
    assert mallory.execute(made()).code is not grpc.StatusCode.OK


UNKNOWN = b"\xfa\xff\x07\x04evil"
"""Field 16383, of bytes: nothing that any release has."""


def _at(place: str) -> bytes:
    request = proto.ExecutePlanRequest(session_id=str(uuid.uuid4()))
    request.plan.CopyFrom(plan(table("cw.dept")))
    hosts = {
        "the request": request,
        "the plan": request.plan,
        "the relation": request.plan.root,
        "the table": request.plan.root.read.named_table,
        "the user": request.user_context,
    }
    hosts[place].MergeFromString(UNKNOWN)
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("place", ["the request", "the plan", "the relation", "the table", "the user"])
def test_an_unknown_field_is_refused(mallory: RawClient, place: str) -> None:
    answer = mallory.call("ExecutePlan", _at(place))
    assert answer.refused, answer


def test_extensions_of_the_user_and_of_requests_go_no_further(mallory: RawClient) -> None:
    request = mallory.execution(plan(table("cw.dept")))
    request.user_context.extensions.append(something())
    request.request_options.add().extension.CopyFrom(something())
    assert mallory.call("ExecutePlan", request).refused


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"garbage" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x24abc", b"\xff" * 64])
def test_bytes_that_are_no_message(mallory: RawClient, method: str, data: bytes) -> None:
    answer = mallory.call(method, data)
    assert answer.code is grpc.StatusCode.INVALID_ARGUMENT, answer


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_message(mallory: RawClient, method: str) -> None:
    assert mallory.call(method, b"").refused


def test_a_message_cut_anywhere(mallory: RawClient) -> None:
    whole = mallory.execution(plan(text(VAULT))).SerializeToString()
    for end in range(1, len(whole), 7):
        answer = mallory.call("ExecutePlan", whole[:end])
        assert answer.refused, (end, answer)


def nested(depth: int) -> bytes:
    """A Plan of that many filters, one within the other, as bytes."""
    parts: list[bytes] = [table("cw.dept").SerializeToString()]
    size = len(parts[0])
    for tag in (*(b"\x0a", b"\x22") * depth, b"\x0a"):  # Filter.input, Relation.filter; Plan.root
        parts.append(tag + _varint(size))
        size += len(parts[-1])
    return b"".join(reversed(parts))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize("depth", [20_000, 200_000])
def test_a_bomb_of_nesting(mallory: RawClient, depth: int) -> None:
    inner = nested(depth)
    request = b"\x0a\x24" + mallory.session_id.encode() + b"\x1a" + _varint(len(inner)) + inner
    assert mallory.call("ExecutePlan", request).refused


@pytest.mark.parametrize("method", ["ExecutePlan", "AnalyzePlan", "Config"])
def test_a_message_of_200_megabytes(mallory: RawClient, method: str) -> None:
    answer = mallory.call(method, b"\x0a" + _varint(200 << 20) + b"x" * (200 << 20))
    assert answer.code in (*REFUSED, grpc.StatusCode.RESOURCE_EXHAUSTED), answer.code
    assert mallory.execute(plan(table("cw.dept"))).code is grpc.StatusCode.OK


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "token", [None, "", "wrong", "mallory:wrong", ":", "mallory", f"nobody:{world.PASSWORD}"]
)
def test_nobody_comes_in_without_a_login(
    connect_gateway: RunningGateway, method: str, token: str | None
) -> None:
    with RawClient(connect_gateway.connect_port, token) as client:
        answer = client.call(method, proto.ExecutePlanRequest(session_id=str(uuid.uuid4())))
    assert answer.code is grpc.StatusCode.UNAUTHENTICATED, answer


def test_the_token_of_spark_is_none_of_ours(connect_gateway: RunningGateway, connect_world: Spark) -> None:
    with RawClient(connect_gateway.connect_port, connect_world.connect_token) as client:
        assert client.execute(plan(table("cw.dept"))).code is grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture
def alma(connect_gateway: RunningGateway) -> Iterator[RawClient]:
    """Somebody who may see the vault, with a view of it in her session."""
    with raw(connect_gateway, world.ALLOWED) as client:
        made = proto.Plan()
        made.command.create_dataframe_view.input.CopyFrom(table("cw.vault"))
        made.command.create_dataframe_view.name = "of_alma"
        assert client.execute(made).code is grpc.StatusCode.OK
        yield client


def test_a_session_of_somebody_else(mallory: RawClient, alma: RawClient) -> None:
    """Neither its id nor her name in the message opens it."""
    mallory.session_id = alma.session_id
    for user in ("", world.ALLOWED):
        for read in (table("of_alma"), text("SELECT * FROM of_alma"), table("cw.vault")):
            assert mallory.execute(plan(read), user_id=user).code is not grpc.StatusCode.OK
    assert alma.execute(plan(table("of_alma"))).code is grpc.StatusCode.OK


def _requests_about(owner: RawClient, operation: str) -> Iterator[tuple[str, Any]]:
    context = proto.UserContext(user_id=world.ALLOWED, user_name=world.ALLOWED)
    about = {"session_id": owner.session_id, "user_context": context}
    yield "ReattachExecute", proto.ReattachExecuteRequest(**about, operation_id=operation)
    yield "Interrupt", proto.InterruptRequest(**about, interrupt_type=1)
    yield "Interrupt", proto.InterruptRequest(**about, interrupt_type=3, operation_id=operation)
    release = proto.ReleaseExecuteRequest(**about, operation_id=operation)
    release.release_all.SetInParent()
    yield "ReleaseExecute", release
    status = proto.GetStatusRequest(**about)
    status.operation_status.operation_ids.append(operation)
    yield "GetStatus", status
    yield "FetchErrorDetails", proto.FetchErrorDetailsRequest(**about, error_id=str(uuid.uuid4()))
    yield "CloneSession", proto.CloneSessionRequest(**about, new_session_id=str(uuid.uuid4()))
    yield "ArtifactStatus", proto.ArtifactStatusesRequest(**about, names=["cache/x"])
    yield "ReleaseSession", proto.ReleaseSessionRequest(**about)


def test_operations_of_somebody_else(mallory: RawClient, alma: RawClient) -> None:
    """Whatever mallory asks about her operation, she can go on where she was."""
    request = alma.execution(plan(table("of_alma")))
    request.request_options.add().reattach_options.reattachable = True
    first = alma.call("ExecutePlan", request)
    assert first.code is grpc.StatusCode.OK
    assert world.CANARY.encode() in b"".join(first.messages)
    for method, message in _requests_about(alma, request.operation_id):
        mallory.call(method, message)
    again = alma.call(
        "ReattachExecute",
        proto.ReattachExecuteRequest(session_id=alma.session_id, operation_id=request.operation_id),
    )
    assert again.messages == first.messages, again
    assert alma.execute(plan(table("of_alma"))).code is grpc.StatusCode.OK


def test_a_clone_into_an_id_of_somebody_else(mallory: RawClient, alma: RawClient) -> None:
    mallory.execute(plan(table("cw.dept")))
    context = proto.UserContext(user_id=world.ALLOWED)
    mallory.call(
        "CloneSession",
        proto.CloneSessionRequest(
            session_id=mallory.session_id, user_context=context, new_session_id=alma.session_id
        ),
    )
    mallory.session_id = alma.session_id
    assert mallory.execute(plan(table("of_alma"))).code is not grpc.StatusCode.OK
    assert alma.execute(plan(table("of_alma"))).code is grpc.StatusCode.OK


def test_a_checkpoint_of_somebody_else(mallory: RawClient, alma: RawClient) -> None:
    made = proto.Plan()
    made.command.checkpoint_command.relation.CopyFrom(table("cw.vault"))
    made.command.checkpoint_command.local = True
    answer = alma.execute(made)
    (number,) = (
        r.checkpoint_command_result.relation.relation_id
        for r in map(proto.ExecutePlanResponse.FromString, answer.messages)
        if r.HasField("checkpoint_command_result")
    )
    assert alma.execute(remote_relation(number)).code is grpc.StatusCode.OK
    mallory.session_id = alma.session_id
    answer = mallory.execute(remote_relation(number), user_id=world.ALLOWED)
    assert answer.code is not grpc.StatusCode.OK


def _config(client: RawClient, operation: str, *keys: str) -> Any:
    request = proto.ConfigRequest(session_id=client.session_id)
    part = getattr(request.operation, operation)
    part.SetInParent()
    if operation == "set":
        for key in keys:
            part.pairs.add(key=key, value="x")
    elif operation == "get_with_default":
        for key in keys:
            part.pairs.add(key=key)
    elif keys:
        part.keys.extend(keys)
    return client.call("Config", request)


TOKEN_KEYS = ("spark.connect.authenticate.token", "SPARK.CONNECT.AUTHENTICATE.TOKEN")


@pytest.mark.parametrize("operation", ["get", "get_option", "get_with_default", "get_all", "is_modifiable"])
def test_settings_do_not_tell_the_token(mallory: RawClient, operation: str) -> None:
    _config(mallory, operation, *(() if operation == "get_all" else TOKEN_KEYS))


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.functionResolution.sessionOrder",
        "SPARK.SQL.FUNCTIONRESOLUTION.SESSIONORDER",
        "spark.sql.variable.substitute",
        "spark.sql.runSQLOnFiles",
        "spark.sql.optimizer.excludedRules",
        "spark.sql.caseSensitive",
        "spark.sql.path.default",
        "no.such.key",
    ],
)
def test_settings_that_nobody_may_set(mallory: RawClient, key: str) -> None:
    assert _config(mallory, "set", key).refused


@pytest.mark.parametrize(
    "name",
    [
        "pyfiles/x.py",
        "jars/x.jar",
        "classes/X.class",
        "archives/x.zip",
        "files/x.txt",
        "forward_to_fs/tmp/x",
        "../x",
        "cache/../jars/x.jar",
        "",
    ],
)
def test_artifacts_that_are_code(mallory: RawClient, name: str) -> None:
    request = proto.AddArtifactsRequest(session_id=mallory.session_id)
    part = request.batch.artifacts.add(name=name)
    part.data.data = b"x"
    assert mallory.call("AddArtifacts", [request]).refused


def test_an_artifact_for_somebody_else(mallory: RawClient, alma: RawClient) -> None:
    """The user in later messages of a stream counts no more than in the first."""
    first = proto.AddArtifactsRequest(session_id=alma.session_id)
    first.user_context.user_id = world.ALLOWED
    first.begin_chunk.name = "cache/" + "0" * 64
    first.begin_chunk.total_bytes, first.begin_chunk.num_chunks = 2, 2
    first.begin_chunk.initial_chunk.data = b"x"
    second = proto.AddArtifactsRequest(session_id=alma.session_id)
    second.user_context.user_id = world.ALLOWED
    second.chunk.data = b"y"
    mallory.call("AddArtifacts", [first, second])
    status = proto.ArtifactStatusesRequest(session_id=alma.session_id, names=["cache/" + "0" * 64])
    answer = alma.call("ArtifactStatus", status)
    (reply,) = map(proto.ArtifactStatusesResponse.FromString, answer.messages)
    assert not any(one.exists for one in reply.statuses.values())


def test_streams_that_are_left_half_way(connect_gateway: RunningGateway) -> None:
    """An upload that never ends, and answers that nobody reads: others are served on."""
    with raw(connect_gateway) as client:
        goes_on = threading.Event()

        def upload() -> Iterator[bytes]:
            request = proto.AddArtifactsRequest(session_id=client.session_id)
            request.begin_chunk.name = "cache/" + "1" * 64
            request.begin_chunk.total_bytes, request.begin_chunk.num_chunks = 1 << 20, 2
            request.begin_chunk.initial_chunk.data = b"x" * 1000
            yield bytes(request.SerializeToString())
            goes_on.wait(patience())

        prefix = "/spark.connect.SparkConnectService/"
        uploading = client.channel.stream_unary(prefix + "AddArtifacts", None, None)
        halves = [uploading.future(upload(), metadata=client.metadata) for _ in range(5)]
        execute = client.channel.unary_stream(prefix + "ExecutePlan", None, None)
        wide = text("SELECT id, repeat('x', 1000) AS x FROM range(100000)")
        unread = [
            execute(client.execution(plan(wide)).SerializeToString(), metadata=client.metadata)
            for _ in range(5)
        ]
        try:
            with raw(connect_gateway) as other:
                assert other.execute(plan(table("cw.dept"))).code is grpc.StatusCode.OK
        finally:
            for call in (*halves, *unread):
                call.cancel()
            goes_on.set()


def test_many_calls_at_once(connect_gateway: RunningGateway) -> None:
    with raw(connect_gateway) as client:
        request = proto.AnalyzePlanRequest(session_id=client.session_id)
        request.schema.plan.CopyFrom(plan(table("cw.dept")))
        analyze = client.channel.unary_unary("/spark.connect.SparkConnectService/AnalyzePlan", None, None)
        data = request.SerializeToString()
        calls = [analyze.future(data, metadata=client.metadata, timeout=patience()) for _ in range(300)]
        answers = {(call.code(), call.details()) for call in calls}
    # The bounds on a connection and on a session tell what they are.
    told = {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert {code for code, _ in answers} <= told, answers
    assert grpc.StatusCode.OK in {code for code, _ in answers}
    assert all("[SLUICE_" in details for code, details in answers if code is not grpc.StatusCode.OK), answers


def test_a_governed_schema_and_nothing_more(mallory: RawClient) -> None:
    """What the tree string, the plan's comparison and the schema tell of a governed table."""
    for case in ("schema", "tree_string", "is_local", "is_streaming", "semantic_hash"):
        request = proto.AnalyzePlanRequest(session_id=mallory.session_id)
        getattr(request, case).plan.CopyFrom(plan(table("cw.people")))
        answer = mallory.call("AnalyzePlan", request)
        assert answer.code is grpc.StatusCode.OK, answer
        assert b"ssn" not in b"".join(answer.messages)
    for case in ("input_files", "explain"):
        request = proto.AnalyzePlanRequest(session_id=mallory.session_id)
        part = getattr(request, case)
        part.plan.CopyFrom(plan(table("cw.people")))
        if case == "explain":
            part.explain_mode = 2
        assert mallory.call("AnalyzePlan", request).refused, case


def test_the_echo_of_a_query_is_the_client_s_own(mallory: RawClient) -> None:
    """Neither the filter nor a mask comes back with the relation that the client goes on with."""
    asked = text("SELECT id, email FROM cw.people")
    answer = mallory.execute(of_fields(lambda m: m.command.sql_command.input.CopyFrom(asked)))
    (echo,) = (
        r.sql_command_result.relation
        for r in map(proto.ExecutePlanResponse.FromString, answer.messages)
        if r.HasField("sql_command_result")
    )
    assert echo.sql.query == asked.sql.query
    old = mallory.execute(of_fields(lambda m: _sql_command(m, old="SELECT id, email FROM cw.people")))
    assert all(b"cw.people" not in m or b"region" not in m for m in old.messages), old
