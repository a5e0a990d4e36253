"""Circumstances where they are easily forgotten: in zones and tags whose resources are scripts, in paths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.context import AccessContext
from gateway.model.policy import (
    Condition,
    FilterItem,
    MaskItem,
    Policy,
    PolicySet,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    Service,
    ServiceDef,
    TaggedResource,
    Zone,
)
from gateway.model.resource import Resource
from gateway.model.tags import Tag, ValiditySchedule
from gateway.policy.engine import Engine
from tests.policy.scenarios import definitions
from tests.policy.test_engine import (
    ANN,
    BOB,
    COLUMNS,
    EVERYTHING,
    SALARY,
    SPARK,
    TAG,
    ask,
    item,
    on,
    policy,
    policy_set,
)

QUERY, EXPORT = AccessContext(action="QUERY"), AccessContext(action="EXPORT")
WHILE_EXPORTING = "${{REQ.action == 'EXPORT' ? 'hr' : 'nothing'}}"
PUBLIC = (item(groups=("public",)),)
SECRET = Service(
    name="tags",
    definition=TAG,
    policies=(
        policy(11, {"tag": ResourceValues(values=("SECRET",))}, deny=(item(("ann",)),), allow=PUBLIC),
        policy(
            12,
            {"tag": ResourceValues(values=("SECRET",))},
            type=PolicyType.MASK,
            masks=(MaskItem(groups=frozenset({"public"}), accesses=frozenset({"select"}), mask_type="MASK"),),
        ),
    ),
)


def test_a_zone_that_a_script_chooses_is_chosen_for_each_circumstance() -> None:
    zone = Zone(name="z", resources=(on("c", WHILE_EXPORTING),))
    policies = policy_set(EVERYTHING, policy(2, on("*", "*", "*", "*"), deny=PUBLIC, zone="z"), zones=(zone,))
    engine = Engine(policies)
    for context, allowed in ((QUERY, True), (EXPORT, False), (QUERY, True)):
        view = engine.table_view(ANN, SALARY, COLUMNS, context=context)
        assert bool(view.hidden) is not allowed
        assert view.context_dependencies == {"action"}
        assert engine.visible(ANN, SALARY, context) is allowed
        decision = engine.decide(ask(ANN, SALARY.child("column", "id"), context=context))
        assert decision.allowed is allowed
        assert decision.context_dependencies == {"action"}


def test_what_a_script_tags_is_tagged_for_each_circumstance() -> None:
    tagged = (TaggedResource(resources=on("c", WHILE_EXPORTING), tags=(Tag(type="SECRET"),)),)
    engine = Engine(policy_set(EVERYTHING, tags=SECRET, tagged=tagged))
    for context, masked in ((QUERY, False), (EXPORT, True), (QUERY, False)):
        view = engine.table_view(ANN, SALARY, COLUMNS, context=context)
        assert bool(view.hidden) is masked
        assert bool(view.masks) is masked
        assert view.context_dependencies == {"action"}


def test_a_tag_of_which_nobody_can_tell_where_it_is_denies_and_allows_nothing() -> None:
    tagged = (TaggedResource(resources=on("c", "${{Math.random()}}"), tags=(Tag(type="SECRET"),)),)
    engine = Engine(policy_set(tags=SECRET, tagged=tagged))
    column = SALARY.child("column", "id")
    assert engine.decide(ask(ANN, column)).policy.id == 11
    assert not engine.decide(ask(BOB, column)).allowed
    mask = engine.mask(BOB, column, "string")
    assert mask is not None
    assert mask.mask_type == "MASK_NULL"


def test_scripts_in_the_names_of_what_is_tagged_see_no_tags() -> None:
    tagged = (
        TaggedResource(resources=on("c", "${{HAS_TAG('X') ? 'hr' : 'no'}}"), tags=(Tag(type="SECRET"),)),
    )
    engine = Engine(policy_set(EVERYTHING, tags=SECRET, tagged=tagged))
    assert engine.decide(ask(ANN, SALARY.child("column", "id"))).allowed


def url(text: str) -> ResourceSet:
    return {"url": ResourceValues(values=(text,), recursive=True)}


READ = (item(("ann",), access=("read",)),)
LAKE = policy(1, url("s3://lake"), allow=READ)


def may_read(engine: Engine, path: str) -> bool:
    return engine.decide(ask(ANN, Resource.url(path), "read")).allowed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("s3://lake", False),
        ("s3://lake/in", False),
        ("s3://lake/in/sec*", False),
        ("s3://lake/in/secret", True),
        ("s3://lake/in/secret/deep", True),
        ("s3://lake/in/other", True),
    ],
)
def test_a_path_is_not_read_into_a_zone_of_its_own(path: str, allowed: bool) -> None:
    zone = Zone(name="z", resources=(url("s3://lake//in/secret"),))
    theirs = policy(2, url("s3://lake/in/secret"), allow=READ, zone="z")
    engine = Engine(policy_set(LAKE, theirs, zones=(zone,)))
    assert may_read(engine, path) is allowed
    explained = engine.explain(ask(ANN, Resource.url(path), "read"))
    told = [one.why for one in explained.considered if "security zone" in one.why]
    assert bool(told) is not allowed


def test_a_path_is_not_read_into_what_a_tag_denies() -> None:
    denial = policy(11, {"tag": ResourceValues(values=("SECRET",))}, deny=READ)
    tags = Service(name="tags", definition=TAG, policies=(denial,))
    tagged = (TaggedResource(resources=url("s3://lake/in/secret"), tags=(Tag(type="SECRET"),)),)
    engine = Engine(policy_set(LAKE, tags=tags, tagged=tagged))
    assert not may_read(engine, "s3://lake/in")
    assert not may_read(engine, "s3://lake/in/secret/deep")
    assert may_read(engine, "s3://lake/in/other")
    override = replace(LAKE, priority=1)
    assert may_read(Engine(policy_set(override, tags=tags, tagged=tagged)), "s3://lake/in")


def test_paths_that_are_no_urls_are_answered_for_themselves_as_ranger_does() -> None:
    path = ResourceDef(name="path", is_path=True, recursive_supported=True)
    hdfs = ServiceDef(name="hdfs", resources=(path,), access_types=SPARK.access_types)

    def at(text: str) -> ResourceSet:
        return {"path": ResourceValues(values=(text,), recursive=True)}

    policies = (policy(1, at("/finance"), allow=READ), policy(2, at("/finance/secret"), deny=READ))
    found = PolicySet(version=1, services={"h": Service(name="h", definition=hdfs, policies=policies)})
    answers = {
        asked: Engine(found).decide(ask(ANN, Resource((("path", asked),)), "read", service="h")).allowed
        for asked in ("/finance", "/finance/open", "/finance/secret/x")
    }
    assert answers == {"/finance": True, "/finance/open": True, "/finance/secret/x": False}


HIVE = definitions()["hive"]
EVERY_TABLE = {level: ResourceValues(values=("*",)) for level in ("database", "table", "column")}


def test_a_service_without_catalogs_speaks_for_chosen_catalogs_only() -> None:
    policies = (policy(1, EVERY_TABLE, allow=(item(("ann",)),)),)
    service = Service(name="spark", definition=HIVE, policies=policies)
    found = PolicySet(version=1, services={"spark": service}, catalog_services={"chosen": "spark"})
    engine = Engine(found)
    chosen, other = (Resource.table(name, "hr", "t").child("column", "c") for name in ("Chosen", "other"))
    assert engine.decide(ask(ANN, chosen)).allowed
    assert engine.decide(ask(ANN, other)).reason == "catalog other has no service"
    assert not engine.visible(ANN, other)


def test_an_access_that_means_any_access_is_allowed_by_any() -> None:
    definition = replace(HIVE, access_aliases={"use": "_any"})
    policies = (
        policy(1, EVERY_TABLE | {"database": ResourceValues(values=("hr",))}, allow=(item(("ann",)),)),
    )
    service = Service(name="h", definition=definition, policies=policies)
    found = PolicySet(version=1, services={"h": service}, catalog_services={"c": "h"})
    engine = Engine(found)
    request = ask(ANN, Resource.database("c", "hr"), "use")
    assert engine.decide(request).allowed
    assert engine.decide(request).request is request
    explained = engine.explain(request)
    assert explained.decision == engine.decide(request)
    assert [one.settled for one in explained.considered] == [True]
    assert not engine.decide(ask(ANN, Resource.database("c", "shop"), "use")).allowed
    assert not engine.decide(ask(BOB, Resource.database("c", "hr"), "use")).allowed
    assert not engine.decide(ask(ANN, Resource.database("c", "hr"), "show")).allowed


def test_an_item_masks_for_the_access_types_that_it_lists() -> None:
    """Where a definition masks for several access types, not exempting from one is not exempting from all."""
    definition = replace(SPARK, mask_accesses=frozenset({"select", "update"}))

    def mask_item(access: str, mask_type: str) -> MaskItem:
        return MaskItem(groups=frozenset({"public"}), accesses=frozenset({access}), mask_type=mask_type)

    masks = (mask_item("update", "MASK_NONE"), mask_item("select", "MASK_NULL"))
    masking = policy(2, on("c", "hr", "*", "*"), type=PolicyType.MASK, masks=masks)
    engine = Engine(policy_set(EVERYTHING, masking, definition=definition))
    found = engine.mask(ANN, SALARY.child("column", "ssn"), "string")
    assert found is not None
    assert found.mask_type == "MASK_NULL"
    assert set(engine.table_view(ANN, SALARY, COLUMNS).masks) == {"id", "ssn"}
    exempt = engine.mask_answer(ask(ANN, SALARY.child("column", "ssn"), "update"))
    assert exempt is not None
    assert isinstance(exempt.item, MaskItem)
    assert exempt.item.mask_type == "MASK_NONE"


def test_questions_about_tags_that_are_in_doubt_have_no_answer() -> None:
    """A tag whose period makes no sense neither opens nor closes anything by a condition that asks for it."""
    approved = (Condition(type="_expression", values=("HAS_TAG('APPROVED')",)),)
    tag = Tag(type="APPROVED", validity=(ValiditySchedule(zone="Nowhere", invalid=True),))
    tagged = (TaggedResource(resources=on("c", "hr"), tags=(tag,)),)
    column = SALARY.child("column", "ssn")

    def engine(*policies: Policy) -> Engine:
        return Engine(policy_set(*policies, tagged=tagged))

    allowing = policy(2, on("c", "hr", "*", "*"), allow=(item(("ann",), conditions=approved),))
    assert not engine(allowing).decide(ask(ANN, column)).allowed
    denying = policy(2, on("c", "hr", "*", "*"), deny=(item(("ann",), conditions=approved),))
    assert not engine(EVERYTHING, denying).decide(ask(ANN, column)).allowed
    silent = (Condition(type="_expression", values=("HAS_NO_TAG",)),)
    denying = policy(2, on("c", "hr", "*", "*"), deny=(item(("ann",), conditions=silent),))
    assert not engine(EVERYTHING, denying).decide(ask(ANN, column)).allowed
    masking = policy(
        3,
        on("c", "hr", "*", "*"),
        type=PolicyType.MASK,
        masks=(
            MaskItem(
                groups=frozenset({"public"}),
                accesses=frozenset({"select"}),
                mask_type="CUSTOM",
                value_expression="${{GET_TAG_NAMES_Q()}}",
            ),
        ),
    )
    mask = engine(EVERYTHING, masking).mask(ANN, column, "string")
    assert mask is not None
    assert mask.expression == "CASE WHEN FALSE THEN `ssn` END"
    filtering = policy(
        4,
        on("c", "hr", "*"),
        type=PolicyType.ROW_FILTER,
        filters=(
            FilterItem(
                groups=frozenset({"public"}),
                accesses=frozenset({"select"}),
                filter_expression="'APPROVED' IN (${{GET_TAG_NAMES_Q()}})",
            ),
        ),
    )
    rows = engine(EVERYTHING, filtering).row_filter(ANN, SALARY)
    assert rows is not None
    assert rows.expression == "FALSE"
    named = policy(5, on("c", "${{HAS_TAG('APPROVED') ? 'hr' : 'no'}}", "*", "*"), deny=PUBLIC)
    assert not engine(EVERYTHING, named).decide(ask(ANN, column)).allowed
    sure = (replace(tagged[0], tags=(replace(tag, validity=()),)),)
    told = Engine(policy_set(allowing, filtering, tagged=sure))
    assert told.decide(ask(ANN, column)).allowed
    rows = told.row_filter(ANN, SALARY)
    assert rows is not None
    assert rows.expression == "'APPROVED' IN ('APPROVED')"


def test_of_the_same_tag_twice_the_one_beyond_doubt_counts() -> None:
    doubted = Tag(type="SECRET", validity=(ValiditySchedule(invalid=True),))
    column = SALARY.child("column", "ssn")
    for tags in ((doubted, Tag(type="SECRET")), (Tag(type="SECRET"), doubted)):
        tagged = (TaggedResource(resources=on("c", "hr"), tags=tags),)
        mask = Engine(policy_set(EVERYTHING, tags=SECRET, tagged=tagged)).mask(BOB, column, "string")
        assert mask is not None
        assert mask.mask_type == "MASK"
