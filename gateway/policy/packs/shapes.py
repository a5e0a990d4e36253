"""The parts that packs and their cases share: texts, lists, principals and resources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    ServiceDef,
)
from gateway.model.principal import Principal
from gateway.policy.compiled import hierarchy_to
from gateway.policy.diagnostics import Diagnostics, Path, hint, list_unknown_keys
from gateway.policy.globs import LOST_STAR
from gateway.policy.macros import compile_template
from gateway.policy.script import Untranslatable

T = TypeVar("T")

UNREAD = ResourceValues(values=())
"""Placeholder for a level whose values are invalid."""
_SCHEME = re.compile(r"[A-Za-z*?][A-Za-z0-9+.*?-]*:/")
_MACRO = re.compile(r"\$\{\{.*?\}\}")
_UNKNOWN_TOKEN = re.compile(r"(?<!\\)\{(?!USER\}|OWNER\}|ROLES\})[^}]*\}?|\$\{")


class Shapes:
    """Reads values of a document that was typed by hand; whatever does not fit becomes a fault."""

    def __init__(self, faults: Diagnostics) -> None:
        self.faults = faults

    def read_mapping(self, value: object, path: Path) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.faults.add(path, "a mapping (`key: value`) is expected here")
        return {}

    def sequence(self, data: Mapping[str, Any], key: str, path: Path) -> list[Any]:
        value = data.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.faults.add((*path, key), f"`{key}` must be a list")
        return []

    def text(self, data: Mapping[str, Any], key: str, path: Path, *, required: bool = False) -> str:
        value = data.get(key)
        if value is None and not required:
            return ""
        if isinstance(value, str) and (value.strip() or not required):
            return value
        what = "is missing" if key not in data else "must be a text"
        self.faults.add((*path, key), f"`{key}` {what}")
        return ""

    def flag(self, data: Mapping[str, Any], key: str, path: Path, *, default: bool) -> bool:
        value = data.get(key, default)
        if isinstance(value, bool):
            return value
        self.faults.add((*path, key), f"`{key}` must be true or false")
        return default

    def texts(self, data: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...]:
        """Return a list of texts; a single text stands for a list of one."""
        if key not in data:
            return ()
        return self.read_list(data[key], (*path, key), f"`{key}`")

    def read_list(self, value: object, path: Path, what: str) -> tuple[str, ...]:
        values = value if isinstance(value, list) else [value]
        if not values:
            self.faults.add(path, f"{what} must not be empty")
        for i, entry in enumerate(values):
            where = (*path, i) if isinstance(value, list) else path
            if not isinstance(entry, str):
                self.faults.add(where, f"{what} must contain texts; put `{_format_value(entry)}` in quotes")
            elif not entry.strip():
                self.faults.add(where, f"{what} must not contain an empty text")
        return tuple(entry for entry in values if isinstance(entry, str) and entry.strip())

    def one_or_several(
        self, data: Mapping[str, Any], key: str, path: Path, read: Callable[[object, Path, Self], Iterable[T]]
    ) -> tuple[T, ...]:
        """Return what is under a key, where one thing stands for a list of one."""
        if key not in data:
            return ()
        value, where = data[key], (*path, key)
        if not isinstance(value, list):
            return tuple(read(value, where, self))
        if not value:
            self.faults.add(where, f"`{key}` must not be empty")
        return tuple(found for i, entry in enumerate(value) for found in read(entry, (*where, i), self))

    def principal(self, data: Mapping[str, Any], path: Path) -> Principal:
        """Return the principal of `user`, `groups`, `roles` and `attributes`."""
        return Principal(
            user=self.text(data, "user", path, required=True),
            groups=frozenset(self.texts(data, "groups", path)),
            roles=frozenset(self.texts(data, "roles", path)),
            attributes=tuple(
                sorted((name, value) for name, values in self.read_attributes(data, path) for value in values)
            ),
        )

    def read_attributes(self, data: Mapping[str, Any], path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return `attributes`: name → a text, or a list of texts; sorted by name."""
        where: Path = (*path, "attributes")
        found = []
        for name, value in sorted(self.read_mapping(data.get("attributes", {}), where).items()):
            values = value if isinstance(value, list) else [value]
            if not values or not all(isinstance(one, str) for one in values):
                self.faults.add((*where, name), f"attribute `{name}` must be a text, or a list of texts")
            found.append((name, tuple(str(one) for one in values)))
        return tuple(found)

    def attributes(self, data: Mapping[str, Any], path: Path) -> dict[str, str]:
        """Return `attributes` where each has one value."""
        found = {}
        for name, values in self.read_attributes(data, path):
            if len(values) > 1:
                self.faults.add(
                    (*path, "attributes", name), f"attribute `{name}` must have a single value here"
                )
            found[name] = values[0] if values else ""
        return found

    def resource_sets(
        self, data: Mapping[str, Any], path: Path, definition: ServiceDef, type_: PolicyType
    ) -> list[ResourceSet]:
        """Return the resource sets under `on`: one mapping, or a list of them."""
        value = data.get("on")
        if value is None:
            self.faults.add((*path, "on"), "`on` is missing: which resources does the policy cover?")
            return [{}]
        where: Path = (*path, "on")
        if isinstance(value, list) and value:
            return [self.resource_set(v, (*where, i), definition, type_) for i, v in enumerate(value)]
        return [self.resource_set(value, where, definition, type_)]

    def resource_set(
        self, value: object, path: Path, definition: ServiceDef, type_: PolicyType
    ) -> ResourceSet:
        levels = {level.name: level for level in definition.levels(type_)}
        data = self.read_mapping(value, path)
        if isinstance(value, dict) and not value:
            self.faults.add(path, "`on` must name at least one level")
        sets = {}
        for name, written in data.items():
            level = levels.get(name)
            if level is None:
                self.faults.add((*path, name), f"unknown level `{name}`{hint(name, levels)}")
                continue
            already = len(self.faults.faults)
            values = self._values(level, written, (*path, name))
            # Nobody can tell what was meant by it: then it is not read as what was written.
            sets[name] = values if len(self.faults.faults) == already else UNREAD
        if sets and len(sets) == len(data):
            self._check_way(frozenset(sets), path, definition, type_)
        return sets

    def _check_way(
        self, names: frozenset[str], path: Path, definition: ServiceDef, type_: PolicyType
    ) -> None:
        """The levels must be a way from the root without gaps: anything else never matches."""
        hierarchies = [
            [step.name for step in way]
            for name in names
            if (way := hierarchy_to(name, definition.levels(type_))) is not None
        ]
        if any(set(way) == names for way in hierarchies):
            return
        longest = max(hierarchies, key=len)
        missing = [step for step in longest if step not in names]
        if missing:
            self.faults.add(path, f"`{longest[-1]}` needs `{'` and `'.join(missing)}` as well")
        else:
            other = sorted(names - set(longest))
            self.faults.add(path, f"`{other[0]}` and `{longest[-1]}` exclude each other in one resource")

    def _values(self, level: ResourceDef, written: object, path: Path) -> ResourceValues:
        excludes = recursive = False
        value = written
        if isinstance(written, dict):
            list_unknown_keys(
                written, ("values", "except", "recursive"), path, self.faults, f"`{level.name}`"
            )
            if ("values" in written) == ("except" in written):
                self.faults.add(path, f"`{level.name}` needs either `values` or `except`")
            excludes = "except" in written
            recursive = self.flag(written, "recursive", path, default=False)
            value = written.get("except" if excludes else "values", [])
            if excludes and not level.excludes_supported:
                self.faults.add(path, f"`{level.name}` does not support `except`")
            if recursive and not level.recursive_supported:
                self.faults.add(path, f"`{level.name}` does not support `recursive`")
        values = self.read_list(value, path, f"`{level.name}`")
        for text in values:
            self._check_tokens(text, path)
            if level.needs_scheme and text.strip("*") and not _SCHEME.match(text):
                self.faults.add(path, f"`{text}` needs a scheme, such as `s3://`")
            if level.wildcard and LOST_STAR.search(text):
                self.faults.add(path, f"`{text}`: a `*` before a `?` would be lost, as in Ranger; write `?*`")
            if not level.wildcard and text in ("*", "?"):
                self.faults.add(
                    path, f"`{level.name}` does not support wildcards, so `{text}` would never match"
                )
        if excludes and any(not text.strip("*") for text in values):
            self.faults.add(path, f"`{level.name}` excludes everything, so the policy would never match")
        return ResourceValues(values=values, excludes=excludes, recursive=recursive)

    def _check_tokens(self, text: str, path: Path) -> None:
        unknown = _UNKNOWN_TOKEN.search(_MACRO.sub("", text))
        if unknown:
            known = "`{USER}`, `{OWNER}`, `{ROLES}`, `${{…}}`"
            self.faults.add(path, f"unknown token `{unknown.group()}`; known are {known}")
            return
        try:
            compile_template(text)
        except Untranslatable as error:
            self.faults.add(path, str(error))

    def check_depth(self, policy: Policy, path: Path, definition: ServiceDef) -> None:
        """Refuse policies that look as if they covered columns or tables and do not.

        A policy that ends above the level at which something is asked never matches (Ranger's rule).
        """
        sets = [resources for resources in (policy.resources, *policy.additional_resources) if resources]
        where: Path = (*path, "on")
        if policy.type is PolicyType.MASK and not all("column" in found for found in sets):
            self.faults.add(where, "a mask needs a `column`")
        if policy.type is PolicyType.ROW_FILTER and not all("table" in found for found in sets):
            self.faults.add(where, "a row filter needs a `table`")
        way = [level.name for level in hierarchy_to("column", definition.resources) or ()]
        # A set that ends above the columns is fine beside one that reaches them.
        if policy.type is not PolicyType.ACCESS or not sets or not all(set(f) < set(way) for f in sets):
            return
        missing = [name for name in way if name not in max(sets, key=len)]
        wide = ", ".join(f'{name}: "*"' for name in missing)
        if _lists(policy.allow, "select") or _lists(policy.deny, "select"):
            self.faults.add(where, f"select needs columns; add {wide}")
        elif _lists(policy.deny, "all") or policy.deny_all_else:
            self.faults.add(where, f"a denial here does not cover what is below; add {wide}")


def _lists(items: tuple[PolicyItem, ...], access: str) -> bool:
    return any(access in item.accesses for item in items)


def _format_value(value: object) -> str:
    """Return a value as YAML writes it, as far as a message needs it."""
    if value is None:
        return "null"
    return (str(value).lower() if isinstance(value, bool) else str(value))[:40]
