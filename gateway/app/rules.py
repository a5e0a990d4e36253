"""Keeps the policies in force: reads rule files, proves them, and swaps one reference when they have changed.

A changed set of files that has any fault leaves the last good policies in force; the log and `/readyz` say so
until it is mended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

import gateway
from gateway.errors import Faults
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.reading import NotParsed, NotRead
from gateway.policy.packs import expressions, load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.port import ReaderPort
from gateway.settings.models import PolicySettings

log = structlog.get_logger(__name__)

PACK_PATTERNS = ("*.yaml", "*.yml")
DEFINITION_PATTERNS = ("*.yaml", "*.yml", "*.json")

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""(path, mtime, size, inode) of every rule file: changes whenever an editor or a deployment touches one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFiles:
    """Texts of all rule files, as they stood on the disk at one moment."""

    service_defs: Mapping[str, str]
    packs: Mapping[str, str]


def shipped_rules() -> Path:
    """Return the directory of the rules that come with Sluice: in the wheel, or at the repository's top."""
    package = Path(gateway.__file__).resolve().parent
    installed = package / "_rules"
    return installed if installed.is_dir() else package.parent / "rules"


def rule_paths(settings: PolicySettings) -> tuple[list[Path], list[Path]]:
    """Return the files of service definitions and of packs. Raises Faults for a path that does not exist."""
    definitions = rule_files((shipped_rules() / "service_defs", *settings.service_defs), DEFINITION_PATTERNS)
    return definitions, rule_files(settings.paths, PACK_PATTERNS)


def read_rules(settings: PolicySettings) -> RuleFiles:
    """Read every rule file. Raises Faults for what cannot be read."""
    definitions, packs = rule_paths(settings)
    return RuleFiles(service_defs=read_texts(definitions), packs=read_texts(packs))


def fingerprint(settings: PolicySettings) -> Fingerprint:
    """Return what changes when a rule file does; a path that is gone counts as a change, too."""
    try:
        definitions, packs = rule_paths(settings)
    except Faults as error:
        return tuple((fault, 0, 0, 0) for fault in error.faults)
    found = []
    for path in (*definitions, *packs):
        try:
            status = path.stat()
        except OSError:
            found.append((str(path), 0, 0, 0))
        else:
            found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def load_rules(
    files: RuleFiles,
    settings: PolicySettings,
    *,
    version: int = 1,
    people: Mapping[str, Principal] | None = None,
) -> PolicySet:
    """Return the policies of the files, their cases run. Raises Faults with every fault of all of them."""
    definitions = load_service_defs(files.service_defs)
    return load_packs(
        files.packs, definitions, version, catalog_services=dict(settings.catalogs), people=people
    )


async def unparsable(policies: PolicySet, reader: ReaderPort) -> list[str]:
    """Return a fault for each mask and filter that Spark's parser rejects, with its place."""
    found = []
    for place, text, kind in expressions(policies):
        answer = await reader.read_expression(text)
        if isinstance(answer, NotParsed | NotRead):
            found.append(f"{place}: this {kind} is no expression of Spark SQL: {_one_line(answer.message)}")
    return found


class RulesInForce:
    """The current policies, and the task that looks for new ones."""

    def __init__(
        self,
        settings: PolicySettings,
        reader: ReaderPort,
        *,
        people: Callable[[], Mapping[str, Principal]] = dict,
        on_change: Callable[[PolicySet], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._people = people
        self._on_change = on_change
        self._seen: Fingerprint = ()
        self._current: PolicySet | None = None
        self.faults: tuple[str, ...] = ()
        """What is wrong with the files as they are now; the policies in force are older when there is any."""

    @property
    def current(self) -> PolicySet:
        """The policies in force; `start` first."""
        if self._current is None:
            raise Faults(["no policies have been loaded"])
        return self._current

    async def start(self) -> None:
        """Load the rules for the first time. Raises Faults: a gateway does not start on broken rules."""
        self._seen = await asyncio.to_thread(fingerprint, self._settings)
        self._take(await self._load(1))

    async def watch(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(self._settings.reload_s)
            await self.look()

    async def look(self) -> bool:
        """Load the rules anew when a file has changed; return whether new policies are in force."""
        seen = await asyncio.to_thread(fingerprint, self._settings)
        if seen == self._seen:
            return False
        # Taken before the files are read: a change in between is seen at the next look.
        self._seen = seen
        try:
            policies = await self._load(self.current.version + 1)
        except Faults as error:
            self.faults = error.faults
            log.error(
                "rules_not_loaded",
                in_force=self.current.version,
                faults=len(error.faults),
                first=error.faults[0],
            )
            return False
        self._take(policies)
        return True

    async def _load(self, version: int) -> PolicySet:
        def load() -> PolicySet:
            files = read_rules(self._settings)
            return load_rules(files, self._settings, version=version, people=self._people())

        # Off the loop: 10,000 policies take seconds to parse.
        policies = await asyncio.to_thread(load)
        faults = await unparsable(policies, self._reader)
        if faults:
            raise Faults(faults)
        return policies

    def _take(self, policies: PolicySet) -> None:
        self._current = policies
        self.faults = ()
        log.info("rules_in_force", version=policies.version, policies=len(policies.policies))
        self._on_change(policies)


def rule_files(paths: Iterable[Path], patterns: tuple[str, ...]) -> list[Path]:
    """Return the files of paths, directories searched for the patterns. Raises Faults."""
    found: list[Path] = []
    faults = []
    for path in paths:
        if path.is_dir():
            found += sorted(
                {file for pattern in patterns for file in path.rglob(pattern) if _visible(file, path)}
            )
        elif path.exists():
            found.append(path)
        else:
            faults.append(f"{path}: does not exist")
    if faults:
        raise Faults(faults)
    return list(dict.fromkeys(found))


def _visible(file: Path, below: Path) -> bool:
    # Editors' backups, and the `..data` links under which Kubernetes mounts each file a second time.
    return file.is_file() and not any(part.startswith(".") for part in file.relative_to(below).parts)


def read_texts(paths: Iterable[Path]) -> dict[str, str]:
    """Return file name → text. Raises Faults for what cannot be read."""
    texts: dict[str, str] = {}
    faults = []
    for path in paths:
        name = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
        try:
            texts[name] = path.read_text(encoding="utf-8")
        except OSError as error:
            faults.append(f"{name}: cannot be read: {error.strerror}")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            faults.append(f"{name}:{line}: the file is not UTF-8")
    if faults:
        raise Faults(faults)
    return texts


def _one_line(message: str) -> str:
    return " ".join(message.split())
