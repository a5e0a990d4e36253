"""A metalake that is polled: its last good answer, on disk as well, and how old it may be."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gateway.catalog.providers import is_secret
from gateway.catalog.readable import CatalogUnavailable
from gateway.errors import Faults
from gateway.model.metalakes import (
    MetadataObject,
    Metalake,
    MetalakeCatalog,
    MetalakePrivilege,
    MetalakeRestriction,
    MetalakeRole,
    MetalakeTag,
    Owner,
)
from gateway.sources.metalake import MetalakeOptions, MetalakeSource, digest, without_secrets

FULL = Metalake(
    catalogs=(
        MetalakeCatalog(
            name="pg",
            type="RELATIONAL",
            provider="jdbc-postgresql",
            comment="c",
            properties={"jdbc-url": "jdbc:x", "jdbc-password": "hush", "link": "http://u:hush@h"},
        ),
    ),
    tags=(
        MetalakeTag(
            name="pii", properties={"level": "3"}, objects=(MetadataObject("TABLE", ("pg", "s", "t")),)
        ),
    ),
    roles=(
        MetalakeRole(
            name="r",
            grants=((MetadataObject("CATALOG", ("pg",)), (MetalakePrivilege("SELECT_TABLE", denied=True),)),),
        ),
    ),
    users={"ann": ("r",)},
    groups={"staff": ("r",)},
    owners={MetadataObject("METALAKE", ()): Owner(name="g", group=True)},
    restricted=(MetadataObject("TABLE", ("pg", "shop", "t")),),
    restrictions=(
        MetalakeRestriction(
            name="p", hides="values", expression="mask := …", objects=(MetadataObject("CATALOG", ("pg",)),)
        ),
    ),
)


@dataclass
class World:
    """A server, two clocks, and what was put in force."""

    path: Path
    answer: Metalake | Exception = FULL
    refuse: Faults | None = None
    now: float = 1000.0
    offered: list[Metalake] = field(default_factory=list)

    def source(self, **more: Any) -> MetalakeSource:
        options = {"poll_s": 10, "max_stale_s": 100, "cache": self.path, "asked": "x", **more}
        return MetalakeSource(
            MetalakeOptions(name="lake", **options),
            self.fetch,
            is_secret=is_secret,
            clock=lambda: self.now,
            wall_clock=lambda: self.now + 1e9,
            random=Random(1),
        )

    async def fetch(self) -> Metalake:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def offer(self, metalake: Metalake) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.offered.append(metalake)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "keep" / "metalake.json")


AWAY = CatalogUnavailable("no answer")


async def test_it_is_offered_once_for_as_long_as_it_stays_the_same(world: World) -> None:
    source = world.source()
    await source.start(world.offer)
    await source.look()
    assert world.offered == [FULL]
    world.answer = Metalake()
    await source.look()
    assert world.offered == [FULL, Metalake()]
    assert (source.stale(), source.trouble) == (None, "")


async def test_a_server_that_goes_away_leaves_the_last_list_until_it_is_too_old(world: World) -> None:
    source = world.source()
    await source.start(world.offer)
    world.answer = AWAY
    world.now += 100
    assert not await source.look()
    assert (source.stale(), source.trouble) == (None, "no answer")
    world.now += 1
    assert "has not answered for more than 100 seconds" in str(source.stale())
    # The same words each time: nothing changes for a list that is merely older still.
    first = source.stale()
    world.now += 1000
    assert source.stale() == first
    world.answer = FULL
    assert await source.look()
    assert source.stale() is None
    assert world.offered == [FULL]


async def test_what_was_never_answered_is_not_in_force(world: World) -> None:
    world.answer = AWAY
    source = world.source()
    await source.start(world.offer)
    assert world.offered == []
    assert source.age_s is None
    assert "not been read yet" in str(source.stale())
    assert not world.path.exists()


async def test_the_file_holds_no_secret_and_is_its_owners_alone(world: World) -> None:
    await world.source().start(world.offer)
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600
    text = world.path.read_text()
    assert "hush" not in text
    assert [path.name for path in world.path.parent.iterdir()] == [world.path.name]
    assert json.loads(text)["catalogs"][0]["left_out"] == ["jdbc-password", "link"]


async def test_a_restart_without_the_server_has_all_but_the_secrets(world: World) -> None:
    await world.source().start(world.offer)
    world.answer = AWAY
    world.now += 60
    source = world.source()
    await source.start(world.offer)
    again = world.offered[-1]
    assert again == without_secrets(FULL, is_secret)
    assert again.catalogs[0].left_out == {"jdbc-password", "link"}
    assert again.catalogs[0].properties == {"jdbc-url": "jdbc:x"}
    assert (again.tags, again.roles, again.owners) == (FULL.tags, FULL.roles, FULL.owners)
    assert (again.users, again.groups) == (FULL.users, FULL.groups)
    # It is as old as it is: a restart makes nothing young.
    assert source.age_s == 60
    world.now += 41
    assert source.stale() is not None
    world.answer = FULL
    await source.look()
    assert world.offered[-1] == FULL


async def test_each_answer_makes_the_file_young(world: World) -> None:
    source = world.source()
    await source.start(world.offer)
    world.now += 90
    await source.look()
    world.answer = AWAY
    world.now += 90
    again = world.source()
    await again.start(world.offer)
    assert again.age_s == 90


def _spoil(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        told = json.loads(path.read_text())
        change(told)
        path.write_text(json.dumps(told))

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b"\x00\xff"),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text("[]"),
        lambda path: path.chmod(0o666),
        _spoil(lambda told: told.update(form=4)),
        _spoil(lambda told: told.update(asked="another server")),
        _spoil(lambda told: told.update(confirmed="soon")),
        _spoil(lambda told: told.pop("roles")),
        _spoil(lambda told: told.update(catalogs=[{"name": "pg"}])),
        _spoil(lambda told: told.update(tags=[{"name": "t", "properties": [], "objects": []}])),
    ],
)
async def test_a_file_that_is_not_whole_is_not_used(world: World, spoil: Callable[[Path], None]) -> None:
    await world.source().start(world.offer)
    world.offered.clear()
    spoil(world.path)
    world.answer = AWAY
    source = world.source()
    await source.start(world.offer)
    assert world.offered == []
    assert source.cache_trouble
    assert source.stale() is not None
    world.path.chmod(0o600)
    world.answer = FULL
    await source.look()
    assert (world.offered, source.cache_trouble) == ([FULL], "")


async def test_what_cannot_be_put_in_force_confirms_nothing(world: World) -> None:
    source = world.source()
    await source.start(world.offer)
    world.refuse = Faults(["service `x` does not exist"])
    world.answer = Metalake()
    world.now += 50
    assert not await source.look()
    assert (source.trouble, source.age_s, source.held) == ("service `x` does not exist", 50, FULL)
    assert json.loads(world.path.read_text())["catalogs"]
    world.now += 60
    assert source.stale() is not None
    # It is offered again, and again, until it is taken.
    world.refuse = None
    await source.look()
    assert world.offered[-1] == Metalake()


async def test_a_disk_that_is_full_is_told_and_no_reason_to_stop(world: World) -> None:
    world.path.parent.write_text("a file where a directory should be")
    source = world.source()
    await source.start(world.offer)
    assert world.offered == [FULL]
    assert "cannot be" in source.cache_trouble
    assert source.stale() is None


async def test_no_error_ends_the_task_or_tells_a_secret(world: World) -> None:
    world.answer = RuntimeError("hush")
    source = world.source()
    await source.start(world.offer)
    assert source.trouble == "its response cannot be used (RuntimeError)"


async def test_a_command_beside_the_gateway_reads_and_does_not_ask(world: World) -> None:
    await world.source().start(world.offer)
    before = world.path.read_bytes()
    world.answer = Metalake()
    beside = world.source(read_only=True)
    await beside.start(world.offer)
    assert world.offered[-1] == without_secrets(FULL, is_secret)
    assert world.path.read_bytes() == before


def test_a_digest_is_another_when_anything_is() -> None:
    assert digest(FULL) == digest(FULL)
    assert len({digest(FULL), digest(Metalake()), digest(without_secrets(FULL, is_secret))}) == 3


async def test_a_start_does_not_wait_for_a_server_that_dribbles(world: World) -> None:
    async def forever() -> Metalake:
        await asyncio.sleep(3600)
        return FULL

    await world.source().start(world.offer)
    slow = world.source(start_s=0.01)
    slow._fetch = forever
    world.offered.clear()
    await slow.start(world.offer)
    assert world.offered == [without_secrets(FULL, is_secret)]
    assert slow.trouble == "the server did not finish answering within 0.01 s"
