"""Long work is done in steps, and between them everybody else is served."""

from __future__ import annotations

import asyncio
import gc

import pytest

from gateway.model.statement import Cleared, PlanRequest
from gateway.pipeline import pace
from gateway.pipeline.pace import in_turn
from gateway.reader.port import ReaderPort
from gateway.wire.connect import pb
from tests.judge_world import World


class Others:
    """Somebody else on the same loop: counts the turns that it gets."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1

    def close(self) -> None:
        self._task.cancel()


@pytest.fixture
def nothing_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "STEP_S", -1.0)


@pytest.mark.usefixtures("nothing_is_short")
async def test_others_run_after_long_work() -> None:
    others = Others()
    assert await in_turn(lambda: 7) == 7
    assert others.turns >= 1
    others.close()


async def test_short_work_pauses_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "STEP_S", 1e9)
    others = Others()
    assert await in_turn(lambda: 7) == 7
    assert others.turns == 0
    others.close()


async def test_no_garbage_is_collected_within_a_step_and_again_after_it() -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError

    assert gc.isenabled()
    with pytest.raises(ValueError):
        await in_turn(fail)
    assert gc.isenabled()
    gc.disable()
    try:
        await in_turn(lambda: None)
        assert not gc.isenabled()  # somebody else's decision stays
    finally:
        gc.enable()


@pytest.mark.usefixtures("nothing_is_short")
@pytest.mark.asyncio(loop_scope="session")
async def test_a_plan_is_judged_in_many_steps(reader: ReaderPort) -> None:
    plan = pb.Plan()
    plan.root.project.input.range.end = 1
    plan.root.project.expressions.add().literal.integer = 1
    world, others = World(), Others()
    user = next(iter(world.data["people"]))
    verdict = await world.judge_plan(
        PlanRequest(kind="execute", message=plan.SerializeToString()), reader, user=user
    )
    assert isinstance(verdict, Cleared)
    assert others.turns >= 8  # one at least for each pass
    others.close()
