"""What is wrong with a document: faults and warnings, each with its line, told all at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from gateway.errors import Faults
from gateway.model.policy import FileLine

Path = tuple[str | int, ...]
"""Keys and list positions from the document's root to a value."""


class Located(Protocol):
    """A parsed file that can say where its values stand."""

    @property
    def file(self) -> str:
        """Return the name that messages give the file."""

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`."""


class Diagnostics:
    """Faults and warnings about one document, each with its place.

    The place is `file:line` when the document was a file, else the way to the value, as `policies[3].name`.
    """

    def __init__(self, document: Located | None = None, *, file: str = "") -> None:
        self._document = document
        self._file = document.file if document is not None else file
        self._faults: dict[tuple[int, str], None] = {}
        self._warnings: dict[tuple[int, str], None] = {}
        self.faults: list[tuple[Path, str]] = []
        """Every fault, with the way to its value."""
        self._keys: list[tuple[int, str]] = []
        """Of each of `faults`, in their order."""
        self.noted = 0
        """How often something was noted, also what had been noted before."""

    @property
    def fault_count(self) -> int:
        return len(self._faults)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple([text for _, text in self._warnings])

    def add(self, path: Path, message: str) -> None:
        """Note what makes the document unusable."""
        self.noted += 1
        key = self._format_fault(path, message)
        self.faults.append((path, message))
        self._keys.append(key)
        self._faults[key] = None

    def warn(self, path: Path, message: str) -> None:
        """Note what is taken and does not mean what its author may think."""
        self.noted += 1
        self._warnings[self._format_fault(path, message)] = None

    def _format_fault(self, path: Path, message: str) -> tuple[int, str]:
        if self._document is not None:
            line = self._document.line(path)
            return line, f"{self._file}:{line}: {message}"
        where = ": ".join(part for part in (self._file, format_path(path)) if part)
        return len(self._faults) + len(self._warnings), f"{where}: {message}" if where else message

    def withdraw(self, first: int) -> tuple[str, ...]:
        """Take back the faults from the `first` of `faults` on, and return them: one part is at fault by
        itself, and not the document."""
        keys = dict.fromkeys(self._keys[first:])
        del self.faults[first:], self._keys[first:]
        for key in keys.keys() - set(self._keys):
            del self._faults[key]
        return tuple(text for _, text in keys)

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`; 0 when the document was no file."""
        return self._document.line(path) if self._document is not None else 0

    def mark(self) -> int:
        """Return what `since` takes to tell the warnings of one part."""
        return len(self._warnings)

    def since(self, mark: int) -> tuple[str, ...]:
        """Return the warnings that were noted after `mark`."""
        return self.warnings[mark:] if len(self._warnings) > mark else ()

    def repeat(self, warnings: tuple[str, ...]) -> None:
        """Note warnings of something that was read before and is the same."""
        self._warnings.update(dict.fromkeys((0, text) for text in warnings))

    def place(self, path: Path) -> FileLine | None:
        """Return where a value stands; None when the document was no file."""
        if self._document is not None:
            return FileLine(file=self._file, line=self._document.line(path))
        return None

    def texts(self) -> list[str]:
        """Return the faults in the order of lines."""
        return [text for _, text in sorted(self._faults)]

    def raise_any(self) -> None:
        """Raise Faults when there is any."""
        if self._faults:
            raise Faults(self.texts())


def format_path(path: Path) -> str:
    """Return a path as one writes it: `policies[3].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def hint(name: str, options: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the option nearest to `name`, or nothing when none is near."""
    folded = {option.lower(): option for option in options}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean `{folded[near[0]]}`?)" if near else ""


def list_unknown_keys(
    data: Mapping[str, object], allowed: Iterable[str], path: Path, faults: Diagnostics, what: str = ""
) -> None:
    """Note each key of `data` that is not allowed, with the nearest allowed one."""
    allowed = tuple(allowed)
    for key in data:
        if key not in allowed:
            where = f" in {what}" if what else ""
            faults.add((*path, key), f"unknown key `{key}`{where}{hint(key, allowed)}")


def section(data: Mapping[str, Any], key: str, path: Path, faults: Diagnostics) -> dict[str, Any]:
    """Return a mapping within a mapping; what is none is noted, what is absent is empty."""
    found = data.get(key)
    if found is None or isinstance(found, dict):
        return found or {}
    faults.add((*path, key), f"`{key}` must be a mapping")
    return {}
