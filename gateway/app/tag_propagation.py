"""Tags that travel: looks at the graph again and again, and reads what was accepted for the policies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
import structlog

from gateway.app.accepted_tags import TAGS_VERSION, build_accepted_tags_path
from gateway.app.propagation_rules import propagation_rules
from gateway.database.migrate import open_migrated
from gateway.lineage.propagation import PropagationNode
from gateway.lineage.proposals import (
    Looked,
    Target,
    load_accepted_tags,
    look,
    read_acceptance_number,
)
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.resource import Resource
from gateway.model.tags import Tag
from gateway.policy.engine import Engine, engine_for
from gateway.settings.models import Settings, TagPropagationSettings
from gateway.sources.accepted_tags import AcceptedList, AcceptedTag, AcceptedTags

log = structlog.get_logger(__name__)

T = TypeVar("T")

_AT_ONCE = 500
"""Columns that policies are asked about in one go: some 10 ms."""
_LOOK_S = 600.0
"""Seconds after which a look is given up; a million edges take some 20."""


def build_accepted_source(settings: Settings, accepted: Accepted) -> AcceptedTags:
    return AcceptedTags(
        accepted.fetch,
        cache=build_accepted_tags_path(settings),
        poll_s=settings.policies.reload_s,
    )


async def load_accepted_list(connection: Any) -> AcceptedList:
    """Return what is accepted, from the database."""
    number, found = await load_accepted_tags(connection)
    # Off the loop: there may be a hundred thousand.
    return await asyncio.to_thread(_as_list, number, found)


def _as_list(number: int, found: Sequence[tuple[Target, str]]) -> AcceptedList:
    return AcceptedList(
        number=number,
        tags=tuple(
            AcceptedTag(
                catalog=target.catalog,
                database=target.database,
                table=target.table,
                column=target.column,
                tag=target.tag,
                attributes=tuple(orjson.loads(attributes)),
            )
            for target, attributes in found
        ),
    )


class Accepted:
    """Reads what is accepted, by one connection that is made again when it breaks."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None

    async def fetch(self, known: int | None) -> AcceptedList | None:
        """Return the list, or None when its number is still the known one."""
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await open_migrated(self._dsn, "sluice-tags", command_s=60)
                # It may be another database by now, or an older state of it: a number says nothing there.
                known = None
            if known is not None and await read_acceptance_number(self._connection) == known:
                return None
            found = await load_accepted_list(self._connection)
        except BaseException:
            self.close()
            raise
        return found

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class TagsOf:
    """Asks policies for the tags of columns, off the loop and in pieces."""

    def __init__(self, engine: Engine, *, within: bool = False) -> None:
        """`within`: of a whole table (`*`) also the tags of what is in it."""
        self._engine = engine
        self._within = within
        self._context = AccessContext(time=datetime.now(UTC))

    async def __call__(self, nodes: Sequence[PropagationNode]) -> Sequence[Sequence[Tag]]:
        """Return the tags of each column."""
        found: list[Sequence[Tag]] = []
        for i in range(0, len(nodes), _AT_ONCE):
            found += await asyncio.to_thread(self._of, nodes[i : i + _AT_ONCE])
        return found

    def _of(self, nodes: Sequence[PropagationNode]) -> list[Sequence[Tag]]:
        return [
            self._engine.tags(resource_of(node), self._context, within=self._within and node.name == "*")
            for node in nodes
        ]


def resource_of(node: PropagationNode) -> Resource:
    """Return a column of a table as policies know it; the table itself for `*`."""
    table = Resource.table(*node.parts)
    return table if node.name == "*" else table.child("column", node.name)


def basis_of(policies: PolicySet) -> str:
    """Return a text that is another one when sources of policies changed, and the same in every gateway."""
    return " ".join(
        f"{source}={version}"
        for source, version in sorted(policies.origins.items())
        if source != TAGS_VERSION
    )


class TagPropagation:
    """Looks at the graph from time to time, one gateway of all at once."""

    def __init__(self, settings: TagPropagationSettings, dsn: str, policies: Callable[[], PolicySet]) -> None:
        """Raises Faults for rules at fault: a gateway does not start on them."""
        self._settings = settings
        self._dsn = dsn
        self._policies = policies
        self._rules = propagation_rules(settings)
        self.trouble = ""
        """Why the last look failed."""

    async def report_trouble(self) -> str | None:
        """Say why tags do not travel now, None when they do. Those that were accepted are in force."""
        return f"no tags are proposed: {self.trouble}" if self.trouble else None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            begun = time.monotonic()
            try:
                await self.look()
                self.trouble = ""
            except Exception as error:  # noqa: BLE001 - the root of a task: proposals may be late
                # The readiness page is open to everybody, and a database's own words may quote what is in it.
                why = (
                    f"{type(error).__name__}: {error}" if isinstance(error, OSError) else type(error).__name__
                )
                if why != self.trouble:
                    log.warning("tags_not_propagated", why=f"{type(error).__name__}: {error}")
                self.trouble = why
            # A large list is looked at less often: at most a tenth of the time goes into it.
            await asyncio.sleep(max(self._settings.look_s, 9 * (time.monotonic() - begun)))

    async def look(self) -> Looked | None:
        """Bring the proposals up to date; None when nothing was new. Raises what asyncpg raises.

        A large look takes seconds of work, so it has a thread and a loop of its own.
        """
        found = await in_own_loop(self._look(self._policies()))
        if found is not None:
            log.info(
                "tags_propagated",
                columns=found.columns,
                flows=found.flows,
                proposed=found.proposed,
                accepted=found.accepted,
                gone=found.gone,
                cut_off=found.cut_off,
            )
        return found

    async def _look(self, policies: PolicySet) -> Looked | None:
        """Return what is seen. Raises TimeoutError."""
        async with asyncio.timeout(_LOOK_S), connected(self._dsn) as connection:
            engine = engine_for(policies)
            return await look(
                connection,
                self._rules,
                TagsOf(engine),
                tags_within=TagsOf(engine, within=True),
                basis=basis_of(policies),
                auto_accept=self._settings.auto_accept,
            )


async def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread with an event loop of its own; when cancelled, cancel it and wait."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def begin() -> T:
        task = asyncio.current_task()
        if task is not None:
            begun.set_result((asyncio.get_running_loop(), task))
        return await work

    running = asyncio.ensure_future(asyncio.to_thread(asyncio.run, begin()))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        loop, task = await asyncio.wrap_future(begun)
        with suppress(RuntimeError):  # it has just ended
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([running])
        raise


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Any]:
    """Yield a connection for one look, with the tables there."""
    connection = await open_migrated(dsn, "sluice-tags", command_s=300)
    try:
        yield connection
    finally:
        connection.terminate()
