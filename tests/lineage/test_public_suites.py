"""Public suites of lineage expect what ours says, but for what is listed with a reason. `make night`."""

from __future__ import annotations

import pytest

from tests.lineage.public.__main__ import PACKAGES, find_unlisted, run_suite

pytestmark = [pytest.mark.night, pytest.mark.timeout(1800)]
FEWEST = {"openlineage": 18, "sqlglot": 60, "sqllineage": 150}
"""Cases that Spark parses, else equality would say little."""


@pytest.mark.parametrize("suite", PACKAGES)
async def test_a_suite_expects_what_lineage_says(suite: str) -> None:
    outcomes = await run_suite(suite)
    assert find_unlisted(suite, outcomes) == []
    assert sum(1 for one in outcomes if not one.refused) >= FEWEST[suite]
