"""The lists of built-in functions against Spark's real registries."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gateway.model.spark_minors import minor_of
from gateway.reader.pool import ReaderPool
from gateway.sql.functions import (
    _ALLOWED,
    ALLOWED_FUNCTIONS,
    ALLOWED_TABLE_FUNCTIONS,
    INTERNAL_FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    builtin_name,
    builtin_refusal,
    is_of,
)
from tests.reader.asking import hello


@pytest.mark.asyncio(loop_scope="session")
async def test_every_function_of_this_spark_was_decided_on(reader: ReaderPool) -> None:
    minor = minor_of(reader.spark_version)

    def of_it(names: Iterable[str]) -> set[str]:
        return {name for name in names if is_of(name, minor)}

    assert of_it(ALLOWED_FUNCTIONS | REFUSED_FUNCTIONS.keys()) == reader.builtin_functions
    assert of_it(ALLOWED_TABLE_FUNCTIONS | REFUSED_TABLE_FUNCTIONS.keys()) == hello(reader).table_functions
    assert of_it(INTERNAL_FUNCTIONS) == hello(reader).internal_functions


def test_a_function_is_in_one_group() -> None:
    """One that is an aggregate is none of one row."""
    assert sum(len(names.split()) for names in _ALLOWED.values()) == len(ALLOWED_FUNCTIONS)


def test_no_function_is_both_allowed_and_refused() -> None:
    assert ALLOWED_FUNCTIONS.isdisjoint(REFUSED_FUNCTIONS)
    assert ALLOWED_TABLE_FUNCTIONS.isdisjoint(REFUSED_TABLE_FUNCTIONS)


@pytest.mark.parametrize(
    "name",
    ["reflect", "java_method", "try_reflect", "input_file_name", "xpath", "xpath_string", "from_avro"],
)
def test_functions_that_reach_out_are_refused_with_the_reason(name: str) -> None:
    assert builtin_refusal(name) == REFUSED_FUNCTIONS[name]


def test_a_function_of_another_spark_is_refused() -> None:
    assert builtin_refusal("read_secret_file") is not None
    assert builtin_refusal("read_files", table_valued=True) is not None
    assert builtin_refusal("count", table_valued=True) is not None
    assert builtin_refusal("explode") is None
    assert builtin_refusal("explode", table_valued=True) is None


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("ABS",), "abs"),
        (("builtin", "Reflect"), "reflect"),
        (("System", "Builtin", "reflect"), "reflect"),
        (("hr", "f"), None),
        (("system", "session", "f"), None),
        (("spark_catalog", "builtin", "f"), None),
    ],
)
def test_only_builtin_spellings_name_a_builtin(parts: tuple[str, ...], name: str | None) -> None:
    assert builtin_name(parts) == name
