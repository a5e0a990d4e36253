"""Strict JSON of any size: bytes become plain data, or they are refused with the line of every fault.

orjson reads. One call of it for a hundred megabytes would hold the interpreter's lock for a second, and with
it every session of the gateway: long lists are read slice by slice, in a few milliseconds each; meant for a
thread of its own. Lines are found again only when somebody asks for one: an export of 50 MB is mostly without
faults.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from gateway.errors import Faults
from gateway.model.policy import FileLine
from gateway.policy.diagnostics import Path

MAX_BYTES = 256 * 1024 * 1024
"""100,000 policies as Ranger's admin exports them have about 100 MB."""
MAX_DEPTH = 254
"""Levels of nesting, as many as orjson writes; of a long list's entry by itself. Ranger's own have 9."""
SLICE_BYTES = 256 * 1024
"""Bytes that are parsed in one go: about two milliseconds of work."""

_LONG = ("policies", "serviceResources", "policyDeltas")
"""Keys whose lists may have 100,000 entries; a document that is a list is another."""
_LIST = re.compile(rb'(?<!\\)"(?:' + "|".join(_LONG).encode() + rb')"\s*:\s*\[(?=\s*\{)')
"""Where such a list begins. Inside a text the quotes would have backslashes before them."""
_LISTED = re.compile(rb"\s*\[(?=\s*\{)")
_BRACKET = re.compile(rb'(?:[^"\[\]{}]+|"[^"\\]*(?:\\.[^"\\]*)*")*([\[\]{}])', re.DOTALL)
"""Everything up to and with the next bracket that is not part of a text."""
_COMMA = re.compile(rb"\s*,(?=\s*\{)")
_FIRST_KEY = re.compile(rb'\s*\{\s*("[^"\\]*")\s*:')
_BLANK = re.compile(rb"[ \t\n\r]*")
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ATOM = re.compile(rb"[^\s,\]}]+")
_CUT_OFF = "not JSON: the file is truncated"
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ENTRIES = json.JSONDecoder()
_SEPARATOR = re.compile(r"[ \t\n\r]*,?[ \t\n\r]*")


class JsonDocument:
    """One parsed file: `data` with the line of every value, which is looked up when it is asked for."""

    def __init__(self, file: str, data: Any, content: bytes, lists: Mapping[int, _LongList]) -> None:
        self.file = file
        self.data = data
        self._scan = _Scan(content, lists)
        self._lines = _Lines(content)

    def line(self, path: Path) -> int:
        """Return the line (from 1) of the value at `path`: for an object's entry the line of its key.

        A path that leads nowhere gets the line of its deepest part that exists.
        """
        offset = begin = self._scan.skip(0)
        for step in path:
            found = self._scan.entry(begin, step)
            if found is None:
                break
            offset, begin = found
        return self._lines.of(offset)

    def place(self, path: Path) -> FileLine:
        """Return file and line of the value at `path`."""
        return FileLine(file=self.file, line=self.line(path))


class _Lines:
    """Line numbers of offsets; cheap when they are asked in rising order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._offset = 0
        self._line = 1

    def of(self, offset: int) -> int:
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self._content.count(b"\n", self._offset, offset)
        self._offset = offset
        return self._line


def parse_json(
    text: str | bytes, file: str, *, max_bytes: int = MAX_BYTES, unique_keys: bool = True
) -> JsonDocument:
    """Parse one file's text; raises Faults with every fault as `file:line: message`.

    Refused are: a larger file, text that is not UTF-8 or not JSON (NaN, Infinity, numbers beyond any type and
    halves of surrogate pairs are not), deeper nesting, and keys that repeat, unless they need not be unique:
    then the last one counts, as in Ranger's own readers. What is not JSON ends the parse.
    """
    try:
        content = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        line = error.object.count("\n", 0, error.start) + 1
        raise Faults([f"{file}:{line}: not JSON: half of a surrogate pair is not text"]) from None
    if len(content) > max_bytes:
        raise Faults([f"{file}:1: the file is larger than {max_bytes} bytes"])
    parser = _Parser(content.removeprefix(_BYTE_ORDER_MARK), unique_keys)
    data = None
    try:
        data = parser.document()
    except _Broken as error:
        parser.faults.append((error.line, error.message))
    if parser.faults:
        raise Faults([f"{file}:{line}: {message}" for line, message in sorted(set(parser.faults))])
    return JsonDocument(file, data, parser.content, parser.lists)


def parse_object(content: bytes, file: str) -> dict[str, Any]:
    """Return the object that another program wrote, whose keys may repeat. Raises Faults as `parse_json`."""
    data = parse_json(content, file, unique_keys=False).data
    if not isinstance(data, dict):
        raise Faults([f"{file}:1: is not a JSON object"])
    return data


class _Broken(Exception):
    """The text is not JSON from here on."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(slots=True, eq=False)
class _LongList:
    """A list that is read slice by slice: its entries, and which of them each slice begins with."""

    entries: list[Any] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    end: int = 0
    """Where its `]` is."""

    def add(self, entries: list[Any], begin: int) -> None:
        self.firsts.append(len(self.entries))
        self.begins.append(begin)
        self.entries += entries

    def slice_of(self, position: int) -> tuple[int, int, int]:
        """Return the first entry of the slice that an entry is in, where it begins and where it ends."""
        at = bisect_right(self.firsts, position) - 1
        end = self.begins[at + 1] if at + 1 < len(self.begins) else self.end
        return self.firsts[at], self.begins[at], end


class _Parser:
    """Reads long lists by themselves, and the rest of the document at once."""

    def __init__(self, content: bytes, unique_keys: bool) -> None:
        self.content = content
        self.faults: list[tuple[int, str]] = []
        self.lists: dict[int, _LongList] = {}
        """Where the `[` of each long list is → the list."""
        self._unique_keys = unique_keys

    def document(self) -> Any:
        """Return the data. Raises _Broken."""
        content = self.content
        if not content.strip():
            self._break(len(content), "not JSON: it is empty")
        if len(content) <= SLICE_BYTES:
            return self._read(content, [(0, 0)])
        rest: list[bytes] = []
        places: list[tuple[int, int]] = []
        at = length = 0
        listed_whole = _LISTED.match(content)
        while found := listed_whole or _LIST.search(content, at):
            listed_whole = None
            # Every such list that begins with a mapping is replaced: a mark cannot be mistaken for content.
            mark = b'{"":%d}' % len(self.lists)
            places.append((length, at))
            rest += (content[at : found.end()], mark)
            length += found.end() - at + len(mark)
            listed = self.lists[found.end() - 1] = _LongList()
            self._read_list(listed, found.end())
            at = listed.end
        places.append((length, at))
        rest.append(content[at:])
        return self._with_lists({_LONG[0]: self._read(b"".join(rest), places)})[_LONG[0]]

    def _read_list(self, listed: _LongList, start: int) -> None:
        """Read the entries of a list whose `[` ends at `start`."""
        content = self.content
        begin = at = self._read_easy_entries(listed, start)
        depth = 0
        while found := _BRACKET.match(content, at):
            at = found.end()
            if found[1] in b"[{":
                depth += 1
            elif depth:
                depth -= 1
            else:
                listed.end = at - 1
                if begin == start or content[begin : at - 1].strip():
                    listed.add(self._read_slice(begin, at - 1), begin)
                return
            if depth == 0 and at - begin >= SLICE_BYTES and (comma := _COMMA.match(content, at)):
                listed.add(self._read_slice(begin, at), begin)
                begin = at = comma.end()
        self._break(len(content), _CUT_OFF)

    def _read_easy_entries(self, listed: _LongList, start: int) -> int:
        """Read a first part of the list, and return where the next entry begins.

        Entries written by one program begin with one key: where that follows `},` an entry probably ends.
        What comes before is a row of whole entries if and only if it parses, so a wrong guess costs nothing
        but time: counting every bracket takes seven times as long.
        """
        first = _FIRST_KEY.match(self.content, start)
        if first is None:
            return start
        ends = re.compile(rb"\}\s*,\s*(?=\{\s*" + re.escape(first[1]) + rb"\s*:)")
        begin = start
        while found := ends.search(self.content, begin + SLICE_BYTES, begin + 4 * SLICE_BYTES):
            try:
                entries = self._read_slice(begin, found.start() + 1)
            except _Broken:
                break
            listed.add(entries, begin)
            begin = found.end()
        return begin

    def _read_slice(self, begin: int, end: int) -> list[Any]:
        entries: list[Any] = self._read(b"[" + self.content[begin:end] + b"]", [(1, begin)])
        return entries

    def _read(self, part: bytes, places: list[tuple[int, int]]) -> Any:
        """Return what a part of the document says; `places` has where in it each part of the document is."""
        try:
            value = orjson.loads(part)
        except orjson.JSONDecodeError as error:
            self._tell(error, part, places)
        try:
            written = orjson.dumps(value)
        except TypeError:
            self._break(_place(0, places), _TOO_DEEP)
        if self._unique_keys and _quotes(part) != _quotes(written):
            self._tell_repeated(part, places)
        return value

    def _tell(self, error: orjson.JSONDecodeError, part: bytes, places: list[tuple[int, int]]) -> NoReturn:
        at, message = len(error.doc[: error.pos].encode()), f"not JSON: {error.msg}"
        try:
            part.decode()
        except UnicodeDecodeError as undecoded:
            at, message = undecoded.start, "not JSON: it is not UTF-8, or ends in the middle of a character"
        place = _place(at, places)
        if error.msg == "depth limit exceeded":
            message = _TOO_DEEP
        elif place >= len(self.content):
            message = _CUT_OFF
        self._break(place, message)

    def _break(self, offset: int, message: str) -> NoReturn:
        raise _Broken(_Lines(self.content).of(max(0, offset)), message)

    def _tell_repeated(self, part: bytes, places: list[tuple[int, int]]) -> None:
        scan, lines = _Scan(part, {}), _Lines(self.content)
        for key, offset, first in scan.list_repeated_keys():
            line, earlier = lines.of(_place(offset, places)), lines.of(_place(first, places))
            self.faults.append((line, f"key `{key}` is repeated here (first in line {earlier})"))

    def _with_lists(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data with every mark replaced by the list that it stands for, once."""
        lists = dict(enumerate(self.lists.values()))
        waiting: list[Any] = [data]
        try:
            while waiting:
                found = waiting.pop()
                for key, value in found.items() if isinstance(found, dict) else enumerate(found):
                    if key in _LONG and isinstance(value, list) and value and isinstance(value[0], dict):
                        found[key] = lists.pop(value[0][""]).entries
                    elif isinstance(value, dict | list):
                        waiting.append(value)
        except (LookupError, TypeError):
            # Its key was spelled with escapes, so that it was not found.
            self._break(0, "a list of policies has a key with a non-canonical spelling")
        return data


def _place(offset: int, places: list[tuple[int, int]]) -> int:
    """Return where in the document an offset in a part of it is."""
    at = max(0, bisect_right(places, offset, key=lambda place: place[0]) - 1)
    return places[at][1] + offset - places[at][0]


def _quotes(text: bytes) -> int:
    """Count the quotes that texts begin and end with: fewer, when an object's key was there twice."""
    if b"\\" not in text:
        return text.count(b'"')
    plain = text.replace(rb"\\", b"")
    return plain.count(b'"') - plain.count(rb"\"")


@dataclass(slots=True, eq=False)
class _Branch:
    """Where the entries of one container begin."""

    starts: dict[str | int, int] = field(default_factory=dict)
    """For an object the offset of the key."""
    values: dict[str | int, int] = field(default_factory=dict)
    below: list[int] = field(default_factory=list)
    """Every value, those of keys that repeat too."""
    repeated: list[tuple[str, int, int]] = field(default_factory=list)


class _Scan:
    """Finds where the parts of a value begin, in text that was read already."""

    def __init__(self, text: bytes, lists: Mapping[int, _LongList]) -> None:
        self._text = text
        self._lists = lists
        self._branches: dict[int, _Branch] = {}
        self._slice: tuple[int, list[int]] = (-1, [])
        """Where the slice begins that was asked for last, and its entries."""

    def entry(self, start: int, step: str | int) -> tuple[int, int] | None:
        """Return where an entry of the container at `start` begins, and where its value does; None: nowhere.

        Only containers on the way to a fault are scanned again, one slice of a long list at a time.
        """
        if self._text[start : start + 1] not in (b"{", b"["):
            return None
        if (listed := self._lists.get(start)) is not None:
            if not isinstance(step, int) or not 0 <= step < len(listed.entries):
                return None
            begin = self._list_entries(listed, step)
            return begin, begin
        branch = self._branches.get(start)
        if branch is None:
            branch = self._branches[start] = self._branch(start)
        return None if step not in branch.starts else (branch.starts[step], branch.values[step])

    def list_repeated_keys(self) -> list[tuple[str, int, int]]:
        """Return (key, its offset, that of its first) for every key that repeats, anywhere in the text."""
        found, waiting = [], [self.skip(0)]
        while waiting:
            start = waiting.pop()
            if self._text[start] in b"{[":
                branch = self._branch(start)
                found += branch.repeated
                waiting += branch.below
        return found

    def skip(self, offset: int) -> int:
        """Return where the next value or mark is."""
        blank = _BLANK.match(self._text, offset)
        return blank.end() if blank else offset

    def _list_entries(self, listed: _LongList, position: int) -> int:
        first, begin, end = listed.slice_of(position)
        if self._slice[0] != begin:
            text = self._text[begin:end].decode()
            offsets, at, written, offset = [], 0, 0, begin
            while (at := _SEPARATOR.match(text, at).end()) < len(text):  # type: ignore[union-attr]
                offset += len(text[written:at].encode())
                written = at
                offsets.append(offset)
                at = _ENTRIES.raw_decode(text, at)[1]
            self._slice = begin, offsets
        return self._slice[1][position - first]

    def _branch(self, start: int) -> _Branch:
        branch, text = _Branch(), self._text
        at = self.skip(start + 1)
        while text[at] not in b"}]":
            key: str | int = len(branch.starts)
            begin = at
            if text[start] in b"{":
                end = self._end(at)
                key = orjson.loads(text[at:end])
                begin = self.skip(self.skip(end) + 1)
                if key in branch.starts:
                    branch.repeated.append((str(key), at, branch.starts[key]))
            branch.starts.setdefault(key, at)
            branch.values.setdefault(key, begin)
            branch.below.append(begin)
            at = self.skip(self._end(begin))
            if text[at] in b",":
                at = self.skip(at + 1)
        return branch

    def _end(self, start: int) -> int:
        mark = self._text[start]
        if mark not in b"{[":
            found = (_TEXT if mark in b'"' else _ATOM).match(self._text, start)
            return found.end() if found else len(self._text)
        depth, at = 0, start
        while found := _BRACKET.match(self._text, at):
            at = found.end()
            if found[1] in b"]}":
                depth -= 1
            elif (listed := self._lists.get(at - 1)) is not None:
                at = listed.end + 1
            else:
                depth += 1
            if depth == 0:
                break
        return at
