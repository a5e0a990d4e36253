"""A policy's resource signature: two enabled policies of one service may not share it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.admin.ranger.json_fields import show

_VERSION = 1


def _set(resources: Mapping[str, Any]) -> list[list[object]]:
    return [
        [
            name,
            sorted(v for v in (one or {}).get("values") or [] if v is not None),
            bool((one or {}).get("isExcludes")),
            bool((one or {}).get("isRecursive")),
        ]
        for name, one in sorted(resources.items())
    ]


def resource_signature(elements: Mapping[str, Any]) -> str:
    """Return the signature of one resource, such as a tagged one."""
    return _digest({"version": _VERSION, "resources": [_set(elements)]})


def policy_signature(policy: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of what the policy is about; who gets what does not count.

    A disabled policy's guid counts, so that it never collides. The canonical text is JSON, which nothing in a
    value can imitate: Ranger's own text joins values with commas, and two different policies may share it.
    """
    sets: Sequence[Mapping[str, Any]] = [
        policy.get("resources") or {},
        *(policy.get("additionalResources") or []),
    ]
    parts: dict[str, object] = {
        "version": _VERSION,
        "type": policy.get("policyType") or 0,
        "resources": sorted((_set(one) for one in sets), key=json.dumps),
    }
    for key, name in (("validitySchedules", "schedules"), ("conditions", "conditions"), ("zoneName", "zone")):
        if policy.get(key):
            # As it is stored, so that a policy that was read again has the same signature.
            parts[name] = show(policy[key])
    if policy.get("policyPriority"):
        parts["priority"] = policy["policyPriority"]
    if policy.get("isEnabled") is False:
        parts["guid"] = policy.get("guid")
    return _digest(parts)


def _digest(parts: Mapping[str, object]) -> str:
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
