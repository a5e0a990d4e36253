"""Strict YAML: text becomes plain data whose every value still knows its line, or it is refused as a whole.

The subset is smaller than YAML on purpose. Only `true` and `false` are booleans (a region called `NO` stays
text), keys are text, keys may not repeat, there are no tags, merge keys or second documents, and a file
cannot grow when it is expanded (aliases count as often as they are used). Built from libyaml's events, not
from its composer: the composer recurses in C, so deep nesting would end the process instead of the load.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from gateway.errors import Faults
from gateway.model.policy import FileLine
from gateway.policy.diagnostics import Path

MAX_BYTES = 4 * 1024 * 1024
"""A pack of 10,000 policies has about 2 MB."""
MAX_NODES = 500_000
MAX_DEPTH = 40
"""Levels of nesting; the deepest file that we document has 7."""

_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_QUOTED = frozenset("'\"|>")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\Z")
"""No leading zeros (a postal code is text) and at most 18 digits, so that a value always fits 64 bits."""
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})?(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,3})?\Z")


@dataclass(slots=True, eq=False)
class _YamlNode:
    """A value with its line, and how large and how deep it is when every alias in it is expanded."""

    line: int
    value: Any = None
    children: dict[str | int, _YamlNode] = field(default_factory=dict)
    key_lines: dict[str | int, int] = field(default_factory=dict)
    size: int = 1
    height: int = 1
    closed: bool = True
    pending_key: str = ""
    """The key of a mapping whose value comes next."""
    expects_key: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One parsed file. `data` holds dict, list, str, int, float, bool and None only; do not change it."""

    file: str
    data: Any
    _root: _YamlNode | None = field(repr=False)

    def line(self, path: Path) -> int:
        """Return the line (from 1) of the value at `path`: for a mapping's entry the line of its key.

        A path that leads nowhere gets the line of its deepest part that exists.
        """
        node, line = self._root, self._root.line if self._root else 1
        for step in path:
            if node is None or step not in node.children:
                break
            line = node.key_lines[step]
            node = node.children[step]
        return line

    def place(self, path: Path) -> FileLine:
        """Return file and line of the value at `path`."""
        return FileLine(file=self.file, line=self.line(path))


def parse_document(
    text: str | bytes,
    file: str,
    *,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    max_depth: int = MAX_DEPTH,
) -> Document:
    """Parse one YAML file's text; raises Faults with every fault as `file:line: message`.

    A syntax error ends the parse, everything else (repeated keys, tags, …) is collected first.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise Faults([f"{file}:{line}: the file is not UTF-8"]) from None
    if len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes:
        raise Faults([f"{file}:1: the file is larger than {max_bytes} bytes"])
    builder = _Builder(file, max_nodes, max_depth)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
            if builder.stopped:
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        builder.fault(mark.line + 1 if mark else 1, f"not YAML: {what}")
    except (yaml.YAMLError, UnicodeEncodeError):
        # libyaml's reader tells a byte offset only; the first such character is found again here.
        builder.fault(_first_unprintable(text), "a character that YAML does not allow")
    if builder.faults:
        raise Faults(builder.faults)
    root = builder.root
    return Document(file, root.value if root else None, root)


def _first_unprintable(text: str) -> int:
    found = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff", text)
    return text[: found.start()].count("\n") + 1 if found else 1


class _Builder:
    """Takes libyaml's events one by one and keeps the open containers on a stack of its own."""

    def __init__(self, file: str, max_nodes: int, max_depth: int) -> None:
        self.file = file
        self.faults: list[str] = []
        self.root: _YamlNode | None = None
        self.stopped = False
        self._max_nodes = max_nodes
        self._max_depth = max_depth
        self._nodes = 0
        self._stack: list[_YamlNode] = []
        self._anchors: dict[str, _YamlNode] = {}

    def fault(self, line: int, message: str) -> None:
        self.faults.append(f"{self.file}:{line}: {message}")

    def _stop(self, line: int, message: str) -> None:
        self.fault(line, message)
        self.stopped = True

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            if self.root is not None:
                self._stop(line, "a file must contain one document; `---` starts a second one")
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", line)
        elif isinstance(event, (yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._start(event, line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            node = self._stack.pop()
            node.closed = True
            self._place(node)

    def _start(
        self, event: yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int
    ) -> None:
        tag = event.tag
        if tag is not None:
            self.fault(line, f"tags such as `{tag}` are not supported")
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style not in _QUOTED
            is_key = bool(self._stack) and self._stack[-1].expects_key
            value = event.value if is_key or not plain else _scalar(event.value)
            if is_key and plain and event.value == "<<":
                self.fault(line, "merge keys (`<<`) are not allowed")
            node = _YamlNode(line, value)
        elif isinstance(event, yaml.MappingStartEvent):
            node = _YamlNode(line, {}, closed=False, expects_key=True)
        else:
            node = _YamlNode(line, [], closed=False)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if node.closed:
            self._place(node)
            return
        if len(self._stack) >= self._max_depth:
            self._stop(line, f"nested deeper than {self._max_depth} levels")
            return
        if self._stack and self._stack[-1].expects_key:
            self._stop(line, "a key must be text")
            return
        self._stack.append(node)

    def _alias(self, anchor: str, line: int) -> None:
        node = self._anchors.get(anchor)
        if node is None:
            self._stop(line, f"alias `*{anchor}` has no anchor before it")
        elif not node.closed:
            self._stop(line, f"anchor `&{anchor}` contains itself")
        elif self._stack and self._stack[-1].expects_key:
            self._stop(line, "a key may not be an alias")
        elif len(self._stack) + node.height > self._max_depth:
            self._stop(line, f"nested deeper than {self._max_depth} levels")
        else:
            # Counted here already: closing the containers would be too late to stop a chain of aliases early.
            self._place(node, line)

    def _place(self, node: _YamlNode, line: int | None = None) -> None:
        """Put a finished value where it belongs: a key, a mapping's value, a list's item or the root."""
        self._nodes += 1
        if not self._stack:
            self.root = node
            self._check_bounds(node, line or node.line)
            return
        parent = self._stack[-1]
        if parent.expects_key:
            parent.pending_key, parent.expects_key = node.value, False
            if node.value in parent.children:
                first = parent.key_lines[node.value]
                self.fault(node.line, f"key `{node.value}` is repeated here (first in line {first})")
            elif node.value == "":
                self.fault(node.line, "a key must not be empty")
            parent.key_lines.setdefault(node.value, node.line)
            return
        key: str | int
        if isinstance(parent.value, dict):
            key, parent.expects_key = parent.pending_key, True
            parent.value[key] = node.value
        else:
            key = len(parent.value)
            parent.value.append(node.value)
            parent.key_lines[key] = line or node.line
        parent.children[key] = node
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        self._check_bounds(parent, line or node.line)

    def _check_bounds(self, node: _YamlNode, line: int) -> None:
        if max(self._nodes, node.size) > self._max_nodes:
            self._stop(line, f"more than {self._max_nodes} values when aliases are expanded")


def _scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar by YAML 1.2's core schema, less its rarer spellings."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.match(text):
        return int(text)
    if any(c.isdigit() for c in text) and _FLOAT.match(text):
        return float(text)
    return text
