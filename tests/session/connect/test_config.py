"""Settings over Spark Connect: set by the rules of SET, read by those of SET, secrets never."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.reading_settings import CLIENT_READS, READING_SETTINGS, is_read_by_clients, may_hold_secret
from gateway.model.secret_values import REDACTED
from gateway.session.connect.config import (
    MAX_KEYS,
    ConfigQuestion,
    answer_config,
    judge_config,
)
from gateway.session.failures import CallRefusal
from gateway.wire import connect_calls, connect_requests
from gateway.wire.connect import pb
from gateway.wire.connect_responses import ConfigResponse, read_config, write_config

GRANTED = {"spark.sql.shuffle.partitions", "my.key", "spark.hadoop.x", "spark.a.password"}
TOKEN = "spark.connect.authenticate.token"
SECRET_VALUE = "s3cr3t-value"
KINDS = pb.ConfigRequest
SESSION = "11111111-2222-3333-4444-555555555555"


def may(key: str) -> bool:
    return key in GRANTED


def always(key: str) -> bool:
    return True


def never(key: str) -> bool:
    return False


def ask(rights: Any = may, **operation: Any) -> ConfigQuestion | CallRefusal:
    request = KINDS(session_id=SESSION, operation=KINDS.Operation(**operation))
    asked = connect_requests.call("Config", request.SerializeToString())
    assert isinstance(asked, connect_requests.ConfigRequest)
    return judge_config(asked.operation, "bob", rights, rights)


def sent(question: ConfigQuestion) -> Any:
    """Return what Spark is sent."""
    request = connect_calls.config(("bob", SESSION), question.operation, "", "")
    return KINDS.FromString(request).operation


def passes(**operation: Any) -> ConfigQuestion:
    question = ask(**operation)
    assert isinstance(question, ConfigQuestion), question
    return question


def refused(**operation: Any) -> CallRefusal:
    refusal = ask(**operation)
    assert isinstance(refusal, CallRefusal), refusal
    return refusal


def setting(silent: bool | None = None, **values: str | None) -> Any:
    pairs = [pb.KeyValue(key=key.replace("__", "."), value=value) for key, value in values.items()]
    return KINDS.Set(pairs=pairs) if silent is None else KINDS.Set(pairs=pairs, silent=silent)


def one(key: str, value: str | None = "1", silent: bool | None = None) -> Any:
    pairs = [pb.KeyValue(key=key, value=value)]
    return KINDS.Set(pairs=pairs) if silent is None else KINDS.Set(pairs=pairs, silent=silent)


def read(response: Any) -> ConfigResponse:
    return read_config(response.SerializeToString())


def answered(question: ConfigQuestion, rights: Any = may, **pairs: str | None) -> dict[str, str | None]:
    response = pb.ConfigResponse(
        session_id="s",
        server_side_session_id="server",
        pairs=[pb.KeyValue(key=key.replace("__", "."), value=value) for key, value in pairs.items()],
    )
    shown = answer_config(question, read(response), rights, secrets=(SECRET_VALUE,))
    assert shown is not None
    answer = pb.ConfigResponse.FromString(write_config(shown))
    assert (answer.session_id, answer.server_side_session_id) == ("s", "server")
    return {pair.key: pair.value if pair.HasField("value") else None for pair in answer.pairs}


def test_what_is_granted_is_set_and_unset() -> None:
    question = passes(set=setting(my__key="1", spark__sql__shuffle__partitions="7"))
    assert sent(question) == KINDS.Operation(set=setting(my__key="1", spark__sql__shuffle__partitions="7"))
    question = passes(unset=KINDS.Unset(keys=["my.key"]))
    assert list(sent(question).unset.keys) == ["my.key"]


def test_a_key_without_a_value_stays_one() -> None:
    question = passes(set=KINDS.Set(pairs=[pb.KeyValue(key="my.key")]))
    assert not sent(question).set.pairs[0].HasField("value")


def test_every_missing_grant_is_named() -> None:
    refusal = refused(set=setting(a__b="1", my__key="1", c__d="2"))
    assert (refusal.code, refusal.sqlstate) == ("ACCESS_DENIED", "42501")
    assert refusal.message == "user bob needs set on setting a.b, set on setting c.d"
    assert refused(unset=KINDS.Unset(keys=["a.b"])).code == "ACCESS_DENIED"


@pytest.mark.parametrize("key", sorted(READING_SETTINGS))
def test_a_pinned_key_is_refused_whatever_policies_say(key: str) -> None:
    other = "x" + READING_SETTINGS[key]
    for spelling in (key, key.upper(), f" {key}", f"{key}\t"):
        refusal = ask(always, set=one(spelling, other))
        assert isinstance(refusal, CallRefusal)
        assert (refusal.code, refusal.sqlstate) == ("NOT_GOVERNABLE", "0A000")
        assert "is fixed by Sluice" in refusal.message
        unset = ask(always, unset=KINDS.Unset(keys=[spelling]))
        assert isinstance(unset, CallRefusal)


@pytest.mark.parametrize("key", sorted(READING_SETTINGS))
def test_a_pinned_key_may_be_set_to_what_it_is(key: str) -> None:
    question = passes(set=one(key, f" {READING_SETTINGS[key].upper()}"))
    assert sent(question).set.pairs[0].value == READING_SETTINGS[key]


def test_a_pinned_key_in_another_spelling_is_another_key_and_refused() -> None:
    assert refused(set=one("SPARK.SQL.VARIABLE.SUBSTITUTE", "false")).code == "NOT_GOVERNABLE"


@pytest.mark.parametrize(
    "key",
    [
        TOKEN,
        TOKEN.upper(),
        f" {TOKEN}",
        "spark.hadoop.x",
        "spark.sql.functionResolution.sessionOrder",
        "spark.sql.optimizer.excludedRules",
        "spark.redaction.regex",
        "spark.sql.catalog.other",
        "spark.connect.grpc.interceptor.classes",
    ],
)
def test_keys_that_nobody_sets(key: str) -> None:
    refusal = ask(always, set=one(key))
    assert isinstance(refusal, CallRefusal)
    assert refusal.code == "NOT_GOVERNABLE"
    assert isinstance(ask(always, unset=KINDS.Unset(keys=[key])), CallRefusal)


def test_pins_and_missing_grants_are_told_together() -> None:
    refusal = refused(set=setting(spark__sql__caseSensitive="true", a__b="1", spark__sql__extensions="x"))
    assert refusal.code == "NOT_GOVERNABLE"
    assert refusal.message == (
        "the settings `spark.sql.caseSensitive`, `spark.sql.extensions` affect how statements are parsed "
        "and are fixed by Sluice; user bob needs set on setting a.b"
    )


def test_silent_setting_warns_of_what_it_leaves_out() -> None:
    question = passes(set=setting(silent=True, a__b="1", my__key="1", spark__sql__caseSensitive="true"))
    assert [pair.key for pair in sent(question).set.pairs] == ["my.key"]
    assert sent(question).set.silent
    response = pb.ConfigResponse(warnings=["Spark's own"])
    shown = answer_config(question, read(response), may)
    assert shown is not None
    assert list(shown.warnings) == [
        "Spark's own",
        "Failed to set a.b due to [SLUICE_ACCESS_DENIED] user bob needs set on setting a.b",
        (
            "Failed to set spark.sql.caseSensitive due to [SLUICE_NOT_GOVERNABLE] the setting "
            "`spark.sql.caseSensitive` affects how statements are parsed and is fixed by Sluice"
        ),
    ]


def test_silent_setting_of_nothing_that_may_be_set_still_reaches_the_session() -> None:
    question = passes(set=one("a.b", silent=True))
    assert sent(question).WhichOneof("op_type") == "set"
    assert not sent(question).set.pairs


@pytest.mark.parametrize("option", ["compute.max_rows", "display.max_rows", "plotting.backend"])
def test_options_of_pandas_on_spark_belong_to_the_client(option: str) -> None:
    key = f"pandas_on_Spark.{option}"
    passes(set=one(key))
    passes(unset=KINDS.Unset(keys=[key]))
    passes(get=KINDS.Get(keys=[key]))


PYSPARK_ASKS_FOR = (
    "spark.connect.session.planCompression.defaultAlgorithm",
    "spark.connect.session.planCompression.threshold",
    "spark.python.sql.dataFrameDebugging.enabled",
    "spark.sql.ansi.enabled",
    "spark.sql.connect.serverStacktrace.enabled",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pandas.inferPandasDictAsMap",
    "spark.sql.execution.pandas.structHandlingMode",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.arrow.enabled",
    "spark.sql.execution.pythonUDTF.arrow.enabled",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled",
    "spark.sql.pyspark.jvmStacktrace.enabled",
    "spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled",
    "spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled",
    "spark.sql.pyspark.plotting.max_rows",
    "spark.sql.repl.eagerEval.enabled",
    "spark.sql.repl.eagerEval.maxNumRows",
    "spark.sql.repl.eagerEval.truncate",
    "spark.sql.session.localRelationBatchOfChunksSizeBytes",
    "spark.sql.session.localRelationCacheThreshold",
    "spark.sql.session.localRelationChunkSizeBytes",
    "spark.sql.session.localRelationChunkSizeRows",
    "spark.sql.session.localRelationSizeLimit",
    "spark.sql.session.timeZone",
    "spark.sql.stackTracesInDataFrameContext",
    "spark.sql.timestampType",
)
"""Every key that stands in the sources of pyspark 4.3 and pyspark-client 4.2 as one that is read."""


@pytest.mark.parametrize("key", PYSPARK_ASKS_FOR)
def test_what_pyspark_asks_for_is_answered_to_everybody(key: str) -> None:
    question = ask(never, get=KINDS.Get(keys=[key]))
    assert isinstance(question, ConfigQuestion)
    assert answered(question, never, **{key.replace(".", "__"): "v"}) == {key: "v"}


def test_reading_needs_what_set_needs() -> None:
    passes(get=KINDS.Get(keys=["my.key", "spark.sql.timestampType"]))
    refusal = refused(get=KINDS.Get(keys=["a.b", "my.key", "c.d"]))
    assert refusal.message == "user bob needs set on setting a.b, set on setting c.d"


def test_the_value_of_a_secret_is_refused_whatever_policies_say() -> None:
    for key in (TOKEN, TOKEN.upper(), f" {TOKEN} ", "spark.a.password", "spark.hadoop.fs.s3a.access.key"):
        refusal = ask(always, get=KINDS.Get(keys=[key]))
        assert isinstance(refusal, CallRefusal)
        assert "may be a secret and is not shown" in refusal.message
    refusal = refused(get=KINDS.Get(keys=[TOKEN, "a.b"]))
    assert refusal.message.endswith("; user bob needs set on setting a.b")


def test_a_hidden_key_has_its_default_and_no_option_in_the_order_of_the_call() -> None:
    pairs = [
        pb.KeyValue(key="a.b", value="mine"),
        pb.KeyValue(key="my.key", value="d"),
        pb.KeyValue(key=TOKEN),
        pb.KeyValue(key="spark.sql.ansi.enabled"),
    ]
    question = passes(get_with_default=KINDS.GetWithDefault(pairs=pairs))
    assert [p.key for p in sent(question).get_with_default.pairs] == ["my.key", "spark.sql.ansi.enabled"]
    assert not sent(question).get_with_default.pairs[1].HasField("value")
    found = answered(question, my__key="set", spark__sql__ansi__enabled="true")
    assert list(found.items()) == [
        ("a.b", "mine"),
        ("my.key", "set"),
        (TOKEN, None),
        ("spark.sql.ansi.enabled", "true"),
    ]
    question = passes(get_option=KINDS.GetOption(keys=["my.key", "a.b", TOKEN]))
    assert list(sent(question).get_option.keys) == ["my.key"]
    assert answered(question, my__key="set") == {"my.key": "set", "a.b": None, TOKEN: None}


def test_what_may_not_be_set_is_not_modifiable() -> None:
    keys = ["my.key", "a.b", "spark.sql.caseSensitive", TOKEN, "pandas_on_Spark.x"]
    question = passes(is_modifiable=KINDS.IsModifiable(keys=keys))
    assert list(sent(question).is_modifiable.keys) == ["my.key", "pandas_on_Spark.x"]
    found = answered(question, my__key="true", pandas_on_Spark__x="false")
    assert list(found.items()) == list(zip(keys, ["true", "false", "false", "false", "false"], strict=True))


def test_the_list_of_all_settings_is_filtered() -> None:
    question = passes(get_all=KINDS.GetAll())
    found = answered(
        question,
        my__key="1",
        a__b="hidden",
        spark__a__password="hidden",
        spark__sluice__gateway__my="hidden",
        spark__sql__timestampType="TIMESTAMP_LTZ",
        spark__sql__shuffle__partitions=f"-Dx={SECRET_VALUE}",
    )
    assert found == {
        "my.key": "1",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.shuffle.partitions": REDACTED,
    }


def test_a_prefix_that_spark_cuts_off_is_put_back_for_the_question() -> None:
    question = passes(get_all=KINDS.GetAll(prefix="spark.connect.auth"))
    assert sent(question).get_all.prefix == "spark.connect.auth"
    assert answered(question, always, enticate__token="hidden") == {}
    question = passes(get_all=KINDS.GetAll(prefix="spark.sluice."))
    assert answered(question, always, gateway__one="hidden") == {}
    question = passes(get_all=KINDS.GetAll(prefix="my."))
    assert answered(question, key="1", other="2") == {"key": "1"}


@pytest.mark.parametrize("received", [0, 2])
def test_an_answer_with_other_pairs_than_asked_for_is_not_shown(received: int) -> None:
    question = passes(get=KINDS.Get(keys=["my.key"]))
    response = pb.ConfigResponse(pairs=[pb.KeyValue(key="my.key", value="1")] * received)
    assert answer_config(question, read(response), may) is None


def test_a_call_that_asks_for_nothing_is_malformed() -> None:
    assert refused().code == "MALFORMED"


def test_a_call_has_bounds() -> None:
    keys = ["my.key"] * (MAX_KEYS + 1)
    pairs = [pb.KeyValue(key=key) for key in keys]
    for operation in (
        {"set": KINDS.Set(pairs=pairs)},
        {"unset": KINDS.Unset(keys=keys)},
        {"get": KINDS.Get(keys=keys)},
        {"get_option": KINDS.GetOption(keys=keys)},
        {"get_with_default": KINDS.GetWithDefault(pairs=pairs)},
        {"is_modifiable": KINDS.IsModifiable(keys=keys)},
    ):
        assert refused(**operation).code == "LIMIT_EXCEEDED"
    many = refused(get=KINDS.Get(keys=[f"k{i}" for i in range(500)]))
    assert len(many.message) < 2000


def test_unknown_fields_of_a_call_are_refused() -> None:
    """What a newer client says of a call, nobody here has read."""
    asked = KINDS.Operation(get=KINDS.Get(keys=["my.key"])).SerializeToString() + b"\xfa\x7f\x03abc"
    request = KINDS(session_id=SESSION, operation=KINDS.Operation.FromString(asked))
    with pytest.raises(connect_requests.UngovernableRequest):
        connect_requests.call("Config", request.SerializeToString())


def test_every_kind_of_call_is_judged() -> None:
    for case in KINDS.Operation.DESCRIPTOR.oneofs_by_name["op_type"].fields:
        question = ask(**{case.name: {}})
        assert isinstance(question, ConfigQuestion), case.name
        assert sent(question).WhichOneof("op_type") == case.name


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.container.acct.blob.core.windows.net",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.my.api-key",
        "spark.my.header.Authorization",
        "spark.my.connectionString",
        "spark.my.pwd",
    ],
)
def test_keys_of_stores_and_servers_are_shown_to_nobody(key: str) -> None:
    assert isinstance(ask(always, get=KINDS.Get(keys=[key])), CallRefusal)


def test_what_clients_read_by_themselves_is_no_secret() -> None:
    assert not [key for key in CLIENT_READS if not is_read_by_clients(key)]


@given(st.text(max_size=40), st.sampled_from(["token", "PassWord", "secret", "access.key", "redaction"]))
def test_a_secret_in_any_spelling_is_one(around: str, word: str) -> None:
    key = f"{around}.{word}.x"
    assert may_hold_secret(key)
    assert isinstance(ask(always, get=KINDS.Get(keys=[key])), CallRefusal)
