"""What makes a service and a service definition valid."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.patterns import fault_of
from gateway.admin.ranger.validation import MISSING, Failure
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.json_shapes import Reader
from gateway.policy.service_defs import read_service_def

_NAME = re.compile(r"[a-zA-Z0-9_-][a-zA-Z0-9_-]{0,254}\Z")
_DISPLAY_NAME = re.compile(r"[a-zA-Z0-9_-][a-zA-Z0-9 _-]{0,254}\Z")
_DEF_NAME = re.compile(r"[a-zA-Z0-9_-]{1,255}\Z")
_LEVEL_NAME = re.compile(r"[a-z_-]+\Z")
BAD_TAG_SERVICE, BAD_PATTERN, UNUSABLE = 9010, 9011, 9012


def service_failures(
    service: Mapping[str, Any],
    *,
    definition: ServiceType | None,
    others: Iterable[Mapping[str, Any]],
    stored: Mapping[str, Any] | None = None,
    updating: bool = False,
) -> list[Failure]:
    """Return everything that is wrong with a service. `others` are all but the one that is updated."""
    return [
        *_service_names(service, list(others)),
        *_service_definition(service, definition, stored),
        *_service_links(service, list(others)),
        *_service_id(service, stored, updating),
    ]


def _service_id(
    service: Mapping[str, Any], stored: Mapping[str, Any] | None, updating: bool
) -> Iterator[Failure]:
    if updating and service.get("id") is None:
        yield Failure(1002, "an update needs the service's id", "id", type=MISSING)
    elif updating and stored is None:
        yield Failure(1005, f"service with id {service.get('id')} does not exist", "id")


def _service_names(service: Mapping[str, Any], others: list[Mapping[str, Any]]) -> Iterator[Failure]:
    name, display = service.get("name"), service.get("displayName")
    if not name or not name.strip():
        yield Failure(1006, "a service needs a name", "name", type=MISSING)
    elif not _NAME.match(name):
        reason = (
            f"`{name}` is not a valid service name: use letters, digits, underscores and hyphens, at most 255"
        )
        yield Failure(3031, reason, "name")
    elif any(other.get("name") == name for other in others):
        yield Failure(1007, f"service `{name}` already exists", "name")
    if display:
        if not _DISPLAY_NAME.match(display):
            reason = (
                f"`{display}` is not a valid display name: use letters, digits, underscores, hyphens "
                "and spaces"
            )
            yield Failure(3050, reason, "displayName")
        same = next((o for o in others if (o.get("displayName") or o.get("name")) == display), None)
        if same is not None:
            yield Failure(3051, f"service `{same.get('name')}` already has that display name", "displayName")


def _service_definition(
    service: Mapping[str, Any], definition: ServiceType | None, stored: Mapping[str, Any] | None
) -> Iterator[Failure]:
    type_ = service.get("type")
    if not type_:
        yield Failure(1009, "a service needs a type", "type", type=MISSING)
        return
    if definition is None:
        yield Failure(1010, f"service definition `{type_}` does not exist", "type")
        return
    if stored is not None and stored.get("type") != type_:
        yield Failure(1010, f"the type of service `{stored.get('name')}` cannot be changed", "type")
    configs = service.get("configs") or {}
    wanted = [c.get("name") for c in definition.body.get("configs") or [] if c.get("mandatory")]
    absent = [str(name) for name in wanted if not configs.get(name)]
    if absent:
        reason = f"configuration is missing: {', '.join(absent)}"
        yield Failure(1011, reason, "configuration", absent[0], MISSING)


def _service_links(service: Mapping[str, Any], others: list[Mapping[str, Any]]) -> Iterator[Failure]:
    tags = service.get("tagService")
    if tags:
        found = next((other for other in others if other.get("name") == tags), None)
        if found is None or found.get("type") != "tag":
            yield Failure(BAD_TAG_SERVICE, f"`{tags}` is not a tag service", "tagService")
        elif service.get("type") == "tag":
            yield Failure(BAD_TAG_SERVICE, "a tag service cannot have a tag service", "tagService")


def service_def_failures(
    given: Mapping[str, Any],
    *,
    others: Iterable[Mapping[str, Any]],
    stored: Mapping[str, Any] | None = None,
    updating: bool = False,
) -> list[Failure]:
    """Return everything that is wrong with a definition. `others` are all but the one that is updated."""
    return [
        *_def_identity(given, list(others), stored, updating),
        *_def_accesses(given),
        *_def_resources(given),
        *_def_readings(given),
        *_def_rest(given),
    ]


def _def_identity(
    given: Mapping[str, Any],
    others: list[Mapping[str, Any]],
    stored: Mapping[str, Any] | None,
    updating: bool,
) -> Iterator[Failure]:
    name, display = given.get("name"), given.get("displayName")
    if updating and given.get("id") is None:
        yield Failure(2002, "an update needs the definition's id", "id", type=MISSING)
    elif updating and stored is None:
        yield Failure(2005, f"service definition with id {given.get('id')} does not exist", "id")
    if not name or not _DEF_NAME.match(name):
        yield Failure(
            2006, f"`{name or ''}` is not a valid name of a service definition", "name", type=MISSING
        )
    elif any(other.get("name") == name for other in others):
        yield Failure(2007, f"service definition `{name}` already exists", "name")
    elif stored is not None and stored.get("name") != name:
        yield Failure(2006, f"service definition `{stored.get('name')}` cannot be renamed", "name")
    if display and any(other.get("displayName") == display for other in others):
        yield Failure(
            2025, f"another service definition already has the display name `{display}`", "displayName"
        )
    for part in ("accessTypes", "resources"):
        if not given.get(part):
            yield Failure(2002, f"a service definition needs `{part}`", part, type=MISSING)


def _names(entries: Iterable[Mapping[str, Any]], what: str) -> Iterator[Failure]:
    seen = Counter(str(entry.get("name") or "").lower() for entry in entries)
    for name, count in seen.items():
        if not name:
            yield Failure(2002, f"an entry of `{what}` has no name", what, "name", MISSING)
        elif count > 1:
            yield Failure(2002, f"`{name}` appears twice in `{what}`", what, name)


def _def_accesses(given: Mapping[str, Any]) -> Iterator[Failure]:
    for entry in given.get("accessTypes") or []:
        name = str(entry.get("name")).lower()
        if name in {str(grant).lower() for grant in entry.get("impliedGrants") or []}:
            yield Failure(2010, f"`{name}` implies itself", "accessTypes", "impliedGrants")
        if name.startswith("_"):
            reason = f"`{name}`: names that begin with an underscore are reserved for computed values"
            yield Failure(2006, reason, "accessTypes", "name")


def _def_resources(given: Mapping[str, Any]) -> Iterator[Failure]:
    levels = ServiceType(given).levels()
    for name, level in levels.items():
        if not _LEVEL_NAME.match(name):
            reason = f"`{name}` is not a valid resource name: use lower-case letters, hyphens and underscores"
            yield Failure(2022, reason, "resources", "name")
        parent = levels.get(level.parent or "")
        if parent is not None and parent.level >= level.level:
            yield Failure(
                2021, f"the level of `{name}` must be greater than that of its parent", "resources", "level"
            )
        if parent is not None and level.mandatory and not parent.mandatory:
            reason = f"`{name}` is mandatory, but its parent `{parent.name}` is not"
            yield Failure(2023, reason, "resources", "mandatory")
        fault = fault_of(level.pattern) if level.pattern else None
        if fault is not None:
            reason = f"unsupported expression for values of `{name}`: {fault}"
            yield Failure(BAD_PATTERN, reason, "resources", "validationRegEx")


_READ: Mapping[tuple[str, str], int] = {
    ("accessTypes", "name"): 2002,
    ("accessTypes", "impliedGrants"): 2009,
    ("resources", "name"): 2002,
    ("resources", "parent"): 2016,
    ("resources", "isValidLeaf"): 2016,
    ("dataMaskDef", "dataMaskDef"): 2002,
    ("dataMaskDef", "name"): 2002,
    ("rowFilterDef", "rowFilterDef"): 2002,
    ("rowFilterDef", "name"): 2002,
}
"""Where the engine's reader finds a fault: the part, and the last field of the way → Ranger's code."""


def _def_readings(given: Mapping[str, Any]) -> Iterator[Failure]:
    """Yield what the engine's reader says of hierarchies, implied accesses and overlays, and whatever else it
    would not load the definition for. A mask type that it does not understand is one that shows NULL."""
    findings = Diagnostics()
    read_service_def(given, Reader(findings), (), strict=True)
    for path, message in findings.faults:
        names = [step for step in path if isinstance(step, str)]
        if names[-1] != "transformer":
            yield Failure(_READ.get((names[0], names[-1]), UNUSABLE), message, names[0], names[-1])


def _def_rest(given: Mapping[str, Any]) -> Iterator[Failure]:
    yield from _names((given.get("dataMaskDef") or {}).get("maskTypes") or [], "dataMaskDef.maskTypes")
    for what in ("configs", "policyConditions", "contextEnrichers", "enums"):
        yield from _names(given.get(what) or [], what)
    for condition in given.get("policyConditions") or []:
        if not condition.get("evaluator"):
            reason = f"condition `{condition.get('name')}` needs an evaluator"
            yield Failure(2011, reason, "policyConditions", "evaluator", MISSING)
    for enum in given.get("enums") or []:
        elements, default = enum.get("elements") or [], enum.get("defaultIndex") or 0
        if not elements:
            yield Failure(2018, f"enum `{enum.get('name')}` has no elements", "enums", "elements", MISSING)
        elif not 0 <= default < len(elements):
            yield Failure(
                2019, f"enum `{enum.get('name')}` has no element {default}", "enums", "defaultIndex"
            )
