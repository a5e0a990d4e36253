"""What end-to-end tests run against, and how they talk to it without the gateway's own code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from pyhive import hive

from gateway.backends.embedded_spark import EmbeddedSpark

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread that lives as long as the test session: what it starts is tied to it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="session-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 300) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


@dataclass(frozen=True)
class Spark:
    """A Spark that anyone may talk to directly; tests compare what the gateway answers with its answers."""

    host: str
    port: int
    """Thrift binary, SASL PLAIN with any password."""
    connect_port: int
    user: str
    """The system user that it runs as; empty for our own."""
    process: EmbeddedSpark

    def query(self, *statements: str, user: str = "direct") -> list[tuple[Any, ...]]:
        """Run statements in one session and return the last one's rows."""
        return query(self.host, self.port, user, *statements)


def query(host: str, port: int, user: str, *statements: str, password: str | None = None) -> list[Any]:
    """Run statements with PyHive in one session and return the last one's rows."""
    login = {"auth": "CUSTOM", "password": password} if password is not None else {"auth": "NONE"}
    connection = hive.connect(host=host, port=port, username=user, **login)
    try:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        rows: list[Any] = cursor.fetchall() if cursor.description else []
        return rows
    finally:
        connection.close()


async def answers(host: str, port: int) -> None:
    """The readiness probe, with a client that shares no code with the gateway."""
    try:
        await asyncio.to_thread(query, host, port, "probe", "SELECT 1")
    except Exception as error:  # whatever PyHive raises means: not yet
        raise ConnectionError(str(error)) from error
