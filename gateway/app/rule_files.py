"""Rule files: which there are, what stands in them, and what they mean together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import gateway
from gateway.errors import Faults, UnreadableFiles
from gateway.model.policy import PolicySet, Service, ServiceDef
from gateway.model.principal import Principal
from gateway.policy.diagnostics import hint
from gateway.policy.packs import load_packs
from gateway.policy.parts import Part, combine, says_anything
from gateway.policy.ranger import RangerFiles, load_files
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import PolicySettings

PACK_PATTERNS = ("*.yaml", "*.yml")
RANGER_PATTERNS = ("*.json",)
RULE_PATTERNS = (*PACK_PATTERNS, *RANGER_PATTERNS)
DEFINITION_PATTERNS = ("*.yaml", "*.yml", "*.json")
FILES = "files"
"""Name of the source that all rule files are together."""

NO_FILES = RangerFiles(services={}, definitions={})

FilesFingerprint = tuple[tuple[str, int, int, int, int], ...]
"""(path, mtime, ctime, size, inode) of every rule file: changes whenever an editor or a deployment touches
one, even one that keeps the old file's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFiles:
    """Texts of all rule files, as they stood on the disk at one moment."""

    service_defs: Mapping[str, str]
    packs: Mapping[str, str]
    ranger: Mapping[str, str]
    """What Ranger exports or its plugins download."""

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that are others when any text or name is another."""
        found = hashlib.sha256()
        for texts in (self.service_defs, self.packs, self.ranger):
            for name in sorted(texts):
                # Ranger's files may have 100 MB; the lock is not held while they are hashed.
                for piece in (name, texts[name]):
                    data = piece.encode("utf-8", "surrogatepass")
                    found.update(len(data).to_bytes(8, "big"))
                    found.update(data)
        return found.hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedRules:
    """What the files hold, and the service definitions that they were read with."""

    part: Part
    definitions: Mapping[str, ServiceDef]
    texts: RuleFiles
    """What was read: of a file that cannot be taken at all, what it had before."""
    good: RuleFiles
    """The same, and of a file with a case that fails, too: what gives."""
    held: tuple[str, ...] = ()
    """What is wrong with files that cannot be taken at all, and keep their last good state."""
    failing: tuple[str, ...] = ()
    """Cases that fail: what their files would newly give is not in force, and what they take away is."""


def find_shipped_rules() -> Path:
    """Return the directory of the rules that come with Sluice: in the wheel, or at the repository's top."""
    package = Path(gateway.__file__).resolve().parent
    installed = package / "_rules"
    return installed if installed.is_dir() else package.parent / "rules"


def definition_paths(settings: PolicySettings) -> list[Path]:
    """Return the files of service definitions. Raises Faults for a path that does not exist."""
    return rule_files((find_shipped_rules() / "service_defs", *settings.service_defs), DEFINITION_PATTERNS)


def rule_paths(settings: PolicySettings) -> tuple[list[Path], list[Path]]:
    """Return the files of service definitions and of rules. Raises Faults for a path that does not exist."""
    return definition_paths(settings), rule_files(settings.paths, RULE_PATTERNS)


def read_rules(settings: PolicySettings) -> RuleFiles:
    """Read every rule file. Raises Faults for what cannot be read."""
    definitions, rules = rule_paths(settings)
    return RuleFiles(
        service_defs=read_texts(definitions),
        packs=read_texts(path for path in rules if not is_json(path)),
        ranger=read_texts(path for path in rules if is_json(path)),
    )


def fingerprint(settings: PolicySettings) -> FilesFingerprint:
    """Return what changes when a rule file does; a path that is gone counts as a change, too."""
    try:
        definitions, rules = rule_paths(settings)
    except Faults as error:
        return tuple((fault, 0, 0, 0, 0) for fault in error.faults)
    found = []
    for path in (*definitions, *rules):
        try:
            status = path.stat()
        except OSError:
            found.append((str(path), 0, 0, 0, 0))
        else:
            times = (status.st_mtime_ns, status.st_ctime_ns)
            found.append((str(path), *times, status.st_size, status.st_ino))
    return tuple(found)


def reload_rules(
    files: RuleFiles,
    settings: PolicySettings,
    good: RuleFiles,
    *,
    people: Mapping[str, Principal] | None = None,
) -> LoadedRules:
    """Return what the files hold, as far as each can be taken: policies at fault are `broken`, and a file
    that cannot be taken at all keeps what it had in `good`, or is left out when it is new. Where cases fail,
    the part knows what it had before them.

    Raises Faults for what is wrong with all of them together, or cannot be told of a file.
    """
    held: list[str] = []
    loaded: LoadedRules | None = None
    while loaded is None:
        try:
            loaded = load_rules(files, settings, people=people, tolerant=True)
        except Faults as error:
            kept = _with_last_good(files, good, error.faults)
            if kept is None:
                raise Faults([*held, *error.faults]) from None
            files = kept
            held += error.faults
    told = tuple(dict.fromkeys(held))
    if not loaded.failing:
        return replace(loaded, held=told)
    before = _before_cases_failed(loaded, settings, good, people)
    # RULE (failing-case-denials, failing-case-good)
    return replace(loaded, part=replace(loaded.part, before=before.part), good=before.good, held=told)


def _before_cases_failed(
    loaded: LoadedRules,
    settings: PolicySettings,
    good: RuleFiles,
    people: Mapping[str, Principal] | None,
) -> LoadedRules:
    """Return what the files hold with the last good text of each whose cases fail; where cases fail still, by
    what another file says, what all of them had."""
    found = loaded
    while found.failing:
        kept = _with_last_good(found.texts, good, found.failing)
        if kept is None:
            return load_rules(good, settings, people=people, tolerant=True)
        try:
            found = load_rules(kept, settings, people=people, tolerant=True)
        except Faults:
            return load_rules(good, settings, people=people, tolerant=True)
    return found


def _with_last_good(files: RuleFiles, good: RuleFiles, faults: Iterable[str]) -> RuleFiles | None:
    """Return the files with the last good text of each that faults are told of; None when nothing changes."""
    faults = tuple(faults)

    def keep_good(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, text in now.items():
            at_fault = any(fault.startswith(f"{name}:") for fault in faults)
            if not at_fault:
                found[name] = text
            elif name in before:
                found[name] = before[name]
        return found

    packs, ranger = keep_good(files.packs, good.packs), keep_good(files.ranger, good.ranger)
    if packs == files.packs and ranger == files.ranger:
        return None
    return replace(files, packs=packs, ranger=ranger)


def load_rules(
    files: RuleFiles,
    settings: PolicySettings,
    *,
    people: Mapping[str, Principal] | None = None,
    tolerant: bool = False,
) -> LoadedRules:
    """Return what the files hold, cases run. Raises Faults with every fault of all of them; with `tolerant`
    policies at fault are `broken`, and none of them, and cases that fail are `failing`."""
    definitions = load_service_defs(files.service_defs)
    faults: list[str] = []
    try:
        ranger = load_files(files.ranger, definitions, tolerant=tolerant) if files.ranger else NO_FILES
    except Faults as error:
        # The packs are looked at all the same: all faults are told together.
        faults += error.faults
        ranger = NO_FILES
    definitions |= ranger.definitions
    elsewhere = {*ranger.services, *(entry.service for entry in settings.ranger)}
    if not faults:
        faults += list_unknown_services(settings, {*definitions, *elsewhere})
    spoken_for = {
        catalog: service
        for catalog, service in settings.catalogs.items()
        if service in definitions and service not in elsewhere
    }
    failing: list[str] = []
    try:
        packs = load_packs(
            files.packs,
            definitions,
            catalog_services=spoken_for,
            people=people,
            tolerant=tolerant,
            failing=failing if tolerant else None,
        )
    except Faults as error:
        raise Faults([*faults, *error.faults]) from None
    faults += _twice(packs.services, ranger.services, {entry.service for entry in settings.ranger})
    if faults:
        raise Faults(faults)
    part = _part(packs, ranger, files.digest, tolerant=tolerant)
    return LoadedRules(part=part, definitions=definitions, texts=files, good=files, failing=tuple(failing))


def list_unknown_services(settings: PolicySettings, known: Iterable[str]) -> list[str]:
    """Return a fault for each service that is to speak for a catalog and that nothing defines."""
    known = set(known)
    return [
        f"catalogs: service `{service}` does not exist{hint(service, known)}"
        for service in sorted(set(settings.catalogs.values()) - known)
    ]


def _twice(packs: Mapping[str, Service], ranger: Mapping[str, Service], admins: set[str]) -> list[str]:
    """Return a fault for each service that two sources define. Packs that say nothing of one do not count."""
    packed = {name for name, service in packs.items() if says_anything(service)}
    sources = (("packs", packed), ("Ranger's files", set(ranger)), ("a Ranger Admin of `ranger`", admins))
    return [
        f"service `{name}` is defined by {' and by '.join(told)}"
        for name in sorted(packed | set(ranger) | admins)
        if len(told := [source for source, names in sources if name in names]) > 1
    ]


def _part(packs: PolicySet, ranger: RangerFiles, digest: str, *, tolerant: bool) -> Part:
    """Return both kinds of files as one source. Raises Faults for what both define."""
    together = combine(
        (
            Part(name="packs", services={}, roles=packs.roles, users=packs.users),
            Part(name="Ranger's files", services={}, roles=ranger.roles, users=ranger.users),
        ),
        packs.version,
        {},
        tolerant=tolerant,
    )
    return Part(
        name=FILES,
        services={**packs.services, **ranger.services},
        roles=together.roles,
        users=together.users,
        limits=packs.limits,
        warnings=(*packs.warnings, *ranger.warnings),
        versions={FILES: digest},
    )


def rule_files(paths: Iterable[Path], patterns: tuple[str, ...]) -> list[Path]:
    """Return the files of paths, directories searched for the patterns. Raises UnreadableFiles."""
    found: list[Path] = []
    faults: list[str] = []

    def unreadable(error: OSError) -> None:
        faults.append(f"{error.filename}: cannot be read: {error.strerror}")

    for path in paths:
        try:
            if path.is_dir():
                # A directory that may not be entered must not look like one without files.
                walk = os.walk(path, onerror=unreadable)
                there = [Path(directory, name) for directory, _, names in walk for name in names]
                named = [file for file in there if any(map(file.match, patterns)) and _is_shown(file, path)]
                found += sorted(named)
                faults += [fault for file in named if (fault := _no_file(file)) is not None]
            else:
                found.append(path)
                if (fault := _no_file(path)) is not None:
                    faults.append(fault)
        except OSError as error:
            unreadable(error)
    if faults:
        raise UnreadableFiles(faults)
    return list(dict.fromkeys(found))


def _no_file(path: Path) -> str | None:
    """Say why a path is no file: opening a pipe would wait for somebody who writes to it."""
    if path.is_file():
        return None
    if path.exists():
        return f"{path}: cannot be read: it is not a file"
    return f"{path}: is a broken link" if path.is_symlink() else f"{path}: does not exist"


def is_json(path: Path) -> bool:
    """Whether a rule file is one of Ranger's, going by its name."""
    return path.suffix.lower() == ".json"


def _is_shown(file: Path, below: Path) -> bool:
    # Not editors' backups, nor the `..data` links under which Kubernetes mounts each file a second time.
    return not any(part.startswith(".") for part in file.relative_to(below).parts)


def read_texts(paths: Iterable[Path]) -> dict[str, str]:
    """Return file name → text. Raises UnreadableFiles for what cannot be read, Faults for what is no text."""
    texts: dict[str, str] = {}
    faults: list[str] = []
    unreadable = False
    for path in paths:
        name = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
        try:
            texts[name] = path.read_text(encoding="utf-8")
        except OSError as error:
            unreadable = True
            faults.append(f"{name}: cannot be read: {error.strerror}")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            faults.append(f"{name}:{line}: the file is not UTF-8")
    if faults:
        raise UnreadableFiles(faults) if unreadable else Faults(faults)
    return texts
