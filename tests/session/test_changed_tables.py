"""Tables that somebody else changed: sessions that know them as they were look again, once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendUnavailable
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.changed_names import ChangedNames
from gateway.model.decision import Decision
from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.statement import (
    Cleared,
    Client,
    CreateTempView,
    RegisterCode,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.session.failures import StatementFailed
from gateway.session.locks import CatalogLocks, LockRequest
from gateway.session.session import NameResolution
from tests.session.fakes import FakeEndpoint

PRINCIPAL = Principal(user="bob")
NAME = TableName("spark_catalog", "lab", "t")
OTHER = TableName("spark_catalog", "lab", "other")


def table(kind: TableKind = TableKind.TABLE) -> Table:
    return Table(name=NAME, kind=kind, columns=(Column(name="a", type="int"),), provider="parquet")


def new_session() -> NameResolution:
    return NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())


@dataclass
class World:
    """A catalog with one table in it, and Spark."""

    changed: ChangedNames = field(default_factory=ChangedNames)
    now: Table | None = field(default_factory=table)
    ran: list[TableName | str] = field(default_factory=list)
    fails: bool = False
    state: str = "HY000"

    async def judge(self, asked: Statement) -> Verdict:
        own = asked.refreshes is not None
        return Cleared(
            statement=asked,
            forwarded=asked.text,
            plan_class="Project",
            decisions=(),
            scans=(),
            snapshot_version="1",
            names=frozenset() if own else frozenset({NAME}),
            tables=() if own or self.now is None else (self.now,),
        )

    async def run(self, asked: Statement) -> None:
        self.ran.append(asked.refreshes or asked.text)
        if self.fails:
            raise StatementFailed("no", self.state, 0, "")

    async def read(self, session: NameResolution) -> Cleared:
        asked = Statement(text="SELECT 1", principal=PRINCIPAL, context=SessionContext())
        verdict = await FakeEndpoint(self.judge, self.run, self.changed).judge_with_fresh_tables(
            session, asked
        )
        assert isinstance(verdict, Cleared)
        return verdict

    async def looks(self, session: NameResolution) -> int:
        """Read, and return how often the session had to look."""
        before = len(self.ran)
        await self.read(session)
        return len(self.ran) - before


async def test_each_session_that_knows_a_table_looks_once_when_another_changed_it() -> None:
    world, sessions = World(), [new_session(), new_session()]
    for session in sessions:
        assert await world.looks(session) == 0, "it has not read it before"
    world.changed.note([NAME], by=sessions[0].number)
    assert [await world.looks(session) for session in sessions] == [0, 1], "its own Spark knows of it"
    assert [await world.looks(session) for session in sessions] == [0, 0]
    world.changed.note([NAME])
    assert [await world.looks(session) for session in sessions] == [1, 1], "the gateway changed it"
    world.changed.note([OTHER])
    assert [await world.looks(session) for session in sessions] == [0, 0]
    world.changed.note([], [("spark_catalog", "LAB")])
    assert [await world.looks(session) for session in sessions] == [1, 1]
    assert set(world.ran) == {NAME}


async def test_a_session_may_know_what_no_statement_of_it_has_read() -> None:
    """A function in SQL reads tables, and Spark's session keeps these as they were then."""
    world, session = World(), new_session()
    read, world.now = world.now, None
    await world.read(session)
    session.known_tables.clear()
    world.now = read
    assert await world.looks(session) == 0, "nobody has changed it since the session began"
    session.known_tables.clear()
    world.changed.note([NAME])
    assert [await world.looks(session) for _ in range(2)] == [1, 0]
    world.changed.note([OTHER])
    assert await world.looks(new_session()) == 0, "one that begins now knows nothing older"


async def test_own_changes_do_not_hide_those_of_others() -> None:
    world, own, other = World(), new_session(), new_session()
    await world.read(own)
    for by in (own, other, own, own):
        world.changed.note([NAME], by=by.number)
    assert [await world.looks(own) for _ in range(2)] == [1, 0]


async def test_what_was_dropped_is_looked_at_when_it_is_there_again_whoever_made_it() -> None:
    world, session = World(), new_session()
    await world.read(session)
    world.changed.note([NAME])
    world.now = None
    assert await world.looks(session) == 0
    world.changed.note([NAME], by=session.number)
    world.now = table(TableKind.VIEW)
    assert await world.looks(session) == 0, "a view has no files that a session keeps"
    world.now = table()
    assert [await world.looks(session) for _ in range(2)] == [1, 0]


async def test_what_was_dropped_outside_is_what_spark_says_of_the_statement() -> None:
    world, session = World(), new_session()
    await world.read(session)
    world.changed.note([NAME])
    world.fails, world.state = True, "42P01"
    await world.read(session)
    assert len(world.ran) == 1


async def test_a_look_that_fails_is_made_again() -> None:
    world, session = World(), new_session()
    await world.read(session)
    world.changed.note([NAME])
    world.fails = True
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await world.read(session)
    world.fails = False
    assert [await world.looks(session) for _ in range(2)] == [1, 0]
    assert len(world.ran) == 3


async def test_what_changes_during_a_look_is_looked_at_for_the_next_statement() -> None:
    world, session = World(), new_session()
    await world.read(session)
    world.changed.note([NAME])
    run = world.run

    async def meanwhile(asked: Statement) -> None:
        await run(asked)
        world.changed.note([NAME])

    asked = Statement(text="SELECT 1", principal=PRINCIPAL, context=SessionContext())
    await FakeEndpoint(world.judge, meanwhile, world.changed).judge_with_fresh_tables(session, asked)
    assert len(world.ran) == 1, "not for ever"
    assert [await world.looks(session) for _ in range(2)] == [1, 0]


async def test_a_clone_of_a_session_knows_what_that_knew() -> None:
    world, session, clone = World(), new_session(), new_session()
    await world.read(session)
    clone.copy_names(session)
    world.changed.note([NAME], by=session.number)
    assert [await world.looks(clone) for _ in range(2)] == [1, 0]


async def test_of_a_session_that_lived_on_without_the_gateway_nobody_knows_what_it_knows() -> None:
    world, session = World(), new_session()
    session.lived_on = True
    world.now = None
    assert await world.looks(session) == 0
    world.now = table()
    assert [await world.looks(session) for _ in range(2)] == [1, 0]


async def test_a_session_that_lived_on_looks_at_a_table_before_it_first_reads_it() -> None:
    world, session = World(), new_session()
    session.lived_on = True
    assert [await world.looks(session) for _ in range(2)] == [1, 0]
    assert await world.looks(new_session()) == 0


def test_of_a_forgotten_change_every_name_counts_as_changed() -> None:
    changed = ChangedNames(most=2)
    known = changed.generation
    changed.note([TableName("c", "d", "first")])
    later = changed.generation
    for table_ in "ab":
        changed.note([TableName("c", "d", table_)])
    unchanged = TableName("c", "d", "unchanged")
    assert changed.since(unchanged, known)
    assert changed.was_replaced_since(unchanged, known)
    assert not changed.since(unchanged, later)
    assert changed.since(TableName("C", "D", "A"), later)
    assert not changed.since(TableName("c", "d", "a"), changed.generation)


def test_a_change_of_a_namespace_is_one_of_all_that_lie_in_it() -> None:
    changed = ChangedNames()
    changed.note([], [("c", "a")], stays=True)
    assert changed.since(TableName("c", "a.b", "t"), 0)
    assert not changed.since(TableName("c", "b", "t"), 0)
    assert not changed.was_replaced_since(TableName("c", "a.b", "t"), 0), "it means the same"
    changed.note([TableName("c", "a.b", "t")], by=7)
    changed.note([TableName("c", "a.b", "t")], by=7, stays=True)
    assert changed.was_replaced_since(TableName("c", "a.b", "t"), 1)
    assert not changed.was_replaced_since(TableName("c", "a.b", "t"), 2)


@pytest.mark.parametrize(("access", "looks"), [("delete", 1), ("update", 1), ("insert", 0)])
async def test_of_files_that_another_may_delete_a_session_looks_for_the_new_ones(
    access: str, looks: int
) -> None:
    world, session, other = World(), new_session(), new_session()
    catalog = StaticCatalog([table()])
    world.changed = catalog.changed_names
    await world.read(session)
    verdict = await world.read(other)
    request = AccessRequest(
        principal=PRINCIPAL, resource=Resource.table("spark_catalog", "lab", "t"), access=access
    )
    wrote = replace(verdict, decisions=(Decision(request=request, allowed=True),))
    locks = CatalogLocks(catalog)
    hold = await locks.acquire(LockRequest.of(wrote, wrote.names), until=0, by=other.number)
    assert hold is not None
    hold.forget_before_forwarding()
    assert await world.looks(session) == 0, "they are there until it runs"
    hold.release()
    assert [await world.looks(session) for _ in range(2)] == [looks, 0]
    assert await world.looks(other) == 0


async def renewed(world: World, session: NameResolution) -> list[TableName | str]:
    before = len(world.ran)

    async def run(asked: Statement) -> None:
        await world.run(asked)
        if asked.text == "SELECT 1":
            await made(world, session, session.views.get("v"))

    await FakeEndpoint(world.judge, run, world.changed).renew_views(session)
    return world.ran[before:]


async def made(world: World, session: NameResolution, _: object = None, of: str = "frame") -> None:
    verdict = await world.read(session)
    effect = CreateTempView("v", of=of)  # type: ignore[arg-type]
    session.apply_finished(replace(verdict, effects=(effect,)), 1)


async def test_a_view_of_a_frame_is_made_again_when_its_tables_are_others() -> None:
    world, session = World(), new_session()
    await made(world, session)
    assert await renewed(world, session) == []
    world.changed.note([NAME], stays=True, by=session.number)
    assert await renewed(world, session) == [], "Spark has seen to that itself"
    world.changed.note([NAME], stays=True)
    assert await renewed(world, session) == ["DROP VIEW IF EXISTS `v`", "SELECT 1", NAME]
    world.changed.note([NAME], by=session.number)
    assert await renewed(world, session) == ["DROP VIEW IF EXISTS `v`", "SELECT 1"]
    assert await renewed(world, session) == []


async def test_tables_of_a_view_of_a_text_are_looked_at() -> None:
    world, session = World(), new_session()
    await made(world, session, of="text")
    assert await renewed(world, session) == []
    world.changed.note([NAME])
    assert await renewed(world, session) == [NAME]
    assert await renewed(world, session) == []


async def test_tables_of_a_temporary_function_are_looked_at() -> None:
    world, session = World(), new_session()
    effect = RegisterCode(SparkHandle("function", "f"), reads=True)
    session.apply_finished(replace(await world.read(session), effects=(effect,)), 1)
    assert await renewed(world, session) == []
    world.changed.note([NAME])
    assert await renewed(world, session) == [NAME]
    assert await renewed(world, session) == []


async def test_a_stream_goes_on_with_the_tables_that_it_has() -> None:
    world, session = World(), new_session()
    await made(world, session, of="stream")
    world.changed.note([NAME])
    assert await renewed(world, session) == []
