"""The table of providers that ships: what Spark is told of a metalake's catalogs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from gateway.app.rule_files import find_shipped_rules, read_texts
from gateway.catalog.jdbc_addresses import JdbcDatabase
from gateway.catalog.kinds import KINDS
from gateway.catalog.providers import TYPES, PropertyRule, Provider, Providers
from gateway.catalog.types import NotUnderstood, normalize_ddl
from gateway.model.spark_minors import SUPPORTED, Minor
from gateway.policy.diagnostics import Diagnostics, Path, list_unknown_keys
from gateway.policy.documents import parse_document
from gateway.settings.metalakes import PROVIDER_SWITCHES

SHIPPED = "catalog_providers.yaml"
_MINORS: Mapping[str, Minor] = {str(minor): minor for minor in SUPPORTED}
PROVIDER_KEYS = frozenset({"bypass", "types", "databases", "providers"})
_KEYS = frozenset(
    {
        "provider",
        "kind",
        "minors",
        "class",
        "connectors",
        "enabled_by",
        "properties",
        "bypass",
        "fixed",
        "types",
    }
)
_DATABASE_KEYS = frozenset({"database", "drivers", "parameters", "separator", "in_memory"})


@functools.cache
def load_shipped_providers() -> Providers:
    """Return the rows of `rules/catalog_providers.yaml`. Raises Faults with file and line."""
    ((name, text),) = read_texts([find_shipped_rules() / SHIPPED]).items()
    return load_providers(text, name)


def load_providers(text: str, file: str) -> Providers:
    """Return the table of a text. Raises Faults with file and line."""
    document = parse_document(text, file)
    faults = Diagnostics(document)
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("providers"), list):
        faults.add((), "a provider table must have `bypass`, `types`, `databases` and `providers`")
        faults.raise_any()
    list_unknown_keys(data, PROVIDER_KEYS, (), faults, "a provider table")
    bypass = data.get("bypass")
    if not isinstance(bypass, str) or not bypass.endswith("."):
        faults.add(("bypass",), "`bypass` must be a prefix of property names that ends with a dot")
    types = _types(data.get("types"), ("types",), faults)
    databases = _databases(data.get("databases"), ("databases",), faults)
    rows = [_row(row, ("providers", at), types, faults) for at, row in enumerate(data["providers"])]
    faults.raise_any()
    return Providers(
        rows=tuple(row for row in rows if row is not None), bypass=str(bypass), databases=databases
    )


def _databases(value: Any, at: Path, faults: Diagnostics) -> tuple[JdbcDatabase, ...]:
    found: list[JdbcDatabase] = []
    for place, one in enumerate(value if isinstance(value, list) else []):
        where = (*at, place)
        if not isinstance(one, dict):
            faults.add(where, "a database must be a mapping with `database`, `drivers` and `parameters`")
            continue
        list_unknown_keys(one, _DATABASE_KEYS, where, faults, "a database")
        drivers, parameters = one.get("drivers"), one.get("parameters")
        if not all(
            isinstance(listed, list) and all(isinstance(name, str) for name in listed)
            for listed in (drivers, parameters)
        ):
            faults.add(where, "`drivers` and `parameters` must be lists of texts")
            continue
        if one.get("separator", "&") not in ("&", ";"):
            faults.add((*where, "separator"), "`separator` must be `&` or `;`")
        found.append(
            JdbcDatabase(
                name=str(one.get("database")),
                drivers=frozenset(drivers or ()),
                parameters=frozenset(name.lower() for name in parameters or ()),
                separator=one.get("separator", "&"),
                in_memory=one.get("in_memory") is True,
            )
        )
    if value is not None and not isinstance(value, list):
        faults.add(at, "`databases` must be a list")
    return tuple(found)


def _row(row: Any, at: Path, types: Mapping[str, str], faults: Diagnostics) -> Provider | None:
    if not isinstance(row, dict):
        faults.add(at, "a provider must be a mapping with `provider`, `kind` and `minors`")
        return None
    list_unknown_keys(row, _KEYS, at, faults, "a provider")
    name, kind, enabled_by = row.get("provider"), row.get("kind"), row.get("enabled_by", "")
    if not isinstance(name, str) or not name or name != name.lower():
        faults.add((*at, "provider"), "`provider` must be a name in lower case")
    if not isinstance(kind, str) or kind not in KINDS or not KINDS[kind].on_spark:
        faults.add((*at, "kind"), f"unknown kind `{kind}`")
        return None
    if enabled_by not in ("", *PROVIDER_SWITCHES):
        faults.add((*at, "enabled_by"), f"`enabled_by` must be one of {', '.join(PROVIDER_SWITCHES)}")
    minors = [_minor(one, (*at, "minors"), faults) for one in row.get("minors") or ()]
    if not minors:
        faults.add(at, "`minors` must list the minor versions of Spark")
    fixed = _texts(row.get("fixed"), (*at, "fixed"), faults)
    properties = _properties(row.get("properties"), (*at, "properties"), faults)
    bypass = _bypass(row.get("bypass"), (*at, "bypass"), faults)
    for key in (*fixed, *(rule.to for rule in (*properties.values(), *bypass.values()))):
        if not KINDS[kind].takes(key):
            faults.add(at, f"kind `{kind}` has no parameter `{key}`")
    return Provider(
        name=str(name),
        kind=kind,
        minors=frozenset(one for one in minors if one is not None),
        classes=_classes(row.get("class"), (*at, "class"), faults),
        connectors=_classes(row.get("connectors"), (*at, "connectors"), faults),
        enabled_by=str(enabled_by),
        properties=properties,
        bypass=bypass,
        fixed=fixed,
        types={**types, **_types(row.get("types"), (*at, "types"), faults)},
    )


def _minor(value: Any, at: Path, faults: Diagnostics) -> Minor | None:
    if not isinstance(value, str) or value not in _MINORS:
        faults.add(at, f"`{value}` is not a supported minor version of Spark in quotes")
        return None
    return _MINORS[value]


def _classes(value: Any, at: Path, faults: Diagnostics) -> dict[Minor, str]:
    told = {_minor(key, at, faults): name for key, name in _texts(value, at, faults).items()}
    return {minor: name for minor, name in told.items() if minor is not None}


def _properties(value: Any, at: Path, faults: Diagnostics) -> dict[str, PropertyRule]:
    found: dict[str, PropertyRule] = {}
    for key, rule in (value or {}).items() if isinstance(value or {}, dict) else ():
        if not isinstance(rule, dict) or not isinstance(rule.get("to"), str):
            faults.add((*at, key), "a property needs `to`, and may have `values` or a `type`")
            continue
        list_unknown_keys(rule, frozenset({"to", "values", "type"}), (*at, key), faults, "a property")
        values = rule.get("values", [])
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            faults.add((*at, key), "`values` must be a list of texts")
            values = []
        found[key] = PropertyRule(
            to=rule["to"],
            values={one.lower(): one for one in values},
            type=_type(rule.get("type", "text"), (*at, key), faults),
        )
    if value is not None and not isinstance(value, dict):
        faults.add(at, "properties must be a mapping")
    return found


def _bypass(value: Any, at: Path, faults: Diagnostics) -> dict[str, PropertyRule]:
    """Return rules of parameters by their names in lower case."""
    told = _texts(value, at, faults)
    return {
        key.lower(): PropertyRule(to=key, type=_type(one, (*at, key), faults)) for key, one in told.items()
    }


def _type(value: Any, at: Path, faults: Diagnostics) -> str:
    if value not in TYPES:
        faults.add(at, f"a type must be one of {', '.join(sorted(TYPES))}")
        return "text"
    return str(value)


def _types(value: Any, at: Path, faults: Diagnostics) -> dict[str, str]:
    found = _texts(value, at, faults)
    for key, name in found.items():
        try:
            normalize_ddl(name)
        except NotUnderstood:
            faults.add((*at, key), f"`{name}` is not a Spark type")
    return found


def _texts(value: Any, at: Path, faults: Diagnostics) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        faults.add(at, "a mapping of texts is expected")
        return {}
    return value
