"""What is recommended of given use: each change loads as a pack, and its cases hold. No Spark; seconds."""

from __future__ import annotations

from collections.abc import Sequence
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
from gateway.jobs.recommending.attribution import ALLOW, DENIED, UNREADABLE, attributing, needless, speaking
from gateway.jobs.recommending.storing import Advice
from gateway.jobs.running import run_job
from gateway.jobs.spark import SparkOptions
from gateway.model.policy import PolicySet
from gateway.policy.packs import load_packs
from gateway.policy.packs.editing import edited
from tests.policy.ranger_data import shipped

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
    for row in asked(attributing(policies, {}), uses):
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
    for row in asked(speaking(policies), [{"table_name": t, "column_name": c} for t, c in KNOWN]):
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
    return policies_of(edited(text, "pack.yaml", advice.edits, advice.cases))


def test_items_that_nobody_needed_are_told_with_cases_that_hold() -> None:
    found = list(adviser(policies_of()).unneeded())
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
    assert not list(young.unneeded())
    new = adviser(policies_of())
    new.old = lambda _: False
    assert not list(new.unneeded())
    used = {key: [table("c.sales.orders")] for key in new.wide()}
    assert not list(new.narrower(used, 20))


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
    suspects = made.suspects()
    rows = asked(needless(policies, 20_000), [{"policy": key} for key in suspects])
    found = list(made.shadowed([row["policy"] for row in rows], 20_000))
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
    suspects = adviser(policies, ()).suspects()
    assert [key.partition(" ")[2] for key in suspects] == ["always"]
    assert not asked(needless(policies, 20_000), [{"policy": key} for key in suspects])


def test_a_wildcard_is_narrowed_to_its_use_and_covers_it() -> None:
    made = adviser(policies_of())
    wide = [key.partition(" ")[2] for key in made.wide()]
    assert wide == ["analysts read sales"]
    used = {made.wide()[0]: [table("c.sales.orders"), table("c.sales.customer")]}
    (one,) = made.narrower(used, 20)
    assert one.kind == WIDE
    assert one.edits[0]["on"] == [
        {"catalog": "c", "database": "sales", "table": ["customer", "orders"], "column": "*"}
    ]
    assert one.evidence["known_tables"] == 3
    holds(one)
    assert not list(made.narrower(used, 1))


def test_use_that_no_policy_allows_now_keeps_what_grants_it_to_others() -> None:
    # As through a view, which lends what its definer has.
    policies = policies_of()
    rows = asked(attributing(policies, {}), [use("eve", "other", "c.sales.old", "x")])
    assert (DENIED, "", -1) in {(row["part"], row["policy"], row["item"]) for row in rows}
    assert {(row["policy"].partition(" ")[2], row["item"]) for row in rows if row["part"] == ALLOW} >= {
        ("analysts read sales", 0),
        ("analysts read sales", 1),
        ("writers", 0),
    }


def test_a_view_that_lends_keeps_what_shows_its_definer_all() -> None:
    policies = policies_of()
    rows = asked(
        attributing(policies, {}),
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
    rows = asked(attributing(policies, {}), [use("bob", "analysts", name, "x")])
    assert [(row["part"], row["policy"], row["item"]) for row in rows] == [(ALLOW, "1 one", 0)]


def test_names_that_are_none_and_unknown_columns() -> None:
    policies = policies_of()
    rows = asked(
        attributing(policies, {}),
        [use("a", "b", "", "x"), use("a", "b", "`broken", "x"), use("a", "support", "c.sales.customer", "*")],
    )
    assert [row["part"] for row in rows[:2]] == [UNREADABLE, UNREADABLE]
    # It may have been the phone.
    assert ("mask", "phones", 0) in {(r["part"], r["policy"].partition(" ")[2], r["item"]) for r in rows}


def test_a_role_has_what_all_of_its_people_may_read_and_a_far_user_is_denied() -> None:
    made = adviser(policies_of())
    groups = {"bob": ["analysts"], "ann": ["analysts"]}
    one = made.group(["ann", "bob"], groups, {"c.sales.orders": ["amount"], "c.hr.pay": ["y"]})
    assert one is not None
    assert one.edits[1]["policy"]["on"]["table"] == "orders"
    holds(one)
    assert made.group(["eve"], {}, {"c.sales.orders": ["amount"]}) is None
    far = made.far("bob", ["analysts"], ["c.sales.old", "c.hr.pay"], {})
    assert far is not None
    assert far.edits[0]["policy"]["on"]["table"] == "old"
    holds(far)
    closed = made.ungoverned("c.hr.pay", {})
    assert closed is not None
    holds(closed)
    assert made.ungoverned("{USER}", {}) is None


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
