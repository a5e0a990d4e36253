"""What people write passes: each day a share of the collection, each night all of it, at both endpoints.

A statement that differs has to be in `known.yaml`, with its reason; `python -m tests.e2e.statements` prints
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.one_pack import ENDPOINTS, write_settings
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.statements import collection, running
from tests.shares import DAY, todays

KNOWN: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parent / "known.yaml").read_text(encoding="utf-8")
)
"""Reason → statements that may differ for it."""
OBLIGED: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parent / "obliged.yaml").read_text(encoding="utf-8")
)
"""Reason → statements that are refused to who has a mask and a filter on `people`."""


@pytest.fixture(scope="module")
def stated(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    users: dict[str, list[str]] = {running.BOSS: [], running.ANALYST: []}
    gateway = RunningGateway(write_settings(open_directory / "stated", spark, running.PACK, users)).start()
    running.make_tables(spark)
    yield gateway
    running.drop_tables(spark)
    assert gateway.stop() == 0


def scripts_of_today() -> list[collection.Script]:
    return todays([*collection.of_our_own(), collection.of_the_grammar()], 20)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_statements_are_answered_as_spark_answers_them(
    spark: Spark, stated: RunningGateway, endpoint: running.Endpoint
) -> None:
    allowed = {text for texts in KNOWN.values() for text in texts}
    outcomes = running.run(spark, stated, endpoint, scripts_of_today())
    print(*running.report(outcomes), sep="\n")
    assert [one.statement for one in outcomes if not one.same and one.statement not in allowed] == []


@pytest.mark.in_turn(7, place=4)
def test_who_has_masks_and_filters_is_refused_little_more(spark: Spark, stated: RunningGateway) -> None:
    allowed = {text for texts in (*KNOWN.values(), *OBLIGED.values()) for text in texts}
    outcomes = running.run(spark, stated, "thrift", scripts_of_today(), running.ANALYST)
    print(*running.report(outcomes), sep="\n")
    refused = (one.statement for one in outcomes if one.refused_needlessly)
    assert [statement for statement in refused if statement not in allowed] == []


@pytest.mark.in_turn(7, place=1)
def test_examples_of_functions_pass(spark: Spark, stated: RunningGateway) -> None:
    names = running.list_functions(spark)
    told = running.describe_functions(spark, todays(names, 40))
    script = collection.Script("examples", tuple(collection.examples(told)))
    outcomes = running.run(spark, stated, "thrift", [script])
    print(*running.report(outcomes), sep="\n")
    assert len(names) > 400
    assert outcomes
    assert running.share(outcomes) >= (95.0 if DAY is None else 80.0)
