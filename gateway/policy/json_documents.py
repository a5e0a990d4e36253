"""Strict JSON of any size: text becomes plain data, or it is refused with the line of every fault.

Lines are found again only when somebody asks for one: an export of 50 MB is mostly without faults. Long lists
are decoded entry by entry, because a single call into the C decoder would hold the interpreter for as long as
the whole file takes, and with it the event loop beside this thread.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gateway.errors import Faults
from gateway.model.policy import Place
from gateway.policy.diagnostics import Path

MAX_BYTES = 256 * 1024 * 1024
"""100,000 policies as Ranger's admin exports them have about 100 MB."""
MAX_DEPTH = 64
"""Levels of nesting; Ranger's own documents have 9."""
_DESCENT = 3
"""Levels whose objects are read key by key, so that long lists in them are met: zones, tag policies, tags."""
_CHUNK = 1 << 20

_BLANK = re.compile(r"[ \t\n\r]*")
_ATOM = re.compile(r"[^\s,\]}]+")
_STRINGS = json.JSONDecoder()
_LONE = re.compile(r"[\ud800-\udfff]")


@dataclass(slots=True, eq=False)
class _Branch:
    """Where the entries of one container begin: offsets of keys for an object, of values for a list."""

    start: int
    starts: dict[str | int, int] = field(default_factory=dict)
    """For an object the offset of the key."""
    values: dict[str | int, int] = field(default_factory=dict)
    below: dict[str | int, _Branch] = field(default_factory=dict)


class JsonDocument:
    """One parsed file: `data` with the line of every value, which is looked up when it is asked for."""

    def __init__(self, file: str, data: Any, text: str, root: _Branch | None, lines: _Lines) -> None:
        self.file = file
        self.data = data
        self._text = text
        self._root = root
        self._lines = lines

    def line(self, path: Path) -> int:
        """Return the line (from 1) of the value at `path`: for an object's entry the line of its key.

        A path that leads nowhere gets the line of its deepest part that exists.
        """
        branch, offset = self._root, self._root.start if self._root else 0
        for i, step in enumerate(path):
            if branch is None or step not in branch.starts:
                break
            offset = branch.starts[step]
            below = branch.below.get(step)
            if below is None and i + 1 < len(path):
                # Only containers on the way to a fault are scanned again, one entry of a list at a time.
                below = _Scan(self._text).value(branch.values[step])[0]
            branch = below
        return self._lines.of(offset)

    def place(self, path: Path) -> Place:
        """Return file and line of the value at `path`."""
        return Place(file=self.file, line=self.line(path))


class _Lines:
    """Line numbers of offsets; cheap when they are asked in rising order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0
        self._line = 1

    def of(self, offset: int) -> int:
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line


def parse_json(
    text: str | bytes, file: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> JsonDocument:
    """Parse one file's text; raises Faults with every fault as `file:line: message`.

    Refused are: a larger file, text that is not UTF-8 or not JSON (NaN and Infinity are not), keys that
    repeat, deeper nesting, numbers beyond any type, halves of surrogate pairs. What is not JSON ends the
    parse, everything else is collected first.
    """
    if len(text) > max_bytes or (isinstance(text, str) and _encoded_length(text, max_bytes) > max_bytes):
        raise Faults([f"{file}:1: the file is larger than {max_bytes} bytes"])
    decoded = _decode(text, file) if isinstance(text, bytes) else text
    parser = _Parser(decoded.removeprefix("\ufeff"), file, max_depth)
    document = parser.document()
    if parser.faults:
        raise Faults([f"{file}:{line}: {message}" for line, message in sorted(set(parser.faults))])
    return document


def _encoded_length(text: str, enough: int) -> int:
    """Return the length in UTF-8, or a length beyond `enough`."""
    if len(text) * 4 <= enough or text.isascii():
        return len(text)
    return sum(
        len(text[i : i + _CHUNK].encode("utf-8", "surrogatepass")) for i in range(0, len(text), _CHUNK)
    )


def _decode(text: bytes, file: str) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    pieces, position = [], 0
    try:
        while position < len(text):
            pieces.append(decoder.decode(text[position : position + _CHUNK]))
            position += _CHUNK
        pieces.append(decoder.decode(b"", final=True))
    except UnicodeDecodeError:
        line = text.count(b"\n", 0, position) + 1
        rest = text[position : position + _CHUNK]
        try:
            rest.decode()
        except UnicodeDecodeError as error:
            line += rest.count(b"\n", 0, error.start)
        raise Faults([f"{file}:{line}: the file is not UTF-8, or ends in the middle of a letter"]) from None
    return "".join(pieces)


class _Broken(Exception):
    """The text is not JSON from here on."""


class _Parser:
    """Reads the outer levels itself and hands the entries of lists to the C decoder."""

    def __init__(self, text: str, file: str, max_depth: int) -> None:
        self.faults: list[tuple[int, str]] = []
        self._text = text
        self._file = file
        self._max_depth = max_depth
        self._lines = _Lines(text)
        self._odd = False
        self._keys: dict[str, str] = {}
        self._raw_decode = json.JSONDecoder(
            object_pairs_hook=self._object_of, parse_constant=self._constant, parse_float=self._float
        ).raw_decode

    def document(self) -> JsonDocument:
        data, root = None, None
        try:
            start = self._skip(0)
            if start == len(self._text):
                self._broken(start, "the file is empty")
            data, end, root = self._value(start, 0)
            end = self._skip(end)
            if end != len(self._text):
                self._broken(end, "not JSON: something stands behind the end")
        except _Broken:
            pass
        return JsonDocument(self._file, data, self._text, root, self._lines)

    def _fault(self, offset: int, message: str) -> None:
        self.faults.append((self._lines.of(offset), message))

    def _broken(self, offset: int, message: str) -> NoReturn:
        self._fault(offset, message)
        raise _Broken

    def _skip(self, offset: int) -> int:
        found = _BLANK.match(self._text, offset)
        return found.end() if found else offset

    def _ended(self, offset: int) -> bool:
        return self._skip(min(offset, len(self._text))) == len(self._text)

    def _expect(self, offset: int, marks: str) -> str:
        mark = self._text[offset : offset + 1]
        if not mark:
            self._broken(offset, "the file ends in the middle: it was cut off")
        if mark not in marks:
            self._broken(offset, f"not JSON: `{marks[0]}` is expected here")
        return mark

    # Hooks of the C decoder: they run for every object, so they only remember that something is odd.

    def _object_of(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        share = self._keys.setdefault
        found = {share(key, key): value for key, value in pairs}
        if len(found) != len(pairs):
            self._odd = True
        return found

    def _constant(self, _: str) -> None:
        self._odd = True

    def _float(self, text: str) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self._odd = True
        return value

    def _value(self, start: int, depth: int) -> tuple[Any, int, _Branch | None]:
        mark = self._text[start : start + 1]
        if mark == "{" and depth < _DESCENT:
            return self._object(start, depth)
        if mark == "[" and depth <= _DESCENT:
            return self._list(start, depth)
        value, end = self._whole(start, depth)
        return value, end, None

    def _object(self, start: int, depth: int) -> tuple[dict[str, Any], int, _Branch]:
        branch, found = _Branch(start), dict[str, Any]()
        at = self._skip(start + 1)
        if self._text[at : at + 1] == "}":
            return found, at + 1, branch
        while True:
            self._expect(at, '"')
            key, end = self._whole(at, depth)
            colon = self._skip(end)
            self._expect(colon, ":")
            begin = self._skip(colon + 1)
            if key in found:
                first = self._lines.of(branch.starts[key])
                self._fault(at, f"key `{key}` stands here a second time (first in line {first})")
            branch.starts.setdefault(key, at)
            branch.values.setdefault(key, begin)
            found[key], end, below = self._value(begin, depth + 1)
            if below is not None:
                branch.below[key] = below
            at = self._skip(end)
            if self._expect(at, ",}") == "}":
                return found, at + 1, branch
            at = self._skip(at + 1)

    def _list(self, start: int, depth: int) -> tuple[list[Any], int, _Branch]:
        branch, found = _Branch(start), list[Any]()
        at = self._skip(start + 1)
        if self._text[at : at + 1] == "]":
            return found, at + 1, branch
        while True:
            value, end = self._whole(at, depth + 1)
            branch.starts[len(found)] = at
            found.append(value)
            at = self._skip(end)
            if self._expect(at, ",]") == "]":
                branch.values = branch.starts
                return found, at + 1, branch
            at = self._skip(at + 1)

    def _whole(self, start: int, depth: int) -> tuple[Any, int]:
        """Decode one value at once."""
        try:
            value, end = self._raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            if self._ended(error.pos) or error.msg.startswith("Unterminated"):
                self._broken(error.pos, "the file ends in the middle: it was cut off")
            self._broken(error.pos, f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}")
        except RecursionError:
            self._broken(start, f"nested deeper than {self._max_depth} levels")
        except ValueError:
            self._broken(start, "a number here is longer than any type")
        if self._odd:
            self._odd = False
            scan = _Scan(self._text)
            scan.value(start)
            for offset, message, first in scan.oddities:
                self._fault(offset, message.format(first=self._lines.of(first)))
        opened = self._text.count("{", start, end) + self._text.count("[", start, end)
        if opened + depth > self._max_depth and depth + _depth(value) > self._max_depth:
            self._fault(start, f"nested deeper than {self._max_depth} levels")
        if (
            self._text.find("\\ud", start, end) >= 0 or self._text.find("\\uD", start, end) >= 0
        ) and _has_lone(value):
            self._fault(start, "half of a surrogate pair: that is no text")
        return value, end


def _depth(value: Any) -> int:
    """Return how deep a value is nested, without recursion."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        found, depth = waiting.pop()
        if isinstance(found, dict | list):
            deepest = max(deepest, depth)
            waiting += [(v, depth + 1) for v in (found.values() if isinstance(found, dict) else found)]
    return deepest


def _has_lone(value: Any) -> bool:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += found.keys()
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, str) and _LONE.search(found):
            return True
    return False


class _Scan:
    """Finds where the parts of a value begin, in text that the decoder has read already."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.oddities: list[tuple[int, str, int]] = []
        """(offset, message, offset of what `{first}` in it means)."""

    def value(self, start: int) -> tuple[_Branch, int]:
        branch = _Branch(start)
        mark = self._text[start]
        if mark == '"':
            return branch, _STRINGS.raw_decode(self._text, start)[1]
        if mark not in "{[":
            found = _ATOM.match(self._text, start)
            atom = found.group() if found else ""
            if atom in ("NaN", "Infinity", "-Infinity"):
                self.oddities.append((start, f"`{atom}` is no number", start))
            elif atom[-1:].isdigit() and float(atom) in (float("inf"), float("-inf")):
                self.oddities.append((start, "a number here is larger than any type", start))
            return branch, start + len(atom)
        at = self._skip(start + 1)
        while self._text[at] not in "}]":
            at = self._entry(branch, at, mark == "{")
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return branch, at + 1

    def _entry(self, branch: _Branch, at: int, keyed: bool) -> int:
        key: str | int = len(branch.starts)
        begin = at
        if keyed:
            key, end = _STRINGS.raw_decode(self._text, at)
            begin = self._skip(self._skip(end) + 1)
            if key in branch.starts:
                shown = str(key).replace("{", "{{").replace("}", "}}")
                message = f"key `{shown}` stands here a second time (first in line {{first}})"
                self.oddities.append((at, message, branch.starts[key]))
        below, end = self.value(begin)
        branch.starts.setdefault(key, at)
        branch.values.setdefault(key, begin)
        branch.below.setdefault(key, below)
        return self._skip(end)

    def _skip(self, offset: int) -> int:
        found = _BLANK.match(self._text, offset)
        return found.end() if found else offset
