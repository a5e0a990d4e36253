"""Tags that travel: looks at the graph again and again, and reads what was accepted for the policies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import structlog

from gateway.app.rule_files import read_texts, shipped_rules
from gateway.app.rules import TAGS_VERSION
from gateway.database.migrate import migrate
from gateway.lineage.proposals import Looked, accepted_number, accepted_tags, look
from gateway.lineage.propagation import Node
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.resource import Resource
from gateway.model.tags import PropagationRules, Tag
from gateway.policy.engine import Engine, engine_for
from gateway.policy.propagation import load_propagation
from gateway.settings.models import Settings, TagSettings
from gateway.sources.accepted_tags import AcceptedList, AcceptedTag, AcceptedTags
from gateway.sql.functions import AGGREGATES

log = structlog.get_logger(__name__)

PROPAGATION_RULES = "tag_propagation.yaml"
ACCEPTED_FILE = "accepted_tags.json"
_AT_ONCE = 500
"""Columns that policies are asked about in one go: some 10 ms."""
_CONNECT_S = 10.0
_LOOK_S = 600.0
"""Seconds after which a look is given up; a million edges take some 20."""


def rules_path(settings: TagSettings) -> Path:
    """Return the file of the rules of tag propagation."""
    return settings.rules if settings.rules is not None else shipped_rules() / PROPAGATION_RULES


def propagation_rules(settings: TagSettings) -> PropagationRules:
    """Return the rules of tag propagation. Raises Faults with file and line."""
    ((name, text),) = read_texts([rules_path(settings)]).items()
    return load_propagation(text, name, AGGREGATES)


def accepted_source(settings: Settings, dsn: str, *, read_only: bool = False) -> AcceptedTags:
    """Return the source of accepted tags."""
    return AcceptedTags(
        Accepted(dsn).fetch,
        cache=settings.ledger.directory / ACCEPTED_FILE,
        poll_s=settings.policies.reload_s,
        read_only=read_only,
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
                self._connection = await asyncpg.connect(
                    self._dsn,
                    timeout=_CONNECT_S,
                    command_timeout=60,
                    server_settings={"application_name": "sluice-tags"},
                )
                await migrate(self._connection)
            if known is not None and await accepted_number(self._connection) == known:
                return None
            number, found = await accepted_tags(self._connection)
        except BaseException:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.terminate()
            raise
        return AcceptedList(
            number=number,
            tags=tuple(
                AcceptedTag(
                    catalog=target.catalog,
                    database=target.database,
                    table=target.table,
                    column=target.column,
                    tag=target.tag,
                    attributes=attributes,
                )
                for target, attributes in found
            ),
        )

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class TagsOf:
    """Asks policies for the tags of columns, off the loop and in pieces."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._context = AccessContext(time=datetime.now(UTC))

    async def __call__(self, nodes: Sequence[Node]) -> Sequence[Sequence[Tag]]:
        """Return the tags of each column."""
        found: list[Sequence[Tag]] = []
        for i in range(0, len(nodes), _AT_ONCE):
            found += await asyncio.to_thread(self._of, nodes[i : i + _AT_ONCE])
        return found

    def _of(self, nodes: Sequence[Node]) -> list[Sequence[Tag]]:
        return [self._engine.tags(resource_of(node), self._context) for node in nodes]


def resource_of(node: Node) -> Resource:
    """Return a column of a table as policies know it; the table itself for `*`."""
    table = Resource.table(*node.parts)  # type: ignore[arg-type]
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

    def __init__(self, settings: TagSettings, dsn: str, policies: Callable[[], PolicySet]) -> None:
        """Raises Faults for rules at fault: a gateway does not start on them."""
        self._settings = settings
        self._dsn = dsn
        self._policies = policies
        self._rules = propagation_rules(settings)
        self.trouble = ""
        """Why the last look failed."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
                self.trouble = ""
            except Exception as error:  # the root of a task: proposals may be late, statements go on
                why = f"{type(error).__name__}: {error}"
                if why != self.trouble:
                    log.warning("tags_not_propagated", why=why)
                self.trouble = why
            await asyncio.sleep(self._settings.look_s)

    async def look(self) -> Looked | None:
        """Bring the proposals up to date; None when nothing was new. Raises what asyncpg raises."""
        policies = self._policies()
        async with asyncio.timeout(_LOOK_S), connected(self._dsn) as connection:
            found = await look(
                connection,
                self._rules,
                TagsOf(engine_for(policies)),
                basis=basis_of(policies),
                auto_accept=self._settings.auto_accept,
            )
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


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Any]:
    """Yield a connection for one look, with the tables there."""
    connection = await asyncpg.connect(
        dsn, timeout=_CONNECT_S, command_timeout=300, server_settings={"application_name": "sluice-tags"}
    )
    try:
        await migrate(connection)
        yield connection
    finally:
        connection.terminate()
