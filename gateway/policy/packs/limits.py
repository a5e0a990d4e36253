"""The section `limits` of a pack: what users may have and use, and what cases expect of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.model.catalog import TableName
from gateway.model.limits import MEASURES, UNTIED, LevelNames, Limit, strictest
from gateway.model.policy import FileLine, PolicyType, ServiceDef
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.policy.diagnostics import Path, hint, list_unknown_keys
from gateway.policy.limits import LEVELS, LimitIndex
from gateway.policy.matching import fold
from gateway.policy.packs.policies import WHO_KEYS
from gateway.policy.packs.shapes import Shapes

NONE = "none"
"""How a case says that nothing bounds a measure."""
_KEYS = ("name", "set_by", "note", "on", "filtered_by", "backends", "together", *WHO_KEYS, *MEASURES)
_SIZE = re.compile(r"([0-9]{1,12})\s*(B|KiB|MiB|GiB|TiB)")
_SIZES = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}
MAX_BOUND = 2**62


def read_limit(
    entry: object, path: Path, definition: ServiceDef, shapes: Shapes, place: FileLine
) -> Limit | None:
    """Return a limit with those of its bounds that can be read; None where it is not known of whom or of what
    it speaks. `shapes` notes what is wrong with it."""
    faults = shapes.faults
    data = shapes.read_mapping(entry, path)
    list_unknown_keys(data, _KEYS, path, faults, "a limit")
    bounds = {key: _read_bound(data[key], key, (*path, key), shapes) for key in MEASURES if key in data}
    if data and not bounds and "filtered_by" not in data:
        faults.add(path, f"a limit needs `filtered_by` or a number: `{'`, `'.join(MEASURES)}`")
    before = faults.noted
    name = shapes.text(data, "name", path, required=True)
    who = {key: frozenset(shapes.texts(data, key, path)) for key in WHO_KEYS}
    if not any(who.values()):
        faults.add(path, "a limit needs `users`, `groups` or `roles`; the group `public` is everybody")
    resources = (
        shapes.resource_sets(data, path, definition, PolicyType.ACCESS) if data.get("on") is not None else []
    )
    for found in resources:
        for level in found.keys() - set(LEVELS):
            faults.add((*path, "on"), f"a limit speaks of tables, so `on` cannot have `{level}`")
        for level, values in found.items():
            if any("{" in text or "$" in text for text in values.values):
                faults.add((*path, "on"), f"`{level}` of a limit is a name or a pattern")
    for key in sorted(UNTIED & bounds.keys()) if resources else ():
        faults.add((*path, key), f"`{key}` counts before a table is read, so it cannot stand beside `on`")
    filtered_by = frozenset(fold(one) for one in shapes.texts(data, "filtered_by", path))
    if filtered_by and not resources:
        faults.add((*path, "filtered_by"), "`filtered_by` needs `on`: which tables have these columns?")
    backends = frozenset(shapes.texts(data, "backends", path))
    together = shapes.flag(data, "together", path, default=False)
    set_by = shapes.text(data, "set_by", path)
    if faults.noted != before or not name:
        return None
    return Limit(
        name=name,
        bounds={key: most for key, most in bounds.items() if most is not None},
        **who,
        resources=tuple(
            {level: LevelNames(found.values, found.excludes) for level, found in one.items()}
            for one in resources
        ),
        filtered_by=filtered_by,
        backends=backends,
        together=together,
        set_by=set_by,
        place=str(place),
    )


def _read_bound(value: object, key: str, path: Path, shapes: Shapes) -> int | None:
    measure = MEASURES[key]
    if isinstance(value, str) and measure.unit == "bytes":
        found = _SIZE.fullmatch(value.strip())
        if found is not None:
            value = int(found[1]) * 1024 ** _SIZES[found[2]]
    if isinstance(value, bool) or not isinstance(value, int):
        what = "a whole number, or a size such as `10 GiB`" if measure.unit == "bytes" else "a whole number"
        shapes.faults.add(path, f"`{key}` must be {what}")
        return None
    if not 1 <= value <= MAX_BOUND:
        shapes.faults.add(path, f"`{key}` must be at least 1; deny what nobody may do at all")
        return None
    return value


def read_expected_limits(expect: Mapping[str, Any], path: Path, shapes: Shapes) -> dict[str, int | None]:
    """Return what a case expects of measures; None: nothing bounds it."""
    if "limits" not in expect:
        return {}
    where: Path = (*path, "limits")
    found: dict[str, int | None] = {}
    for key, value in shapes.read_mapping(expect["limits"], where).items():
        if key not in MEASURES:
            shapes.faults.add((*where, key), f"unknown measure `{key}`{hint(key, MEASURES)}")
        elif value == NONE:
            found[key] = None
        elif (most := _read_bound(value, key, (*where, key), shapes)) is not None:
            found[key] = most
    return found


def list_limit_failures(
    expected: Mapping[str, int | None],
    principal: Principal,
    resource: Resource,
    backend: str,
    index: LimitIndex,
) -> Iterator[str]:
    """Yield which bounds are not as a case expects them."""
    applied = index.find(principal, backend=backend or DEFAULT_BACKEND)
    tables = _tables_of(resource)
    spoken = [one for one in applied if index.speaks_of(one.limit, tables)]
    for key, most in expected.items():
        found = strictest(spoken, key)
        got = NONE if found is None else str(found[1])
        wanted = NONE if most is None else str(most)
        if got != wanted:
            by = "" if found is None else f" by limit `{found[0].name}`"
            where = f" on {resource}" if tables else ""
            yield f"case fails: {principal.user}{where}: expected {key} {wanted}, got {got}{by}"


def _tables_of(resource: Resource) -> Sequence[TableName]:
    catalog, database, table = (resource.level(level) for level in LEVELS)
    return () if table is None else (TableName(catalog or "", database or "", table),)
