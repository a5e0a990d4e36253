"""What a denial could be about, when everything of a database is to be dropped."""

from __future__ import annotations

import pytest

from gateway.model.policy import Policy, PolicyItem, PolicyType, ResourceValues, Zone
from gateway.model.resource import Resource
from gateway.policy.engine import Engine
from tests.policy.test_engine import on, policy_set


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        (("hr",), "HR", True),
        (("h*",), "hr", True),
        (("h?",), "hr", True),
        (("[h]r",), "hr", False),
        (("[h]r",), "[h]r", True),
        (("sales",), "hr", False),
        (("{USER}",), "hr", True),
        ((), "hr", True),
    ],
)
def test_wildcards_are_those_of_policies(values: tuple[str, ...], name: str, expected: bool) -> None:
    anything = ResourceValues(values=("*",))
    denial = Policy(
        id=1,
        name="denial",
        service="spark",
        type=PolicyType.ACCESS,
        resources={
            "catalog": anything,
            "database": ResourceValues(values=values),
            "table": ResourceValues(values=("t",)),
        },
        deny=(PolicyItem(users=frozenset({"zed"}), accesses=frozenset({"drop"})),),
    )
    engine = Engine(policy_set(denial))
    database = Resource.database("c", name)
    assert engine.may_be_denied_below(database) is expected
    assert engine.may_be_denied_below(database.child("table", "*")) is expected


def test_a_zone_further_down_is_nobodys_to_drop() -> None:
    def engine(*values: str) -> Engine:
        return Engine(policy_set(zones=(Zone(name="z", resources=(on(*values),)),)))

    for resource in (Resource.database("c", "hr"), Resource.database("c", "hr").child("table", "*")):
        assert engine("c", "hr", "salary").may_be_denied_below(resource)
        assert not engine("c", "shop", "salary").may_be_denied_below(resource)
        assert not engine("c", "hr").may_be_denied_below(resource)
        assert not engine("c").may_be_denied_below(resource)
