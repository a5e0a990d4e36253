"""Reads the tests of column lineage of OpenLineage's SQL parser, which are written in Rust."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.lineage.public.cases import Case, Flow

_TEST = re.compile(r"fn test_(\w+)\(\)")
_TEXT = re.compile(r"test_sql(?:_dialect)?\(\s*\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_COLUMN = re.compile(
    r"(?P<new>descendant:\s*)?ColumnMeta\s*\{\s*origin:\s*"
    r"(?:None|Some\(\s*table\(\s*\"(?P<table>[^\"]+)\"\s*\)\s*\)),\s*name:\s*\"(?P<name>[^\"]+)\""
)


def read_cases(root: Path) -> Iterator[Case]:
    for file in sorted((root / "impl" / "tests" / "column_lineage").glob("tests_*.rs")):
        for name, body in _tests(file.read_text(encoding="utf-8")):
            texts = _TEXT.findall(body)
            flows = frozenset(_flows(body))
            if len(texts) == 1 and flows:
                sql = re.sub(r"\\\n\s*", "", texts[0]).replace('\\"', '"')
                yield Case(name=f"{file.stem.removeprefix('tests_')}.{name}", sql=sql, flows=flows)


def _tests(text: str) -> Iterator[tuple[str, str]]:
    starts = [*_TEST.finditer(text)]
    for found, following in zip(starts, [*starts[1:], None], strict=True):
        yield found[1], text[found.end() : following.start() if following else len(text)]


def _flows(body: str) -> Iterator[Flow]:
    target = ""
    for column in _COLUMN.finditer(body):
        if column["new"]:
            target = column["name"]
        else:
            yield column["table"] or "", column["name"], target
