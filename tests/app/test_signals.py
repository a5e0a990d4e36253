"""A signal stops the work, whatever else goes wrong at that moment."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from gateway.app import signals
from gateway.app.signals import until_signalled
from tests.speed import patience


class UnreadLog:
    def info(self, *_: Any, **__: Any) -> None:
        raise BrokenPipeError


async def test_a_log_that_nobody_reads_any_more_does_not_keep_the_gateway_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "log", UnreadLog())
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    cleaned_up = False

    async def work() -> None:
        nonlocal cleaned_up
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up = True

    async with asyncio.timeout(patience()):
        await until_signalled(work())
    assert cleaned_up
    assert [type(fault) for fault in faults] == [BrokenPipeError]
