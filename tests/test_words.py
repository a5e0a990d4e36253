"""Names in `gateway/` are the field's words: functions are verbs, and some words of ours stay away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

GATEWAY = Path(__file__).resolve().parent.parent / "gateway"

NOT_OURS_AGAIN = {
    "told": "report, read, list: what is done with it",
    "untold": "indeterminate, as XACML has it",
    "door": "listener, endpoint, connection limiter",
    "doors": "listeners, endpoints",
    "leash": "parent watchdog",
    "calm": "garbage-collector tuning",
    "shelf": "bucket of an index",
    "pile": "bucket of an index",
    "scrub": "redact",
    "vouched": "definer's rights",
    "circumstances": "context, context dependencies",
}
"""Word → what to say instead. Settings, metrics and codes that are published keep their names."""

IRREGULAR = frozenset(
    "begun bound broken brought built caught chosen done drawn driven found frozen given gone grown held"
    " hidden kept known laid led left lent lost made meant overtaken paid rewritten risen said seen sent"
    " shown sought spent spoken stolen taken thought thrown told torn understood withdrawn worn"
    " written".split()
)
"""Participles without an ending. Those that are verbs as they stand, such as `read` and `set`, are none."""
NO_PARTICIPLES = frozenset(
    "bring embed exceed existing feed folding mapping need partitioning proceed seed setting shed speed"
    " spring string".split()
)
PARTICIPLE = re.compile(r"[a-z]{3,}ed|[a-z]{3,}ing")
AS_NOUNS = re.compile(r"property|contextmanager|overload|\.setter|validator|serializer")
"""Decorators of what is no call, or is read behind `with`: there a noun or a participle reads well."""


class Name(NamedTuple):
    place: str
    name: str


def names_in(tree: ast.AST, place: str) -> Iterator[Name]:
    """Yield what a module and its classes define: functions, classes, fields and constants."""
    for node in getattr(tree, "body", []):
        at = f"{place}:{node.lineno}"
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield Name(at, node.name)
            case ast.ClassDef():
                yield Name(at, node.name)
                yield from names_in(node, place)
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield Name(at, name)
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield Name(at, target.id)


def words_of(name: str) -> list[str]:
    """Return the words of a name in snake or camel case, lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def is_participle(word: str) -> bool:
    """Whether a word looks like a participle."""
    return word in IRREGULAR or (word not in NO_PARTICIPLES and PARTICIPLE.fullmatch(word) is not None)


@pytest.fixture(scope="module")
def names() -> list[Name]:
    found: list[Name] = []
    for path in sorted(GATEWAY.rglob("*.py")):
        found += names_in(ast.parse(path.read_text()), str(path.relative_to(GATEWAY.parent)))
    return found


def test_words_of_our_own_do_not_come_back(names: list[Name]) -> None:
    bad = [
        f"{name.place} {name.name}: {NOT_OURS_AGAIN[word]}"
        for name in names
        for word in words_of(name.name)
        if word in NOT_OURS_AGAIN
    ]
    assert not bad, "\n".join(bad)


def test_limits_are_called_max(names: list[Name]) -> None:
    bad = [f"{name.place} {name.name}" for name in names if name.name.lstrip("_").startswith("MOST_")]
    assert not bad, "\n".join(bad)


def test_functions_are_verbs() -> None:
    """Private ones and those within others too."""
    bad = []
    for path in sorted(GATEWAY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
                continue
            is_call = not any(AS_NOUNS.search(ast.unparse(one)) for one in node.decorator_list)
            if is_call and is_participle(node.name.strip("_").split("_")[0]):
                bad.append(f"{path.relative_to(GATEWAY.parent)}:{node.lineno} {node.name}")
    assert not bad, "\n".join(bad)


def test_the_check_itself_sees_words() -> None:
    assert words_of("_CannotTellHTTPDoor2") == ["cannot", "tell", "http", "door"]
    assert [word for word in ("told", "judged", "asking") if not is_participle(word)] == []
    assert [word for word in ("read", "string", "set") if is_participle(word)] == []
