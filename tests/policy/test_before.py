"""What a new text takes away is in force and what it gives is not, where one of its cases fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.app.rule_files import LoadedRules, RuleFiles, load_rules, read_rules, reload_rules
from gateway.errors import Faults
from gateway.model.catalog import Column, TableName
from gateway.model.decision import ColumnMask, RowFilter
from gateway.model.policy import FilterItem, MaskItem, Policy, PolicySet, PolicyType, ResourceValues, Service
from gateway.model.principal import Principal
from gateway.model.resource import ANY_ACCESS, AccessRequest, Resource
from gateway.policy.engine import BEFORE, Engine
from gateway.policy.parts import combine
from gateway.policy.unmatched import ResourceNames
from gateway.settings.models import PolicySettings
from tests.effort import tries
from tests.policy.scenarios import definitions
from tests.policy.test_laws import ACCESSES, NAMES, Maker

SPARK = definitions()["spark"]
COLUMNS = tuple(Column(name=name, type="string") for name in NAMES)


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(0, 2**40))
def test_the_stricter_of_two_answers_counts(seed: int) -> None:
    maker = Maker(seed)
    new, old = maker.policy_set(), Maker(seed + 1).policy_set()
    one, other = Engine(new), Engine(old)
    both = Engine(replace(new, before=old))
    for access in (*ACCESSES, ANY_ACCESS) * 2:
        request = maker.request(access)
        who, what, context = request.principal, request.resource, request.context
        allowed = one.decide(request).allowed and other.decide(request).allowed
        assert both.decide(request).allowed == allowed
        if request == AccessRequest(principal=who, resource=what, access=access, context=context):
            assert both.allows(who, what, access, context)[0] == allowed
        groups = [maker.some(ACCESSES[:5], 1)]
        assert both.decide_groups(request, groups).allowed == (
            one.decide_groups(request, groups).allowed and other.decide_groups(request, groups).allowed
        )
        assert both.visible(who, what, context) == (
            one.visible(who, what, context) and other.visible(who, what, context)
        )
        if what.kind != "table":
            continue
        view, alone, earlier = (
            engine.table_view(who, what, COLUMNS, context=context) for engine in (both, one, other)
        )
        assert view.hidden == alone.hidden | earlier.hidden
        assert view.context_dependencies >= alone.context_dependencies | earlier.context_dependencies
        for name in NAMES:
            on_column = AccessRequest(
                principal=who, resource=what.child("column", name), access="select", context=context
            )
            assert view.allowed[name] == both.decide(on_column)
            assert view.allowed[name].allowed == (name not in view.hidden)
            check_mask(view.masks.get(name), alone.masks.get(name), earlier.masks.get(name))
            check_mask(both.mask(who, on_column.resource, "string", context), view.masks.get(name), None)
        check_rows(view.row_filter, alone.row_filter, earlier.row_filter)
        check_rows(both.row_filter(who, what, context), view.row_filter, None)
        assert not view.uniform() or (alone.uniform() and earlier.uniform())
        names = list(NAMES)
        database = Resource(what.elements[:-1])
        assert list(both.visible_tables(who, database, names, context)) == [
            both.visible(who, database.child("table", name), context) for name in names
        ]


def check_mask(mask: ColumnMask | None, one: ColumnMask | None, other: ColumnMask | None) -> None:
    shown = {found.expression for found in (one, other) if found is not None}
    assert (mask is None) == (not shown)
    assert mask is None or mask.expression in shown or mask.mask_type == "MASK_NULL"
    assert mask is None or len(shown) == 1 or mask.mask_type == "MASK_NULL"


def check_rows(rows: RowFilter | None, one: RowFilter | None, other: RowFilter | None) -> None:
    texts = {found.expression for found in (one, other) if found is not None}
    assert (rows is None) == (not texts)
    assert rows is None or rows.expression == "FALSE" or all(text in rows.expression for text in texts)


# -- the same, of what people write

PACK = """\
service: spark
roles:
  staff: {{users: [ann, bob]}}
policies:
  - name: staff read
    on: {{catalog: c, database: hr, table: [employee, office], column: "*"}}
    allow: [{{roles: [staff], access: [select]}}]
  - name: salary
    on: {{catalog: c, database: hr, table: employee, column: salary}}
    mask: [{{groups: [public], type: {mask}}}]
  - name: rows
    on: {{catalog: c, database: hr, table: employee}}
    filter: [{{groups: [public], where: "{where}"}}]
"""
GOOD = PACK.format(mask="MASK_HASH", where="region = 'EMEA'")
FAILS = """\
cases:
  - as: {user: zoe}
    on: {catalog: c, database: hr, table: employee, column: name}
    expect: allow
"""
DENY = """\
  - name: nobody
    on: {catalog: c, database: hr, table: office, column: "*"}
    deny: [{groups: [public], access: [select]}]
"""
ALLOW = """\
  - name: everybody
    on: {catalog: c, database: hr, table: payroll, column: "*"}
    allow: [{groups: [public], access: [select]}]
"""
SETTINGS = PolicySettings()


def files(**packs: str) -> RuleFiles:
    found = read_rules(SETTINGS)
    return replace(found, packs={f"{name}.yaml": text for name, text in packs.items()})


def reloaded(new: RuleFiles, good: RuleFiles) -> tuple[LoadedRules, Engine]:
    loaded = reload_rules(new, SETTINGS, good)
    return loaded, Engine(combine([loaded.part], 2, {"c": "spark"}, tolerant=True))


def reads(engine: Engine, table: str, column: str = "name", user: str = "ann") -> bool:
    resource = Resource.table("c", "hr", table).child("column", column)
    return engine.decide(
        AccessRequest(principal=Principal(user=user), resource=resource, access="select")
    ).allowed


def shown(engine: Engine, user: str = "ann") -> tuple[str | None, str | None]:
    who, table = Principal(user=user), Resource.table("c", "hr", "employee")
    view = engine.table_view(who, table, (Column(name="salary", type="string"),))
    mask = view.masks.get("salary")
    assert mask == engine.mask(who, table.child("column", "salary"), "string")
    assert view.row_filter == engine.row_filter(who, table)
    rows = view.row_filter
    return None if mask is None else mask.mask_type, None if rows is None else rows.expression


NEW = (
    (DENY, {"office": False}, ("MASK_HASH", "region = 'EMEA'")),
    (ALLOW, {"office": True, "payroll": False}, ("MASK_HASH", "region = 'EMEA'")),
)


@pytest.mark.parametrize(("more", "read", "seen"), NEW, ids=["a denial", "a grant"])
def test_policies_that_came_deny_and_do_not_allow(
    more: str, read: dict[str, bool], seen: tuple[str, str]
) -> None:
    loaded, engine = reloaded(files(hr=GOOD + more + FAILS), files(hr=GOOD))
    assert {table: reads(engine, table) for table in read} == read
    assert reads(engine, "employee")
    assert shown(engine) == seen
    assert [fault.partition(": ")[0] for fault in loaded.failing] == ["hr.yaml:" + line_of(GOOD + more)]
    assert not loaded.held


def line_of(text: str) -> str:
    return str(len(text.splitlines()) + 2)


@pytest.mark.parametrize(
    ("mask", "where", "seen"),
    [
        ("MASK_NULL", "region = 'EMEA'", ("MASK_NULL", "region = 'EMEA'")),
        ("MASK_NONE", "true", ("MASK_HASH", "(true) AND (region = 'EMEA')")),
        ("MASK_SHOW_LAST_4", "n > 1", ("MASK_NULL", "(n > 1) AND (region = 'EMEA')")),
    ],
)
def test_masks_and_filters_that_changed_hide_and_do_not_show(
    mask: str, where: str, seen: tuple[str, str]
) -> None:
    _, engine = reloaded(files(hr=PACK.format(mask=mask, where=where) + FAILS), files(hr=GOOD))
    assert shown(engine) == seen


def test_policies_and_members_of_roles_that_are_gone_are() -> None:
    start = GOOD.partition("  - name: salary")[0]
    _, engine = reloaded(files(hr=start.replace("[ann, bob]", "[ann]") + FAILS), files(hr=GOOD))
    assert shown(engine) == ("MASK_HASH", "region = 'EMEA'"), "a mask that is gone hides until the case holds"
    assert reads(engine, "employee")
    assert not reads(engine, "employee", user="bob")
    new = GOOD.replace("[ann, bob]", "[ann, bob, dan]").replace("[employee, office]", "[employee]")
    _, engine = reloaded(files(hr=new + FAILS), files(hr=GOOD))
    assert not reads(engine, "office")
    assert reads(engine, "employee")
    assert not reads(engine, "employee", user="dan")


def test_what_is_in_force_says_what_took_it_away() -> None:
    _, engine = reloaded(files(hr=GOOD + ALLOW + FAILS), files(hr=GOOD))
    resource = Resource.table("c", "hr", "payroll").child("column", "name")
    request = AccessRequest(principal=Principal(user="ann"), resource=resource, access="select")
    assert BEFORE in engine.decide(request).reason
    assert BEFORE not in engine.decide(replace(request, access="update")).reason
    groups = [frozenset({"select"})]
    assert not engine.decide_groups(request, groups).allowed
    assert not engine.visible(request.principal, Resource.table("c", "hr", "payroll"))
    assert engine.visible_tables(request.principal, Resource.database("c", "hr"), ["payroll", "office"]) == (
        b"\0\1"
    )
    view = engine.table_view(request.principal, Resource.table("c", "hr", "payroll"), COLUMNS)
    assert view.hidden == {column.name for column in COLUMNS}
    assert not any(one.allowed for one in view.allowed.values())


def test_a_case_that_fails_by_another_files_denial_does_not_hold_that_back() -> None:
    case = FAILS.replace("zoe", "ann").replace("employee", "office")
    good = files(hr=GOOD + case, more="service: spark\npolicies: []\n")
    new = files(hr=GOOD + case, more="service: spark\npolicies:\n" + DENY + ALLOW)
    loaded, engine = reloaded(new, good)
    assert not reads(engine, "office")
    assert not reads(engine, "payroll"), "nothing is given meanwhile, by whichever file"
    assert reads(engine, "employee")
    assert loaded.good == good
    assert loaded.texts == new


def test_files_whose_cases_hold_are_in_force_beside_one_whose_do_not() -> None:
    other = "service: spark\npolicies:\n" + ALLOW
    loaded, engine = reloaded(files(hr=GOOD + DENY + FAILS, more=other), files(hr=GOOD))
    assert reads(engine, "payroll")
    assert not reads(engine, "office")
    assert dict(loaded.good.packs) == {"hr.yaml": GOOD, "more.yaml": other}


def test_a_file_that_is_none_beside_one_whose_case_fails() -> None:
    good = files(hr=GOOD, more="service: spark\npolicies:\n" + ALLOW)
    loaded, engine = reloaded(files(hr=GOOD + DENY + FAILS, more="policies: ["), good)
    assert reads(engine, "payroll"), "by what it had before"
    assert not reads(engine, "office")
    assert [fault.partition(": ")[0] for fault in loaded.held] == ["more.yaml:2"]
    assert len(loaded.failing) == 1


def test_what_failed_once_is_measured_by_what_was_good_before_it() -> None:
    first, _ = reloaded(files(hr=GOOD + ALLOW + FAILS), files(hr=GOOD))
    second, engine = reloaded(files(hr=GOOD + ALLOW + DENY + FAILS), first.good)
    assert not reads(engine, "payroll"), "a second look gives no more than the first"
    assert not reads(engine, "office")
    mended, engine = reloaded(files(hr=GOOD + ALLOW), second.good)
    assert reads(engine, "payroll")
    assert reads(engine, "office")
    assert mended.part.before is None


def test_a_gateway_does_not_start_on_cases_that_fail() -> None:
    with pytest.raises(Faults, match="case fails"):
        load_rules(files(hr=GOOD + FAILS), SETTINGS)


# -- texts that count for no more than their authors may select


def policies(*obligations: Policy) -> PolicySet:
    service = Service(name="spark", definition=SPARK, policies=obligations)
    return PolicySet(version=1, services={"spark": service}, catalog_services={"c": "spark"})


def hidden_by(who: str, text: str, number: int = 1) -> Iterator[Policy]:
    table = {
        "catalog": ResourceValues(values=("c",)),
        "database": ResourceValues(values=("hr",)),
        "table": ResourceValues(values=("employee",)),
    }
    accesses, everybody = frozenset({"select"}), frozenset({"public"})
    rows = FilterItem(groups=everybody, accesses=accesses, filter_expression=text, author=who)
    mask = MaskItem(
        groups=everybody, accesses=accesses, mask_type="CUSTOM", value_expression=text, author=who
    )
    column = {**table, "column": ResourceValues(values=("salary",))}
    yield Policy(
        id=number, name="rows", service="spark", type=PolicyType.ROW_FILTER, resources=table, filters=(rows,)
    )
    yield Policy(
        id=number + 1, name="mask", service="spark", type=PolicyType.MASK, resources=column, masks=(mask,)
    )


@pytest.mark.parametrize(
    ("one", "other", "rows", "author"),
    [
        (("ann", "a"), ("ann", "a"), "a", "ann"),
        (("", "a"), ("ann", "a"), "a", "ann"),
        (("ann", "a"), ("bob", "a"), "FALSE", ""),
        (("ann", "a"), ("", "b"), "FALSE", ""),
        (("", "a"), ("ann", "b"), "FALSE", ""),
        (("ann", "a"), ("ann", "b"), "(a) AND (b)", "ann"),
        (("", "a"), ("", "b"), "(a) AND (b)", ""),
    ],
)
def test_a_text_has_one_author(one: tuple[str, str], other: tuple[str, str], rows: str, author: str) -> None:
    both = Engine(replace(policies(*hidden_by(*one)), before=policies(*hidden_by(*other))))
    who, table = Principal(user="ann"), Resource.table("c", "hr", "employee")
    found = both.row_filter(who, table)
    assert found is not None
    assert (found.expression, found.author) == (rows, author)
    mask = both.mask(who, table.child("column", "salary"), "string")
    assert mask is not None
    assert mask.mask_type == ("CUSTOM" if one[1] == other[1] and rows != "FALSE" else "MASK_NULL")
    assert mask.author in (author, "")
    assert mask.mask_type == "MASK_NULL" or mask.author == author


def test_a_column_that_is_not_there_counts_in_both() -> None:
    named = policies(*hidden_by("", "a"))
    found = ResourceNames(replace(policies(), before=named))
    table = TableName("c", "hr", "employee")
    assert found.find_unmatched(table, (Column(name="name", type="string"),)) is not None
    assert found.find_unmatched(table, (Column(name="salary", type="string"),)) is None
