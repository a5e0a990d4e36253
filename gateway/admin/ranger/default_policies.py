"""The policies that Ranger makes with a service: everything on everything, for the service's own user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.kinds import Body


def default_policies(service: Mapping[str, Any], definition: ServiceType, creator: str) -> Iterator[Body]:
    """Yield one policy `all - database, table, column` for each complete hierarchy of the definition."""
    user = (service.get("configs") or {}).get("username") or creator
    ways = definition.hierarchies()
    accesses = [entry["name"] for entry in definition.body.get("accessTypes") or () if entry.get("name")]
    for way in ways:
        if any(other != way and other[: len(way)] == way for other in ways):
            continue
        yield {
            "service": service["name"],
            "name": f"all - {', '.join(way)}",
            "description": f"Policy for all - {', '.join(way)}",
            "resources": {
                name: {"values": ["*"], "isRecursive": definition.levels()[name].recursive_supported}
                for name in way
            },
            "policyItems": [
                {"users": [user], "accesses": [{"type": name} for name in accesses], "delegateAdmin": True}
            ],
        }
