"""One law: the same question, asked as SQL and as a DataFrame, gets the same decisions.

Spark's parser reads the text, the walk reads the plan, two analysts say which columns are used; policies are
drawn with the question. What is decided, of whom and by which policy, what holds for the rows, and whether it
passes must not depend on the spelling.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    Cleared,
    NeedsCatalog,
    PlanRequest,
    Refused,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.pipeline import Rules, judge
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from tests.e2e.running import LoopThread
from tests.effort import tries
from tests.judge_world import SERVICE_DEFS
from tests.plan.frames import message
from tests.property.questions import Question, asked, questions
from tests.property.world import DATABASE, PRINCIPAL, catalog
from tests.readers import patient_reader

LAWS = settings(
    max_examples=tries(200),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
CONTEXT = SessionContext(namespace=(DATABASE,), endpoint="connect")


class Judge:
    """The judge with a reader, on a loop of its own."""

    def __init__(self, loop: LoopThread, reader: ReaderPool) -> None:
        self.loop = loop
        self.reader = reader
        self.definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})

    def verdicts(self, question: Question, pack: str, rules: Rules | None = None) -> tuple[Verdict, Verdict]:
        """Judge the SQL and the DataFrame under a pack."""
        snapshot = Snapshot(policies=load_packs({"shop.yaml": pack}, self.definitions), catalog=catalog())
        plan = PlanRequest(kind="execute", message=message(question.both.frame).SerializeToString())
        asked_in_sql = Statement(text=question.both.sql, principal=PRINCIPAL, context=CONTEXT)
        asked_in_python = Statement(text="", principal=PRINCIPAL, context=CONTEXT, plan=plan)
        return (
            self._judged(asked_in_sql, snapshot, rules),
            self._judged(asked_in_python, snapshot, rules),
        )

    def _judged(self, statement: Statement, snapshot: Snapshot, rules: Rules | None) -> Verdict:
        verdict = self.loop.run(judge(statement, snapshot, self.reader, rules), 30)
        assert not isinstance(verdict, NeedsCatalog)
        return verdict


@pytest.fixture(scope="module")
def judging() -> Iterator[Judge]:
    loop = LoopThread()
    reader = patient_reader()
    loop.run(reader.start())
    yield Judge(loop, reader)
    loop.run(reader.close())
    loop.close()


def decided(verdict: Verdict) -> dict[str, Any]:
    """Return what must not depend on the spelling."""
    said: dict[str, Any] = {
        "decisions": {
            (str(d.request.resource), d.request.resource.kind, d.request.access, d.allowed, d.policy.name)
            for d in verdict.decisions
        }
    }
    if isinstance(verdict, Refused):
        return said | {"refused": verdict.code}
    return said | {
        "obligations": set(verdict.obligations),
        "columns": {(str(scan.table), scan.columns) for scan in verdict.scans},
    }


def outcome(judging: Judge, question: Question, pack: str, rules: Rules | None = None) -> str:
    """Check the law for one question; return how it ended."""
    text, plan = judging.verdicts(question, pack, rules)
    assert decided(plan) == decided(text), f"{question}\n{plan.statement.text}\n{pack}"
    if isinstance(plan, Cleared):
        # A column that may not be selected is not there: whoever names one is told so by Spark, not by us.
        assert plan.readers_agree is True or plan.hides_columns, plan.statement.text
        return "masked" if plan.obligations else "plain"
    assert isinstance(plan, Refused)
    assert plan.code == "ACCESS_DENIED", plan.message
    return "shown only" if "may only be shown" in plan.message else "refused"


def test_the_spelling_of_a_question_changes_no_decision(judging: Judge) -> None:
    outcomes: Counter[str] = Counter()

    @LAWS
    @given(questions())
    def check(drawn: tuple[Question, str]) -> None:
        outcomes[outcome(judging, *drawn)] += 1

    check()
    assert min(outcomes[kind] for kind in ("masked", "plain", "refused", "shown only")) > 3, outcomes


@given(drawn=questions())
@settings(LAWS, max_examples=tries(60))
def test_nor_where_a_star_means_what_may_be_seen(judging: Judge, drawn: tuple[Question, str]) -> None:
    outcome(judging, *drawn, Rules(star="visible"))


def test_questions_of_many_seeds(judging: Judge) -> None:
    """Hypothesis prefers small questions; these have nothing in common. The last one names a hidden column
    where SQL finds a column with the name of its table."""
    for seed in (*range(150), 261):
        outcome(judging, *asked(random.Random(seed).randint, depth=3))
