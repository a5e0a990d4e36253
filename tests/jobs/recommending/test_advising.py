"""What is recommended of given use: each change loads as a pack, and its cases hold. No Spark; seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow
import pytest

from gateway.database.migrate import migrate
from gateway.jobs.recommending import job as recommending
from gateway.jobs.recommending.advising import (
    SHADOWED,
    UNUSED_EXEMPTION,
    UNUSED_GRANT,
    WIDE,
    Adviser,
    Need,
    Period,
    UsedTable,
)
from gateway.jobs.recommending.attribution import (
    ALLOW,
    DENIED,
    UNREADABLE,
    build_attribution,
    build_needless_finder,
    build_policy_matcher,
)
from gateway.jobs.recommending.storing import (
    APPLIED,
    PROPOSED,
    REJECTED,
    STATES,
    Advice,
    Kept,
    decide,
    keep,
    list_recommendations,
)
from gateway.jobs.running import run_job
from gateway.jobs.spark import SparkOptions
from gateway.model.files import FileSource
from gateway.model.policy import PolicySet
from gateway.policy.packs import load_packs
from gateway.policy.packs.editing import apply_edits
from gateway.policy.parts import Part, build_closing_part, combine
from tests.policy.ranger.cases import worlds
from tests.policy.ranger.data import shipped

NOW = datetime(2026, 11, 25, tzinfo=UTC)
PACK = """\
service: spark
policies:
  - name: analysts read sales
    on: {catalog: c, database: sales, table: "*", column: "*"}
    allow:
      - {groups: [analysts], access: [select]}
      - {groups: [interns], access: [select]}
  - name: writers
    on: {catalog: c, database: sales, table: "*", column: "*"}
    allow: [{groups: [etl], access: [select, insert]}]
  - name: orders again
    on: {catalog: c, database: sales, table: orders, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: phones
    on: {catalog: c, database: sales, table: customer, column: phone}
    mask:
      - {groups: [support], type: MASK_NONE}
      - {users: [ann], type: MASK_NONE}
      - {groups: [public], type: MASK_NULL}
  - name: regions
    on: {catalog: c, database: sales, table: orders}
    filter:
      - {groups: [audit], where: ""}
      - {groups: [public], where: "region = {USER.region}"}
  - name: by day only
    on: {catalog: c, database: sales, table: "*", column: "*"}
    conditions: {time-of-day: 8am-6pm}
    allow: [{groups: [support], access: [select]}]
"""
KNOWN = [("c.sales.orders", "amount"), ("c.sales.customer", "phone"), ("c.sales.old", "x"), ("c.hr.pay", "y")]


def use(user: str, group: str, table: str, column: str, recent: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "user_name": user,
        "groups": [group],
        "table_name": table,
        "column_name": column,
        "statements": 5,
        "recent": recent,
        "first_at": NOW - timedelta(days=400),
        "last_at": NOW - timedelta(days=1, hours=12),
    } | more


USES = [
    use("bob", "analysts", "c.sales.orders", "amount"),
    use("bob", "analysts", "c.sales.customer", "phone"),
    use("ann", "analysts", "c.sales.customer", "phone"),
    use("iva", "interns", "c.sales.orders", "amount", recent=0),
]


def policies_of(text: str = PACK) -> PolicySet:
    return load_packs({"pack.yaml": text}, shipped())


def asked(made: Any, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run what runs in Spark's workers."""
    schema = None
    if rows and "groups" in rows[0]:
        text, time = pyarrow.string(), pyarrow.timestamp("us", "UTC")
        schema = pyarrow.schema(
            [
                *(("user_name", text), ("groups", pyarrow.list_(text)), ("table_name", text)),
                *(("column_name", text), ("statements", pyarrow.int64()), ("recent", pyarrow.int64())),
                *(("first_at", time), ("last_at", time)),
            ]
        )
    batch = pyarrow.RecordBatch.from_pylist(list(rows), schema=schema)
    return [row for found in made(iter([batch])) for row in found.to_pylist()]


def adviser(policies: PolicySet, uses: Sequence[dict[str, Any]] = USES, *, complete: bool = True) -> Adviser:
    needs: dict[tuple[str, str, int], Need] = {}
    for row in asked(build_attribution(policies, {}), uses):
        key = (row["part"], row["policy"], row["item"])
        before = needs[key].recent if key in needs else 0
        needs[key] = Need(
            recent=before + row["recent"],
            users=1,
            first=row["first_at"],
            last=row["last_at"],
            last_user=row["user_name"],
        )
    spoken: dict[str, set[tuple[str, str]]] = {}
    for row in asked(build_policy_matcher(policies), [{"table_name": t, "column_name": c} for t, c in KNOWN]):
        spoken.setdefault(row["policy"], set()).add((row["table_name"], row["column_name"]))
    return Adviser(
        policies=policies,
        period=Period(days=90, since=NOW - timedelta(days=90), complete=complete),
        needs=needs,
        old=lambda _: True,
        examples={key: (len({t for t, _ in of}), *min(of)) for key, of in spoken.items()},
    )


def holds(advice: Advice, text: str = PACK) -> PolicySet:
    """Return the policies with the change made; its cases were run."""
    return policies_of(apply_edits(text, "pack.yaml", advice.edits, advice.cases))


def test_items_that_nobody_needed_are_told_with_cases_that_hold() -> None:
    found = list(adviser(policies_of()).find_unneeded())
    told = {(one.kind, one.evidence["who"]) for one in found}
    assert told == {
        (UNUSED_GRANT, "group interns"),
        # Whoever reads orders is allowed by a policy that is asked before.
        (UNUSED_GRANT, "group analysts"),
        (UNUSED_EXEMPTION, "group support"),
        (UNUSED_EXEMPTION, "group audit"),
    }
    for one in found:
        assert one.cases, one
        holds(one)
    (interns,) = (one for one in found if one.evidence["who"] == "group interns")
    assert interns.evidence["last_user"] == "iva"
    assert interns.cases[0]["expect"] == {"effect": "deny"}


def test_nothing_is_unused_while_the_record_is_too_young_or_the_grant_is() -> None:
    young = adviser(policies_of(), complete=False)
    assert not list(young.find_unneeded())
    new = adviser(policies_of())
    new.old = lambda _: False
    assert not list(new.find_unneeded())
    used = {key: [table("c.sales.orders")] for key in new.list_wildcard_policies()}
    assert not list(new.find_too_broad(used, 20))


def table(name: str) -> UsedTable:
    return UsedTable(name=name, recent=5, users=1, user="bob", groups=("analysts",), column="amount")


def test_what_decides_nothing_is_shadowed_and_of_two_that_are_the_same_one_stays() -> None:
    twice = PACK + (
        "  - name: orders once more\n"
        "    on: {catalog: c, database: sales, table: orders, column: [amount, id]}\n"
        "    allow: [{groups: [analysts], access: [select]}]\n"
        # These two say the same, and one has to stay.
        '  - name: pay one\n    on: {catalog: c, database: hr, table: pay, column: "*"}\n'
        "    allow: [{groups: [hr], access: [select]}]\n"
        "  - name: pay two\n    on: {catalog: c, database: hr, table: pay, column: y*}\n"
        "    allow: [{users: [eve], groups: [hr], access: [select]}]\n"
        '  - name: pay three\n    on: {catalog: c, database: hr, table: pay, column: "*"}\n'
        "    allow: [{users: [eve], groups: [hr], access: [select]}]\n"
        # What protects holds for grants to come.
        '  - name: closed\n    on: {catalog: c, database: hr, table: closed, column: "*"}\n'
        "    deny: [{groups: [public], access: [select]}]\n"
    )
    policies = policies_of(twice)
    made = adviser(policies)
    suspects = made.list_shadow_suspects()
    rows = asked(build_needless_finder(policies, 20_000), [{"policy": key} for key in suspects])
    found = list(made.find_shadowed([row["policy"] for row in rows], 20_000))
    assert {one.kind for one in found} == {SHADOWED}
    names = [one.edits[0]["policy"] for one in found]
    assert set(names) == {"orders again", "orders once more", "pay one", "pay two"}
    for one in found:
        holds(one, twice)


def test_a_policy_that_holds_by_day_shadows_nothing() -> None:
    pack = """\
service: spark
policies:
  - name: always
    on: {catalog: c, database: d, table: t, column: "*"}
    allow: [{groups: [a], access: [select]}]
  - name: by day
    on: {catalog: c, database: d, table: "*", column: "*"}
    conditions: {time-of-day: 8am-6pm}
    allow: [{groups: [a], access: [select]}]
"""
    policies = policies_of(pack)
    suspects = adviser(policies, ()).list_shadow_suspects()
    assert [key.partition(" ")[2] for key in suspects] == ["always"]
    assert not asked(build_needless_finder(policies, 20_000), [{"policy": key} for key in suspects])


def test_a_wildcard_is_narrowed_to_its_use_and_covers_it() -> None:
    made = adviser(policies_of())
    wide = [key.partition(" ")[2] for key in made.list_wildcard_policies()]
    assert wide == ["analysts read sales"]
    used = {made.list_wildcard_policies()[0]: [table("c.sales.orders"), table("c.sales.customer")]}
    (one,) = made.find_too_broad(used, 20)
    assert one.kind == WIDE
    assert one.edits[0]["on"] == [
        {"catalog": "c", "database": "sales", "table": ["customer", "orders"], "column": "*"}
    ]
    assert one.evidence["known_tables"] == 3
    holds(one)
    assert not list(made.find_too_broad(used, 1))


def test_use_that_no_policy_allows_now_keeps_what_grants_it_to_others() -> None:
    # As through a view, which lends what its definer has.
    policies = policies_of()
    rows = asked(build_attribution(policies, {}), [use("eve", "other", "c.sales.old", "x")])
    assert (DENIED, "", -1) in {(row["part"], row["policy"], row["item"]) for row in rows}
    assert {(row["policy"].partition(" ")[2], row["item"]) for row in rows if row["part"] == ALLOW} >= {
        ("analysts read sales", 0),
        ("analysts read sales", 1),
        ("writers", 0),
    }


def test_a_view_that_lends_keeps_what_shows_its_definer_all() -> None:
    policies = policies_of()
    rows = asked(
        build_attribution(policies, {}),
        [use("eve", "other", "c.sales.customer", "phone"), use("eve", "other", "c.sales.orders", "amount")],
    )
    kept = {(row["part"], row["policy"].partition(" ")[2], row["item"]) for row in rows}
    assert kept >= {("mask", "phones", 0), ("mask", "phones", 1), ("filter", "regions", 0)}


@pytest.mark.parametrize(
    ("service", "on", "name"),
    [
        ("hive", "{database: db, table: t, column: '*'}", "c.db.t"),
        ("spark", "{catalog: c, database: a.b, table: t, column: '*'}", "c.a.b.t"),
        ("spark", "{catalog: c, database: db, table: x.y, column: '*'}", "c.db.x.y"),
        ("spark", "{catalog: c, database: a.b, table: t, column: '*'}", "c.`a.b`.t"),
    ],
)
def test_use_is_found_by_definitions_without_catalogs_and_of_names_with_dots(
    service: str, on: str, name: str
) -> None:
    granted = "allow: [{groups: [analysts], access: [select]}]"
    pack = f"service: {service}\npolicies: [{{name: one, on: {on}, {granted}}}]"
    policies = replace(load_packs({"pack.yaml": pack}, shipped()), catalog_services={"c": service})
    rows = asked(build_attribution(policies, {}), [use("bob", "analysts", name, "x")])
    assert [(row["part"], row["policy"], row["item"]) for row in rows] == [(ALLOW, "1 one", 0)]


def test_names_that_are_none_and_unknown_columns() -> None:
    policies = policies_of()
    rows = asked(
        build_attribution(policies, {}),
        [use("a", "b", "", "x"), use("a", "b", "`broken", "x"), use("a", "support", "c.sales.customer", "*")],
    )
    assert [row["part"] for row in rows[:2]] == [UNREADABLE, UNREADABLE]
    # It may have been the phone.
    assert ("mask", "phones", 0) in {(r["part"], r["policy"].partition(" ")[2], r["item"]) for r in rows}
    # Of what reads no column, it is known that it was not.
    counts = asked(build_attribution(policies, {}), [use("a", "support", "c.sales.customer", "")])
    assert [row["part"] for row in counts] == [ALLOW]


def test_a_role_has_what_all_of_its_people_may_read_and_a_far_user_is_denied() -> None:
    made = adviser(policies_of())
    groups = {"bob": ["analysts"], "ann": ["analysts"]}
    one = made.group(["ann", "bob"], groups, {"c.sales.orders": ["amount"], "c.hr.pay": ["y"]})
    assert one is not None
    assert one.edits[1]["policy"]["on"]["table"] == "orders"
    holds(one)
    assert made.group(["eve"], {}, {"c.sales.orders": ["amount"]}) is None
    far = made.advise_against_outlier("bob", ["analysts"], ["c.sales.old", "c.hr.pay"], {})
    assert far is not None
    assert far.edits[0]["policy"]["on"]["table"] == "old"
    holds(far)
    closed = made.build_closing_policy("c.hr.pay", {})
    assert closed is not None
    holds(closed)
    assert made.build_closing_policy("{USER}", {}) is None


def test_a_role_that_was_given_is_not_told_again_and_one_with_one_more_can_be_given() -> None:
    groups = {user: ["analysts"] for user in ("ann", "bob", "cem")}
    tables = {"c.sales.orders": ["amount"]}

    def by_use(text: str, *users: str) -> Advice | None:
        return adviser(policies_of(text)).group(users, groups, tables)

    two = by_use(PACK, "ann", "bob")
    assert two is not None
    of_two = apply_edits(PACK, "pack.yaml", two.edits, two.cases)
    assert by_use(of_two, "ann", "bob") is None
    # With one more it is another role, about the same.
    three = by_use(of_two, "ann", "bob", "cem")
    assert three is not None
    assert three.subject == two.subject
    of_three = apply_edits(of_two, "pack.yaml", three.edits, three.cases)
    assert [sorted(role.users) for role in policies_of(of_three).roles] == [
        ["ann", "bob"],
        ["ann", "bob", "cem"],
    ]
    for users in (("ann", "bob", "cem"), ("bob", "cem")):
        assert by_use(of_three, *users) is None
    # A role that has more people, and none of the tables, is none of theirs.
    wider = f"{PACK}roles: {{them: {{users: [ann, bob, cem]}}}}\n"
    assert by_use(wider, "ann", "bob", "cem") is None
    assert by_use(wider, "ann", "bob") is not None


def test_other_tables_of_a_user_can_be_denied_as_well() -> None:
    text = PACK
    for name in ("c.sales.old", "c.sales.customer", "c.sales.new"):
        far = adviser(policies_of(text)).advise_against_outlier("bob", ["analysts"], [name], {})
        assert far is not None
        text = apply_edits(text, "pack.yaml", far.edits, far.cases)
        assert adviser(policies_of(text)).advise_against_outlier("bob", ["analysts"], [name], {}) is None


# -- what is closed ------------------------------------------------------------------------------------------

LAKE = """\
service: spark
policies:
  - name: a wide
    on: {catalog: "*", database: lake, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: b orders
    on: {catalog: "*", database: lake, table: Orders, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: c wide or by name
    on: {catalog: spark_catalog, database: lake, table: [customers, "x*"], column: "*"}
    allow: [{groups: [support], access: [select]}]
  - name: d other
    on: {catalog: spark_catalog, database: sales, table: [orders_2, "y*"], column: "*"}
    allow: [{groups: [support], access: [select]}]
"""


def closed_of(text: str) -> PolicySet:
    source = FileSource(
        name="lake",
        root="s3a://b",
        database="lake",
        formats=("csv",),
        depth=3,
        leaf_columns=9,
        files=9,
        administrators=frozenset({"stewards"}),
    )
    return combine(
        [Part(name="packs", services=policies_of(text).services), build_closing_part([source])], 1, {}
    )


def names(found: Iterable[Advice]) -> list[str]:
    return [one.edits[0]["policy"] for one in found]


def test_no_table_of_files_is_named_that_is_closed() -> None:
    made = adviser(closed_of(LAKE), ())
    wide = next(key for key in made.list_wildcard_policies() if key.endswith("a wide"))
    made.examples = {wide: (9, "spark_catalog.lake.raw", "id")}
    open_, raw = (table(f"spark_catalog.lake.{name}") for name in ("orders", "raw"))
    assert names(made.find_too_broad({wide: [open_]}, 20)) == ["a wide"]
    assert not list(made.find_too_broad({wide: [open_, raw]}, 20))
    # Whose cases would be wrong in a pack, which knows nothing of files.
    assert not [one.cases for one in made.find_unneeded() if one.edits[0]["policy"] == "a wide" and one.cases]
    groups = {"sam": ["analysts", "stewards"]}
    one = made.group(["sam"], groups, {each.name: ["id"] for each in (open_, raw)})
    assert one is not None
    assert one.edits[1]["policy"]["on"]["table"] == "orders"
    assert made.group(["sam"], groups, {raw.name: ["id"]}) is None


def test_what_opens_a_table_of_files_stays() -> None:
    policies = closed_of(LAKE)
    made = adviser(policies, ())
    assert sorted(names(made.find_unneeded())) == ["a wide", "d other"]
    assert [key.partition(" ")[2] for key in made.list_wildcard_policies()] == ["a wide", "d other"]
    assert shadowed(policies) == []
    without_files = policies_of(LAKE)
    assert len(list(adviser(without_files, ()).find_unneeded())) == 4
    assert shadowed(without_files) == ["b orders"]


# -- what is needless, whoever asks --------------------------------------------------------------------------

ANALYSTS = "{groups: [analysts], access: [select]}"
CONTRACTORS = "{groups: [contractors], access: [select]}"


def grant(name: str, table: str, *lines: str) -> str:
    on = f'{{catalog: c, database: sales, table: "{table}", column: "*"}}'
    return "".join(
        f"{line}\n" for line in (f"  - name: {name}", f"    on: {on}", *(f"    {one}" for one in lines))
    )


def by_exception(who: str, *more: str) -> str:
    return grant("all", "*", f"allow: [{{groups: [{who}], access: [select]}}]", *more)


@pytest.mark.parametrize(
    "pack",
    [
        # Who is in both groups has it by the second policy alone.
        by_exception("analysts", f"allow_exceptions: [{CONTRACTORS}]")
        + grant("own", "orders", f"allow: [{ANALYSTS}]"),
        # And so has a user who is in the one that is left out, ...
        by_exception("public", f"allow_exceptions: [{CONTRACTORS}]")
        + grant("own", "orders", "allow: [{users: [alice], access: [select]}]"),
        # ... or who is let down by two.
        by_exception("analysts", f"allow_exceptions: [{CONTRACTORS}]")
        + grant(
            "all but interns",
            "*",
            f"allow: [{ANALYSTS}]",
            "allow_exceptions: [{groups: [interns], access: [select]}]",
        )
        + grant("own", "orders", f"allow: [{ANALYSTS}]"),
        # What has priority comes before the denial.
        by_exception("analysts")
        + grant("no contractors", "*", f"deny: [{CONTRACTORS}]")
        + grant("own", "orders", "priority: override", f"allow: [{ANALYSTS}]"),
        # A denial that does not hold for all whom it names leaves the grant to the others.
        grant("no analysts", "*", f"deny: [{ANALYSTS}]", f"deny_exceptions: [{CONTRACTORS}]")
        + grant("own", "orders", f"allow: [{ANALYSTS}]"),
        grant("contractors alone", "*", f"allow: [{CONTRACTORS}]", "deny_all_else: true")
        + grant("own", "orders", f"allow: [{ANALYSTS}]"),
        # Administration is not asked for.
        by_exception("analysts")
        + grant("own", "orders", "allow: [{groups: [analysts], access: [select], delegate_admin: true}]"),
    ],
)
def test_what_only_it_gives_to_somebody_in_two_groups_is_not_shadowed(pack: str) -> None:
    assert "own" not in shadowed(policies_of(f"service: spark\npolicies:\n{pack}"))


@pytest.mark.parametrize(
    "pack",
    [
        by_exception("analysts")
        + grant("own", "orders", f"allow: [{ANALYSTS}]", f"allow_exceptions: [{CONTRACTORS}]"),
        by_exception("analysts", "priority: override")
        + grant("no contractors", "*", f"deny: [{CONTRACTORS}]")
        + grant("own", "orders", "priority: override", f"allow: [{ANALYSTS}]"),
        by_exception("analysts")
        + grant("no contractors", "*", f"deny: [{CONTRACTORS}]")
        + grant("own", "orders", f"allow: [{ANALYSTS}]"),
        grant("nobody", "*", "deny: [{groups: [public], access: [select]}]")
        + grant("own", "orders", f"allow: [{ANALYSTS}]"),
    ],
)
def test_what_another_gives_to_all_of_them_is_shadowed(pack: str) -> None:
    assert "own" in shadowed(policies_of(f"service: spark\npolicies:\n{pack}"))


def shadowed(policies: PolicySet) -> list[str]:
    rows = asked(
        build_needless_finder(policies, 20_000),
        [{"policy": key} for key in adviser(policies, ()).list_shadow_suspects()],
    )
    return [row["policy"].partition(" ")[2] for row in rows]


def test_what_was_just_written_is_not_shadowed() -> None:
    made = adviser(policies_of(), ())
    assert made.list_shadow_suspects()
    made.old = lambda _: False
    assert not made.list_shadow_suspects()
    assert not adviser(policies_of(), (), complete=False).list_shadow_suspects()


# -- what stands behind something that holds now -------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "on", "part"),
    [
        ("allow: [{groups: [analysts], access: [select]}]", 'table: "*", column: "*"', "allow"),
        ("mask: [{groups: [analysts], type: MASK_NONE}]", "table: orders, column: amount", "mask"),
        ('filter: [{groups: [analysts], where: ""}]', "table: orders", "filter"),
    ],
)
def test_what_stands_behind_something_temporary_is_needed(items: str, on: str, part: str) -> None:
    pack = f"""\
service: spark
policies:
  - name: a now
    on: {{catalog: c, database: sales, {on}}}
    validity: [{{until: "2026-12-31T00:00:00"}}]
    {items}
  - name: b always
    on: {{catalog: c, database: sales, {on}}}
    {items}
  - name: c read
    on: {{catalog: c, database: sales, table: "*", column: "*"}}
    allow: [{{groups: [analysts], access: [select]}}]
"""
    rows = asked(
        build_attribution(policies_of(pack), {}), [use("ann", "analysts", "c.sales.orders", "amount")]
    )
    found = {(row["part"], row["policy"].partition(" ")[2], row["item"]) for row in rows}
    assert found >= {(part, "a now", 0), (part, "b always", 0)}


def test_what_stands_behind_a_tag_for_a_while_is_needed() -> None:
    pack = """\
service: spark
tags:
  - on: {catalog: c, database: sales, table: orders, column: amount}
    tags: [{tag: SHOWN, validity: [{until: "2026-12-31T00:00:00"}]}]
policies:
  - name: by tag
    on: {tag: SHOWN}
    allow: [{groups: [analysts], access: [select]}]
  - name: always
    on: {catalog: c, database: sales, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
"""
    rows = asked(
        build_attribution(policies_of(pack), {}), [use("ann", "analysts", "c.sales.orders", "amount")]
    )
    assert {row["policy"].partition(" ")[2] for row in rows} == {"by tag", "always"}


# -- what no policy speaks of --------------------------------------------------------------------------------


def test_of_what_datasets_share_a_policy_speaks() -> None:
    (world,) = (one for one in worlds() if one.name == "datasets and projects")
    policies = replace(world.policies, catalog_services={"c": "dev"})
    tables = [{"table_name": f"c.crm.{name}", "column_name": "id"} for name in ("leads", "nobody_shares")]
    spoken = asked(build_policy_matcher(policies), tables)
    assert {row["table_name"] for row in spoken} == {"c.crm.leads"}


def test_what_super_users_read_is_allowed() -> None:
    pack = f"super_users: [root]\n{PACK}"
    rows = asked(build_attribution(policies_of(pack), {}), [use("root", "x", "c.hr.pay", "y")])
    assert [(row["part"], row["policy"], row["item"]) for row in rows] == [(ALLOW, "", -1)]


# -- what is kept --------------------------------------------------------------------------------------------


def test_of_two_policies_that_an_edit_cannot_tell_apart_nothing_is_said() -> None:
    policies = policies_of()
    (service,) = (one for one in policies.services.values() if one.policies)
    twin = replace(service.policies[0], id=99, priority=1)
    doubled = replace(service, policies=(*service.policies, twin))
    made = adviser(replace(policies, services={service.name: doubled}), ())
    assert twin.name not in {one.policy.name for one in made.held.values()}


async def test_of_two_findings_about_one_subject_one_is_kept_and_stays_rejected(database: str) -> None:
    connection = await asyncpg.connect(database)
    edit = {"do": "remove_policy", "policy": "p", "service": "spark", "was": "1"}

    async def kept(*edits: dict[str, Any]) -> list[tuple[int, str, str]]:
        found = [Advice(kind=SHADOWED, subject="p", title="", edits=[one]) for one in edits]
        async with connection.transaction():
            await keep(connection, found, run=run, now=NOW)
        rows = await list_recommendations(connection, states=("proposed", REJECTED))
        return [(row["id"], row["state"], row["edits"][0]["was"]) for row in rows]

    try:
        await migrate(connection)
        run = await connection.fetchval(
            "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('recommend', 1, 'done', '')"
            " RETURNING id"
        )
        other = {**edit, "service": "other"}
        ((number, *_),) = await kept(edit, other)
        assert await kept(edit, other) == [(number, "proposed", "1")]
        # Of a policy that is another nobody has looked at the change.
        ((number_of_another, _, was),) = await kept(edit | {"was": "2"}, other)
        assert (number_of_another != number, was) == (True, "2")
        await decide(connection, [number_of_another], REJECTED, "ann")
        for was in ("2", "3"):
            assert [row[:2] for row in await kept(edit | {"was": was}, other)] == [
                (number_of_another, REJECTED)
            ]
    finally:
        await connection.close()


async def test_a_run_that_began_before_something_was_applied_leaves_it_so(database: str) -> None:
    connection = await asyncpg.connect(database)
    edit = {"do": "remove_policy", "policy": "p", "service": "spark", "was": "1"}

    async def clock() -> datetime:
        return await connection.fetchval("SELECT clock_timestamp()")  # type: ignore[no-any-return]

    async def kept(began: datetime) -> tuple[Kept, list[tuple[str, str]]]:
        async with connection.transaction():
            told = await keep(
                connection,
                [Advice(kind=SHADOWED, subject="p", title="", edits=[edit])],
                run=run,
                now=began,
            )
        return told, [
            (row["state"], row["decided_by"]) for row in await list_recommendations(connection, states=STATES)
        ]

    try:
        await migrate(connection)
        run = await connection.fetchval(
            "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('recommend', 1, 'running', '')"
            " RETURNING id"
        )
        began = [await clock()]
        await kept(began[0])

        async def write() -> None:
            # This one began, and read the policies, before they were written.
            began.append(await clock())

        (one,) = await list_recommendations(connection)
        await decide(connection, [one["id"]], APPLIED, "ann", apply=write)
        for earlier in began:
            assert await kept(earlier) == (Kept(proposed=0, gone=0, open=0), [(APPLIED, "ann")])
        # It did not help.
        assert await kept(await clock()) == (Kept(proposed=1, gone=0, open=1), [(PROPOSED, "")])
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("behind", "complete"), [(timedelta(hours=3), True), (timedelta(days=3), False), (None, False)]
)
async def test_roll_ups_that_have_stopped_tell_nothing_unused(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    behind: timedelta | None,
    complete: bool,
) -> None:
    connection = await asyncpg.connect(database)
    periods: list[Period] = []

    async def advise(self: Any, rules: Any, period: Period, *_: Any) -> list[Advice]:
        periods.append(period)
        return []

    async def rules(_: Any) -> recommending.PoliciesInForce:
        return recommending.PoliciesInForce(policies=policies_of())

    monkeypatch.setattr(recommending._Recommend, "_advise", advise)
    try:
        await migrate(connection)
        await connection.execute(
            "INSERT INTO sluice.recommend_day (day, source, rows) VALUES ($1, '', 1)",
            (NOW - timedelta(days=200)).date(),
        )
        if behind is not None:
            await connection.execute(
                "WITH run AS (INSERT INTO sluice.job_run (job, version, state, runner)"
                " VALUES ('rollups', 1, 'done', '') RETURNING id)"
                " INSERT INTO sluice.job_watermark (job, version, watermark, run)"
                " SELECT 'rollups', 1, $1, id FROM run",
                NOW - behind,
            )
        lines: list[str] = []
        made = recommending.recommend(recommending.RecommendOptions(rules=rules))
        await run_job(
            made, dsn=database, lake=tmp_path, spark=SparkOptions(), progress=lines.append, clock=lambda: NOW
        )
    finally:
        await connection.close()
    assert [one.complete for one in periods] == [complete]
    assert any("the roll-ups end at" in line for line in lines) is not complete
