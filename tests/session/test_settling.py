"""Files are read when nobody writes to them any more, or when it was waited for long enough."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

import pytest

from gateway.session.settling import MAX_SETTLING, wait_until_settled


@pytest.mark.parametrize(
    ("stamps", "looks"),
    [
        (["known"], 1),
        (["half", "half"], 2),
        (["half", "more", "whole", "whole"], 4),
        (["half", "known", "known"], 3),
        (itertools.count(), MAX_SETTLING + 1),
    ],
)
async def test_it_is_waited_until_files_stay_as_they_are(stamps: Iterable[object], looks: int) -> None:
    left, looked, slept = iter(stamps), 0, 0
    sleep = asyncio.sleep

    def stamp() -> object:
        nonlocal looked
        looked += 1
        return next(left)

    async def no_time(_: float) -> None:
        nonlocal slept
        slept += 1
        await sleep(0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncio, "sleep", no_time)
        await wait_until_settled(stamp, "known")
    assert (looked, slept) == (looks, looks - 1)
