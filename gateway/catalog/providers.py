"""What Spark is told of a catalog of a metalake: by provider and Spark's minor, from a table of `rules/`.

A server says where data is, and not which code runs: of its properties those count that the table names, with
values of the type that stands there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from gateway.catalog.jdbc_addresses import JdbcDatabase, explain_unfit_address
from gateway.catalog.kinds import KINDS
from gateway.catalog.spark_settings import NamedCatalog
from gateway.model.metalakes import RELATIONAL, MetalakeCatalog
from gateway.model.reading_settings import may_hold_secret
from gateway.model.spark_minors import Minor

CATALOG_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
RESERVED_NAMES = frozenset({"system", "session", "global_temp", "builtin", "default"})
"""Names that Spark keeps for itself, and that of the database in which clients begin (``USE `default` ``)."""
_LOGIN = r"[\w.-]*(?:passw(?:or)?d|passphrase|pwd|token|secret|credential|accesskey|accountkey|api_?key)"
_SECRET_IN_URL = re.compile(
    rf"[?&;:](?:{_LOGIN}|sig)=([^?&;]*)|[,(]\s*{_LOGIN}\s*=([^,)&;]*)"
    r"|^jdbc:oracle:\w+:[^/@]*/([^@]+)@",
    re.IGNORECASE,
)
"""As drivers have them in addresses: `?password=…`, `;pwd=…`, `(host=h,password=…)`, `user/…@host`."""
_SECRET_VALUE = re.compile(
    r"\s*(?:(?:bearer|basic|negotiate|token)\s+\S|eyJ[\w-]+\.[\w-]+\.|-----BEGIN\s)"
    r"|.*\bSharedAccessSignature=",
    re.IGNORECASE | re.DOTALL,
)
"""What is a secret under any name: logins of HTTP, signed tokens, keys in PEM."""


_HOST_LIST = r"[\w.-]+(?::\d{1,5})?"
_FORMS: Mapping[str, re.Pattern[str]] = {
    "text": re.compile(r"(?s:.*)"),
    "number": re.compile(r"-?\d{1,18}(?: ?(?:ms|s|m|min|h|d))?"),
    "boolean": re.compile(r"true|false", re.IGNORECASE),
    "address": re.compile(r"https?://[^\s#]+"),
    "metastore": re.compile(rf"thrift://{_HOST_LIST}(?:, ?thrift://{_HOST_LIST})*"),
}
_OF_DATABASES = frozenset({"jdbc", "driver"})
_ANYWHERE = "anywhere"
TYPES = frozenset({*_FORMS, *_OF_DATABASES, _ANYWHERE})
"""What a value may be. `anywhere` is one of `address`, `metastore` and `jdbc`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRule:
    """Which parameter a property becomes."""

    to: str
    values: Mapping[str, str] = field(default_factory=dict)
    """Values that it may have, in lower case → as they are told; none: any of its type."""
    type: str = "text"
    """One of TYPES."""

    def explain_refused(self, value: str, databases: Sequence[JdbcDatabase]) -> str | None:
        """Say why a value is not told, in words that go on after the property's name."""
        if self.values:
            return (
                None
                if value.lower() in self.values
                else (f"must be one of {', '.join(self.values.values())}")
            )
        if self.type == "driver":
            known = any(value in one.drivers for one in databases)
            return None if known else "is not a known driver"
        if self.type == "jdbc" or (self.type == _ANYWHERE and value.startswith("jdbc:")):
            return explain_unfit_address(value, databases)
        forms = ("address", "metastore") if self.type == _ANYWHERE else (self.type,)
        return (
            None
            if any(_FORMS[form].fullmatch(value) for form in forms)
            else (f"is not a valid {' or '.join(forms)}")
        )


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
    bypass: Mapping[str, PropertyRule] = field(default_factory=dict)
    """Parameters (lower case) that a server may say by their names."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    """What the server's types are in Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The table. The first row that has the provider and the minor counts."""

    rows: tuple[Provider, ...]
    bypass: str
    """What a property begins with that is a parameter by itself."""
    databases: tuple[JdbcDatabase, ...] = ()
    """Those whose addresses and drivers a server may name."""

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
class ForSpark:
    """A catalog as Spark is told of it."""

    catalog: NamedCatalog
    left_out: tuple[str, ...] = ()
    """Properties that are meant for Spark, and that a server does not say."""


@dataclass(frozen=True, slots=True)
class NotForSpark:
    """Spark is not told of a catalog."""

    why: str
    expected: bool = False
    """Whether that is nothing to warn of: it holds no tables, or is switched off."""


def spark_catalog(
    catalog: MetalakeCatalog, providers: Providers, minor: Minor, wishes: Wishes
) -> ForSpark | NotForSpark:
    """Return a catalog as Spark is told of it, or why it is left out, in words that go on."""
    if catalog.type != RELATIONAL:
        return NotForSpark(f"of type {catalog.type or 'unknown'}, which has no tables", expected=True)
    if not catalog.in_use:
        return NotForSpark("not in use", expected=True)
    if not CATALOG_NAME.fullmatch(catalog.name):
        return NotForSpark("its name must consist of letters, digits and `_`")
    if catalog.name != catalog.name.lower():
        return NotForSpark("its name has capitals; Spark distinguishes case here and policies do not")
    if catalog.name in RESERVED_NAMES:
        return NotForSpark("its name is reserved by Spark")
    if not catalog.provider:
        return NotForSpark("without a provider")
    row = providers.row(catalog.provider, minor)
    if row is None:
        known = providers.knows(catalog.provider)
        return NotForSpark(
            f"unknown provider `{catalog.provider}`" + (f" for Spark {minor}" if known else "")
        )
    if row.enabled_by and row.enabled_by not in wishes.enabled:
        return NotForSpark(f"provider `{catalog.provider}` is not enabled (`{row.enabled_by}: true`)")
    if wishes.own_connectors:
        own = row.connectors.get(minor)
        if own is None:
            return NotForSpark(
                f"Gravitino has no connector for provider `{catalog.provider}` and Spark {minor}"
            )
        # It asks the server for everything else, but for what the entry says.
        given = wishes.set_parameters.get(catalog.name.lower(), {})
        return ForSpark(NamedCatalog(name=catalog.name, type=row.kind, parameters={"class": own, **given}))
    return _build_parameters(catalog, row, providers, wishes, minor)


def _build_parameters(
    catalog: MetalakeCatalog, row: Provider, providers: Providers, wishes: Wishes, minor: Minor
) -> ForSpark | NotForSpark:
    kind = KINDS[row.kind]
    own = wishes.set_parameters.get(catalog.name.lower(), {})
    given = {key.lower() for key in own}
    parameters: dict[str, str] = dict(row.fixed)
    left_out: list[str] = []
    for key in sorted({*catalog.left_out, *catalog.properties}):
        rule = _rule(key, row, providers.bypass)
        if rule is None:
            left_out += [key] if key.startswith(providers.bypass) else []
        elif rule.to.lower() not in given:
            if key in catalog.left_out:
                return NotForSpark(f"its `{key}` is not known while the server cannot be reached")
            value = catalog.properties[key]
            why = rule.explain_refused(value, providers.databases)
            if why is not None:
                return NotForSpark(f"its `{key}` {why}")
            parameters[rule.to] = rule.values.get(value.lower(), value)
    parameters = {key: value for key, value in parameters.items() if key.lower() not in given} | dict(own)
    missing = kind.list_missing(parameters)
    if missing:
        return NotForSpark(f"{missing[0]} is missing")
    for key, value in parameters.items():
        if "${" in value or any(ord(c) < 32 for c in value):
            return NotForSpark(f"its parameter `{key}` contains characters that Spark would substitute")
    if minor in row.classes:
        parameters["class"] = row.classes[minor]
    named = NamedCatalog(name=catalog.name, type=row.kind, parameters=parameters)
    return ForSpark(named, left_out=tuple(left_out))


def _rule(key: str, row: Provider, bypass: str) -> PropertyRule | None:
    """Return what a property becomes, None where it becomes nothing. INVARIANT (a server does not say which
    code runs): only what the table names."""
    found = row.properties.get(key)
    if found is None and key.startswith(bypass):
        found = row.bypass.get(key.removeprefix(bypass).lower())
    return found


def is_secret(key: str, value: str) -> bool:
    """Whether a property's value may be a secret, or hold one: an address with a password in it."""
    return bool(secrets_in(key, value)) or may_hold_secret(key)


def secrets_in(key: str, value: str) -> tuple[str, ...]:
    """Return what nobody may read of a property's value: all of it, and a password within an address."""
    if _SECRET_VALUE.match(value):
        return tuple(dict.fromkeys((value, value.split()[-1])))
    spellings = dict.fromkeys((value, unquote(value)))
    found = [one for text in spellings for groups in _SECRET_IN_URL.findall(text) for one in groups if one]
    within = [part for one in found for part in (one, unquote(one))]
    try:
        address = urlsplit(value.removeprefix("jdbc:"))
        # Of a store's address it can be a container: `abfss://container@account`.
        name = address.username if address.scheme in ("http", "https") else None
        within += [part for one in (address.password, name) if one for part in (one, unquote(one))]
    except ValueError:
        return (value,)
    return tuple(dict.fromkeys([value, *within])) if within or may_hold_secret(key) else ()


def secrets_of(key: str, value: str) -> tuple[str, ...]:
    """Return what nobody may read of a secret parameter's value: as `secrets_in`, and the second half of a
    credential `ID:SECRET`."""
    half = value.partition(":")[2] if key.lower() == "credential" else ""
    return tuple(one for one in dict.fromkeys([value, *secrets_in(key, value), half]) if one)
