"""The Spark behind a gateway, at each of its endpoints that the gateway's clients can reach."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_service import SparkThriftService
from gateway.errors import BackendUnavailable, Faults
from gateway.model.spark_configuration import SparkConfiguration
from gateway.wire.rows import Cell

if TYPE_CHECKING:
    from gateway.app.connect import ConnectUpstream


LONGEST_QUESTION_S = 60.0


class Queries(Protocol):
    """Spark as the catalog asks it, over whichever endpoint."""

    async def query(self, sql: str, before: str = "", after: str = "") -> Sequence[tuple[Cell, ...]]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The endpoints of the one Spark behind the gateway; at least one of them is there."""

    thrift: SparkThriftBackend | None
    connect: ConnectUpstream | None
    host: str
    port: int
    session_catalogs: Callable[[], Mapping[str, int]] = dict
    """As `Dependencies` has them."""

    def queries(self) -> Queries:
        """Return what the catalog asks."""
        if self.thrift is not None:
            return SparkThriftService(self.thrift, session_catalogs=self.session_catalogs)
        if self.connect is None:
            raise Faults(["`backend` has no address of Spark"])
        return self.connect.queries()

    async def close(self) -> None:
        """Close the connections."""
        if self.connect is not None:
            await self.connect.backend.close()
        if self.thrift is not None:
            await self.thrift.close()

    async def ask(self) -> SparkConfiguration:
        """Ask Spark, on each of its endpoints, how it reads texts; return what the first one said.

        Raises BackendUnavailable when it does not answer, BackendMismatch when statements could mean
        something else to it than to the parser. Sessions ask again, each for itself.
        """
        told = await self.ask_each()
        for answer in told:
            if isinstance(answer, BackendUnavailable):
                raise answer
        return next(one for one in told if isinstance(one, SparkConfiguration))

    async def ask_each(self) -> list[SparkConfiguration | BackendUnavailable]:
        """Return what each endpoint of Spark says of how it reads texts, or why it does not."""
        probes = self._probes()
        if not probes:
            raise Faults(["`backend` has no address of Spark"])
        return list(await asyncio.gather(*map(_answer_or_error, probes)))

    async def own_catalogs(self) -> Mapping[str, str]:
        """Return the catalogs that a new session of Spark has by itself: name → class. Raises
        BackendUnavailable."""
        if self.thrift is not None:
            settings = await self.thrift.read_initial_settings()
        elif self.connect is not None:
            # A session with an id of the gateway's own may have been told of catalogs by another gateway.
            settings = await self.connect.backend.read_initial_settings()
        else:
            raise Faults(["`backend` has no address of Spark"])
        return SparkConfiguration(version="", settings=settings, parsers=()).catalogs

    async def introduction(self) -> SparkConfiguration:
        """Return Spark's version and settings, whatever they are. Raises BackendUnavailable when it does not
        answer."""
        if self.thrift is not None:
            return await self.thrift.introduction()
        if self.connect is None:
            raise Faults(["`backend` has no address of Spark"])
        return await self.connect.backend.introduction()

    def checks(self) -> dict[str, Callable[[], Awaitable[str | None]]]:
        """Return what has to be ready: name → what is wrong with it, None when nothing is."""
        found: dict[str, Callable[[], Awaitable[str | None]]] = {}
        if self.thrift is not None:
            found["spark"] = ReadinessProbe(self.thrift.ready).answer
        if self.connect is not None:
            found["spark_connect"] = ReadinessProbe(self.connect.backend.ready).answer
        return found

    def _probes(self) -> list[Callable[[], Awaitable[SparkConfiguration]]]:
        found: list[Callable[[], Awaitable[SparkConfiguration]]] = []
        if self.thrift is not None:
            found.append(self.thrift.probe)
        if self.connect is not None:
            found.append(self.connect.backend.probe)
        return found


async def _answer_or_error(
    probe: Callable[[], Awaitable[SparkConfiguration]],
) -> SparkConfiguration | BackendUnavailable:
    try:
        return await probe()
    except BackendUnavailable as error:
        return error


class ReadinessProbe:
    """Asks whether Spark is ready, one at a time: a Spark that hangs is not asked again for as long as it has
    the last question, or `longest_s`, however often somebody wants to know and gives up."""

    def __init__(
        self, ready: Callable[[], Coroutine[Any, Any, object]], *, longest_s: float = LONGEST_QUESTION_S
    ) -> None:
        self._ready = ready
        self._longest_s = longest_s
        self._asked: asyncio.Task[str | None] | None = None

    async def answer(self) -> str | None:
        """Say what is wrong with Spark, None when nothing is; as late as Spark does."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked)

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(self._longest_s):
                await self._ready()
        except BackendUnavailable as error:
            return error.message
        except TimeoutError:
            return f"Spark has not answered for {self._longest_s:g} s"
        return None


def require_connect() -> None:
    """Load Spark Connect's messages and gRPC. Raises Faults when they are not installed."""
    # gRPC writes to standard error as it likes, and has handlers for forks that our children do not need.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import_module("gateway.app.connect")
    except ImportError as error:
        raise Faults(
            [f"`listeners.connect` needs `{error.name}`, which is not installed; install the extra `spark`"]
        ) from None
