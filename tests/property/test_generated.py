"""Laws over random queries that need Spark's parser only: each gets a verdict, and valid ones pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, NeedsCatalog, Refused, SessionContext, Statement, Verdict
from gateway.pipeline import judge
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from tests.e2e.running import LoopThread
from tests.effort import tries
from tests.judge_world import SERVICE_DEFS
from tests.policy.scenarios import policy_set
from tests.property.queries import Query, queries
from tests.property.world import DATABASE, PACK, PRINCIPAL, catalog
from tests.readers import patient_reader

LAWS = settings(
    max_examples=tries(150),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Judge:
    """The judge and a reader of its own, on a loop of its own: hypothesis calls plain functions only."""

    def __init__(self, loop: LoopThread, reader: ReaderPool) -> None:
        self.loop = loop
        self.reader = reader
        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        self.policies = load_packs({"shop.yaml": PACK}, definitions)
        self.nothing = policy_set(definitions)

    def verdict(
        self, text: str, principal: Principal = PRINCIPAL, policies: PolicySet | None = None
    ) -> Verdict | NeedsCatalog:
        snapshot = Snapshot(policies=policies or self.policies, catalog=catalog())
        statement = Statement(text=text, principal=principal, context=SessionContext(namespace=(DATABASE,)))
        return self.loop.run(judge(statement, snapshot, self.reader))


@pytest.fixture(scope="module")
def judging() -> Iterator[Judge]:
    loop = LoopThread()
    reader = patient_reader()
    loop.run(reader.start())
    yield Judge(loop, reader)
    loop.run(reader.close())
    loop.close()


def test_valid_queries_are_governed(judging: Judge) -> None:
    """Few are refused, for two reasons: relations of one name that only the database tells apart, and where a
    table has hidden columns, names behind pipes and stars that cannot be followed."""
    outcomes: Counter[str] = Counter()

    @LAWS
    @given(queries())
    def check(query: Query) -> None:
        verdict = judging.verdict(query.over())
        outcomes[type(verdict).__name__] += 1
        if isinstance(verdict, Refused) and "could be resolved to a column" in verdict.message:
            outcomes["not followed"] += 1
            return
        if isinstance(verdict, Refused) and "select on every column" in verdict.message:
            assert "*" in query.over()
            outcomes["not followed"] += 1
            return
        if isinstance(verdict, Refused):
            assert verdict.code == "NOT_GOVERNABLE"
            assert "several relations have the alias" in verdict.message
            return
        assert isinstance(verdict, Cleared), verdict
        outcomes["disagree"] += verdict.readers_agree is False

    check()
    verdicts = outcomes["Cleared"] + outcomes["Refused"]
    # Of queries that are made at random, so that a run may have many of either kind.
    assert outcomes["Cleared"] > 0.7 * verdicts, outcomes
    assert outcomes["not followed"] < 0.1 * verdicts, outcomes
    # Columns count as unknown then, which costs nothing here but explanations and lineage.
    assert outcomes["disagree"] < 0.15 * verdicts, outcomes


@given(query=queries())
@settings(LAWS, max_examples=tries(60))
def test_without_policies_no_query_passes(judging: Judge, query: Query) -> None:
    verdict = judging.verdict(query.over(), policies=judging.nothing)
    if isinstance(verdict, Cleared):
        assert verdict.scans == (), query
    else:
        assert isinstance(verdict, Refused), verdict


@given(
    query=queries(), cut=st.integers(0, 2_000), filler=st.sampled_from(["", "'", "(", "/*", "TABLE ", ", "])
)
@settings(LAWS, max_examples=tries(200))
def test_any_damaged_query_gets_a_verdict(judging: Judge, query: Query, cut: int, filler: str) -> None:
    text = query.over()
    cut %= len(text)
    verdict = judging.verdict(text[:cut] + filler + text[cut + 1 :])
    assert isinstance(verdict, (Cleared, Refused, NeedsCatalog))
