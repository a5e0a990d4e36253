"""JSON of a hundred megabytes, read bit by bit.

One call of a JSON library for all of it would hold the interpreter's lock for a second, and with it every
session of the gateway. Here it is held for a few milliseconds at a time; meant for a thread of its own.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

SLICE_BYTES = 256 * 1024
"""What is parsed in one go: about two milliseconds."""
_LONG = ("policies", "serviceResources", "policyDeltas")
"""Keys whose lists may have 100,000 entries."""
_LIST = re.compile(rb'(?<!\\)"(?:' + "|".join(_LONG).encode() + rb')"\s*:\s*\[(?=\s*\{)')
"""Where such a list begins. Inside a text the quotes would have backslashes before them."""
_BRACKET = re.compile(rb'(?:[^"\[\]{}]+|"[^"\\]*(?:\\.[^"\\]*)*")*([\[\]{}])', re.DOTALL)
"""Everything up to and with the next bracket that is not part of a text."""
_COMMA = re.compile(rb"\s*,(?=\s*\{)")
_FIRST_KEY = re.compile(rb'\s*\{\s*("[^"\\]*")\s*:')


class NotJson(Exception):
    """The content is no JSON object; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def parse(content: bytes) -> dict[str, Any]:
    """Return the JSON object. Raises NotJson."""
    if len(content) <= SLICE_BYTES:
        return _object(_loads(content, content, 0))
    long_lists: list[list[Any]] = []
    rest: list[bytes] = []
    at = 0
    while found := _LIST.search(content, at):
        entries, end = _entries(content, found.end())
        # Every such list that begins with a mapping is replaced, so a mark cannot be mistaken for content.
        rest += (content[at : found.end()], b'{"":%d}' % len(long_lists))
        long_lists.append(entries)
        at = end
    rest.append(content[at:])
    data = _loads(b"".join(rest), content, 0)
    try:
        return _object(_with_lists(data, dict(enumerate(long_lists))))
    except (LookupError, TypeError):
        # Its key was spelled with escapes, so that it was not found.
        raise NotJson("a list of policies has a key that is written in another way than usual", 1) from None
    except RecursionError:
        raise NotJson("nested too deeply", 1) from None


def _entries(content: bytes, start: int) -> tuple[list[Any], int]:
    """Return the entries of a list whose `[` ends at `start`, and where its `]` is."""
    entries, begin = _easy_entries(content, start)
    depth, at = 0, begin
    while found := _BRACKET.match(content, at):
        at = found.end()
        if found[1] in b"[{":
            depth += 1
        elif depth:
            depth -= 1
        else:
            entries += _loads(b"[" + content[begin : at - 1] + b"]", content, begin)
            return entries, at - 1
        if depth == 0 and at - begin >= SLICE_BYTES and (comma := _COMMA.match(content, at)):
            entries += _loads(b"[" + content[begin:at] + b"]", content, begin)
            begin = at = comma.end()
    raise NotJson("a list has no end; was it cut short?", content.count(b"\n") + 1)


def _easy_entries(content: bytes, start: int) -> tuple[list[Any], int]:
    """Return the entries of a first part of the list, and where the next one begins.

    Entries written by one program begin with one key: where that follows `},` an entry probably ends. What
    comes before is a row of whole entries if and only if it parses, so a wrong guess costs nothing but time:
    counting every bracket takes seven times as long.
    """
    entries: list[Any] = []
    first = _FIRST_KEY.match(content, start)
    if first is None:
        return entries, start
    ends = re.compile(rb"\}\s*,\s*(?=\{\s*" + re.escape(first[1]) + rb"\s*:)")
    begin = start
    while found := ends.search(content, begin + SLICE_BYTES, begin + 4 * SLICE_BYTES):
        try:
            entries += orjson.loads(b"[" + content[begin : found.start() + 1] + b"]")
        except orjson.JSONDecodeError:
            break
        begin = found.end()
    return entries, begin


def _loads(part: bytes, content: bytes, begin: int) -> Any:
    try:
        return orjson.loads(part)
    except orjson.JSONDecodeError as error:
        line = content.count(b"\n", 0, min(len(content), begin + max(0, error.pos))) + 1
        raise NotJson(f"not JSON: {error.msg}", line) from None


def _object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise NotJson("is no JSON object", 1)
    return data


def _with_lists(data: Any, lists: dict[int, list[Any]], depth: int = 0) -> Any:
    """Return the data with every mark replaced by the list that it stands for, once."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in _LONG and isinstance(value, list) and value and isinstance(value[0], dict):
                data[key] = lists.pop(value[0][""])
            elif isinstance(value, dict | list):
                _with_lists(value, lists, depth + 1)
    elif isinstance(data, list):
        for value in data:
            _with_lists(value, lists, depth + 1)
    return data
