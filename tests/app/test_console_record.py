"""Who owns a table and may give what he has of it, and where the policies on a catalog are made."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from gateway.app.console_record import are_in_force, find_place, list_catalogs, owns_plainly
from gateway.catalog.static import StaticCatalog
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.policy import PolicySet, Service
from gateway.model.principal import Principal
from gateway.policy.access_requests import RequestedAccess, RequestKind
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import PolicySettings, RangerAdminSettings
from tests.policy.test_access_requests import NOW

SERVICE_DEFS = Path(__file__).resolve().parents[2] / "rules" / "service_defs"
PACK = """
service: spark
policies:
  - name: owners
    on: {catalog: spark_catalog, database: lab, table: "*", column: "*"}
    allow: [{users: ["{OWNER}"], access: [select, update]}]
  - name: masked
    on: {catalog: spark_catalog, database: lab, table: masked, column: b}
    mask: [{users: [olga], type: MASK_NULL}]
  - name: filtered
    on: {catalog: spark_catalog, database: lab, table: filtered}
    filter: [{users: [olga], where: "a = 1"}]
  - name: denied
    on: {catalog: spark_catalog, database: lab, table: denied, column: b}
    deny: [{users: [olga], access: [select]}]
"""
TABLES = ("plain", "masked", "filtered", "denied")


def gateway(*, stale: str | None = None) -> Any:
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    policies = load_packs({"pack.yaml": PACK}, definitions, 1)
    columns = tuple(Column(name=name, type="string") for name in ("a", "b"))
    catalog = StaticCatalog(
        Table(
            name=TableName("spark_catalog", "lab", name), kind=TableKind.TABLE, columns=columns, owner="olga"
        )
        for name in TABLES
    )
    return SimpleNamespace(
        dependencies=SimpleNamespace(catalog=catalog, first_context=MagicMock()),
        rules=SimpleNamespace(current=policies, stale=lambda: None),
        users=SimpleNamespace(stale=lambda: stale),
    )


def asked(table: str, *columns: str, access: str = "select") -> RequestedAccess:
    return RequestedAccess(
        kind=RequestKind.ACCESS,
        catalog="spark_catalog",
        database="lab",
        table=table,
        columns=columns or ("*",),
        accesses=(access,),
        until=NOW + timedelta(days=1),
        reason="because",
    )


@pytest.mark.parametrize(
    ("wanted", "user", "may"),
    [
        (asked("plain"), "olga", True),
        (asked("plain", "a", "B"), "olga", True),
        (asked("plain", access="update"), "olga", True),
        (asked("plain", access="drop"), "olga", False),
        (asked("plain", "c"), "olga", False),
        (asked("plain"), "dave", False),
        (asked("nowhere"), "olga", False),
        (asked("masked"), "olga", False),
        (asked("masked", "a"), "olga", True),
        (asked("filtered"), "olga", False),
        (asked("denied"), "olga", False),
        (asked("denied", "a"), "olga", True),
    ],
)
async def test_an_owner_gives_what_he_has(wanted: RequestedAccess, user: str, may: bool) -> None:
    assert await owns_plainly(gateway(), Principal(user=user), wanted) is may
    assert not await owns_plainly(gateway(stale="too old"), Principal(user=user), wanted)


def settings(policies: PolicySettings) -> Any:
    return SimpleNamespace(settings=SimpleNamespace(policies=policies))


def test_a_grant_is_made_where_the_policies_come_from() -> None:
    admin = RangerAdminSettings(service="lake", urls=("https://ranger.example",))
    from_ranger = settings(PolicySettings(ranger=(admin,), catalogs={"spark_catalog": "lake"}))
    added = RangerAdminSettings(service="grants", urls=("https://ranger.example",), adds_to="spark")
    beside_packs = settings(PolicySettings(paths=(Path("/etc/rules"),), ranger=(added,)))
    assert find_place(beside_packs, MagicMock(), "spark_catalog").service == "grants"
    from_packs, store = settings(PolicySettings(paths=(Path("/etc/rules"),))), MagicMock()
    assert find_place(from_ranger, store, "SPARK_CATALOG").service == "lake"
    for parts, held, catalog, told in (
        (from_ranger, None, "spark_catalog", "Ranger Admin at https://ranger.example"),
        (from_ranger, store, "other", "another source"),
        (from_packs, store, "spark_catalog", "packs of the gateway (rules)"),
    ):
        place = find_place(parts, held, catalog)
        assert place.service == ""
        assert told in place.where
        assert "written there" in place.where


def test_a_grant_is_in_force_when_all_its_policies_are() -> None:
    parts = gateway()
    [policy, *_] = parts.rules.current.services["spark"].policies
    made = tuple(replace(policy, service="lake", guid=guid) for guid in "ab")
    # Wherever they are judged: policies of a service may be added to those of another one.
    parts.rules.current = PolicySet(
        version=1, services={"spark": Service(name="spark", definition=MagicMock(), policies=made)}
    )
    assert are_in_force(parts, "lake", ["a", "b"])
    assert not are_in_force(parts, "lake", ["a", "c"])
    assert not are_in_force(parts, "lake", [])
    assert not are_in_force(parts, "other", ["a"])


def test_names_begin_with_known_catalogs_the_usual_one_first() -> None:
    parts = gateway()
    parts.dependencies.first_context.catalog = "main"
    parts.settings = MagicMock(named_catalogs=("lake",))
    parts.settings.policies.catalogs = {"spark_catalog": "spark", "main": "spark"}
    assert list_catalogs(parts) == ("main", "spark_catalog", "lake")
