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
    spark: SparkConfiguration | None = None
    """What Spark says of itself; None where it was not asked, or did not answer."""
    database: DatabaseAnswer | None = None
    """What PostgreSQL says; None where it was not asked."""


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
) -> CheckReport:
    """Check the files, the packs that settings among them name, with `with_site` all that a gateway of these
    settings opens on this machine, and with `with_backend` the PostgreSQL and the Spark that they name;
    `tables` is a file of tables that the policies are held against. What cannot be started is a fault.

    Raises Faults when that file cannot be read.
    """
    existing = Tree.of(StaticCatalog.load(tables).snapshot) if tables is not None else None
    found, faults = _sort(paths)
    by_path: dict[Path, Settings] = {}
    read: list[tuple[Settings, bool]] = []
    """Those that can be read, and whether all files that they name are there."""
    readable = not faults
    warnings: list[str] = []
    not_asked: list[str] = []
    areas: dict[str, CheckArea] = {}
    spark: SparkConfiguration | None = None
    database: DatabaseAnswer | None = None
    for path in found["settings"]:
        try:
            one_settings = load_settings(path)
        except Faults as error:
            faults += error.faults
            areas |= dict.fromkeys(error.faults, "settings")
            readable = False
            continue
        site = check_site(one_settings, path, machine=with_site)
        faults += site.faults
        warnings += site.warnings
        not_asked += site.not_asked
        areas |= dict.fromkeys((*site.faults, *site.warnings), "machine")
        complete = not check_settings(path)
        read.append((one_settings, complete))
        if complete:
            by_path[path] = one_settings
            faults += _faults(classifiers, one_settings.jobs.classify)
    for path in found["propagation"]:
        faults += _faults(propagation_rules, TagPropagationSettings(rules=path))
    for path in found["procedures"]:
        faults += _faults(procedures, [path])
    for path in found["providers"]:
        faults += _faults(load_providers, path.read_text(encoding="utf-8"), str(path))
    if found["classifiers"]:
        # Together: classes of one file use the lists of another.
        faults += _faults(classifiers, ClassifySettings(rules=tuple(found["classifiers"])))
    settings = list(by_path.values())
    wholes: list[tuple[Settings | None, bool]] = [*read] or [(None, False)]
    files = {str(path) for some in found.values() for path in some}
    loaded: list[PolicySet] = []
    with_spark: list[tuple[PolicySet, Settings]] = []
    for one_of_them, askable in wholes:
        one = _there(one_of_them.policies) if one_of_them is not None else PolicySettings()
        try:
            rules = _rules(one, found)
        except Faults as error:
            faults += error.faults
            continue
        files |= {*rules.packs, *rules.ranger}
        try:
            part = load_rules(rules, one).part
            sources = one_of_them.file_sources() if one_of_them is not None else ()
            loaded.append(combine((part, build_closing_part(sources)), 1, one.catalogs))
            if one_of_them is not None and _has_no_policy(loaded[-1], one_of_them):
                warnings.append("the settings name no policy: every statement is refused")
            if one_of_them is not None and with_site:
                warnings += _find_strangers(loaded[-1], one_of_them)
            if one_of_them is not None and askable:
                with_spark.append((loaded[-1], one_of_them))
        except Faults as error:
            faults += error.faults
    warnings += [warning for policies in loaded for warning in policies.warnings]
    configuration = NOT_COMPARED
    if existing is None:
        not_asked += _not_asked(with_spark, found["settings"], with_parser, with_backend)
    if with_parser and not readable:
        not_asked.append("masks and filters were not parsed: first fix what cannot be read")
    elif with_parser and loaded:
        first = settings[0] if settings else Settings()
        try:
            find_java(first.reader.java)
            parsers = await parsers_for(first) if with_backend else find_parser_jars(first.reader)
            async with reader_of(first.reader.model_copy(update={"processes": 1}), parsers) as pool:
                configuration = pool.configuration
                for policies in loaded:
                    faults += await unparsable(policies, pool)
                    if existing is not None:
                        warnings += await against_tables(policies, existing, pool)
                        warnings += meaningless_masks(policies, existing)
                for policies, whole in with_spark if with_backend and existing is None else ():
                    asked = await ask_spark(policies, whole, pool)
                    closes = whole.policies.unmatched_columns == "closed"
                    faults += [*asked.faults, *(asked.names if closes else ())]
                    warnings += [*asked.warnings, *(() if closes else asked.names)]
                    not_asked += asked.not_asked
        except Faults:
            raise
        except SluiceError as error:
            # The others are told as well; the site may have told of it, with its line.
            if not any(fault.endswith(error.for_operators) for fault in faults):
                faults.append(f"the parser cannot be started: {error.for_operators}")
    elif existing is not None:
        for policies in loaded:
            warnings += await against_tables(policies, existing)
    if with_backend:
        for path, one_settings in by_path.items():
            reads = await ask_backends(one_settings, reader=configuration)
            spark = reads.configuration
            faults += _about(areas, "spark", path, reads.faults)
            warnings += _about(areas, "spark", path, reads.warnings)
            if with_site and one_settings.ledger.dsn is not None:
                database = await _ask_database(one_settings.ledger.dsn)
                if database.fault is not None:
                    faults += _about(areas, "postgresql", path, [database.fault])
                warnings += _about(areas, "postgresql", path, database.warnings)
    return CheckReport(
        files=tuple(sorted(files)),
        faults=tuple(dict.fromkeys(faults)),
        warnings=tuple(dict.fromkeys(warnings)),
        not_asked=tuple(dict.fromkeys(not_asked)),
        policies=sum(1 for policies in loaded for one in policies.policies() if not one.is_closing),
        areas=areas,
        spark=spark,
        database=database,
    )


def _about(areas: dict[str, CheckArea], area: CheckArea, path: Path, told: Iterable[str]) -> list[str]:
    """Return what was told of a part of the settings in a file, and note which part it was."""
    placed = [f"{path}: {one}" for one in told]
    areas |= dict.fromkeys(placed, area)
    return placed


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
    configuration: SparkConfiguration | None = None
    """What it says of itself, where it answered and its answer fits."""


async def ask_backends(settings: Settings, *, reader: ParserConfiguration) -> BackendCheck:
    """Return why Sparks of the settings would get no statement; `reader` is the parser of the first. Of
    others only their version and settings are looked at, and those that come and go are not asked."""
    main = settings.main_backend
    found = [(main, await ask_backend(settings.for_backend(main), reader=reader))]
    for name, backend in settings.all_backends.items():
        if name != main and backend.discover is None:
            own = settings.for_backend(name)
            told = await ask_backend(own, reader=NOT_COMPARED)
            if told.configuration is not None:
                told = await _check_parser(own, told)
            found.append((name, told))
    if len(found) == 1:
        return found[0][1]
    return BackendCheck(
        faults=tuple(f"backend `{name}`: {fault}" for name, one in found for fault in one.faults),
        warnings=tuple(f"backend `{name}`: {warning}" for name, one in found for warning in one.warnings),
        configuration=found[0][1].configuration,
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
    return BackendCheck(
        faults=tuple(dict.fromkeys(faults)),
        warnings=tuple(dict.fromkeys(warnings)),
        configuration=next((one for one in told if isinstance(one, SparkConfiguration)), None),
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
