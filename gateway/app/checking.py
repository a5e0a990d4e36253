"""Finds every fault of settings, packs, service definitions and Spark, without starting a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import orjson

from gateway.app.catalogs import restricts
from gateway.app.classifying import classifiers
from gateway.app.database_checks import DatabaseAnswer, ask_database, dsn_fault
from gateway.app.explaining import find_parser_jars, make_upstream, parsers_for, reader_of
from gateway.app.procedures import procedures
from gateway.app.propagation_rules import propagation_rules
from gateway.app.providers import PROVIDER_KEYS, load_providers
from gateway.app.rest_catalogs import is_rest
from gateway.app.rule_files import (
    RULE_PATTERNS,
    RuleFiles,
    definition_paths,
    is_json,
    load_rules,
    read_texts,
    rule_files,
)
from gateway.app.site_checks import check_site
from gateway.app.spark_checks import ask_spark
from gateway.app.upstream import require_connect
from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendMismatch, BackendUnavailable, Faults, SluiceError
from gateway.frontends.users import read_users
from gateway.jobs.classification.rules import CLASSIFIER_KEYS
from gateway.model.policy import PolicyItem, PolicySet, Role
from gateway.model.spark_configuration import (
    CATALOG_PREFIX,
    NOT_COMPARED,
    ParserConfiguration,
    SparkConfiguration,
)
from gateway.pipeline.policy_reading import unparsable
from gateway.pipeline.table_checks import Tree, against_tables, meaningless_masks
from gateway.policy.diagnostics import hint
from gateway.policy.documents import parse_document
from gateway.policy.packs.files import PACK_KEYS
from gateway.policy.parts import build_closing_part, combine
from gateway.policy.procedures import PROCEDURE_KEYS
from gateway.policy.propagation import PROPAGATION_KEYS
from gateway.policy.service_defs import parse_service_def
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC
from gateway.reader.java_runtime import find_java
from gateway.reader.pool import ReaderPool
from gateway.settings.jobs import ClassifySettings
from gateway.settings.loading import check_settings, load_settings
from gateway.settings.models import PolicySettings, Settings, TagPropagationSettings
from gateway.settings.section import Secret

CheckArea = Literal["settings", "machine", "policies", "spark", "postgresql"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was looked at and what is wrong with it."""

    files: tuple[str, ...]
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    """What is taken as it stands and may not mean what its author thinks."""
    not_asked: tuple[str, ...] = ()
    """What could be asked and was not, and why."""
    policies: int
    areas: Mapping[str, CheckArea] = field(default_factory=dict)
    """What a fault or a warning is about; of one that is not here, the policies."""
    sparks: Mapping[str, SparkConfiguration] = field(default_factory=dict)
    """What Sparks say of themselves, by name; without those that were not asked, or did not answer."""
    database: DatabaseAnswer | None = None
    """What PostgreSQL says; None where it was not asked."""
    engines: tuple[str, ...] = ()
    """What other engines get of masks and filters, where that was asked for."""


MAX_NAMED = 5
"""Users and groups of policies that one warning names."""
_Sorted = Mapping[str, Sequence[Path]]
"""Files by what they hold, as `_kind` says."""


async def check(
    paths: Sequence[Path],
    *,
    with_parser: bool = True,
    with_backend: bool = True,
    with_site: bool = True,
    tables: Path | None = None,
    engines: bool = False,
) -> CheckReport:
    """Check the files, the packs that settings among them name, with `with_site` all that a gateway of these
    settings opens on this machine, and with `with_backend` the PostgreSQL and the Spark that they name;
    `tables` is a file of tables that the policies are held against; `engines`: what other engines get of each
    mask and filter is told too. What cannot be started is a fault.

    Raises Faults when that file cannot be read.
    """
    existing = Tree.of(StaticCatalog.load(tables).snapshot) if tables is not None else None
    found, faults = _sort(paths)
    run = _CheckRun(found, faults, with_parser, with_backend, with_site, existing, engines)
    run.read_settings()
    run.read_other_rules()
    run.load_policies()
    await run.parse_policies()
    if with_backend:
        await run.ask_backends()
    return run.report()


@dataclass(slots=True)
class _CheckRun:
    """One check: what was found so far, part after part."""

    found: _Sorted
    faults: list[str]
    with_parser: bool
    with_backend: bool
    with_site: bool
    existing: Tree | None
    """Tables that the policies are held against."""
    with_engines: bool
    engines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    not_asked: list[str] = field(default_factory=list)
    areas: dict[str, CheckArea] = field(default_factory=dict)
    complete: dict[Path, Settings] = field(default_factory=dict)
    """Settings of which all files are there."""
    readable: list[tuple[Settings, bool]] = field(default_factory=list)
    """Settings that can be read, and whether all files that they name are there."""
    unreadable: bool = False
    """Whether some file cannot be read, so that policies are not parsed."""
    rule_files: set[str] = field(default_factory=set)
    loaded: list[PolicySet] = field(default_factory=list)
    of_gateways: list[tuple[PolicySet, Settings]] = field(default_factory=list)
    """Policies whose names Spark can be asked for."""
    parser: ParserConfiguration = NOT_COMPARED
    sparks: Mapping[str, SparkConfiguration] = field(default_factory=dict)
    database: DatabaseAnswer | None = None

    def read_settings(self) -> None:
        """Read settings, and look at what they open on this machine."""
        self.unreadable = bool(self.faults)
        for path in self.found["settings"]:
            try:
                settings = load_settings(path)
            except Faults as error:
                self.faults += error.faults
                self.areas |= dict.fromkeys(error.faults, "settings")
                self.unreadable = True
                continue
            site = check_site(settings, path, machine=self.with_site)
            self.faults += site.faults
            self.warnings += site.warnings
            self.not_asked += site.not_asked
            self.areas |= dict.fromkeys((*site.faults, *site.warnings), "machine")
            is_complete = not check_settings(path)
            self.readable.append((settings, is_complete))
            if is_complete:
                self.complete[path] = settings
                self.faults += _faults(classifiers, settings.jobs.classify)

    def read_other_rules(self) -> None:
        """Read the files that are neither settings nor policies."""
        for path in self.found["propagation"]:
            self.faults += _faults(propagation_rules, TagPropagationSettings(rules=path))
        for path in self.found["procedures"]:
            self.faults += _faults(procedures, [path])
        for path in self.found["providers"]:
            self.faults += _faults(load_providers, path.read_text(encoding="utf-8"), str(path))
        if self.found["classifiers"]:
            # Together: classes of one file use the lists of another.
            together = ClassifySettings(rules=tuple(self.found["classifiers"]))
            self.faults += _faults(classifiers, together)

    def load_policies(self) -> None:
        """Load the policies of each settings file, or those among the paths where there is none."""
        if not self.readable:
            self._load(None, askable=False)
        for settings, is_complete in self.readable:
            self._load(settings, askable=is_complete)
        self.warnings += [warning for policies in self.loaded for warning in policies.warnings]

    def _load(self, settings: Settings | None, *, askable: bool) -> None:
        own = _there(settings.policies) if settings is not None else PolicySettings()
        sources = settings.file_sources() if settings is not None else ()
        try:
            rules = _rules(own, self.found)
            self.rule_files |= {*rules.packs, *rules.ranger}
            part = load_rules(rules, own).part
            policies = combine((part, build_closing_part(sources)), 1, own.catalogs)
        except Faults as error:
            self.faults += error.faults
            return
        self.loaded.append(policies)
        if settings is None:
            return
        if _has_no_policy(policies, settings):
            self.warnings.append("the settings name no policy: every statement is refused")
        if self.with_site:
            self.warnings += _find_strangers(policies, settings)
        if askable:
            self.of_gateways.append((policies, settings))

    async def parse_policies(self) -> None:
        """Parse masks and filters, and hold the policies against tables."""
        if self.existing is None:
            asked_of = self.found["settings"]
            self.not_asked += _not_asked(self.of_gateways, asked_of, self.with_parser, self.with_backend)
        if self.with_parser and self.unreadable:
            self.not_asked.append("masks and filters were not parsed: first fix what cannot be read")
        elif self.with_parser and self.loaded:
            try:
                await self._parse()
            except Faults:
                raise
            except SluiceError as error:
                # The others are told as well; the site may have told of it, with its line.
                if not any(fault.endswith(error.for_operators) for fault in self.faults):
                    self.faults.append(f"the parser cannot be started: {error.for_operators}")
        elif self.existing is not None:
            for policies in self.loaded:
                self.warnings += await against_tables(policies, self.existing)

    async def _parse(self) -> None:
        first = next(iter(self.complete.values()), Settings())
        find_java(first.reader.java)
        parsers = await parsers_for(first) if self.with_backend else find_parser_jars(first.reader)
        async with reader_of(first.reader.model_copy(update={"processes": 1}), parsers) as pool:
            self.parser = pool.configuration
            for policies in self.loaded:
                self.faults += await unparsable(policies, pool)
                if self.with_engines:
                    from gateway.app.served_policies import describe_served  # optional: few ask

                    self.engines += await describe_served(policies, pool, self.existing)
                if self.existing is not None:
                    self.warnings += await against_tables(policies, self.existing, pool)
                    self.warnings += meaningless_masks(policies, self.existing)
            if self.with_backend and self.existing is None:
                for policies, settings in self.of_gateways:
                    await self._ask_names(policies, settings, pool)

    async def _ask_names(self, policies: PolicySet, settings: Settings, pool: ReaderPool) -> None:
        """Ask Spark for the tables and columns that policies name."""
        asked = await ask_spark(policies, settings, pool)
        closes = settings.policies.unmatched_columns == "closed"
        self.faults += [*asked.faults, *(asked.names if closes else ())]
        self.warnings += [*asked.warnings, *(() if closes else asked.names)]
        self.not_asked += asked.not_asked

    async def ask_backends(self) -> None:
        """Ask the Sparks and the PostgreSQL that settings name."""
        for path, settings in self.complete.items():
            reads = await ask_backends(settings, reader=self.parser)
            self.sparks = reads.configurations
            self.faults += self._place("spark", path, reads.faults)
            self.warnings += self._place("spark", path, reads.warnings)
            if self.with_site and settings.ledger.dsn is not None:
                self.database = await _ask_database(settings.ledger.dsn)
                fault = self.database.fault
                self.faults += self._place("postgresql", path, () if fault is None else (fault,))
                self.warnings += self._place("postgresql", path, self.database.warnings)

    def _place(self, area: CheckArea, path: Path, texts: Iterable[str]) -> list[str]:
        """Return texts about a part of the settings in a file, and note which part it is."""
        placed = [f"{path}: {one}" for one in texts]
        self.areas |= dict.fromkeys(placed, area)
        return placed

    def report(self) -> CheckReport:
        """Return all of it, each fault once."""
        files = {str(path) for some in self.found.values() for path in some}
        return CheckReport(
            files=tuple(sorted(files | self.rule_files)),
            faults=tuple(dict.fromkeys(self.faults)),
            warnings=tuple(dict.fromkeys(self.warnings)),
            not_asked=tuple(dict.fromkeys(self.not_asked)),
            policies=sum(1 for policies in self.loaded for one in policies.policies() if not one.is_closing),
            areas=self.areas,
            sparks=self.sparks,
            database=self.database,
            engines=tuple(dict.fromkeys(self.engines)),
        )


def _has_no_policy(policies: PolicySet, settings: Settings) -> bool:
    """Whether a gateway of these settings would have none, from whatever source."""
    if settings.policies.ranger or settings.metalakes or settings.listeners.admin.ranger is not None:
        return False
    return all(one.is_closing for one in policies.policies())


def _find_strangers(policies: PolicySet, settings: Settings) -> list[str]:
    """Warn of users and groups of policies that are nobody's, where all users stand in the user file."""
    logins, file = settings.logins, settings.users.file
    if any((logins.jwt, logins.ldap, logins.kerberos, logins.certificates, logins.proxies)):
        return []
    try:
        known = read_users(file)
    except Faults:
        return []  # the site told
    items = (item for one in policies.policies() for item in one.items)
    people: list[Role | PolicyItem] = [*policies.roles, *items]
    users = {name for one in people for name in one.users} - known.keys() - {CURRENT_USER, OWNER}
    groups = {name for one in people for name in one.groups} - {PUBLIC, *policies.users.groups}
    groups -= {name for one in known.values() for name in one.principal.groups}
    told = []
    for what, names in (("users", sorted(users)), ("groups", sorted(groups))) if known else ():
        if names:
            more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            shown = ", ".join(f"`{name}`" for name in names[:MAX_NAMED])
            told.append(f"policies name {what} that are not in `{file}`: {shown}{more}")
    return told


def _there(settings: PolicySettings) -> PolicySettings:
    """Return the settings with the files that are there: the others are told of already."""
    return settings.model_copy(
        update={
            "paths": tuple(path for path in settings.paths if path.exists()),
            "service_defs": tuple(path for path in settings.service_defs if path.exists()),
        }
    )


async def _ask_database(dsn: Secret) -> DatabaseAnswer:
    try:
        text = dsn.reveal()
    except Faults:
        return DatabaseAnswer()  # the site told
    return DatabaseAnswer() if dsn_fault(text) is not None else await ask_database(text)


def _not_asked(
    with_spark: Sequence[object], settings: Sequence[Path], with_parser: bool, with_backend: bool
) -> list[str]:
    """Say why Spark is not asked for what policies name, where that is known before."""
    why = ""
    if not settings:
        why = "none of the paths is a settings file"
    elif not with_spark:
        why = "first fix what prevents settings or policies from being read"
    elif not (with_parser and with_backend):
        why = "`--no-parser` or `--no-backend` was given"
    return [f"tables and columns of policies were not checked against Spark: {why}"] if why else []


def _faults(load: Callable[..., object], *arguments: object) -> list[str]:
    """Return why something cannot be loaded."""
    try:
        load(*arguments)
    except Faults as error:
        return list(error.faults)
    return []


def _rules(settings: PolicySettings, found: _Sorted) -> RuleFiles:
    rules = rule_files(settings.paths, RULE_PATTERNS)
    packs = [*(path for path in rules if not is_json(path)), *found["pack"]]
    ranger = [*(path for path in rules if is_json(path)), *found["ranger"]]
    return RuleFiles(
        service_defs=read_texts(_once([*definition_paths(settings), *found["definition"]])),
        packs=read_texts(_once(packs)),
        ranger=read_texts(_once(ranger)),
    )


def _once(paths: Iterable[Path]) -> Iterable[Path]:
    return {path.resolve(): path for path in paths}.values()


def _sort(paths: Iterable[Path]) -> tuple[_Sorted, list[str]]:
    """Return the files of paths by what they hold, and what keeps some of them from being anything."""
    found: dict[str, list[Path]] = {kind: [] for kind in _KINDS}
    faults: list[str] = []
    for path in paths:
        try:
            files = rule_files([path], RULE_PATTERNS)
        except Faults as error:
            faults += error.faults
            continue
        if path.is_dir() and not files:
            faults.append(f"{path}: contains no `*.yaml` and no `*.json`")
        for file in files:
            kind = _kind(file)
            if kind in found:
                found[kind].append(file)
            else:
                faults.append(kind)
    return found, faults


_KINDS = (
    "settings", "pack", "ranger", "definition", "propagation", "procedures", "providers", "classifiers",
)  # fmt: skip


def _kind(file: Path) -> str:
    """Return `pack`, `ranger`, `definition`, `propagation`, `procedures`, `providers`, `classifiers` or
    `settings`, or the fault that keeps a file from being any of them."""
    if is_json(file) and not _is_definition(file):
        return "ranger"  # what is wrong with it is told when it is loaded
    try:
        data = parse_document(file.read_bytes(), str(file)).data
    except OSError as error:
        return f"{file}: cannot be read: {error.strerror}"
    except Faults as error:
        return "\n".join(error.faults)
    if data is None:
        return f"{file}:1: the file is empty"
    keys = set(data) if isinstance(data, dict) else set()
    if _defines(data):
        try:
            parse_service_def(file.read_text(encoding="utf-8"), str(file))
        except Faults as error:
            return "\n".join(error.faults)
        return "definition"
    sections = keys & set(Settings.model_fields)
    if sections - set(PACK_KEYS) or (sections and isinstance(data["policies"], dict)):
        return "settings"
    if keys and keys <= set(PROPAGATION_KEYS) and "flows" in keys:
        return "propagation"
    if keys and keys <= PROCEDURE_KEYS and "procedures" in keys:
        return "procedures"
    if keys and keys <= PROVIDER_KEYS and "providers" in keys:
        return "providers"
    if keys and keys <= set(CLASSIFIER_KEYS):
        return "classifiers"
    if keys & set(PACK_KEYS):
        return "pack"
    near = hint(str(next(iter(keys), "")), (*PACK_KEYS, *Settings.model_fields))
    return f"{file}:1: neither a settings file, a policy pack nor a service definition{near}"


def _is_definition(file: Path) -> bool:
    try:
        return _defines(orjson.loads(file.read_bytes()))
    except (OSError, orjson.JSONDecodeError):
        return False


def _defines(data: object) -> bool:
    """Whether this is a service definition: it lists its resources, where a policy maps them."""
    return isinstance(data, dict) and "name" in data and isinstance(data.get("resources"), list)


# -- Asks the Spark that settings name how it reads texts, for `sluice check` --------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCheck:
    """What is wrong with a Spark, and what may be."""

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    configurations: Mapping[str, SparkConfiguration] = field(default_factory=dict)
    """What each says of itself, by name, where it answered and its answer fits."""


async def ask_backends(settings: Settings, *, reader: ParserConfiguration) -> BackendCheck:
    """Return why Sparks of the settings would get no statement; `reader` is the parser of the first. Of
    others only their version and settings are looked at, and those that come and go are not asked."""
    main = settings.main_backend
    found = [(main, await ask_backend(settings.for_backend(main), reader=reader))]
    for name, backend in settings.all_backends.items():
        if name != main and backend.discover is None:
            own = settings.for_backend(name)
            told = await ask_backend(own, reader=NOT_COMPARED)
            if told.configurations:
                told = await _check_parser(own, told)
            found.append((name, told))
    if len(found) == 1:
        return found[0][1]
    return BackendCheck(
        faults=tuple(f"backend `{name}`: {fault}" for name, one in found for fault in one.faults),
        warnings=tuple(f"backend `{name}`: {warning}" for name, one in found for warning in one.warnings),
        configurations={
            name: said for name, one in found if not one.faults for said in one.configurations.values()
        },
    )


async def _check_parser(settings: Settings, told: BackendCheck) -> BackendCheck:
    """Add that the jars of a Spark's parser are not here."""
    try:
        await parsers_for(settings)
    except SluiceError as error:
        return replace(told, faults=(*told.faults, error.for_operators))
    return told


async def ask_backend(settings: Settings, *, reader: ParserConfiguration) -> BackendCheck:
    """Return why the Spark of the settings would get no statement; nothing when it would.

    One that does not answer is a warning, because settings are checked where Spark cannot be reached. An
    embedded one is the gateway's own. `reader` is the parser, or NOT_COMPARED.
    """
    if settings.backend.embedded is not None:
        return BackendCheck()
    try:
        if settings.listeners.connect is not None:
            require_connect()
        upstream = make_upstream(settings, None, reader)
    except Faults as error:
        return BackendCheck(faults=error.faults)
    try:
        told = await upstream.ask_each()
    finally:
        await upstream.close()
    faults: list[str] = []
    warnings: list[str] = []
    for answer in told:
        match answer:
            case BackendMismatch():
                faults += answer.reasons
            case BackendUnavailable(lasting=True):
                faults.append(answer.for_operators)
            case BackendUnavailable():
                warnings.append(f"could not compare how Spark parses: {answer.for_operators}")
            case SparkConfiguration():
                warnings += (*_catalogs(settings, answer), *_list_unasked(settings, answer))
    answered = [one for one in told if isinstance(one, SparkConfiguration)]
    return BackendCheck(
        faults=tuple(dict.fromkeys(faults)),
        warnings=tuple(dict.fromkeys(warnings)),
        configurations=dict(zip([settings.main_backend], answered, strict=False)),
    )


_NO_SESSION_CATALOG = (
    "`policies.catalogs` does not have `spark_catalog`: names that begin with it, such as "
    "`spark_catalog.db.t`, are refused; add it, with the service that speaks for it"
)


def _catalogs(settings: Settings, told: SparkConfiguration) -> tuple[str, ...]:
    """Tell of catalogs that Spark has and nobody speaks for."""
    own = "spark_catalog" in settings.policies.catalogs
    return (() if own else (_NO_SESSION_CATALOG,)) + tuple(
        f"Spark has the catalog `{name}` ({plugin}), which is not in `policies.catalogs`: nobody can "
        "access its tables" + ("" if name == name.lower() else "; names with capitals are not supported")
        for name, plugin in told.catalogs.items()
        if name not in settings.named_catalogs and name != "spark_catalog"
    )


def _list_unasked(settings: Settings, told: SparkConfiguration) -> list[str]:
    """Tell of Iceberg REST catalogs whose tables may be read, and that are not asked what they restrict."""
    asked = {entry.name for entry in settings.catalogs if restricts(entry)}
    ignored = {entry.name for entry in settings.catalogs if entry.catalog.read_restrictions == "ignore"}
    found = []
    for name in sorted((settings.named_catalogs | {"spark_catalog"} | ignored) - asked):
        begin = f"{CATALOG_PREFIX}{name}."
        own = {
            key.removeprefix(begin): value for key, value in told.settings.items() if key.startswith(begin)
        }
        if name in ignored:
            why = "by `read-restrictions: ignore`"
        elif is_rest(own):  # RULE (unasked-rest-catalog)
            why = f"since only Spark's configuration has it ({begin}…); give it to `catalogs` as `iceberg`"
        else:
            continue
        found.append(
            f"the Iceberg REST catalog `{name}` is not asked what it restricts (`read-restrictions`), {why}: "
            "its row filters and masks are not enforced"
        )
    return found
