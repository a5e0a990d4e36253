"""Runs the tests of one part of the house: `--part jobs`, or `make test-jobs`, after a change there.

A module belongs to one part. What is listed nowhere is of the core, so nothing new is left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

CORE = "core"
PARTS: dict[str, tuple[str, ...]] = {
    "jobs": (
        "database",
        "jobs",
        "app/test_recommending.py",
        "app/test_replaying.py",
        "cli/test_jobs.py",
        "cli/test_recommend.py",
        "e2e/test_classification.py",
        "e2e/test_proof.py",
    ),
    "ranger": (
        "admin",
        "sources",
        "app/test_ranger_admin.py",
        "app/test_rules_ranger.py",
        "e2e/test_ranger_admin.py",
    ),
    "catalogs": (
        "catalog",
        "files",
        "app/test_metalakes.py",
        "cli/test_catalogs.py",
        "e2e/test_catalogs.py",
        "e2e/test_files.py",
        "e2e/test_files_walked.py",
        "e2e/test_hive_catalog.py",
        "e2e/test_metalake.py",
        "e2e/test_paimon.py",
    ),
    "lakes": ("e2e/lake",),
}
"""Part → directories and modules of `tests/`."""
TESTS = Path(__file__).parent


def part_of(path: Path) -> str:
    """Return the part that a module of tests belongs to."""
    inside = path.relative_to(TESTS)
    names = {str(inside), *map(str, inside.parents)}
    return next((part for part, places in PARTS.items() if names.intersection(places)), CORE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    part = config.getoption("part")
    if part is None or collection_path.suffix != ".py" or not collection_path.is_relative_to(TESTS):
        return None
    # None leaves it to others, such as `--ignore`.
    return True if part_of(collection_path) != part else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=[CORE, *PARTS], help="run the tests of one part of the house alone")
