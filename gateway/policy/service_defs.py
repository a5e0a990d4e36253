"""Service definitions from text: Ranger's own JSON shape, which is YAML too, becomes a ServiceDef.

Fields that Ranger has and nothing here needs (labels, UI hints, connection settings) are passed over, as
Ranger's own readers do, so that a definition loads as it was exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.errors import Faults
from gateway.model.policy import AccessTypeDef, MaskTypeDef, ResourceDef, ServiceDef
from gateway.policy.compiled import way_down
from gateway.policy.documents import FaultList, Path, hint, parse_document

_ALIAS = "sluice.access."
"""Option prefix: with `sluice.access.insert: update` a policy on `update` answers requests for `insert`."""


def load_service_defs(texts: Mapping[str, str]) -> dict[str, ServiceDef]:
    """Return name → definition for file → text; raises Faults with every fault of every file."""
    definitions: dict[str, ServiceDef] = {}
    faults: list[str] = []
    for file in sorted(texts):
        try:
            definition = parse_service_def(texts[file], file)
        except Faults as found:
            faults += found.faults
            continue
        if definition.name in definitions:
            faults.append(f"{file}:1: service `{definition.name}` is defined a second time")
        definitions[definition.name] = definition
    if faults:
        raise Faults(faults)
    return definitions


def parse_service_def(text: str, file: str) -> ServiceDef:
    """Return one definition; raises Faults."""
    document = parse_document(text, file)
    faults = FaultList(document)
    reader = _Reader(faults)
    data = reader.mapping(document.data, ())
    name = reader.text(data, "name", ())
    resources = tuple(reader.resource(entry, path) for entry, path in reader.entries(data, "resources", ()))
    accesses = tuple(reader.access(entry, path) for entry, path in reader.entries(data, "accessTypes", ()))
    masks = reader.mapping(data.get("dataMaskDef") or {}, ("dataMaskDef",))
    filters = reader.mapping(data.get("rowFilterDef") or {}, ("rowFilterDef",))
    mask_types = tuple(
        MaskTypeDef(
            name=reader.text(entry, "name", path),
            transformer=str(entry.get("transformer") or ""),
            label=str(entry.get("label") or ""),
        )
        for entry, path in reader.entries(masks, "maskTypes", ("dataMaskDef",))
    )
    options = reader.mapping(data.get("options") or {}, ("options",))
    aliases = {
        key[len(_ALIAS) :].lower(): str(value).lower()
        for key, value in options.items()
        if key.startswith(_ALIAS)
    }
    definition = ServiceDef(
        name=name,
        resources=resources,
        access_types=accesses,
        mask_types=mask_types,
        mask_resources=reader.overlay(masks, resources, ("dataMaskDef",)),
        filter_resources=reader.overlay(filters, resources, ("rowFilterDef",)),
        mask_accesses=reader.names(masks, "accessTypes", ("dataMaskDef",)),
        filter_accesses=reader.names(filters, "accessTypes", ("rowFilterDef",)),
        access_aliases=aliases,
    )
    _check(definition, faults)
    faults.raise_any()
    return definition


def _check(definition: ServiceDef, faults: FaultList) -> None:
    levels = [resource.name for resource in definition.resources]
    for i, resource in enumerate(definition.resources):
        if resource.parent and resource.parent not in levels:
            near = hint(resource.parent, levels)
            faults.add(("resources", i), f"`{resource.name}` has no parent `{resource.parent}`{near}")
        elif way_down(resource.name, definition.resources) is None:
            faults.add(("resources", i), f"`{resource.name}` is its own ancestor")
        if resource.name in levels[:i]:
            faults.add(("resources", i), f"resource `{resource.name}` is defined a second time")
    names = [access.name for access in definition.access_types]
    for i, access in enumerate(definition.access_types):
        if access.name in names[:i]:
            faults.add(("accessTypes", i), f"access type `{access.name}` is defined a second time")
        for implied in sorted(access.implied - set(names)):
            faults.add(
                ("accessTypes", i), f"`{access.name}` implies unknown `{implied}`{hint(implied, names)}"
            )
    for where, accesses in (
        ("dataMaskDef", definition.mask_accesses),
        ("rowFilterDef", definition.filter_accesses),
    ):
        for access_name in sorted(accesses - set(names)):
            faults.add((where,), f"unknown access type `{access_name}`{hint(access_name, names)}")
    for alias, target in definition.access_aliases.items():
        if target not in names:
            faults.add(("options", _ALIAS + alias), f"unknown access type `{target}`{hint(target, names)}")


class _Reader:
    """Reads the loosely typed shape; options come as booleans or as texts such as "true"."""

    def __init__(self, faults: FaultList) -> None:
        self._faults = faults

    def mapping(self, value: object, path: Path) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self._faults.add(path, "a mapping is expected here")
        return {}

    def text(self, data: Mapping[str, Any], key: str, path: Path) -> str:
        value = data.get(key)
        if isinstance(value, str) and value:
            return value
        self._faults.add((*path, key), f"`{key}` must be a text")
        return ""

    def flag(self, data: Mapping[str, Any], key: str, path: Path, default: bool) -> bool:
        value = data.get(key, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if isinstance(value, bool):
            return value
        if value is None:
            return default
        self._faults.add((*path, key), f"`{key}` must be true or false")
        return default

    def entries(self, data: Mapping[str, Any], key: str, path: Path) -> list[tuple[dict[str, Any], Path]]:
        value = data.get(key) or []
        if not isinstance(value, list):
            self._faults.add((*path, key), f"`{key}` must be a list")
            return []
        found = [(self.mapping(entry, (*path, key, i)), (*path, key, i)) for i, entry in enumerate(value)]
        return [(entry, where) for entry, where in found if entry]

    def names(self, data: Mapping[str, Any], key: str, path: Path) -> frozenset[str]:
        return frozenset(
            self.text(entry, "name", where).lower() for entry, where in self.entries(data, key, path)
        )

    def access(self, entry: Mapping[str, Any], path: Path) -> AccessTypeDef:
        implied = entry.get("impliedGrants") or []
        if not isinstance(implied, list):
            self._faults.add((*path, "impliedGrants"), "`impliedGrants` must be a list")
            implied = []
        return AccessTypeDef(
            name=self.text(entry, "name", path).lower(),
            implied=frozenset(str(access).lower() for access in implied),
        )

    def resource(self, entry: Mapping[str, Any], path: Path) -> ResourceDef:
        options = self.mapping(entry.get("matcherOptions") or {}, (*path, "matcherOptions"))
        where = (*path, "matcherOptions")
        matcher = str(entry.get("matcher") or "")
        is_url = matcher.endswith("RangerURLResourceMatcher")
        level = entry.get("level", 10)
        return ResourceDef(
            name=self.text(entry, "name", path),
            parent=entry.get("parent") or None,
            level=level if isinstance(level, int) else 10,
            wildcard=self.flag(options, "wildCard", where, default=True),
            ignore_case=self.flag(options, "ignoreCase", where, default=True),
            excludes_supported=self.flag(entry, "excludesSupported", path, default=False),
            recursive_supported=self.flag(entry, "recursiveSupported", path, default=False),
            is_path=is_url or matcher.endswith("RangerPathResourceMatcher"),
            needs_scheme=is_url,
            leaf=self.flag(entry, "isValidLeaf", path, default=False),
        )

    def overlay(
        self, data: Mapping[str, Any], base: tuple[ResourceDef, ...], path: Path
    ) -> tuple[ResourceDef, ...]:
        """Return the base levels that the definition lists, with its options laid over theirs."""
        by_name = {resource.name: resource for resource in base}
        levels = []
        for entry, where in self.entries(data, "resources", path):
            name = self.text(entry, "name", where)
            resource = by_name.get(name)
            if resource is None:
                self._faults.add((*where, "name"), f"unknown resource `{name}`{hint(name, by_name)}")
                continue
            options = self.mapping(entry.get("matcherOptions") or {}, (*where, "matcherOptions"))
            option_path = (*where, "matcherOptions")
            levels.append(
                ResourceDef(
                    name=resource.name,
                    parent=resource.parent,
                    level=resource.level,
                    wildcard=self.flag(options, "wildCard", option_path, resource.wildcard),
                    ignore_case=self.flag(options, "ignoreCase", option_path, resource.ignore_case),
                    excludes_supported=self.flag(
                        entry, "excludesSupported", where, resource.excludes_supported
                    ),
                    recursive_supported=self.flag(
                        entry, "recursiveSupported", where, resource.recursive_supported
                    ),
                    is_path=resource.is_path,
                    needs_scheme=resource.needs_scheme,
                    leaf=self.flag(entry, "isValidLeaf", where, default=False),
                )
            )
        return tuple(levels)
