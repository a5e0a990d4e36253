"""Circumstances where they are easily forgotten: in zones and tags whose resources are scripts, in paths."""

from __future__ import annotations

from gateway.model.context import AccessContext
from gateway.model.policy import (
    MaskItem,
    PolicyType,
    ResourceValues,
    Service,
    TaggedResource,
    Zone,
)
from gateway.model.tags import Tag
from gateway.policy.engine import Engine
from tests.policy.test_engine import (
    ANN,
    BOB,
    COLUMNS,
    EVERYTHING,
    SALARY,
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
        assert view.facets == {"action"}
        assert engine.visible(ANN, SALARY, context) is allowed
        decision = engine.decide(ask(ANN, SALARY.child("column", "id"), context=context))
        assert decision.allowed is allowed
        assert decision.facets == {"action"}


def test_what_a_script_tags_is_tagged_for_each_circumstance() -> None:
    tagged = (TaggedResource(resources=on("c", WHILE_EXPORTING), tags=(Tag(type="SECRET"),)),)
    engine = Engine(policy_set(EVERYTHING, tags=SECRET, tagged=tagged))
    for context, masked in ((QUERY, False), (EXPORT, True), (QUERY, False)):
        view = engine.table_view(ANN, SALARY, COLUMNS, context=context)
        assert bool(view.hidden) is masked
        assert bool(view.masks) is masked
        assert view.facets == {"action"}


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
