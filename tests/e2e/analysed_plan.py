"""A referee for lineage: which base columns each output depends on, by Spark's own analysed plan.

Reads what `EXPLAIN EXTENDED` prints. Every attribute there has the id by which Spark's analyser knows it, so
what depends on what is a matter of ids: none of Spark's rules for names is repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_SPECIFICATION = "windowspecdefinition("
_RANK = re.compile(r"\b(?:rank|dense_rank|percent_rank)\((?:[^()]|\([^()]*\))*\)")
"""These are printed with what their windows are ordered by."""
Columns = frozenset[str]
NONE: Columns = frozenset()

_LINE = re.compile(r"^(?P<indent>(?:[ :]  )*)(?:[+:]- )?(?P<text>\S.*)$")
_ID = re.compile(r"(?P<before>.?)#(?P<id>\d+)L?")
_SUBQUERY = re.compile(r"(?P<kind>scalar-subquery|exists|list|lateral-subquery)#\d+ \[[^\]]*\]")


@dataclass
class Node:
    """A line of the plan with the lines below it."""

    text: str
    children: list[Node] = field(default_factory=list)
    inner: list[Node] = field(default_factory=list)
    """Plans of the subqueries in its expressions, in order."""

    @property
    def name(self) -> str:
        return self.text.split(" ", 1)[0]


@dataclass
class Dependencies:
    """What a plan says."""

    outputs: list[Columns]
    """Of each column of the result: the base columns in its expression, through all of the plan."""
    deciding: Columns
    """Base columns in conditions of joins and filters and in the keys of groups."""
    windows: Columns
    """Base columns that windows are partitioned and ordered by; they are in no output's."""
    distinct: Columns
    """Base columns in the keys by which a DataFrame drops duplicates."""


def dependencies(plan: str) -> Dependencies:
    """Read an analysed plan as text; base columns are `table.column`."""
    root = _tree(plan)
    loops: dict[str, list[Columns]] = {}
    while True:
        reading = _Reading(loops)
        outputs = reading.outputs(root)
        if reading.loops == loops:
            return Dependencies(
                [reading.of.get(number, NONE) for number in outputs],
                frozenset(reading.deciding),
                frozenset(reading.windows),
                frozenset(reading.distinct),
            )
        loops = reading.loops


def analysed(explained: str) -> str:
    """Return the analysed plan of what EXPLAIN EXTENDED says, without the line of its types."""
    start = explained.index("== Analyzed Logical Plan ==")
    lines = explained[start : explained.index("== Optimized Logical Plan ==")].splitlines()[1:]
    body = [line for line in lines if line.strip()]
    if (body and not re.match(r"^[A-Z]\w+( |$)", body[0])) or (
        len(body) > 1 and not body[1].startswith(("+-", ":", "   "))
    ):
        body = body[1:]
    return "\n".join(body)


def _tree(plan: str) -> Node:
    stack: list[tuple[int, Node]] = []
    root: Node | None = None
    for line in plan.splitlines():
        match = _LINE.match(line)
        assert match is not None, line
        branch = line[len(match["indent"]) :][:3] in ("+- ", ":- ")
        depth = len(match["indent"]) // 3 + branch
        node = Node(match["text"])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if stack:
            above, parent = stack[-1]
            (parent.children if depth == above + 1 else parent.inner).append(node)
        else:
            assert root is None, line
            root = node
        stack.append((depth, node))
    assert root is not None
    return root


def _windows(text: str) -> list[str]:
    """Return the window specifications within an expression."""
    found = []
    at = text.find(_SPECIFICATION)
    while at >= 0:
        depth = 0
        for i in range(at, len(text)):
            depth += (text[i] == "(") - (text[i] == ")")
            if depth == 0 and text[i] == ")":
                found.append(text[at : i + 1])
                break
        at = text.find(_SPECIFICATION, at + 1)
    return found


def _lists(text: str) -> list[str]:
    """Return what stands in the outermost square brackets of a line, in order."""
    found, depth, at = [], 0, 0
    for i, sign in enumerate(text):
        if sign == "[":
            if depth == 0:
                at = i + 1
            depth += 1
        elif sign == "]" and depth:
            depth -= 1
            if depth == 0:
                found.append(text[at:i])
    return found


def _items(text: str) -> Iterator[str]:
    depth, at = 0, 0
    for i, sign in enumerate(text):
        if sign in "[(":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[at:i].strip()
            at = i + 1
    if text[at:].strip():
        yield text[at:].strip()


_STRUCT = re.compile(r"\b(?:named_)?struct\(")
_TAKEN = re.compile(r"\.(\w+)")
_OF_COLUMN = re.compile(r"\w+#(?P<id>\d+)(?=\.\w)")


def _taken(text: str) -> str:
    """Put what is taken of a struct that is built in its place: `named_struct(n, x#1, m, y#2).n`."""
    for match in _STRUCT.finditer(text):
        depth = 1
        for i in range(match.end(), len(text)):
            depth += (text[i] == "(") - (text[i] == ")")
            if depth == 0:
                field_ = _TAKEN.match(text, i + 1)
                if field_ is not None:
                    items = list(_items(text[match.end() : i]))
                    names = [item.lower() for item in items[::2]]
                    value = dict(zip(names, items[1::2], strict=True))[field_[1].lower()]
                    return _taken(text[: match.start()] + value + text[field_.end() :])
                break
    return text


def _built(text: str) -> str | None:
    """Return the expression of `named_struct(…) AS name`; None of any other."""
    text = text.rpartition(" AS ")[0].strip()
    match = _STRUCT.match(text)
    if match is None:
        return None
    depth = 1
    for i in range(match.end(), len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text if i == len(text) - 1 else None
    return None


class _Reading:
    """One pass over a plan."""

    def __init__(self, loops: dict[str, list[Columns]] | None = None) -> None:
        self.of: dict[int, Columns] = {}
        self.last: dict[int, str] = {}
        self.structs: dict[int, str] = {}
        """Columns that are structs built by an expression: what builds them."""
        self.deciding: set[str] = set()
        self.windows: set[str] = set()
        self.distinct: set[str] = set()
        self.loops = dict(loops or {})
        """Of each recursion, what its columns were found to depend on in the pass before."""
        self._ctes: dict[str, list[int]] = {}

    def _defined(self, item: str, columns: Columns) -> int:
        match = list(_ID.finditer(item))[-1]
        number = int(match["id"])
        self.of[number] = columns
        self.last[number] = match["before"].lower()
        return number

    def _ids(self, text: str) -> list[int]:
        """Return the ids of attributes; text that only looks like one has another letter before it."""
        found = []
        for match in _ID.finditer(text):
            number = int(match["id"])
            if number in self.of and self.last[number] == match["before"].lower():
                found.append(number)
        return found

    def columns(self, text: str, inner: Iterable[list[int]] = ()) -> Columns:
        """Return the base columns in an expression; `inner`: outputs of its subqueries, in order."""
        plans = iter(inner)
        found: set[str] = set()
        text = _taken(text)
        while (written := _OF_COLUMN.sub(self._struct_of, text)) != text:
            text = _taken(written)

        def subquery(match: re.Match[str]) -> str:
            outputs = next(plans, [])
            if match["kind"] in ("scalar-subquery", "list"):
                for number in outputs:
                    found.update(self.of.get(number, NONE))
            return ""

        text = _SUBQUERY.sub(subquery, text)
        for specification in _windows(text):
            for number in self._ids(specification):
                self.windows |= self.of[number]
            text = text.replace(specification, "")
        for number in self._ids(_RANK.sub("", text)):
            found |= self.of[number]
        return frozenset(found)

    def _struct_of(self, match: re.Match[str]) -> str:
        return self.structs.get(int(match["id"]), match[0])

    def _project(self, items: str, inner: list[list[int]]) -> list[int]:
        outputs, plans = [], iter(inner)
        for item in _items(items):
            mine = [next(plans, []) for _ in _SUBQUERY.finditer(item)]
            last = list(_ID.finditer(item))[-1] if _ID.search(item) else None
            assert last is not None, item
            number = int(last["id"])
            if (" AS " not in item and number in self.of) or (
                len(self._ids(item)) == 1 and number in self.of and not mine
            ):
                outputs.append(number)
            else:
                value = self.columns(item[: last.start()], mine)
                outputs.append(self._defined(item, value))
                if (built := _built(item[: last.start()])) is not None:
                    self.structs[number] = built
        return outputs

    def outputs(self, node: Node) -> list[int]:
        """Return the ids of a node's columns, having read all below it."""
        below = [self.outputs(child) for child in node.children]
        inner = [self.outputs(plan) for plan in node.inner]
        first = below[0] if below else []
        lists = _lists(node.text)
        match node.name:
            case "Project":
                if node.children and node.children[0].name == "UnionLoop":
                    self._looped(lists[0], first)
                return self._project(lists[0], inner) if lists else []
            case "Aggregate":
                groups, items = (lists[0], lists[1]) if len(lists) > 1 else ("", lists[0])
                count = len(_SUBQUERY.findall(groups))
                self.deciding |= self.columns(groups, inner[:count])
                return self._project(items, inner[count:])
            case "Window":
                return [*first, *self._project(lists[0], inner)]
            case "Generate":
                made = lists[-1]
                value = self.columns(node.text[: node.text.rindex("[")], inner)
                return [*first, *(self._defined(item, value) for item in _items(made))]
            case "Expand":
                return self._expand(lists)
            case "Relation" | "HiveTableRelation" | "LocalRelation":
                return self._relation(node, lists)
            case "Join" | "LateralJoin":
                right = below[1] if len(below) > 1 else inner[0] if inner else []
                inner = inner[1:] if node.name == "LateralJoin" else inner
                text = _SUBQUERY.sub("", node.text, count=1) if node.name == "LateralJoin" else node.text
                self.deciding |= self.columns(text, inner)
                return first if "Semi" in text or "Anti" in text else [*first, *right]
            case "Filter":
                self.deciding |= self.columns(node.text, inner)
                return first
            case "Deduplicate":
                self.distinct |= self.columns(node.text)
                return first
            case "Union":
                return self._union(below)
            case "UnionLoop":
                outputs = self._union(below)
                self.loops[node.text.split()[1].rstrip(",")] = [self.of[number] for number in outputs]
                return outputs
            case "UnionLoopRef":
                known = self.loops.get(node.text.split()[1].rstrip(","), [])
                return [
                    self._defined(item, known[i] if i < len(known) else NONE)
                    for i, item in enumerate(_items(lists[0]))
                ]
            case "Except" | "Intersect":
                for side in below:
                    for number in side:
                        self.deciding |= self.of.get(number, NONE)
                return first
            case "WithCTE":
                return below[-1]
            case "CTERelationDef":
                self._ctes[node.text.split()[1].rstrip(",")] = first
                return first
            case "CTERelationRef":
                source = self._ctes[node.text.split()[1].rstrip(",")]
                columns = [self.of.get(number, NONE) for number in source]
                return [self._defined(item, columns[i]) for i, item in enumerate(_items(lists[0]))]
        return first

    def _looped(self, items: str, outputs: list[int]) -> None:
        """Define the columns of a recursion, which are printed only where they are used: in order."""
        for item, number in zip(_items(items), outputs, strict=True):
            match = _ID.search(item)
            assert match is not None, item
            self.of[int(match["id"])] = self.of[number]
            self.last[int(match["id"])] = match["before"].lower()

    def _expand(self, lists: list[str]) -> list[int]:
        rows = [list(_items(row)) for row in _lists(lists[0])]
        outputs = []
        for i, item in enumerate(_items(lists[1])):
            number = int(list(_ID.finditer(item))[-1]["id"])
            if number not in self.of:
                value: Columns = NONE.union(*(self.columns(row[i]) for row in rows))
                self._defined(item, value)
            outputs.append(number)
        return outputs

    def _relation(self, node: Node, lists: list[str]) -> list[int]:
        if not lists:
            return []
        table = node.text.split(" ", 1)[1].split("[", 1)[0].strip("`")
        is_base = node.name != "LocalRelation"
        outputs = []
        for item in _items(lists[0]):
            name = item[: item.rindex("#")].strip()
            outputs.append(self._defined(item, frozenset({f"{table}.{name}".lower()}) if is_base else NONE))
        return outputs

    def _union(self, below: list[list[int]]) -> list[int]:
        outputs = below[0]
        for i, number in enumerate(outputs):
            self.of[number] = NONE.union(*(self.of.get(side[i], NONE) for side in below))
        return outputs
