"""What Spark is told of a catalog of a metalake: by provider and Spark's minor, from a table of `rules/`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from gateway.catalog.kinds import KINDS
from gateway.catalog.spark_settings import NamedCatalog
from gateway.model.metalakes import RELATIONAL, MetalakeCatalog
from gateway.model.reading_settings import may_hold_secret
from gateway.model.spark_minors import Minor

CATALOG_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
RESERVED_NAMES = frozenset({"system", "session", "global_temp", "builtin", "default"})
"""Names that Spark keeps for itself, and that of the database in which clients begin (``USE `default` ``)."""
_SECRET_IN_URL = re.compile(r"[?&;:](?:password|pwd|passwd|token|secret)=([^?&;]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRule:
    """Which parameter a property becomes."""

    to: str
    values: frozenset[str] = frozenset()
    """Lower-case values that it may have; none: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One row of the table."""

    name: str
    """As the server writes it; `*` stands for anything."""
    kind: str
    """A key of KINDS."""
    minors: frozenset[Minor]
    classes: Mapping[Minor, str] = field(default_factory=dict)
    """Instead of the kind's class."""
    connectors: Mapping[Minor, str] = field(default_factory=dict)
    """Classes of Gravitino's own connector."""
    enabled_by: str = ""
    """Parameter of the entry in `catalogs:` that has to be true; empty: none."""
    properties: Mapping[str, PropertyRule] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    """What the server's types are in Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The table. The first row that has the provider and the minor counts."""

    rows: tuple[Provider, ...]
    bypass: str
    """What a property begins with that is a parameter by itself."""

    def row(self, provider: str, minor: Minor) -> Provider | None:
        """Return the row of a provider, or None."""
        named = [row for row in self.rows if fnmatchcase(provider, row.name)]
        return next((row for row in named if minor in row.minors), None)

    def knows(self, provider: str) -> bool:
        """Whether there is a row for any minor."""
        return any(fnmatchcase(provider, row.name) for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the entry in `catalogs:` says of all catalogs of its metalake."""

    own_connectors: bool = False
    """Whether Spark has Gravitino's connector on its class path."""
    enabled: frozenset[str] = frozenset()
    """Parameters that are true, such as `iceberg`."""
    set_parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Catalog (lower case) → parameters that are told whatever the server says, secrets revealed."""


@dataclass(frozen=True, slots=True)
class NotForSpark:
    """Spark is not told of a catalog."""

    why: str
    expected: bool = False
    """Whether that is nothing to warn of: it holds no tables, or is switched off."""


def spark_catalog(
    catalog: MetalakeCatalog, providers: Providers, minor: Minor, wishes: Wishes
) -> NamedCatalog | NotForSpark:
    """Return a catalog as Spark is told of it, or why it is left out, in words that go on."""
    if catalog.type != RELATIONAL:
        return NotForSpark(f"of type {catalog.type or 'unknown'}, which holds no tables", expected=True)
    if not catalog.in_use:
        return NotForSpark("not in use", expected=True)
    if not CATALOG_NAME.fullmatch(catalog.name):
        return NotForSpark("its name is not made of letters, digits and `_`")
    if catalog.name != catalog.name.lower():
        return NotForSpark("its name has capitals, which Spark tells apart and policies do not")
    if catalog.name in RESERVED_NAMES:
        return NotForSpark("its name is one that Spark keeps for itself")
    if not catalog.provider:
        return NotForSpark("without a provider")
    row = providers.row(catalog.provider, minor)
    if row is None:
        known = providers.knows(catalog.provider)
        return NotForSpark(
            f"provider `{catalog.provider}` is not known" + (f" for Spark {minor}" if known else "")
        )
    if row.enabled_by and row.enabled_by not in wishes.enabled:
        return NotForSpark(f"provider `{catalog.provider}` is not enabled (`{row.enabled_by}: true`)")
    if wishes.own_connectors:
        own = row.connectors.get(minor)
        if own is None:
            return NotForSpark(
                f"Gravitino has no connector for provider `{catalog.provider}` and Spark {minor}"
            )
        # It asks the server for everything else.
        return NamedCatalog(name=catalog.name, type=row.kind, parameters={"class": own})
    return _told(catalog, row, providers.bypass, wishes, minor)


def _told(
    catalog: MetalakeCatalog, row: Provider, bypass: str, wishes: Wishes, minor: Minor
) -> NamedCatalog | NotForSpark:
    kind = KINDS[row.kind]
    own = wishes.set_parameters.get(catalog.name.lower(), {})
    given = {key.lower() for key in own}
    parameters: dict[str, str] = dict(row.fixed)
    for key in sorted(catalog.left_out):
        to = _parameter(key, row, bypass)
        if to is not None and kind.takes(to) and to.lower() not in given:
            return NotForSpark(f"its `{key}` is not known while the server is away")
    for key, value in sorted(catalog.properties.items()):
        rule = row.properties.get(key)
        to = _parameter(key, row, bypass)
        if to is None or not kind.takes(to):
            continue
        if rule is not None and rule.values and value.lower() not in rule.values:
            return NotForSpark(f"its `{key}` is none of {', '.join(sorted(rule.values))}")
        parameters[to] = value.lower() if rule is not None and rule.values else value
    parameters = {key: value for key, value in parameters.items() if key.lower() not in given} | dict(own)
    missing = kind.missing(parameters)
    if missing:
        return NotForSpark(f"it does not say {missing[0]}")
    for key, value in parameters.items():
        if "${" in value or any(ord(c) < 32 for c in value):
            return NotForSpark(f"its parameter `{key}` holds characters that Spark would replace")
    if minor in row.classes:
        parameters["class"] = row.classes[minor]
    return NamedCatalog(name=catalog.name, type=row.kind, parameters=parameters)


def _parameter(key: str, row: Provider, bypass: str) -> str | None:
    """Return the parameter that a property becomes. `class` is never one: it would run as it says."""
    rule = row.properties.get(key)
    if rule is not None:
        return rule.to
    to = key.removeprefix(bypass)
    return to if to != key and to and to.lower() != "class" else None


def is_secret(key: str, value: str) -> bool:
    """Whether a property's value may be a secret, or hold one: an address with a password in it."""
    return bool(secrets_in(key, value)) or may_hold_secret(key)


def secrets_in(key: str, value: str) -> tuple[str, ...]:
    """Return what nobody may read of a property's value: all of it, and a password within an address."""
    within = [one for found in _SECRET_IN_URL.findall(value) if found for one in (found, unquote(found))]
    try:
        password = urlsplit(value.removeprefix("jdbc:")).password
    except ValueError:
        return (value,)
    within += [password, unquote(password)] if password else []
    return tuple(dict.fromkeys([value, *within])) if within or may_hold_secret(key) else ()


def secrets_of(key: str, value: str) -> tuple[str, ...]:
    """Return what nobody may read of a secret parameter's value: as `secrets_in`, and the second half of a
    credential `ID:SECRET`."""
    half = value.partition(":")[2] if key.lower() == "credential" else ""
    return tuple(one for one in dict.fromkeys([value, *secrets_in(key, value), half]) if one)
