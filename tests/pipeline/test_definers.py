"""By whose access views are read, and whose masks and filters hold, judged with the real reader."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.connect import plan as plans

from gateway.model.definers import definer_of, definer_property
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, PlanRequest, Refused, Verdict
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.plan.frames import command, message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """
service: spark
policies:
  - name: views are everybody's
    on: {catalog: spark_catalog, database: d, table: "v_*", column: "*"}
    allow: [{users: [dan, eva, ron, own], access: [select, create, drop, alter]}]
  - name: not this one
    on: {catalog: spark_catalog, database: d, table: unknown, column: "*"}
    allow: [{users: [eva], access: [select]}]
  - name: what dan lends
    on: {catalog: spark_catalog, database: d, table: inner, column: "*"}
    allow: [{users: [dan, eva], access: [select]}]
  - name: dan and own may not see the pin
    on: {catalog: spark_catalog, database: d, table: t, column: [id, name, region]}
    allow: [{users: [dan, own], access: [select]}]
  - name: eva sees all of it
    on: {catalog: spark_catalog, database: d, table: t, column: "*"}
    allow: [{users: [eva], access: [select]}]
  - name: dan sees all of the other one
    on: {catalog: spark_catalog, database: d, table: t2, column: "*"}
    allow: [{users: [dan], access: [select]}]
  - name: own does not
    on: {catalog: spark_catalog, database: d, table: t2, column: [id, name, region]}
    allow: [{users: [own], access: [select]}]
  - name: who comes late sees some of it
    on: {catalog: spark_catalog, database: d, table: t2, column: "*"}
    allow: [{groups: [late], access: [select]}]
  - name: some
    on: {catalog: spark_catalog, database: d, table: t2}
    filter: [{groups: [late], where: "id < 7"}]
  - name: region of dan
    on: {catalog: spark_catalog, database: d, table: t2}
    filter: [{users: [dan], where: "region = current_user()"}]
  - name: masks
    on: {catalog: spark_catalog, database: d, table: t, column: name}
    mask:
      - {users: [dan], type: CUSTOM, show: "concat('dan', name)"}
      - {users: [ron], type: CUSTOM, show: "concat('ron', name)"}
  - name: filters
    on: {catalog: spark_catalog, database: d, table: t}
    filter:
      - {users: [dan], where: "region = current_user()"}
      - {users: [ron], where: "region <> current_user()"}
"""
T = {"id": "int", "name": "string", "region": "string", "pin": "string"}


def view(text: str, columns: dict[str, str], definer: str | None, **more: Any) -> dict[str, Any]:
    return {
        "text": text,
        "columns": columns,
        "database": "d",
        "output": list(columns),
        "definer": definer,
    } | more


NAMES = {"id": "int", "name": "string"}
VIEWS = {
    "v_direct": view("SELECT id, name FROM t", NAMES, "dan"),
    "v_plain": view("SELECT id FROM t", {"id": "int"}, "eva"),
    "v_upper": view("SELECT id, name FROM v_direct", NAMES, "eva"),
    "v_made": view("SELECT id, name FROM t", NAMES, None, owner="own"),
    "v_lost": view("SELECT id, pin FROM t", {"id": "int", "pin": "string"}, "dan"),
    "v_gone": view("SELECT id FROM t", {"id": "int"}, "zed"),
    "v_star": view("SELECT * FROM t", {"id": "int", "name": "string", "region": "string"}, "dan"),
    "v_code": view("SELECT spark_catalog.d.f(id) AS id FROM t", {"id": "int"}, "eva"),
    "unknown": view("SELECT id, pin FROM t", {"id": "int", "pin": "string"}, "dan"),
    "inner": view("SELECT id, name FROM t", NAMES, "eva"),
    "v_lent": view("SELECT id, name FROM inner", NAMES, "dan"),
    "v_wide": view("SELECT id FROM t2", {"id": "int"}, "dan"),
    "v_wider": view("SELECT id, pin FROM t2", {"id": "int", "pin": "string"}, "dan"),
    "v_over": view("SELECT id FROM unknown", {"id": "int"}, "eva"),
}


def world_of(**definers: str) -> World:
    """Return a world of four people, one table and views over it; `definers` are others than above."""
    views = {
        f"spark_catalog.d.{name}": one | {"definer": definers.get(name, one["definer"])}
        for name, one in VIEWS.items()
    }
    people: dict[str, Any] = {user: {"groups": []} for user in ("dan", "eva", "ron", "own")}
    data = {
        "catalogs": ["spark_catalog"],
        "tables": {"spark_catalog.d.t": T, "spark_catalog.d.t2": T},
        "views": views,
    }
    return World({**data, "people": people, "pack": PACK})


@pytest.fixture(scope="module")
def world() -> World:
    return world_of()


def forwarded(verdict: Verdict) -> str:
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


def execute(frame: Any) -> PlanRequest:
    return PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))


def refused(verdict: Verdict) -> str:
    assert isinstance(verdict, Refused), verdict
    assert verdict.code == "ACCESS_DENIED"
    return verdict.message


DANS = "(SELECT * FROM `spark_catalog`.`d`.`t` AS `t` WHERE (region = 'dan'))"
RONS = "(SELECT * FROM `spark_catalog`.`d`.`t` AS `t` WHERE (region <> 'ron'))"
BOTH = "(SELECT * FROM `spark_catalog`.`d`.`t` AS `t` WHERE ((region <> 'ron') AND (region = 'dan')))"


async def test_who_has_the_access_gets_his_own_obligations(world: World, reader: ReaderPool) -> None:
    plain = await world.judge("SELECT * FROM v_plain", reader, user="eva", use="d")
    assert forwarded(plain) == "SELECT * FROM `spark_catalog`.`d`.`v_plain`"
    for user in ("eva", "own"):
        # Written out without the column that the definer may not select, should the text use it all the same.
        text = forwarded(await world.judge("SELECT * FROM v_direct", reader, user=user, use="d"))
        assert "(SELECT `id`, `name`, `region` FROM `spark_catalog`.`d`.`t` AS `t`) AS `t`" in text
    dan = forwarded(await world.judge("SELECT * FROM v_direct", reader, user="dan", use="d"))
    assert DANS in dan
    assert "concat('dan', name)" in dan


async def test_who_has_not_gets_those_of_the_definer_too(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT * FROM v_direct", reader, user="ron", use="d")
    text = forwarded(verdict)
    assert BOTH in text
    # Masked by both, and differently: nothing is left of it.
    assert "CASE WHEN FALSE THEN `name` END AS `name`" in text
    assert "concat" not in text
    assert isinstance(verdict, Cleared)
    (scan,) = (scan for scan in verdict.scans if scan.table.table == "t")
    assert scan.definer == "dan"
    assert len(scan.obligations) == 4
    assert [principal.user for principal in verdict.definers] == ["dan"]
    by = {d.request.principal.user for d in verdict.decisions if d.request.resource.kind == "column"}
    assert by == {"dan", "ron"}


async def test_plans_get_the_same(world: World, reader: ReaderPool) -> None:
    frame = execute(table("spark_catalog.d.v_direct"))
    verdict = await world.judge_plan(frame, reader, user="ron")
    assert BOTH in forwarded(verdict)
    assert isinstance(verdict, Cleared)
    assert [principal.user for principal in verdict.definers] == ["dan"]
    text = await world.judge_plan(execute(sql("SELECT * FROM d.v_direct")), reader, user="ron")
    assert BOTH in forwarded(text)
    assert "its definer dan" in refused(
        await world.judge_plan(execute(table("spark_catalog.d.v_lost")), reader, user="ron")
    )


async def test_what_is_lent_does_not_rest_on_the_analyst(world: World, reader: ReaderPool) -> None:
    # own may select what the text is said to use, without obligations. What else there is he does not get.
    ins = forwarded(await world.judge("SELECT * FROM v_wide", reader, user="own", use="d"))
    assert "(SELECT `id`, `name`, `region` FROM `spark_catalog`.`d`.`t2` AS `t2`) AS `t2`" in ins
    # Said to use more, he reads it by dan's access, as dan would.
    more = forwarded(await world.judge("SELECT * FROM v_wider", reader, user="own", use="d"))
    assert "WHERE (region = 'dan')" in more


async def test_what_a_definer_lends_is_lent_on(world: World, reader: ReaderPool) -> None:
    # own may not know of the view within: dan lends it, and it is read by him as well.
    own = forwarded(await world.judge("SELECT * FROM v_lent", reader, user="own", use="d"))
    assert DANS in own
    assert "concat('dan', name)" in own
    eva = forwarded(await world.judge("SELECT * FROM v_lent", reader, user="eva", use="d"))
    assert eva == "SELECT * FROM `spark_catalog`.`d`.`v_lent`"


async def test_views_within_are_read_by_all_whose_access_shows_them(world: World, reader: ReaderPool) -> None:
    # ron may select the inner view himself: eva, who defined the outer one, lends him nothing.
    assert BOTH in forwarded(await world.judge("SELECT * FROM v_upper", reader, user="ron", use="d"))
    eva = forwarded(await world.judge("SELECT * FROM v_upper", reader, user="eva", use="d"))
    assert "(SELECT `id`, `name`, `region` FROM `spark_catalog`.`d`.`t` AS `t`) AS `t`" in eva


async def test_a_definer_without_the_access_closes_the_view(world: World, reader: ReaderPool) -> None:
    for user in ("eva", "ron"):
        told = refused(await world.judge("SELECT id FROM v_lost", reader, user=user, use="d"))
        assert told.startswith("the view spark_catalog.d.v_lost is closed, because its definer dan")
        assert "d.t" not in told
    own = refused(await world.judge("SELECT id FROM v_lost", reader, user="dan", use="d"))
    assert own.startswith(
        "user dan needs select on every column that the view reads of table spark_catalog.d.t"
    )
    assert "as definer of the view spark_catalog.d.v_lost" in own
    assert "its definer zed" in refused(await world.judge("TABLE v_gone", reader, user="eva", use="d"))
    # eva has the table, and not what the definer would call.
    assert "execute on udf" in refused(await world.judge("TABLE v_code", reader, user="eva", use="d"))


async def test_a_closed_view_within_is_named_to_who_may_know_of_it(world: World, reader: ReaderPool) -> None:
    ron = refused(await world.judge("SELECT id FROM v_over", reader, user="ron", use="d"))
    assert ron.startswith("a view that the statement reads is closed, because its definer dan")
    eva = refused(await world.judge("SELECT id FROM v_over", reader, user="eva", use="d"))
    assert eva.startswith("the view spark_catalog.d.unknown is closed")


@pytest.mark.parametrize("star", ["refuse", "visible"])
async def test_a_stored_star_is_every_column(world: World, reader: ReaderPool, star: Any) -> None:
    told = refused(
        await world.judge("SELECT id FROM v_star", reader, user="ron", use="d", rules=Rules(star=star))
    )
    assert "is closed, because its definer dan" in told


async def test_a_record_of_another_text_is_none(reader: ReaderPool) -> None:
    world = world_of(v_lost="")
    assert "ron needs select" in refused(await world.judge("TABLE v_lost", reader, user="ron", use="d"))
    assert forwarded(await world.judge("TABLE v_lost", reader, user="eva", use="d"))


async def test_views_made_elsewhere(world: World, reader: ReaderPool) -> None:
    async def judged(user: str, rule: Any) -> Verdict:
        return await world.judge(
            "TABLE v_made",
            reader,
            user=user,
            use="d",
            rules=Rules(unrecorded_views=rule, barriers="always"),
        )

    assert RONS in forwarded(await judged("ron", "operator"))
    # The owner may select it, so it is shown by his access; he has no masks.
    assert RONS in forwarded(await judged("ron", "owner"))
    assert "ron needs select" in refused(await judged("ron", "invoker"))
    assert DANS in forwarded(await judged("dan", "invoker"))
    ownerless = world_of(v_made="zed")
    rules = Rules(unrecorded_views="operator")
    assert "zed" in refused(await ownerless.judge("TABLE v_made", reader, user="ron", use="d", rules=rules))


async def test_definers_count_nothing_where_it_is_the_invokers(world: World, reader: ReaderPool) -> None:
    rules = Rules(views="invoker")
    told = refused(await world.judge("TABLE v_direct", reader, user="ron", use="d", rules=rules))
    assert told.startswith("user ron needs select")
    assert DANS in forwarded(await world.judge("TABLE v_direct", reader, user="dan", use="d", rules=rules))


async def test_what_is_stored_is_what_is_recorded(world: World, reader: ReaderPool) -> None:
    made = await world.judge("CREATE VIEW v_made AS SELECT id FROM t", reader, user="dan", use="d")
    text = "SELECT id FROM (SELECT `id`, `name`, `region` FROM `spark_catalog`.`d`.`t` AS `t`) AS `t`"
    key, value = definer_property(text, "dan")
    expected = f"CREATE VIEW `spark_catalog`.`d`.`v_made` TBLPROPERTIES ('{key}' = '{value}') AS {text}"
    assert forwarded(made) == expected
    assert isinstance(made, Cleared)
    assert made.obligations == ()
    altered = await world.judge("ALTER VIEW v_made AS SELECT id FROM t", reader, user="dan", use="d")
    assert isinstance(altered, Cleared)
    assert altered.definition is not None
    assert (altered.definition.key, altered.definition.value) == (key, value)


async def test_a_text_does_not_say_who_defines_the_view(world: World, reader: ReaderPool) -> None:
    given = "'sluice.definer.0' = '00', 'meta.a' = 'b', SLUICE.definer.b = 'hal'"
    text = f"CREATE VIEW v_made TBLPROPERTIES ({given}) AS SELECT id FROM d.t"
    made = forwarded(await world.judge(text, reader, user="dan", use="d"))
    assert re.search(r"TBLPROPERTIES \('sluice\.definer\.\w{64}' = '\w+', 'meta\.a' = 'b'\) AS", made)
    hidden = text.replace("'sluice.definer.0'", "'sluice\\.definer.0'")
    said = await world.judge(hidden, reader, user="dan", use="d")
    assert isinstance(said, Refused)
    assert "could not prove" in said.message


async def test_records_are_bound_to_their_text() -> None:
    key, value = definer_property("SELECT 1", "o'neill \\ ünï token")
    assert value.isalnum()
    assert value.isascii()
    assert definer_of("SELECT 1", {"a": "b", key: value}) == "o'neill \\ ünï token"
    assert definer_of("SELECT 2", {key: value}) == ""
    assert definer_of("SELECT 1", {key: "zz"}) == ""
    assert definer_of("SELECT 1", {key: "ff"}) == ""
    assert definer_of("SELECT 1", {"a": "b"}) is None


async def test_a_text_with_arguments_is_not_stored(world: World, reader: ReaderPool) -> None:
    altered = plans.SQL("ALTER VIEW d.v_made AS SELECT :a AS id, 'x' AS name", None, {"a": F.lit(1)}, [])
    request = PlanRequest(kind="execute", message=command(altered).SerializeToString(deterministic=True))
    verdict = await world.judge_plan(request, reader, user="dan")
    assert isinstance(verdict, Refused), verdict
    assert "are only allowed in queries" in verdict.message


async def test_a_plan_records_who_changes_a_view(world: World, reader: ReaderPool) -> None:
    altered = plans.SQL("ALTER VIEW d.v_made AS SELECT id, name FROM d.t", None, None, [])
    request = PlanRequest(kind="execute", message=command(altered).SerializeToString(deterministic=True))
    verdict = await world.judge_plan(request, reader, user="own")
    assert isinstance(verdict, Cleared), verdict
    assert verdict.definition is not None
    assert verdict.definition.value == b"own".hex()


async def test_a_definer_is_who_he_is_now_and_not_who_he_was_at_login(reader: ReaderPool) -> None:
    world = world_of()
    world.principals["dan"] = Principal(user="dan", groups=frozenset({"leavers"}))
    told = refused(await world.judge("TABLE v_lost", reader, user="dan", use="d"))
    assert told.startswith("user dan needs select")
    assert "as definer of the view spark_catalog.d.v_lost" in told


async def test_who_is_added_under_a_definers_name_has_defined_nothing(
    reader: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (Principal(user="eva", groups=frozenset({"late"}), id=one * 8) for one in "ab")
    world = world_of(v_wide=old.identity)
    world.principals["eva"] = old
    assert "(id < 7)" in forwarded(await world.judge("TABLE v_wide", reader, user="ron", use="d"))
    world.principals["eva"] = new
    told = refused(await world.judge("TABLE v_wide", reader, user="ron", use="d"))
    assert "is closed, because its definer eva" in told
    own = Principal(user="own", groups=frozenset(), id="c" * 8)
    monkeypatch.setattr(world, "principal", lambda _: own)
    text = "ALTER VIEW d.v_made AS SELECT id, name FROM d.t"
    verdict = await world.judge(text, reader, user="own")
    assert isinstance(verdict, Cleared), verdict
    assert verdict.definition is not None
    assert verdict.definition.value == own.identity.encode().hex()


async def test_an_old_login_sees_no_more_than_the_definer_that_one_has_become(reader: ReaderPool) -> None:
    world = world_of(v_wide="eva")
    refused(await world.judge("TABLE v_wide", reader, user="eva", use="d"))
    world.principals["eva"] = Principal(user="eva", groups=frozenset({"late"}))
    # By herself, in this session, she may not read it: the view is read by what she may now.
    refused(await world.judge("SELECT id FROM t2", reader, user="eva", use="d"))
    assert "(id < 7)" in forwarded(await world.judge("TABLE v_wide", reader, user="eva", use="d"))


async def test_the_text_of_a_view_is_told_to_who_may_see_all_that_it_reads(
    world: World, reader: ReaderPool
) -> None:
    for user, told in (("eva", True), ("own", False), ("ron", False)):
        described = await world.judge("DESCRIBE EXTENDED v_plain", reader, user=user, use="d")
        assert isinstance(described, Cleared)
        assert described.answer.details is told, user
        shown = await world.judge("SHOW CREATE TABLE v_plain", reader, user=user, use="d")
        if told:
            assert isinstance(shown, Cleared)
        else:
            assert isinstance(shown, Refused)
            assert "this would show the text of view spark_catalog.d.v_plain, and" in shown.message
        explained = await world.judge("EXPLAIN SELECT id FROM v_plain", reader, user=user, use="d")
        assert isinstance(explained, Cleared) is told, user
        # Errors of Spark, which hold plans, come without names.
        asked = await world.judge("SELECT nope FROM v_plain", reader, user=user, use="d")
        assert isinstance(asked, Cleared)
        assert asked.hides_target is not told, user
        for frame in (table("d.v_plain"), sql("SELECT id FROM d.v_plain")):
            request = pb.AnalyzePlanRequest()
            request.explain.plan.CopyFrom(message(frame))
            asked_for = PlanRequest(kind="analyze", message=request.SerializeToString(deterministic=True))
            assert isinstance(await world.judge_plan(asked_for, reader, user=user), Cleared) is told, user
