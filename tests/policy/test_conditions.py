"""Conditions: every evaluator of Ranger's, what each makes of what it does not know, and unknown ones."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.context import AccessContext
from gateway.model.policy import Condition, ConditionDef
from gateway.model.tags import Tag
from gateway.policy.conditions import Untranslatable, compile_condition
from gateway.policy.facts import Facts

PACKAGE = "org.apache.ranger.plugin.conditionevaluator."


def definition(evaluator: str, **options: str) -> ConditionDef:
    return ConditionDef(name="c", evaluator=PACKAGE + evaluator, options=options)


def answer(
    evaluator: str, values: tuple[str, ...], context: AccessContext, *tags: str, **options: str
) -> bool | None:
    facts = Facts(user="ann", context=context, tags=tuple(Tag(type=tag) for tag in tags))
    return compile_condition(Condition(type="c", values=values), definition(evaluator, **options))(facts)


@pytest.mark.parametrize(
    ("values", "address", "expected"),
    [
        (("10.1.*",), "10.1.7.7", True),
        (("10.1.*",), "10.12.0.1", False),
        (("10.1.*.*",), "10.1.7.7", True),
        (("10.1.*",), "10.1", False),
        (("10.1.7.7",), "10.1.7.7", True),
        (("10.1.7.7",), "10.1.7.70", False),
        (("1.2.3.4", "10.1.*"), "10.1.0.9", True),
        (("*",), "1.2.3.4", True),
        (("*.*",), "1.2.3.4", True),
        (("*:*",), "fe80::1", True),
        ((), "1.2.3.4", True),
        (("FE80:*",), "fe80::1", True),
        (("fe80:*",), "FE80::1", True),
        (("FE80::1",), "fe80::1", True),
        (("FE80::1",), "fe80::1a", False),
        (("10.0.0.0/8",), "10.1.1.1", False),  # Ranger knows no such notation
        (("10.1.*",), None, True),  # Ranger's rule: who comes from nowhere passes
    ],
)
def test_addresses(values: tuple[str, ...], address: str | None, expected: bool) -> None:
    assert answer("RangerIpMatcher", values, AccessContext(client_ip=address)) is expected


@pytest.mark.parametrize(
    ("values", "time", "expected"),
    [
        (("9am-5pm",), "09:00:00", True),
        (("9am-5pm",), "17:00:59", True),
        (("9am-5pm",), "17:01:00", False),
        (("9am-5pm",), "08:59:59", False),
        (("9:30am-10pm",), "09:29:00", False),
        (("9:30 A.M. - 10 p.m.",), "22:00:00", True),
        (("10pm-6am",), "23:00:00", True),
        (("10pm-6am",), "05:59:00", True),
        (("10pm-6am",), "12:00:00", False),
        (("12am-12pm",), "00:00:00", True),
        (("12am-12pm",), "12:01:00", False),
        (("12pm-1pm",), "12:30:00", True),
        (("1am-2am", "3am-4am"), "03:30:00", True),
        (("9am-9am",), "15:00:00", True),
        (("9am-5pm",), None, True),
        ((), "03:00:00", True),
        (("9-17",), "12:00:00", None),  # Ranger overlooks what it cannot read; nobody can tell what was meant
        (("9am-5pm", "noon"), "12:00:00", None),
    ],
)
def test_times_of_day(values: tuple[str, ...], time: str | None, expected: bool | None) -> None:
    context = AccessContext(time=None if time is None else datetime.fromisoformat(f"2026-06-15T{time}+00:00"))
    assert answer("RangerTimeOfDayMatcher", values, context) is expected


def test_times_of_day_are_in_utc() -> None:
    noon_in_tokyo = AccessContext(time=datetime(2026, 6, 15, 12, tzinfo=ZoneInfo("Asia/Tokyo")))
    assert answer("RangerTimeOfDayMatcher", ("3am-3am",), noon_in_tokyo)
    assert answer("RangerTimeOfDayMatcher", ("11am-1pm",), noon_in_tokyo) is False
    bare = AccessContext(time=datetime(2026, 6, 15, 12))  # noqa: DTZ001
    assert answer("RangerTimeOfDayMatcher", ("11am-1pm",), bare)


@pytest.mark.parametrize(
    ("values", "action", "expected"),
    [
        (("QUERY",), "query", True),
        (("query",), "QUERYX", False),
        (("CREATE*",), "createtable", True),
        (("CREATE*",), "DROP", False),
        (("A", "B"), "b", True),
        (("*",), "anything", True),
        (("QUERY",), "", False),
        ((), "x", True),
    ],
)
def test_actions(values: tuple[str, ...], action: str, expected: bool) -> None:
    assert answer("RangerActionMatcher", values, AccessContext(action=action)) is expected


@pytest.mark.parametrize(
    ("values", "cluster", "inside", "outside"),
    [
        (("a", "b"), "a", True, False),
        (("a", "b"), "c", False, True),
        (("a",), "A", False, True),
        (("a",), "", False, True),
        ((), "", True, True),
        ((), "x", True, True),
    ],
)
def test_clusters(values: tuple[str, ...], cluster: str, inside: bool, outside: bool) -> None:
    by_name, by_type = AccessContext(cluster=cluster), AccessContext(cluster_type=cluster)
    assert answer("RangerAccessedFromClusterCondition", values, by_name) is inside
    assert answer("RangerAccessedFromClusterTypeCondition", values, by_type) is inside
    assert answer("RangerAccessedNotFromClusterCondition", values, by_name) is outside
    assert answer("RangerAccessedNotFromClusterTypeCondition", values, by_type) is outside


@pytest.mark.parametrize(
    ("values", "held", "inside", "outside"),
    [
        (("US", "CA"), ("US",), True, False),
        (("US", "CA"), ("DE",), False, True),
        (("US",), ("us",), False, True),
        (("US",), ("DE", "US"), True, False),
        (("US",), (), True, True),
        ((), ("US",), True, True),
    ],
)
def test_values_of_the_context(
    values: tuple[str, ...], held: tuple[str, ...], inside: bool, outside: bool
) -> None:
    context = AccessContext(attributes=(("other", ("US",)), ("country", held)) if held else ())
    name = {"attributeName": "country"}
    assert answer("RangerContextAttributeValueInCondition", values, context, **name) is inside
    assert answer("RangerContextAttributeValueNotInCondition", values, context, **name) is outside


def test_values_of_a_context_attribute_that_is_not_named() -> None:
    context = AccessContext(attributes=(("country", ("US",)),))
    assert answer("RangerContextAttributeValueInCondition", ("US",), context) is None
    assert answer("RangerContextAttributeValueNotInCondition", ("US",), context) is None
    assert answer("RangerSimpleMatcher", ("US",), context) is None


@pytest.mark.parametrize(
    ("values", "held", "expected"),
    [
        (("US",), ("US",), True),
        (("US", "C?"), ("CA",), True),
        (("U*",), ("UK",), True),
        (("*a*a*a*b",), ("a" * 200,), False),
        (("US",), ("CA",), False),
        (("US",), (), None),
        ((), (), True),
    ],
)
def test_values_of_the_context_by_pattern(
    values: tuple[str, ...], held: tuple[str, ...], expected: bool | None
) -> None:
    context = AccessContext(attributes=(("country", held),) if held else ())
    assert answer("RangerSimpleMatcher", values, context, CONTEXT_NAME="country") is expected


@pytest.mark.parametrize(
    ("values", "tags", "any_of", "none_of", "all_of"),
    [
        (("PII", "PCI"), ("PII",), True, False, False),
        (("PII", "PCI"), ("PII", "PCI", "X"), True, False, True),
        (("PII",), ("X",), False, True, False),
        (("PII",), (), False, True, False),
        (("pii",), ("PII",), False, True, False),
        ((" PII ",), ("PII",), True, False, True),
        ((), ("PII",), False, True, True),
    ],
)
def test_tags(
    values: tuple[str, ...], tags: tuple[str, ...], any_of: bool, none_of: bool, all_of: bool
) -> None:
    nothing = AccessContext()
    assert answer("RangerAnyOfExpectedTagsPresentConditionEvaluator", values, nothing, *tags) is any_of
    assert answer("RangerNoneOfExpectedTagsPresentConditionEvaluator", values, nothing, *tags) is none_of
    assert answer("RangerTagsAllPresentConditionEvaluator", values, nothing, *tags) is all_of


@pytest.mark.parametrize(
    ("values", "columns", "together"),
    [
        (("default.t.col*",), {"default.t.col1", "default.t.col2"}, True),
        (("default.T.Col1", "default.t.name"), {"default.t.col1", "default.t.name"}, True),
        (("default.t.col1", "default.t.name"), {"default.t.col1", "default.t.other"}, False),
        (("default.t.col1",), {"default.t.col1"}, False),
        (("default.t", "sales"), {"default.t.a", "sales.x.b"}, True),
        (("default.t",), {"default.u.a", "sales.x.b"}, False),
        (("a.b.c",), None, None),
        # What holds for a namespace holds in those within it.
        (("a.t.*",), {"a.b.t.x", "a.b.t.y"}, True),
        (("a.b.t.x", "a.b.t.y"), {"a.b.t.x", "a.b.t.y"}, True),
        (("a.b.t.*",), {"a.t.x", "a.t.y"}, False),
        # A column may be called so as well.
        (("a.t.*",), {"a.t.x.1", "a.t.y.1"}, True),
    ],
)
def test_columns_of_one_statement(
    values: tuple[str, ...], columns: set[str] | None, together: bool | None
) -> None:
    context = AccessContext(accessed_together=None if columns is None else frozenset(columns))
    unknown = columns is None
    assert answer("RangerHiveResourcesAccessedTogetherCondition", values, context) is (
        False if unknown else together
    )
    assert answer("RangerHiveResourcesNotAccessedTogetherCondition", values, context) is (
        True if unknown else not together
    )


@pytest.mark.parametrize("value", ["a..b.c.d", "", "a..c"])
def test_columns_that_are_not_columns_cannot_be_told(value: str) -> None:
    context = AccessContext(accessed_together=frozenset({"a.b.c"}))
    assert answer("RangerHiveResourcesAccessedTogetherCondition", (value,), context) is None
    assert answer("RangerHiveResourcesNotAccessedTogetherCondition", (value,), context) is None
    assert answer("RangerHiveResourcesNotAccessedTogetherCondition", (), context) is True


@pytest.mark.parametrize(
    ("values", "time", "expected"),
    [
        (('{"startTime": "2026/01/01 00:00:00"}',), "2026-06-01T00:00:00+00:00", True),
        (('{"endTime": "2026/01/01 00:00:00"}',), "2026-06-01T00:00:00+00:00", False),
        (
            ('{"endTime": "2026/01/01 00:00:00"}', '{"startTime": "2026/05/01 00:00:00"}'),
            "2026-06-01T00:00:00+00:00",
            True,
        ),
        (('{"endTime": "2026/01/01 00:00:00"}',), None, True),
        ((), "2026-06-01T00:00:00+00:00", True),
        (("soon",), "2026-06-01T00:00:00+00:00", None),
        (("{}",), "2026-06-01T00:00:00+00:00", None),
    ],
)
def test_schedules(values: tuple[str, ...], time: str | None, expected: bool | None) -> None:
    context = AccessContext(time=None if time is None else datetime.fromisoformat(time))
    assert answer("RangerValidityScheduleConditionEvaluator", values, context) is expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("USER._name == 'ann'", True),
        (" ctx.result = true; ", True),
        ("USER._name", False),
        ("USER.x.y == 1", None),
        ("", None),
    ],
)
def test_scripts(script: str, expected: bool | None) -> None:
    values = (script, "not read")
    assert answer("RangerScriptConditionEvaluator", values, AccessContext()) is expected
    facts = Facts(user="ann")
    for name in ("_expression", "expression"):
        by_name = compile_condition(
            Condition(type=name, values=values), ConditionDef(name=name, evaluator="")
        )
        assert by_name(facts) is expected
    implicit = compile_condition(Condition(type="_expression", values=values), None)
    assert implicit(facts) is expected


def test_a_script_that_is_not_ours_is_refused_when_it_is_read() -> None:
    for evaluator in ("RangerScriptConditionEvaluator", ""):
        made = ConditionDef(name="_expression", evaluator=evaluator)
        with pytest.raises(Untranslatable, match="is not a name that scripts know"):
            compile_condition(Condition(type="_expression", values=("java.lang.System.exit(1)",)), made)
    with pytest.raises(Untranslatable, match="is not a name"):
        answer("RangerScriptTemplateConditionEvaluator", ("yes",), AccessContext(), scriptTemplate="window")


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("USER._name == 'ann'", ("yes",), True),
        ("USER._name == 'ann'", ("true",), True),
        ("USER._name == 'ann'", (), True),
        ("USER._name == 'ann'", ("no",), False),
        ("USER._name == 'ann'", ("False",), False),
        ("USER.x.y", ("no",), None),
        ("USER.x.y", ("yes",), None),
        ("", ("yes",), None),
    ],
)
def test_script_templates(template: str, values: tuple[str, ...], expected: bool | None) -> None:
    found = answer("RangerScriptTemplateConditionEvaluator", values, AccessContext(), scriptTemplate=template)
    assert found is expected


def test_the_condition_of_ranger_s_tag_definition() -> None:
    made = definition(
        "RangerScriptTemplateConditionEvaluator", scriptTemplate="ctx.isAccessedAfter('expiry_date');"
    )
    test = compile_condition(Condition(type="accessed-after-expiry", values=("yes",)), made)
    tag = Tag(type="EXPIRES_ON", attributes={"expiry_date": "2026/06/15"})
    before, after = (AccessContext(time=datetime(2026, 6, day, tzinfo=UTC)) for day in (14, 16))
    assert test(Facts(user="ann", tag=tag, tags=(tag,), context=after)) is True
    assert test(Facts(user="ann", tag=tag, tags=(tag,), context=before)) is False
    assert test(Facts(user="ann", tag=tag, tags=(tag,))) is None
    assert test.context_dependencies == {"time", "tags"}


def test_what_nobody_knows_cannot_be_told() -> None:
    facts = Facts(user="ann")
    assert compile_condition(Condition(type="moon-phase", values=("full",)), None)(facts) is None
    for evaluator in ("com.example.MoonPhase", "", "RangerIpMatcherX", "org.apache.RangerIpMatcher.Inner"):
        made = ConditionDef(name="moon-phase", evaluator=evaluator)
        assert compile_condition(Condition(type="moon-phase", values=("full",)), made)(facts) is None


def test_what_of_the_context_a_condition_reads() -> None:
    def context_dependencies(evaluator: str, *values: str, **options: str) -> frozenset[str]:
        return compile_condition(
            Condition(type="c", values=values), definition(evaluator, **options)
        ).context_dependencies

    assert context_dependencies("RangerIpMatcher", "1.2.3.4") == {"client_ip"}
    assert context_dependencies("RangerIpMatcher", "*") == set()
    assert context_dependencies("RangerTimeOfDayMatcher", "9am-5pm") == {"time"}
    assert context_dependencies("RangerActionMatcher", "x") == {"action"}
    assert context_dependencies("RangerAccessedFromClusterTypeCondition", "x") == {"cluster_type"}
    assert context_dependencies("RangerContextAttributeValueInCondition", "x", attributeName="y") == {
        "attributes"
    }
    assert context_dependencies("RangerTagsAllPresentConditionEvaluator", "x") == {"tags"}
    assert context_dependencies("RangerHiveResourcesAccessedTogetherCondition", "a.b.c") == {
        "accessed_together"
    }
    assert context_dependencies("RangerScriptConditionEvaluator", "REQ.action == 'x'") == {"action"}
    assert context_dependencies("RangerNothing", "x") == set()


EVALUATORS = [
    *("RangerIpMatcher", "RangerTimeOfDayMatcher", "RangerActionMatcher", "RangerSimpleMatcher"),
    *("RangerHiveResourcesAccessedTogetherCondition", "RangerValidityScheduleConditionEvaluator"),
    *("RangerScriptConditionEvaluator", "RangerContextAttributeValueInCondition", "X"),
]


@given(
    st.sampled_from(EVALUATORS),
    st.lists(st.text(max_size=12), max_size=3).map(tuple),
    st.text(max_size=6),
)
def test_any_condition_is_refused_or_has_an_answer(
    evaluator: str, values: tuple[str, ...], text: str
) -> None:
    context = AccessContext(
        time=datetime(2026, 1, 1, tzinfo=UTC),
        client_ip=text,
        action=text,
        attributes=(("x", (text,)),),
        accessed_together=frozenset({text, "a.b.c"}),
    )
    try:
        found = answer(evaluator, values, context, attributeName="x", CONTEXT_NAME="x")
    except Untranslatable:
        return
    assert found in (True, False, None)
