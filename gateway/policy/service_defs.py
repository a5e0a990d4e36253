"""Service definitions in Ranger's own shape, as JSON or as YAML, become ServiceDefs.

Fields that Ranger has and nothing here needs (labels, UI hints, connection settings, context enrichers) are
passed over, as Ranger's own readers do, so that a definition loads as it was exported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gateway.errors import Faults
from gateway.model.policy import AccessTypeDef, ConditionDef, MaskTypeDef, ResourceDef, ServiceDef
from gateway.model.resource import ANY_ACCESS
from gateway.policy.diagnostics import Diagnostics, Path, hint
from gateway.policy.documents import Document, parse_document
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.json_documents import JsonDocument, parse_json
from gateway.policy.json_shapes import Reader
from gateway.policy.transformers import transformer_faults

ALIAS = "sluice.access."
"""Option prefix: with `sluice.access.insert: update` a policy on `update` answers requests for `insert`."""
DENY_OPTION = "enableDenyAndExceptionsInPolicies"
CATEGORIES = ("CREATE", "READ", "UPDATE", "DELETE", "MANAGE")
MARKERS = frozenset(f"_{category.lower()}" for category in (*CATEGORIES, "ALL"))
"""Ranger's marker access types, lower case."""
SCRIPT = "RangerScriptConditionEvaluator"
IMPLICIT = ConditionDef(name="_expression", evaluator=SCRIPT, options={"engineName": "JavaScript"})
"""The script condition that Ranger adds to every service type without one of its own."""


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
    """Return the definition of one file, JSON when the name says so and else YAML; raises Faults.

    Marker access types that the file does not give are computed from categories, as a Ranger Admin would.
    """
    return definition_of(parse_json(text, file) if file.endswith(".json") else parse_document(text, file))


def definition_of(document: JsonDocument | Document) -> ServiceDef:
    """Return the definition in a file that was parsed; raises Faults."""
    findings = Diagnostics(document)
    if not isinstance(document.data, Mapping):
        findings.add((), "a mapping is expected here")
        findings.raise_any()
    definition = read_service_def(document.data, Reader(findings), (), strict=True)
    findings.raise_any()
    if not document.data.get("markerAccessTypes"):
        definition = replace(definition, markers=compute_markers(definition.access_types))
    return definition


def compute_markers(accesses: Iterable[AccessTypeDef]) -> tuple[AccessTypeDef, ...]:
    """Return Ranger's marker access types: those of a category with what they imply, and `_all`."""
    granted = expand_markers((access.name, access.category, access.implied) for access in accesses)
    return tuple(AccessTypeDef(name=name.lower(), implied=implied) for name, implied in granted.items())


def expand_markers(accesses: Iterable[tuple[str, str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    """Return marker (`_READ`, …, `_ALL`) → what it grants, for name, category and implied of accesses."""
    accesses = tuple(accesses)
    granted = {
        f"_{category}": frozenset[str]().union(
            *({name, *implied} for name, of, implied in accesses if of == category)
        )
        for category in CATEGORIES
    }
    return {**granted, "_ALL": frozenset(name for name, _, _ in accesses)}


def read_service_def(data: Mapping[str, Any], reader: Reader, path: Path, *, strict: bool) -> ServiceDef:
    """Return the definition in a document that was parsed already; faults are left with the reader.

    What a Ranger Admin gave away is not in its reader's hands: unless `strict`, what means nothing (an access
    type that is implied and unknown, a transformer that is not understood) is warned of and left out.
    """
    found = _Definition(reader, strict)
    name = reader.read_required(data, "name", path)
    resources = tuple(
        found.resource(entry, where) for entry, where in reader.entries(data, "resources", path)
    )
    accesses = found.accesses(data, "accessTypes", path)
    names = [access.name for access in accesses]
    masks, filters = reader.field(data, "dataMaskDef", path), reader.field(data, "rowFilterDef", path)
    mask_path, filter_path = (*path, "dataMaskDef"), (*path, "rowFilterDef")
    options = reader.scalars(data, "options", path)
    found.check_levels(resources, (*path, "resources"))
    found.check_leaves(data, resources, path)
    return ServiceDef(
        name=name,
        id=reader.number(data, "id", path),
        resources=resources,
        access_types=found.drop_unknown_implied(accesses, names, (*path, "accessTypes")),
        mask_types=tuple(
            found.mask_type(entry, where) for entry, where in reader.entries(masks, "maskTypes", mask_path)
        ),
        mask_resources=found.overlay(masks, resources, mask_path),
        filter_resources=found.overlay(filters, resources, filter_path),
        mask_accesses=found.names(masks, names, mask_path),
        filter_accesses=found.names(filters, names, filter_path),
        access_aliases=found.aliases(options, names, (*path, "options")),
        markers=found.accesses(data, "markerAccessTypes", path),
        conditions=found.conditions(data, path, options),
        deny_enabled=options.get(DENY_OPTION, "true").strip().lower() != "false",
        options=options,
    )


class _Definition:
    """Reads the parts of one definition."""

    def __init__(self, reader: Reader, strict: bool) -> None:
        self._reader = reader
        self._complain = reader.fault if strict else reader.warn

    def resource(self, entry: Mapping[str, Any], path: Path, base: ResourceDef | None = None) -> ResourceDef:
        """Return one level; `base` is the level that this entry lies over, and what is not given is its."""
        reader = self._reader
        options = reader.field(entry, "matcherOptions", path)
        where = (*path, "matcherOptions")
        default = base or ResourceDef(name="", excludes_supported=False)
        matcher = reader.text(entry, "matcher", path)
        is_url = matcher.endswith("RangerURLResourceMatcher") if matcher else default.needs_scheme
        is_path = is_url or (matcher.endswith("RangerPathResourceMatcher") if matcher else default.is_path)
        start, end, escape = (
            reader.character(options, f"tokenDelimiter{which}", where, given)
            for which, given in zip(("Start", "End", "Escape"), default.token_marks, strict=False)
        )
        prefix = reader.text(options, "tokenDelimiterPrefix", where, default.token_marks[3])
        # Marks that cannot be told apart mark nothing, as in Ranger.
        marked = escape not in (start, end) and not {start, end, escape} & set(prefix)
        return ResourceDef(
            name=base.name if base else reader.read_required(entry, "name", path),
            parent=reader.text(entry, "parent", path) or default.parent,
            level=reader.number(entry, "level", path, default.level),
            wildcard=reader.flag(options, "wildCard", where, default=default.wildcard),
            ignore_case=reader.flag(options, "ignoreCase", where, default=default.ignore_case),
            excludes_supported=reader.flag(
                entry, "excludesSupported", path, default=default.excludes_supported
            ),
            recursive_supported=reader.flag(
                entry, "recursiveSupported", path, default=default.recursive_supported
            ),
            is_path=is_path,
            needs_scheme=is_url,
            # An overlay that is silent makes no leaf, whatever the level below it says: Ranger's rule.
            leaf=reader.flag(entry, "isValidLeaf", path, default=False),
            mandatory=reader.flag(entry, "mandatory", path, default=default.mandatory),
            pattern=reader.text(entry, "validationRegEx", path) or default.pattern,
            separator=reader.character(options, "pathSeparatorChar", where, default.separator),
            quote_characters=self._quotes(options, where, default),
            replaces_tokens=reader.flag(options, "replaceTokens", where, default=default.replaces_tokens)
            and marked,  # RULE (token-marks-equal)
            token_marks=(start, end, escape, prefix),
            replaces_expressions=reader.flag(
                options, "replaceReqExpressions", where, default=default.replaces_expressions
            ),
        )

    def _quotes(self, options: Mapping[str, Any], path: Path, default: ResourceDef) -> str:
        """Return the characters that make a requested value's case matter; none unless the option is on."""
        on = bool(default.quote_characters)
        if not self._reader.flag(options, "quotedCaseSensitive", path, default=on):
            return ""
        return self._reader.text(options, "quoteChars", path) or default.quote_characters or '"'

    def check_levels(self, resources: tuple[ResourceDef, ...], path: Path) -> None:
        levels = [resource.name for resource in resources]
        for i, resource in enumerate(resources):
            where = (*path, i)
            if resource.parent and resource.parent not in levels:
                near = hint(resource.parent, levels)
                told = f"`{resource.name}` has no parent `{resource.parent}`{near}"
                self._reader.fault((*where, "parent"), told)
            elif resource.name in levels and hierarchy_to(resource.name, resources) is None:
                self._reader.fault((*where, "parent"), f"`{resource.name}` is its own ancestor")
            if resource.name in levels[:i]:
                self._reader.fault((*where, "name"), f"resource `{resource.name}` is defined a second time")

    def overlay(
        self, data: Mapping[str, Any], base: tuple[ResourceDef, ...], path: Path
    ) -> tuple[ResourceDef, ...]:
        """Return the base levels that the definition lists, with its options laid over theirs."""
        by_name = {resource.name: resource for resource in base}
        levels = []
        for entry, where in self._reader.entries(data, "resources", path):
            name = self._reader.read_required(entry, "name", where)
            resource = by_name.get(name)
            if resource is not None:
                levels.append(self.resource(entry, where, resource))
            elif name:
                self._reader.fault((*where, "name"), f"unknown resource `{name}`{hint(name, by_name)}")
        self.check_leaves(data, tuple(levels), path)
        return tuple(levels)

    def check_leaves(self, data: Mapping[str, Any], levels: tuple[ResourceDef, ...], path: Path) -> None:
        """A level that has none below it and may not end a policy makes hierarchies that nothing can use."""
        parents = {level.parent for level in levels}
        for entry, where in self._reader.entries(data, "resources", path):
            name = entry.get("name")
            given = entry.get("isValidLeaf")
            silent = given is None or self._reader.flag(entry, "isValidLeaf", where, default=False)
            if not silent and name not in parents:
                told = f"`{name}` has no level below it, so `isValidLeaf` cannot be false"
                self._reader.fault((*where, "isValidLeaf"), told)

    def accesses(self, data: Mapping[str, Any], key: str, path: Path) -> tuple[AccessTypeDef, ...]:
        found: dict[str, AccessTypeDef] = {}
        for entry, where in self._reader.entries(data, key, path):
            name = self._reader.read_required(entry, "name", where).lower()
            if name in found:
                self._complain((*where, "name"), f"access type `{name}` is defined a second time")
                continue
            implied = self._reader.texts(entry, "impliedGrants", where)
            found[name] = AccessTypeDef(
                name=name,
                implied=frozenset(access.lower() for access in implied),
                category=self._reader.text(entry, "category", where).upper(),
            )
        return tuple(found.values())

    def drop_unknown_implied(
        self, accesses: tuple[AccessTypeDef, ...], names: list[str], path: Path
    ) -> tuple[AccessTypeDef, ...]:
        """Return the access types without what they imply and nobody knows."""
        for i, access in enumerate(accesses):
            for implied in sorted(access.implied - set(names)):
                near = hint(implied, names)
                told = f"`{access.name}` implies unknown `{implied}`{near}"
                self._complain((*path, i, "impliedGrants"), told)
        return tuple(replace(access, implied=access.implied & frozenset(names)) for access in accesses)

    def names(self, data: Mapping[str, Any], known: list[str], path: Path) -> frozenset[str]:
        """Return the access types that obligations of a kind are for."""
        found = frozenset(
            self._reader.read_required(entry, "name", where).lower()
            for entry, where in self._reader.entries(data, "accessTypes", path)
        )
        for name in sorted(found - set(known)):
            self._complain(path, f"unknown access type `{name}`{hint(name, known)}")
        return found & frozenset(known)

    def mask_type(self, entry: Mapping[str, Any], path: Path) -> MaskTypeDef:
        reader = self._reader
        name = reader.read_required(entry, "name", path)
        transformer = reader.text(entry, "transformer", path)
        for fault in transformer_faults(transformer) if transformer else ():
            self._complain((*path, "transformer"), f"mask type `{name}`: {fault}")
        return MaskTypeDef(name=name, transformer=transformer, label=reader.text(entry, "label", path))

    def conditions(
        self, data: Mapping[str, Any], path: Path, options: Mapping[str, str]
    ) -> tuple[ConditionDef, ...]:
        found: dict[str, ConditionDef] = {}
        for entry, where in self._reader.entries(data, "policyConditions", path):
            name = self._reader.read_required(entry, "name", where)
            evaluator = self._reader.text(entry, "evaluator", where).rpartition(".")[2]
            values = self._reader.scalars(entry, "evaluatorOptions", where)
            found.setdefault(name, ConditionDef(name=name, evaluator=evaluator, options=values))
        scripted = any(condition.evaluator == SCRIPT for condition in found.values())
        if not scripted and options.get("enableImplicitConditionExpression", "true").lower() != "false":
            found.setdefault(IMPLICIT.name, IMPLICIT)
        return tuple(found.values())

    def aliases(self, options: Mapping[str, str], names: list[str], path: Path) -> dict[str, str]:
        found = {}
        for key, value in options.items():
            if not key.startswith(ALIAS):
                continue
            target = value.lower()
            found[key[len(ALIAS) :].lower()] = target
            if target not in names and target != ANY_ACCESS:
                self._reader.fault((*path, key), f"unknown access type `{target}`{hint(target, names)}")
        return found
