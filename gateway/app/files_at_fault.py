"""Files of policies that are not in force as they stand: what is wrong with each, and since when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import structlog

log = structlog.get_logger(__name__)

FileFaultKind = Literal["cases", "whole", "unreadable"]
"""`cases`: a case fails, so that what the file would newly give is not in force, and what it takes away is.
`whole`: nothing of it can be taken, so that it has what it had. `unreadable`: so it is of all files."""
MAX_NAMED = 5
"""Files that `/readyz` names."""
_PLACED = re.compile(r"(?P<file>[^:]+):(?:(?P<line>\d+):)? ")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAtFault:
    """One file, with the first of its faults."""

    file: str
    """Empty where a fault is of no file alone."""
    line: int
    """0 where it is none of a line."""
    kind: FileFaultKind
    fault: str
    """With its place."""
    since: datetime
    """When it was first found so by this gateway."""
    since_s: float
    """The same by a clock that nobody sets."""

    @property
    def shown(self) -> str:
        """Say which it is, and since when, without its words."""
        named = f"{self.file}:{self.line}" if self.line else self.file or "all files together"
        return f"{named} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


class FilesAtFault:
    """Those of one source, as they are now."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._found: dict[str, FileAtFault] = {}

    @property
    def all(self) -> tuple[FileAtFault, ...]:
        return tuple(self._found.values())

    def since_s(self, kind: FileFaultKind) -> float | None:
        """Return since when a file has been so, by the clock; None: none is."""
        return min((one.since_s for one in self.all if one.kind == kind), default=None)

    def update(self, found: Mapping[FileFaultKind, Iterable[str]]) -> None:
        """Take what is wrong now. What is new, or mended, is logged once."""
        before, made = self._found, dict[str, FileAtFault]()
        # Of files that could not be read nobody knows since when they have been as they are.
        unknown = [one for one in before.values() if one.kind == "unreadable"]
        oldest = min(unknown, key=lambda one: one.since_s, default=None)
        for kind, faults in found.items():
            for fault in faults:
                placed = _PLACED.match(fault)
                file = placed["file"] if placed is not None else ""
                if file in made:
                    continue
                known = before.get(file)
                if known is None or (known.kind == "cases") != (kind == "cases"):
                    known = None if kind == "cases" else oldest
                made[file] = FileAtFault(
                    file=file,
                    line=int(placed["line"] or 0) if placed is not None else 0,
                    kind=kind,
                    fault=fault,
                    since=known.since if known is not None else datetime.fromtimestamp(self._wall(), UTC),
                    since_s=known.since_s if known is not None else self._clock(),
                )
        if "unreadable" in found:
            # Nothing was read, so nothing is known to be mended.
            made = {**before, **made}
        self._found = made
        for file, one in made.items():
            if file not in before or (before[file].kind, before[file].fault) != (one.kind, one.fault):
                log.error(
                    "policy_file_at_fault",
                    file=file,
                    line=one.line,
                    kind=one.kind,
                    fault=one.fault,
                    since=one.since.isoformat(),
                )
        for file in before.keys() - made.keys():
            log.info("policy_file_mended", file=file)


def describe_files_at_fault(found: Sequence[FileAtFault], most_s: float) -> str | None:
    """Say which files are not in force as they stand, and what that means; None: all are."""
    told = []
    for kind, what in (
        ("cases", "cases fail: new denials, masks and filters are in force, new grants are not"),
        ("whole", f"no policy in them can be used; all statements are refused after {most_s:g} s"),
        ("unreadable", f"cannot be read; all statements are refused after {most_s:g} s"),
    ):
        shown = [one.shown for one in found if one.kind == kind]
        if shown:
            more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
            told.append(f"{what}: {', '.join(shown[:MAX_NAMED])}{more}")
    return "; ".join(told) or None
