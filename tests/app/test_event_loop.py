"""The gateway's event loop does what asyncio's does: the same programs, on either."""

from __future__ import annotations

import asyncio
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gateway.app.event_loop import MANY_CANCELED, ROUNDS, GatewayLoop, make_event_loop
from tests.speed import patience

Program = Callable[[], Awaitable[object]]


@pytest.fixture(params=[asyncio.new_event_loop, make_event_loop], ids=["asyncio", "gateway"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


def test_it_is_the_gateways() -> None:
    with asyncio.Runner(loop_factory=make_event_loop) as runner:
        assert isinstance(runner.get_loop(), GatewayLoop)


def test_another_python_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(selectors, "EpollSelector")
    with asyncio.Runner(loop_factory=make_event_loop) as runner:
        assert not isinstance(runner.get_loop(), GatewayLoop)


def test_callbacks_run_in_the_order_in_which_they_were_called_for(runner: asyncio.Runner) -> None:
    async def program() -> list[str]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        done = loop.create_future()

        def again(name: str, left: int) -> None:
            seen.append(f"{name}{left}")
            if left:
                loop.call_soon(again, name, left - 1)
            elif name == "b":
                done.set_result(None)

        loop.call_soon(again, "a", 2)
        loop.call_soon(seen.append, "canceled").cancel()
        loop.call_soon(again, "b", 2)
        await done
        return seen

    assert runner.run(program()) == ["a2", "b2", "a1", "b1", "a0", "b0"]


def test_timers_come_in_their_order_and_not_before_their_time(runner: asyncio.Runner) -> None:
    async def program() -> tuple[list[int], float]:
        loop, seen = asyncio.get_running_loop(), list[int]()
        began, done = loop.time(), loop.create_future()
        for n in range(300):
            loop.call_later(10, seen.append, -1).cancel()
            loop.call_at(began + 0.02 + 0.001 * (n % 7), seen.append, n % 7)
        loop.call_at(began + 0.05, done.set_result, None)
        await done
        return seen, time.monotonic() - began

    seen, took = runner.run(program())
    assert seen == sorted(seen)
    assert len(seen) == 300
    assert took >= 0.05
    with pytest.raises(TimeoutError):
        runner.run(_time_out())


def test_canceled_timers_are_forgotten_when_their_time_comes(runner: asyncio.Runner) -> None:
    async def program() -> int:
        loop = asyncio.get_running_loop()
        at, seen = loop.time() + 0.01, list[int]()
        for n in range(2 * MANY_CANCELED):
            # The first one of each keeps the loop from seeing the canceled one before it is due.
            loop.call_at(at, seen.append, n)
            loop.call_at(at, seen.append, -1).cancel()
        await asyncio.sleep(0.02)
        assert sorted(seen) == list(range(2 * MANY_CANCELED))
        return int(loop._timer_cancelled_count)  # type: ignore[attr-defined]

    canceled = runner.run(program())
    if isinstance(runner.get_loop(), GatewayLoop):
        assert canceled == 0, "it would turn as asyncio's for ever"


def test_a_timer_may_wait_for_ever(runner: asyncio.Runner) -> None:
    async def program() -> str:
        loop = asyncio.get_running_loop()
        loop.call_later(float("inf"), print)
        told = loop.create_future()
        threading.Timer(0.02, lambda: loop.call_soon_threadsafe(told.set_result, "told")).start()
        return str(await told)

    assert runner.run(program()) == "told"


async def _time_out() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()


def test_sockets_are_served_while_callbacks_call_for_more(runner: asyncio.Runner) -> None:
    async def program() -> int:
        loop, ours, theirs = asyncio.get_running_loop(), *socket.socketpair()
        ours.settimeout(0)
        heard, rounds = loop.create_future(), 0

        def busy() -> None:
            nonlocal rounds
            rounds += 1
            if not heard.done():
                loop.call_soon(busy)

        loop.add_reader(ours, lambda: heard.set_result(ours.recv(10)))
        busy()
        theirs.send(b"hello")
        assert await heard == b"hello"
        loop.remove_reader(ours)
        assert not loop.remove_reader(ours)
        ours.close()
        theirs.close()
        return rounds

    assert runner.run(program()) <= 4 * ROUNDS


def test_connections_send_and_receive_more_than_the_kernel_buffers(runner: asyncio.Runner) -> None:
    async def program() -> int:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server, asyncio.timeout(patience()):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(bytes(8 << 20))
            writer.write_eof()
            received = len(await reader.read())
            writer.close()
        return received

    assert runner.run(program()) == 8 << 20


def test_threads_processes_and_signals_reach_it(runner: asyncio.Runner) -> None:
    async def program() -> list[object]:
        loop, told = asyncio.get_running_loop(), asyncio.Queue[str]()
        threading.Timer(0.01, lambda: loop.call_soon_threadsafe(told.put_nowait, "thread")).start()
        seen: list[object] = [await told.get(), await asyncio.to_thread(lambda: "pool")]
        loop.add_signal_handler(signal.SIGUSR1, told.put_nowait, "signal")
        signal.raise_signal(signal.SIGUSR1)
        seen.append(await told.get())
        loop.remove_signal_handler(signal.SIGUSR1)
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print('child')", stdout=asyncio.subprocess.PIPE, process_group=0
        )
        seen += [(await program.communicate())[0].strip(), program.returncode]
        return seen

    assert runner.run(program()) == ["thread", "pool", "signal", b"child", 0]


def test_a_callback_that_fails_ends_nothing(runner: asyncio.Runner) -> None:
    async def program() -> list[str]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        loop.set_exception_handler(lambda _, context: seen.append(type(context["exception"]).__name__))
        loop.call_soon(lambda: 1 / 0)
        loop.call_soon(seen.append, "next")
        await asyncio.sleep(0.01)
        return seen

    assert runner.run(program()) == ["ZeroDivisionError", "next"]


def test_debugging_is_asyncios(runner: asyncio.Runner) -> None:
    runner.get_loop().set_debug(True)

    async def program() -> str:
        await asyncio.sleep(0.001)
        return await asyncio.to_thread(lambda: "done")

    assert runner.run(program()) == "done"
