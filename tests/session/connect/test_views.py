"""Views of DataFrames: Spark keeps the plan of what they read within them, whatever becomes of its name."""

from __future__ import annotations

from gateway.session.session import VIEW_ORIGINS
from tests.session.connect.fakes import cached, sql, table, view
from tests.session.connect.test_names import context, make_checkpoint, world_of_names


async def test_a_view_of_a_dataframe_has_within_it_what_it_read() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    await world.run(view("w", "v"))
    world.judge.scans["TABLE w"] = ()
    await world.run(sql("DROP VIEW v"))
    world.spark.received.clear()
    await world.run(table("w"))
    assert world.spark.received == ["TABLE w"]
    # What it was made from is no longer there to make it again from.
    world.judge.marked = "VIEW v"
    world.new_policies(mark="mask")
    await world.run(table("t"))
    assert world.spark.received[1:] == ["DROP VIEW IF EXISTS `w`", "TABLE t"]
    assert context(world)[1] == frozenset()
    world.require_balance()


async def test_a_view_of_a_dataframe_may_replace_the_one_that_it_reads() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    await world.run(view("v", "v"))
    world.spark.received.clear()
    world.new_policies()
    await world.run(table("v"))
    assert world.spark.received == ["TABLE v"]
    assert context(world)[1] == {"v"}
    # The rows of the first one are in it, so it ends with the policies that the first one was made under.
    world.judge.marked = "VIEW v OF t"
    world.new_policies(mark="mask")
    await world.run(table("t"))
    assert world.spark.received[1:] == ["DROP VIEW IF EXISTS `v`", "TABLE t"]
    assert context(world)[1] == frozenset()


async def test_a_view_keeps_the_policies_of_one_that_was_replaced_since() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    await world.run(view("w", "v"))
    await world.run(view("v", "other"))
    world.spark.received.clear()
    world.judge.marked = "VIEW v OF t"
    world.new_policies(mark="mask")
    await world.run(table("v"))
    assert world.spark.received == ["DROP VIEW IF EXISTS `w`", "TABLE v"]
    assert context(world)[1] == {"v"}


async def test_a_view_that_was_replaced_very_often_lasts_as_long_as_the_policies() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    for _ in range(VIEW_ORIGINS):
        await world.run(view("v", "v"))
        assert len(world.session().views["v"].basis or ()) <= VIEW_ORIGINS
    await world.run(view("v", "v"))
    assert world.session().views["v"].basis is None
    await world.run(table("v"))
    assert context(world)[1] == {"v"}
    world.new_policies()
    await world.run(table("t"))
    assert context(world)[1] == frozenset()


async def test_a_view_of_a_checkpoint_ends_with_it() -> None:
    world = world_of_names()
    relation = await make_checkpoint(world)
    made = view("v", "")
    made.command.create_dataframe_view.input.CopyFrom(cached(relation).root)
    await world.run(made)
    world.spark.received.clear()
    world.judge.marked = "CHECKPOINT"
    world.new_policies(mark="mask")
    # Spark still has the rows, so it would make the view of them once more.
    await world.run(table("t"))
    assert world.spark.received == ["DROP VIEW IF EXISTS `v`", "TABLE t"]
    assert context(world)[1] == frozenset()
    world.require_balance()
