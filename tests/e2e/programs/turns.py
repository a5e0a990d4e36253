"""Says which program of others has its turn today: to its tests, and to `make`, which builds it."""

from __future__ import annotations

import pytest

from tests.shares import todays

NAMES = ("dbt", "go", "java", "ibis", "adbc", "pyspark_rust", "jvm", "great_expectations", "sqlmesh")


def take_turns(name: str) -> pytest.MarkDecorator:
    """Return the mark of a program's tests: one program a day, all by night."""
    return pytest.mark.in_turn(len(NAMES), place=NAMES.index(name))


if __name__ == "__main__":
    print(*(f"build-{name}" for name in todays(NAMES, len(NAMES))))
