"""Tells, loudly, which masks and filters are closed because their authors may not select what they read.

What closes them is the judging of each statement (`pipeline/authors.py`); this asks the same ahead of it, so
that operators hear of it before users do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import structlog

from gateway.errors import BackendUnavailable
from gateway.model.catalog import CatalogSnapshot, LookUp, TableName
from gateway.model.policy import Policy, PolicySet
from gateway.model.principal import Principal, principal_of, user_of
from gateway.model.statement import Cleared, NeedsCatalog, Verdict
from gateway.pipeline.authors import require_of_author
from gateway.policy.sqltext import sample
from gateway.reader.port import ReaderPort

log = structlog.get_logger(__name__)

JudgeText = Callable[[str, Principal], Awaitable[Verdict]]
"""Judges a statement of somebody's, under the policies in force."""


@dataclass(frozen=True, slots=True)
class AuthorRights:
    """Says what the authors of texts may select."""

    reader: ReaderPort
    judge: JudgeText
    catalog: Callable[[], CatalogSnapshot]
    look_up: LookUp

    async def may_select_all(self, text: str, author: Principal) -> bool:
        """Whether somebody may select, whole and now, all that the text of a mask or filter reads, itself and
        by the functions that it calls, and execute these. Raises BackendUnavailable when that cannot be
        asked."""
        catalog, needed = self.catalog(), dict[TableName, None]()
        asked = await require_of_author(sample(text), self.reader, catalog)
        while isinstance(asked, NeedsCatalog):
            needed.update(dict.fromkeys(asked.tables))
            catalog = await self.look_up(tuple(needed))
            asked = await require_of_author(sample(text), self.reader, catalog)
        if asked is None:
            return False
        verdicts = [await self.judge(statement, author) for statement in asked.statements]
        return all(isinstance(verdict, Cleared) and verdict.shows_errors for verdict in verdicts)


class PolicyAuthors:
    """Looks at the authors of the texts in force, and says whose do not count any more."""

    def __init__(
        self,
        policies: Callable[[], PolicySet],
        author: Callable[[str], Principal | None],
        rights: AuthorRights,
    ) -> None:
        self._policies = policies
        self._author = author
        self._rights = rights
        self._known: tuple[PolicySet, list[tuple[Policy, str, str]]] | None = None
        self._closed: dict[str, str] = {}
        """Policy, as it is told → its author."""

    async def report_trouble(self) -> str | None:
        """Return what /readyz notes."""
        if not self._closed:
            return None
        names = ", ".join(sorted(self._closed)[:3])
        count = len(self._closed)
        return f"{count} policies are closed, because their authors lack select on what they read: {names}"

    async def run(self, every_s: float) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except BackendUnavailable:
                pass  # it will be back; until then nothing runs
            except Exception:  # the root of a task: what a policy says must not end the gateway
                log.exception("policy_authors_broke")
            await asyncio.sleep(every_s)

    async def look(self) -> None:
        """Ask once, and log what has changed."""
        closed: dict[str, str] = {}
        for policy, text, told in await self._texts():
            author = principal_of(told, self._author)
            if author is None or not await self._rights.may_select_all(text, author):
                closed[f"{policy.service}: {policy.name}"] = told
        for name, told in sorted(closed.items() - self._closed.items()):
            user, now = user_of(told), self._author(user_of(told))
            fault = "its author lacks select on something that it reads"
            if now is not None and now.identity != told:
                fault = (
                    f"its author is not the user who has the name now, with id `{now.id}` in the user file"
                )
            log.error("policy_closed", policy=name, author=user, fault=fault)
        for name in sorted(self._closed.keys() - closed.keys()):
            log.info("policy_opened", policy=name)
        self._closed = closed

    async def _texts(self) -> list[tuple[Policy, str, str]]:
        policies = self._policies()
        if self._known is None or self._known[0] is not policies:
            self._known = policies, await asyncio.to_thread(lambda: list(_texts_of(policies)))
        return self._known[1]


def _texts_of(policies: PolicySet) -> Iterator[tuple[Policy, str, str]]:
    """Yield the texts that have an author, each with its policy and the author."""
    for service in policies.services.values():
        for policy in (*service.policies, *(service.tags.policies if service.tags is not None else ())):
            for mask in policy.masks if policy.enabled else ():
                if mask.author and mask.text:
                    yield policy, mask.text, mask.author
            for item in policy.filters if policy.enabled else ():
                if item.author and item.filter_expression:
                    yield policy, item.filter_expression, item.author
    if policies.before is not None:
        yield from _texts_of(policies.before)
