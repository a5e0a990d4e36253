"""Ranger's JSON in small pieces, for tests that change one thing at a time."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from gateway.admin.ranger.definitions import complete_definition
from gateway.policy.documents import parse_document
from gateway.policy.service_defs import load_service_defs

SHIPPED = Path(__file__).parents[3] / "rules" / "service_defs"


@cache
def shipped() -> Any:
    """Return the definitions that ship, by name."""
    return load_service_defs({path.name: path.read_text(encoding="utf-8") for path in SHIPPED.iterdir()})


@cache
def _written(name: str) -> dict[str, Any]:
    path = SHIPPED / f"{name}.yaml"
    return complete_definition(parse_document(path.read_text(encoding="utf-8"), path.name).data)


def hive(**changes: Any) -> dict[str, Any]:
    """Return the hive definition as Ranger's JSON."""
    return {**copy.deepcopy(_written("hive")), **changes}


def tag(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(_written("tag")), **changes}


def at(**levels: Any) -> dict[str, Any]:
    """Return resources: `at(database="shop", table=["a", "b"])`."""
    return {
        level: {"values": value if isinstance(value, list) else [value], "isExcludes": False}
        for level, value in levels.items()
    }


def item(*accesses: str, **fields: Any) -> dict[str, Any]:
    """Return an item for everybody, unless `users`, `groups` or `roles` are given."""
    who = fields.keys() & {"users", "groups", "roles"}
    found = {"accesses": [{"type": access, "isAllowed": True} for access in accesses], **fields}
    return found if who else {**found, "groups": ["public"]}


def policy(ident: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a policy on every column of `shop.orders` that lets everybody select."""
    return {
        "id": ident,
        "name": f"p{ident}",
        "version": 1,
        "resources": at(database="shop", table="orders", column="*"),
        "policyItems": [item("select")],
        **fields,
    }


def download(*policies: Any, **fields: Any) -> dict[str, Any]:
    """Return a ServicePolicies of a hive service."""
    return {
        "serviceName": "dev",
        "policyVersion": 7,
        "serviceDef": hive(),
        "policies": list(policies),
        **fields,
    }


def request(
    resource: str = "shop.orders.total", access: str = "select", user: str = "ann", **more: Any
) -> Any:
    levels = zip(("database", "table", "column"), resource.split("."), strict=False)
    return {"resource": {"elements": dict(levels)}, "accessType": access, "user": user, **more}
