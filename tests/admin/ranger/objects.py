"""Ranger's objects for tests: short to write, read as the API reads them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from gateway.admin.ranger.definitions import ServiceType, complete_definition
from gateway.admin.ranger.shapes import POLICY, SERVICE_DEF, read

_DEFINITIONS = Path(__file__).resolve().parents[3] / "rules" / "service_defs"


@lru_cache
def hive_body() -> dict[str, Any]:
    body, faults = read(SERVICE_DEF, yaml.safe_load((_DEFINITIONS / "hive.yaml").read_text()))
    assert not faults
    return complete_definition(body)


def hive() -> ServiceType:
    return ServiceType(hive_body())


def resources(path: str, **more: Any) -> dict[str, Any]:
    """`shop/orders/*` → database, table, column; several values with commas."""
    levels = ("database", "table", "column")
    return {
        level: {"values": part.split(","), **more}
        for level, part in zip(levels, path.split("/"), strict=False)
    }


def item(accesses: str, *, users: str = "", groups: str = "", roles: str = "", **more: Any) -> dict[str, Any]:
    return {
        "accesses": [{"type": a} for a in accesses.split()],
        "users": users.split(),
        "groups": groups.split(),
        "roles": roles.split(),
        **more,
    }


def policy(path: str = "shop/orders/*", **more: Any) -> dict[str, Any]:
    """A policy with every default filled in."""
    given = {"service": "dev_hive", "name": "p", "resources": resources(path), **more}
    body, faults = read(POLICY, given)
    assert not faults, faults
    return body
