"""A signal stops the work, whatever else goes wrong at that moment."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
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


async def test_what_runs_is_drained_before_the_work_is_stopped() -> None:
    order: list[str] = []
    drained = asyncio.Event()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            order.append("stopped")

    async def drain() -> None:
        order.append("draining")
        drained.set()
        await asyncio.sleep(0)
        order.append("drained")

    async with asyncio.timeout(patience()):
        await until_signalled(work(), drain=drain)
    assert order == ["draining", "drained", "stopped"]


async def test_a_second_signal_ends_the_draining() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    async def drain() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    async with asyncio.timeout(patience()):
        await until_signalled(work(), drain=drain)


async def test_a_hangup_during_a_reload_has_files_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, handlers = asyncio.get_running_loop(), dict[int, Callable[[], object]]()

    def add(number: int, call: Callable[..., object], *arguments: object) -> None:
        handlers[number] = partial(call, *arguments)

    monkeypatch.setattr(loop, "add_signal_handler", add)
    monkeypatch.setattr(loop, "remove_signal_handler", handlers.pop)
    reads = 0
    began, go_on, twice = asyncio.Semaphore(0), asyncio.Semaphore(0), asyncio.Event()

    async def reload() -> None:
        nonlocal reads
        reads += 1
        began.release()
        await go_on.acquire()

    async def work() -> None:
        handlers[signal.SIGHUP]()
        await began.acquire()
        for _ in range(3):  # what is being read now may be older than these
            handlers[signal.SIGHUP]()
        go_on.release()
        await began.acquire()
        go_on.release()
        for _ in range(5):
            await asyncio.sleep(0)
        twice.set()

    async with asyncio.timeout(patience()):
        await until_signalled(work(), reload=reload)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert twice.is_set()
    assert reads == 2


async def test_a_hangup_reloads_and_never_ends_the_work() -> None:
    reloads = asyncio.Semaphore(0)

    async def reload() -> None:
        reloads.release()
        raise RuntimeError("a fault in it is logged")

    async def work() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            await reloads.acquire()
            await asyncio.sleep(0)

    async with asyncio.timeout(patience()):
        await until_signalled(work(), reload=reload)
    os.kill(os.getpid(), signal.SIGHUP)  # while the process ends
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
