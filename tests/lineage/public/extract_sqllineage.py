"""Prints what sqllineage's tests expect of columns, as JSON. A program, given the sdist.

Its tests call one function with a text and the flows between columns; here that function takes them down.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CASES: list[dict[str, Any]] = []
PROVIDERS: list[Provider] = []
"""In the order in which they are made: the first is that of the fixture that all tests share."""
NOW = [""]


class ColumnQualifierTuple(NamedTuple):
    column: str
    qualifier: str | None


class Provider(dict[str, Any]):
    """Columns by table."""


def take_down(sql: str, column_lineages: Any = None, *_: Any, **options: Any) -> None:
    number = sum(case["name"].startswith(f"{NOW[0]}#") for case in CASES)
    provider = options.get("metadata_provider")
    CASES.append(
        {
            "name": f"{NOW[0]}#{number}",
            "sql": sql,
            "flows": [
                [source.qualifier or "", source.column, target.column]
                for source, target in column_lineages or ()
            ],
            "schema": provider if isinstance(provider, Provider) else {},
        }
    )


def make_provider(schemas: Any) -> list[Provider]:
    PROVIDERS.append(Provider(schemas))
    return PROVIDERS[-1:]


def put_stubs() -> None:
    """Put in sqllineage's place what its tests import of it."""
    made: dict[str, dict[str, Any]] = {
        "sqllineage.utils.entities": {"ColumnQualifierTuple": ColumnQualifierTuple},
        "sqllineage.core.metadata_provider": {"MetaDataProvider": Provider},
        "tests.helpers": {
            "assert_column_lineage_equal": take_down,
            "assert_table_lineage_equal": lambda *_, **__: None,
            "generate_metadata_providers": make_provider,
        },
    }
    for name, content in made.items():
        parts = name.split(".")
        for count in range(1, len(parts)):
            if parts[0] != "tests":
                sys.modules.setdefault(".".join(parts[:count]), types.ModuleType(parts[count - 1]))
        module = types.ModuleType(name)
        module.__dict__.update(content)
        sys.modules[name] = module


def calls_of(test: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each call that the marks of a test ask for."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    choices = []
    for mark in marks:
        names = [name.strip() for name in mark.args[0].split(",")]
        values = [one if len(names) > 1 else (one,) for one in mark.args[1]]
        choices.append([dict(zip(names, value, strict=True)) for value in values])
    shared = {"provider": PROVIDERS[0]} if "provider" in inspect.signature(test).parameters else {}
    for chosen in itertools.product(*choices):
        yield shared | {name: value for one in chosen for name, value in one.items()}


def main() -> None:
    root = Path(sys.argv[1])
    sys.path.insert(0, str(root))
    importlib.import_module("tests")
    put_stubs()
    importlib.import_module("tests.conftest")
    for file in sorted((root / "tests" / "sql" / "column").rglob("test_*.py")):
        name = ".".join(file.relative_to(root).with_suffix("").parts)
        module = importlib.import_module(name)
        for function in [one for one in vars(module) if one.startswith("test_")]:
            NOW[0] = f"{file.stem.removeprefix('test_')}.{function.removeprefix('test_')}"
            for arguments in calls_of(getattr(module, function)):
                try:
                    getattr(module, function)(**arguments)
                except Exception as error:  # noqa: BLE001 - a test of something else
                    print(f"{NOW[0]}: {error!r}", file=sys.stderr)
    json.dump(CASES, sys.stdout)


if __name__ == "__main__":
    main()
