"""What `catalogs:` of the settings may hold: named catalogs, one of them the default, each of some type.

Its keys are taken without regard to case and with `-` or `_`, because documents spell them in several ways
(`Default-db`, `is-default`). The section is brought into one spelling here, and every fault of it is told,
before the models see it. An entry of type `files` is another spelling of a source in `files`: it becomes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from gateway.catalog.kinds import ALIASES, GIVEN, KINDS, SESSION_CATALOG, CatalogKind, kind_named
from gateway.catalog.providers import CATALOG_NAME, RESERVED_NAMES, is_secret
from gateway.model.reading_settings import may_hold_secret
from gateway.policy.diagnostics import Diagnostics, Path, hint
from gateway.settings.files import FileSourceSettings
from gateway.settings.metalakes import check_metalake
from gateway.settings.section import REFERENCES, Name, Secret, Section

_ABOUT_SECRETS = re.compile(
    r"[.-](?:enabled?|provider|loader|path|file|location|endpoint|url|role-name|token-type|lifespan"
    r"|idle-timeout|expires-(?:at|in)(?:-ms)?)$|(?:^|[.-])token-expires-at-ms\.|account[.-](?:keyprovider\.|name$)"
)
"""Parameters that only look like secrets: the class that gets one, where it is, whose, how long it lasts."""
_HEADER = re.compile(r"(?:.*\.)?header\.(.*)", re.DOTALL)
_PLAIN_HEADERS = frozenset(
    {
        "accept", "content-type", "polaris-realm", "user-agent", "x-goog-user-project",
        "x-iceberg-access-delegation",
    }
)  # fmt: skip
"""Headers that no server takes for a login; of any other nobody here knows."""


def check_parameters(
    given: Any, at: Path, faults: Diagnostics, kind: CatalogKind | None
) -> dict[str, str | dict[str, str]]:
    """Return parameters as they stand, and note all their faults; `kind` is None where the type has one."""
    if given is not None and not isinstance(given, dict):
        faults.add(at, "`connection-params` must be a mapping")
        return {}
    made: dict[str, Any] = {}
    seen: dict[str, str] = {}
    sound: list[str] = []
    given = given or {}
    for key, value in given.items():
        where, before = (*at, key), faults.noted
        if key.lower() in seen:
            faults.add(where, f"parameter `{key}` is repeated here, first as `{seen[key.lower()]}`")
            continue
        seen[key.lower()] = key
        if kind is not None and not kind.takes(key, given):
            told = hint(key, kind.parameters)
            faults.add(where, f"type `{kind.name}` has no parameter `{key}`{told}")
        made[key] = _value(key, value, where, faults)
        if faults.noted == before:
            sound.append(key)
    if kind is None:
        return made
    if kind.lists:
        check_metalake(made, at, faults)
    for missing in kind.list_missing(made):
        faults.add(at, f"{_describe_kind(kind, made)} needs the parameter {missing}")
    for key in sound:
        told = _wrong_value(key, made, kind)
        if told:
            faults.add((*at, key), told)
    if kind.opened_by in seen and kind.chosen_by in seen:
        told = f"`{kind.chosen_by}` and `{kind.opened_by}` exclude each other for {kind.name}"
        faults.add((*at, seen[kind.opened_by]), told)
    return made


def _describe_kind(kind: CatalogKind, given: Mapping[str, Any]) -> str:
    """Return what a kind is called in messages: with its variant, where that says what it needs."""
    chosen = kind.choose_variants(given)
    return f"type `{kind.name}`" + (f" with `{kind.chosen_by}: {chosen}`" if chosen in kind.variants else "")


def _wrong_value(key: str, given: Mapping[str, Any], kind: CatalogKind) -> str:
    """Say why a value is none of its parameter's, empty when it is. That of a reference nobody knows yet; no
    other is repeated either, as it may be a password that stands in the wrong place."""
    value, folded = given[key], key.lower()
    if not isinstance(value, str):
        return ""
    form = kind.form(folded, given) or (GIVEN if folded in kind.list_needed(given) else None)
    if form is not None and not form.pattern.fullmatch(value):
        return f"`{key}` must be {form.spark_class}" if value.strip() else f"`{key}` is empty"
    if folded == kind.chosen_by and kind.choose_variants(given) not in kind.variants:
        return f"`{key}` must be {', '.join(kind.variants)}{hint(value, kind.variants)}"
    return ""


def _value(key: str, value: Any, at: Path, faults: Diagnostics) -> Any:
    if isinstance(value, dict):
        try:
            Secret.model_validate(value)
        except ValidationError:
            faults.add(at, f"`{key}`: {REFERENCES}")
        return value
    if value is None or isinstance(value, list):
        faults.add(at, f"`{key}` must be a text, a number, true or false, or a secret")
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _is_secret(key):
        faults.add(at, f"`{key}` is a secret: write `{{env: NAME}}` or `{{file: PATH}}`")
    elif is_secret("", text):
        told = "write the whole value as `{env: NAME}`, or use the parameter for passwords"
        faults.add(at, f"`{key}` contains a password: {told}")
    elif any(ord(c) < 32 for c in text):
        faults.add(at, f"`{key}` contains a character that parameters cannot have")
    return text


def _is_secret(key: str) -> bool:
    """Whether a parameter's value is a secret, as far as its name tells; in doubt it is."""
    folded = key.lower()
    header = _HEADER.fullmatch(folded)
    if header is not None:
        return header[1] not in _PLAIN_HEADERS
    return may_hold_secret(folded) and _ABOUT_SECRETS.search(folded) is None


DEFAULT_SERVICE = "spark"
FILES = "files"
"""The type of entries that are sources of files."""
_NAME = CATALOG_NAME
_TYPES = (
    f"{', '.join(f'`{name}`' for name in (*KINDS, *ALIASES))}; see docs/catalogs.md. One of `files` is a "
    "source as in `files` below, whose keys are its parameters."
)


class CatalogConnection(Section):
    """The catalog itself. Keys may also be written `is-default`, `Is-Default` and the like."""

    type: Annotated[str, Field(pattern="^(" + "|".join(KINDS) + ")$", description=_TYPES)]
    is_default: bool = False
    """Whether sessions begin in it; one catalog at most, by default Spark's session catalog."""
    default_db: Name = "default"
    """Database in which sessions of this catalog begin."""
    connection_params: dict[str, str | Secret] = Field(default_factory=dict)
    """Parameters of its type. Secrets are `{env: NAME}` or `{file: PATH}`."""
    read_restrictions: Literal["enforce", "ignore"] = "enforce"
    """Of an Iceberg REST catalog: whether it is asked what it restricts for a user. `ignore`: Spark reads
    tables whole whatever the catalog restricts."""
    user_credentials: dict[str, Secret] = Field(default_factory=dict)
    """User → credential (`ID:SECRET`) by which an Iceberg REST catalog is asked what it restricts for that
    user. Where there are any, others are refused. Spark reads with its own login."""
    read_restrictions_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds for which an answer serves the same user again."""

    @property
    def kind(self) -> CatalogKind:
        """The kind that `type` names."""
        return KINDS[self.type]

    def parameter(self, key: str) -> str | Secret | None:
        """Return a parameter, whatever the case of its key."""
        return next((v for k, v in self.connection_params.items() if k.lower() == key), None)


class CatalogEntry(Section):
    """One catalog, and the policy service that speaks for it."""

    name: Name
    """First part of the names in it: lower-case letters, digits and `_`."""
    catalog: CatalogConnection
    policies: Name = DEFAULT_SERVICE
    """Service that speaks for it, as in `policies.catalogs`."""

    @property
    def on_spark(self) -> bool:
        """Whether Spark has a catalog of this name."""
        return self.catalog.kind.on_spark


_ENTRY_KEYS = tuple(CatalogEntry.model_fields)
_CATALOG_KEYS = tuple(CatalogConnection.model_fields)


@dataclass(slots=True)
class Normalized:
    """The section in the models' spelling, what has a fault left out."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What entries of type `files` say, as `files` of the settings has it: by name."""
    services: list[tuple[Path, Any]] = field(default_factory=list)
    """Services that these name, and where they stand."""
    _places: dict[Path, Path] = field(default_factory=dict)
    """Where a key of a source was written, by its place in the models."""

    def find_written(self, location: Path) -> Path:
        """Return where the value at a place in the models stands in the document."""
        for depth in range(len(location), 0, -1):
            if location[:depth] in self._places:
                return (*self._places[location[:depth]], *location[depth:])
        return location

    def add(self, made: dict[str, Any], at: Path, places: Mapping[str, Path]) -> None:
        """Take an entry without faults."""
        if made["catalog"]["type"] != FILES:
            self.entries.append(made)
            return
        name = made["name"]
        self.sources[name] = made["catalog"]["connection_params"]
        if "policies" in made:
            self.services.append(((*at, "policies"), made["policies"]))
        self._places["files", name] = at
        self._places.update({("files", name, key): place for key, place in places.items()})


def normalize_section(entries: Any, faults: Diagnostics) -> Normalized:
    """Return the section in the models' spelling, and note every fault of it."""
    good = Normalized()
    if entries is None:
        return good
    if not isinstance(entries, list):
        faults.add(("catalogs",), "`catalogs` must be a list of entries with `name` and `catalog`")
        return good
    names, defaults = dict[str, int](), list[int]()
    for index, entry in enumerate(entries):
        before = faults.fault_count
        places: dict[str, Path] = {}
        made = _entry(entry, ("catalogs", index), faults, places)
        name = made.get("name")
        if isinstance(name, str):
            first = names.setdefault(name.lower(), index)
            if first != index:
                line = faults.line(("catalogs", first))
                faults.add(("catalogs", index), f"catalog `{name}` is repeated here (line {line})")
        if isinstance(made.get("catalog"), dict) and made["catalog"].get("is_default") is True:
            defaults.append(index)
        if faults.fault_count == before:
            good.add(made, ("catalogs", index), places)
    for index in defaults[1:]:
        line = faults.line(("catalogs", defaults[0]))
        faults.add(
            ("catalogs", index), f"a second default catalog: line {line} has the first; set exactly one"
        )
    return good


def _entry(entry: Any, at: Path, faults: Diagnostics, parameters: dict[str, Path]) -> dict[str, Any]:
    """Return an entry; `parameters` takes where those of a source of files were written."""
    if not isinstance(entry, dict):
        faults.add(at, "an entry of `catalogs` must be a mapping with `name` and `catalog`")
        return {}
    made, places = _fold_keys(entry, _ENTRY_KEYS, at, faults)
    for key in ("name", "catalog"):
        if key not in made:
            faults.add(at, f"key `{key}` is missing")
    name = made.get("name")
    kind = None
    if "catalog" in made:
        made["catalog"] = _catalog(made["catalog"], places["catalog"], faults, name, parameters)
        kind = KINDS.get(made["catalog"].get("type"))
    if name is not None:
        _check_name(name, places["name"], faults, kind)
    policies = made.get("policies", DEFAULT_SERVICE)
    if not isinstance(policies, str) or not policies:
        faults.add(places["policies"], "`policies` must be the name of a service")
    elif "policies" in made and kind is not None and not kind.governed:
        told = (
            f"`policies`: Spark does not see a catalog of type `{kind.name}`, so policies do not apply to it"
        )
        faults.add(places["policies"], told)
    return made


def _check_name(name: Any, at: Path, faults: Diagnostics, kind: CatalogKind | None) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        faults.add(
            at, f"`{name}` is not a valid catalog name: use letters, digits and `_`, without a digit first"
        )
    elif name.lower() in RESERVED_NAMES:
        faults.add(at, f"`{name}` is a name reserved by Spark")
    elif kind is not None and kind.on_spark:
        _check_case(name, at, faults)


def _check_case(name: str, at: Path, faults: Diagnostics) -> None:
    """INVARIANT (names are judged as Spark will resolve them): policies know no capitals. Spark tells them
    apart, and what is no catalog to it is a database of the current one."""
    if name != name.lower():
        faults.add(
            at,
            f"`{name}` has capitals; Spark distinguishes case here and policies do not: write "
            f"`{name.lower()}`",
        )


def _catalog(
    section: Any, at: Path, faults: Diagnostics, name: Any, parameters: dict[str, Path]
) -> dict[str, Any]:
    if not isinstance(section, dict):
        faults.add(at, "`catalog` must be a mapping with `type`")
        return {}
    made, places = _fold_keys(section, _CATALOG_KEYS, at, faults)
    kind = None
    if "type" not in made:
        faults.add(at, "key `type` is missing")
    else:
        kind = kind_named(made["type"]) if isinstance(made["type"], str) else None
        if kind is None:
            near = hint(str(made["type"]), (*KINDS, *ALIASES))
            faults.add(
                places["type"], f"unknown type `{made['type']}`{near}; the types are {', '.join(KINDS)}"
            )
        else:
            made["type"] = kind.name
    if not isinstance(made.get("is_default", False), bool):
        faults.add(places["is_default"], "`is-default` must be true or false")
    elif made.get("is_default") and kind is not None and not kind.on_spark:
        faults.add(places["is_default"], f"a catalog of type `{kind.name}` cannot be the default")
    database = made.get("default_db", "default")
    if not isinstance(database, str) or not _NAME.fullmatch(database):
        faults.add(places["default_db"], "`default-db` must be the name of a database")
    if kind is not None and kind.session_only and isinstance(name, str) and name.lower() != SESSION_CATALOG:
        faults.add(places["type"], f"type `{kind.name}` is for the catalog `{SESSION_CATALOG}` alone")
    if kind is not None and kind.lists and "default_db" in made:
        faults.add(places["default_db"], "`default-db`: a list of catalogs has no databases of its own")
    for key in ("read_restrictions", "read_restrictions_s", "user_credentials"):
        if key in made and kind is not None and kind.name != "iceberg" and not kind.lists:
            told = f"`{key.replace('_', '-')}` is for Iceberg REST catalogs"
            faults.add(places[key], f"{told}, and type `{kind.name}` is none")
    given, place = made.get("connection_params"), places["connection_params"]
    if kind is not None and kind.name == FILES:
        if "default_db" in made:
            faults.add(places["default_db"], "`default-db`: set the parameter `database` for tables of files")
        made["connection_params"] = _source(given, place, faults, kind, parameters)
    else:
        made["connection_params"] = check_parameters(given, place, faults, kind)
    return made


def _source(
    given: Any, at: Path, faults: Diagnostics, kind: CatalogKind, places: dict[str, Path]
) -> dict[str, Any]:
    """Return the parameters of a source of files by the keys of its model, which says what they may be."""
    if given is not None and not isinstance(given, dict):
        faults.add(at, "`connection-params` must be a mapping")
        return {}
    made, written = _fold_keys(given or {}, tuple(FileSourceSettings.model_fields), at, faults)
    places.update(written)
    for missing in kind.list_missing(made):
        faults.add(at, f"type `{kind.name}` needs the parameter {missing}")
    return made


def _fold_keys(
    given: Mapping[str, Any], keys: tuple[str, ...], at: Path, faults: Diagnostics
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return values by the models' keys, and where each was written; repeated and unknown keys are noted."""
    made: dict[str, Any] = {}
    places: dict[str, Path] = dict.fromkeys(keys, at)
    written: dict[str, str] = {}
    for key, value in given.items():
        folded = key.lower().replace("-", "_")
        if folded not in keys:
            known = [name.replace("_", "-") for name in keys]
            faults.add((*at, key), f"unknown key `{key}`{hint(key, known)}")
        elif folded in made:
            faults.add((*at, key), f"key `{key}` is repeated here, first as `{written[folded]}`")
        else:
            made[folded], places[folded], written[folded] = value, (*at, key), key
    return made, places


def check_names(policies: Any, faults: Diagnostics) -> None:
    """Note catalogs of `policies` that Spark would not know by the names that policies have for them."""
    named = policies.get("catalogs") if isinstance(policies, dict) else None
    for name in named if isinstance(named, dict) else ():
        if isinstance(name, str):
            _check_case(name, ("policies", "catalogs", name), faults)


def add_catalog_services(read: Normalized, policies: Any, faults: Diagnostics) -> dict[str, Any]:
    """Return `policies` with the services of the entries among its `catalogs`."""
    section = dict(policies) if isinstance(policies, dict) else {}
    named = section.get("catalogs", {SESSION_CATALOG: DEFAULT_SERVICE})
    if not isinstance(named, dict):
        return section
    services = dict(named)
    folded = {name.lower(): name for name in services}
    for name, service in _services(read.entries):
        known = folded.get(name.lower())
        explicit = known is not None and "catalogs" in section
        if explicit and service is not None and services[known or name] != service:
            other = services[known or name]
            told = f"`policies.catalogs` assigns `{name}` to service `{other}`, and `catalogs` to `{service}`"
            faults.add(("policies", "catalogs", known or name), told)
        elif not explicit:
            services[known or name] = service or services.get(known or name, DEFAULT_SERVICE)
    of_files = next((services[name] for name in services if name.lower() == SESSION_CATALOG), None)
    for place, service in read.services:
        if service != of_files:
            told = f"tables of files are in `{SESSION_CATALOG}`, whose service is `{of_files or 'nobody'}`"
            faults.add(place, f"{told}, not `{service}`")
    return {**section, "catalogs": services}


def _services(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str | None]]:
    for entry in entries:
        if KINDS[entry["catalog"]["type"]].on_spark:
            yield entry["name"], entry.get("policies")


def secrets_of(entries: tuple[CatalogEntry, ...]) -> Iterator[tuple[Path, Secret]]:
    """Yield every secret with its place in the models."""
    for index, entry in enumerate(entries):
        for key, value in entry.catalog.connection_params.items():
            if isinstance(value, Secret):
                yield ("catalogs", index, "catalog", "connection-params", key), value
        for user, secret in entry.catalog.user_credentials.items():
            yield ("catalogs", index, "catalog", "user-credentials", user), secret
