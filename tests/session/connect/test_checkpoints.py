"""A stream goes on with a checkpoint that began with the same things, or does not begin."""

from __future__ import annotations

import pytest

from gateway.errors import BackendUnavailable, RpcError
from gateway.model.statement import Checkpoint
from gateway.session.failures import StatementRefused
from gateway.wire.connect import pb
from tests.session.connect.fakes import Step, World, table

PLACE = Checkpoint(chosen="file:/mine", directory="s3://ops/ck/_a", name="_now")
LISTING = f"CHECKPOINTS IN {PLACE.directory}"


def found(*names: str) -> Step:
    answer = pb.AnalyzePlanResponse()
    answer.input_files.files.extend(f"{PLACE.directory}/{name}/metadata" for name in names)
    return answer


def none_yet() -> RpcError:
    return RpcError(code=13, message=f"[PATH_NOT_FOUND] Path does not exist: {PLACE.directory}/*/metadata.")


def starting(step: Step) -> World:
    world = World()
    world.judge.changes["TABLE t"] = {"checkpoint": PLACE}
    world.spark.script("^CHECKPOINTS", step)
    return world


@pytest.mark.parametrize("step", [none_yet(), found(), found("_now"), found("_before", "_now")])
async def test_it_begins_or_goes_on(step: Step) -> None:
    world = starting(step)
    await world.run(table("t"))
    assert world.spark.received[1:] == [LISTING, "TABLE t"]
    steps = [step for step in world.order if step in ("decided", "forwarded")]
    assert steps[-4:] == ["decided", "forwarded"] * 2


async def test_one_that_began_with_other_things_is_not_gone_on_with() -> None:
    world = starting(found("_before"))
    with pytest.raises(StatementRefused, match="the checkpoint at `file:/mine` was started with other"):
        await world.run(table("t"))
    assert world.spark.received[1:] == [LISTING]


async def test_where_nobody_can_look_nothing_begins() -> None:
    world = starting(RpcError(code=13, message="[PATH_NOT_FOUNDED] no"))
    with pytest.raises(BackendUnavailable):
        await world.run(table("t"))
    assert world.spark.received[1:] == [LISTING]


async def test_what_has_no_checkpoint_asks_for_none() -> None:
    world = starting(found("_before"))
    await world.run(table("u"))
    assert world.spark.received[1:] == ["TABLE u"]
