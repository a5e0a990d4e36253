"""How far a statement goes through the house: the files whose functions it calls, from the endpoint's service
until its rows are on their way, where it has been judged before. Values of `model` are not counted."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import gateway
from tests.session.connect import fakes as connect
from tests.session.fakes import World
from tests.session.test_service import fetch, open_session, run

MAX_FILES = 25
HOME = Path(gateway.__file__).parent


async def files_called_by(work: Callable[[], Awaitable[object]]) -> set[str]:
    """Return the files of `gateway/`, but for `model`, in which something is called."""
    found = set[str]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    await work()  # what is judged, imported or compiled once
    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
    inside = (Path(one).relative_to(HOME) for one in found if Path(one).is_relative_to(HOME))
    return {one.as_posix() for one in inside if one.parts[0] != "model"}


async def test_a_text_and_its_rows() -> None:
    world = World()
    session = await open_session(world)

    async def work() -> None:
        await fetch(world, await run(world, session, "SELECT 1"))

    found = await files_called_by(work)
    assert len(found) <= MAX_FILES, sorted(found)
    assert "session/deciding.py" in found


async def test_a_plan_and_its_rows() -> None:
    world = connect.World()
    found = await files_called_by(lambda: world.run(connect.table("t")))
    assert len(found) <= MAX_FILES, sorted(found)
    assert "session/deciding.py" in found
