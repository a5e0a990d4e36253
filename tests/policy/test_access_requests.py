"""What may be asked for, and that a grant opens exactly what was asked for, for a time, for one person."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.model.context import AccessContext
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.access_requests import (
    RequestedAccess,
    RequestKind,
    build_grant,
    check_asked,
    find_obstacle,
    gives_only,
    is_same_person,
    who_decides,
)
from gateway.policy.engine import Engine
from gateway.policy.ranger import load

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DEFINITION = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "rules" / "service_defs" / "spark.yaml").read_text()
)
ASKED = RequestedAccess(
    kind=RequestKind.ACCESS,
    catalog="spark_catalog",
    database="hr",
    table="employee",
    columns=("name", "ssn"),
    accesses=("select",),
    until=NOW + timedelta(days=2),
    reason="yearly report",
)
LEVELS = ("catalog", "database", "table", "column")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, ""),
        ({"columns": ("*",)}, ""),
        ({"database": "a.b"}, ""),
        ({"table": "*"}, "without wildcards"),
        ({"table": "emp?"}, "without wildcards"),
        ({"database": "{OWNER}"}, "without wildcards"),
        ({"table": "a,b"}, "without wildcards"),
        ({"catalog": ""}, "catalog needs a name"),
        ({"columns": ()}, "name columns"),
        ({"columns": ("ssn*",)}, "no name of a column"),
        ({"columns": ("*", "ssn")}, "`*` stands alone"),
        ({"columns": tuple(f"c{n}" for n in range(201))}, "more than 200 columns"),
        ({"accesses": ()}, "name an access"),
        ({"accesses": ("select", "drop table")}, "`drop table` is no access type"),
        ({"reason": "    a     "}, "give a reason"),
        ({"reason": "x" * 2001}, "give a reason"),
        ({"purpose": "two words"}, "one word"),
        ({"until": NOW}, "in the past"),
        ({"until": NOW + timedelta(days=367)}, "366 days"),
        ({"until": datetime(2026, 12, 1)}, "time zone"),  # noqa: DTZ001
        ({"kind": RequestKind.BREAK_GLASS}, "24 hours"),
    ],
)
def test_what_may_be_asked_for(changed: dict[str, Any], told: str) -> None:
    faults = check_asked(replace(ASKED, **changed), NOW)
    assert bool(faults) == bool(told), faults
    assert told in "; ".join(faults)


def deny(**more: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "service": "lake",
        "name": "standing",
        "isEnabled": True,
        "resources": {
            "catalog": {"values": ["spark_catalog"]},
            "database": {"values": ["hr"]},
            "table": {"values": ["employee"]},
            "column": {"values": ["*"]},
        },
        **more,
    }


def engine(asked: RequestedAccess, *standing: dict[str, Any]) -> Engine:
    made = build_grant(
        12,
        "carol",
        asked,
        service={"name": "lake", "type": "spark"},
        levels=LEVELS,
        maskable=True,
        filterable=True,
        begins=NOW,
        expires=asked.until,
        granted_by="ruth",
    )
    policies = [{**one, "id": number} for number, one in enumerate(made, start=100)]
    document = {"serviceName": "lake", "serviceDef": DEFINITION, "policies": [*policies, *standing]}
    return Engine(load(document))


def sees(
    found: Engine, column: str, *, user: str = "carol", at: datetime = NOW, table: str = "employee"
) -> Any:
    """Return `denied`, the mask's type, or `shown`; and whether rows are filtered."""
    who = Principal(user=user, groups=frozenset({"staff"}))
    context = AccessContext(time=at)
    of = Resource.table("spark_catalog", "hr", table)
    request = AccessRequest(
        principal=who, resource=of.child("column", column), access="select", context=context, service="lake"
    )
    filtered = found.row_filter(who, of, context, "lake") is not None
    if not found.decide(request).allowed:
        return "denied", filtered
    mask = found.mask(who, of.child("column", column), "string", context, "lake")
    return ("shown" if mask is None else mask.mask_type), filtered


def test_a_grant_opens_what_was_asked_for_one_person_and_a_time() -> None:
    found = engine(ASKED)
    assert sees(found, "ssn") == ("shown", False)
    assert sees(found, "salary")[0] == "denied"
    assert sees(found, "ssn", table="other")[0] == "denied"
    assert sees(found, "ssn", user="dave")[0] == "denied"
    assert sees(found, "ssn", at=NOW - timedelta(seconds=1))[0] == "denied"
    assert sees(found, "ssn", at=ASKED.until)[0] == "shown"
    assert sees(found, "ssn", at=ASKED.until + timedelta(seconds=1))[0] == "denied"


STAFF = {"groups": ["staff"], "accesses": [{"type": "select"}]}
DENIED = deny(denyPolicyItems=[STAFF])
MASKED = deny(policyType=1, dataMaskPolicyItems=[{**STAFF, "dataMaskInfo": {"dataMaskType": "MASK_NULL"}}])
FILTERED = deny(
    policyType=2,
    resources={key: value for key, value in deny()["resources"].items() if key != "column"},
    rowFilterPolicyItems=[{**STAFF, "rowFilterInfo": {"filterExpr": "id = 1"}}],
)
URGENT = replace(ASKED, kind=RequestKind.BREAK_GLASS, until=NOW + timedelta(hours=4))


def test_a_grant_leaves_what_denies_masks_and_filters_and_break_glass_overrides_it() -> None:
    for standing, usual in (
        (DENIED, ("denied", False)),
        (MASKED, ("MASK_NULL", False)),
        (FILTERED, ("shown", True)),
    ):
        assert sees(engine(ASKED, standing), "ssn") == usual
        urgent = engine(URGENT, standing)
        assert sees(urgent, "ssn") == ("shown", False)
        # To nobody else, and no longer.
        assert sees(urgent, "ssn", user="dave")[0] == "denied"
        assert sees(urgent, "ssn", at=URGENT.until + timedelta(seconds=1))[0] == "denied"


def test_a_grant_delegates_nothing_and_says_what_it_is() -> None:
    for asked in (ASKED, replace(URGENT, purpose="audit")):
        (first, *_) = made = build_grant(
            12,
            "carol",
            asked,
            service={"name": "lake", "type": "spark"},
            levels=LEVELS[1:],
            maskable=True,
            filterable=False,
            begins=NOW,
            expires=asked.until,
            granted_by="ruth",
        )
        assert "catalog" not in first["resources"]
        assert "delegateAdmin': True" not in str(made)
        assert [one["policyPriority"] for one in made] == ([0] if asked is ASKED else [1, 1])
        assert "Granted by ruth. Reason: yearly report" in first["description"]
        purpose = ["purpose:audit"] if asked.purpose else []
        assert first["policyLabels"] == ["access-request" if asked is ASKED else "break-glass", *purpose]


def test_what_is_taken_away_at_the_end_only_gives() -> None:
    item = {"users": ["carol"], "groups": [], "accesses": [{"type": "select"}]}
    break_glass = replace(ASKED, kind=RequestKind.BREAK_GLASS)
    made = build_grant(
        12,
        "carol",
        break_glass,
        service={"name": "lake", "type": "spark"},
        levels=LEVELS,
        maskable=True,
        filterable=True,
        begins=NOW,
        expires=break_glass.until,
        granted_by="ruth",
    )
    for policy in made:
        assert gives_only(policy, "carol")
        assert not gives_only(policy, "dave")
    mask = {**item, "dataMaskInfo": {"dataMaskType": "MASK_NULL"}}
    others: list[dict[str, Any]] = [
        {"denyPolicyItems": [item]},
        {"allowExceptions": [item]},
        {"denyExceptions": [item]},
        {"isDenyAllElse": True},
        {"policyItems": [{**item, "groups": ["staff"]}]},
        {"policyItems": [{**item, "roles": ["lead"]}]},
        {"policyItems": [{**item, "users": ["carol", "dave"]}]},
        {"dataMaskPolicyItems": [mask]},
        {"rowFilterPolicyItems": [{**item, "rowFilterInfo": {"filterExpr": "false"}}]},
    ]
    for other in others:
        assert not gives_only({**made[0], **other}, "carol"), other


@pytest.mark.parametrize(
    ("kind", "is_asker", "is_administrator", "decides"),
    [
        (RequestKind.ACCESS, False, True, True),
        (RequestKind.ACCESS, False, False, None),
        (RequestKind.ACCESS, True, False, False),
        (RequestKind.ACCESS, True, True, False),
        (RequestKind.BREAK_GLASS, False, True, True),
        (RequestKind.BREAK_GLASS, False, False, False),
        (RequestKind.BREAK_GLASS, True, True, False),
    ],
)
def test_who_decides(kind: RequestKind, is_asker: bool, is_administrator: bool, decides: bool | None) -> None:
    assert who_decides(kind, is_asker=is_asker, is_administrator=is_administrator) is decides


@pytest.mark.parametrize(
    ("user", "id_", "same"),
    [
        ("dave", "7", True),
        ("dave", "8", True),
        ("dave", "", True),
        ("d.miller", "7", True),
        ("x", "8", False),
    ],
)
def test_a_person_is_himself_under_each_of_his_names(user: str, id_: str, same: bool) -> None:
    asker = Principal(user="dave", id="7")
    assert is_same_person(Principal(user=user, id=id_), asker.user, asker.identity) is same
    assert not is_same_person(Principal(user="x"), "dave", "dave")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, ""),
        ({"state": "granted"}, "it is granted"),
        ({"now": ASKED.until}, "asked for is over"),
        ({"expires": ASKED.until + timedelta(seconds=1)}, "longer than was asked for"),
        ({"expires": NOW}, "in the past"),
        ({"asker_is_there": False}, "cannot log in any more"),
        ({"asker": "{USER}"}, "for a name"),
        ({"asker": "*"}, "for a name"),
    ],
)
def test_what_cannot_be_granted(changed: dict[str, Any], told: str) -> None:
    standing: dict[str, Any] = {
        "state": "open",
        "now": NOW,
        "expires": ASKED.until,
        "asker": "carol",
        "asker_is_there": True,
    }
    obstacle = find_obstacle(ASKED, **(standing | changed))
    assert bool(obstacle) == bool(told)
    assert told in obstacle
