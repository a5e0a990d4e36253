"""Prints what sqlglot's lineage says in each of its tests, as JSON. A program, given the sdist.

Its tests ask for one column of a text and look at parts of the answer; the whole answer is the library's own.
Texts of other dialects are written as Spark's.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import unittest
from pathlib import Path
from typing import Any

import sqlglot
import sqlglot.lineage
from sqlglot import exp

CASES: list[dict[str, Any]] = []
NOW = [""]
real: Any = sqlglot.lineage.lineage


def take_down(column: Any, sql: Any, schema: Any = None, sources: Any = None, **options: Any) -> Any:
    dialect = options.get("dialect")
    node = real(column, sql, schema, sources, **options)
    tree = sqlglot.parse_one(sql, dialect=dialect) if isinstance(sql, str) else sql.copy()
    if sources:
        tree = exp.expand(
            tree,
            {
                name: parse(one, dialect) if isinstance(one, str) else one.copy()
                for name, one in sources.items()
            },
        )
    target = str(column).strip('"`')
    leaves = [one for one in node.walk() if not one.downstream and isinstance(one.expression, exp.Table)]
    CASES.append(
        {
            "name": f"{NOW[0]}#{sum(case['name'].startswith(f'{NOW[0]}#') for case in CASES)}",
            "sql": tree.sql(dialect="spark"),
            "flows": [[table_of(one.expression), exp.to_column(one.name).name, target] for one in leaves],
            "schema": dict(flat(schema)) if isinstance(schema, dict) else {},
            "target": target,
        }
    )
    return node


def parse(text: str, dialect: Any) -> Any:
    return sqlglot.parse_one(text, dialect=dialect)


def table_of(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def flat(schema: dict[str, Any], above: tuple[str, ...] = ()) -> Any:
    for name, inner in schema.items():
        if any(isinstance(one, dict) for one in inner.values()):
            yield from flat(inner, (*above, name))
        else:
            yield ".".join((*above, name)), list(inner)


def main() -> None:
    sqlglot.lineage.lineage = take_down
    file = Path(sys.argv[1]) / "tests" / "test_lineage.py"
    spec = importlib.util.spec_from_file_location("sqlglot_test_lineage", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suites: Any = unittest.defaultTestLoader.loadTestsFromModule(module)
    for suite in suites:
        for test in (one for one in suite if isinstance(one, unittest.TestCase)):
            NOW[0] = str(test.id()).rpartition(".test_")[2]
            test.run(unittest.TestResult())
    json.dump(CASES, sys.stdout)


if __name__ == "__main__":
    main()
