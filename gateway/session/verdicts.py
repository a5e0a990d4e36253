"""Judging with all it needs: policies and catalog of one instant, look-ups, a cache of clearances."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, NeedsCatalog, Refused, Statement, Verdict
from gateway.session.limits import SessionLimits
from gateway.session.metrics import Metrics
from gateway.session.ports import Authority, Catalog, Judge

_Key = tuple[Statement, int, int]


class Verdicts:
    """Answers a statement with a verdict under the policies in force.

    Only clearances are kept, never refusals: a refusal may come from a parser that was down for a moment. A
    clearance is used again only under the same policy and catalog versions, and not for longer than
    `verdict_age_s`.
    """

    def __init__(
        self,
        *,
        judge: Judge,
        policies: Callable[[], PolicySet],
        authority: Callable[[PolicySet], Authority],
        catalog: Catalog,
        limits: SessionLimits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._judge = judge
        self._policies = policies
        self._authority = authority
        self._catalog = catalog
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._kept: OrderedDict[_Key, tuple[float, Cleared]] = OrderedDict()

    @property
    def policies_version(self) -> int:
        return self._policies().version

    def visible_to(self, principal: Principal) -> Callable[[Resource], bool]:
        """Return whether `principal` may know of a resource, under the policies of this instant."""
        authority = self._authority(self._policies())

        def may_know(resource: Resource) -> bool:
            if resource.kind != "column":
                return authority.visible(principal, resource)
            # As DESCRIBE does: whoever may only write a column is not told that it is there.
            request = AccessRequest(principal=principal, resource=resource, access="select")
            return authority.decide(request).allowed

        return may_know

    async def judge(self, statement: Statement) -> Verdict:
        """Judge the statement, looking up what judging asks for, a bounded number of times."""
        begun = time.perf_counter()
        # INVARIANT (a snapshot is one instant): the policies are taken once, however often the catalog grows.
        policies = self._policies()
        catalog = self._catalog.snapshot
        kept = self._find((statement, policies.version, catalog.version))
        if kept is not None:
            self._metrics.judge_cached.observe(time.perf_counter() - begun)
            return kept
        snapshot = Snapshot(policies=policies, catalog=catalog)
        for _ in range(self._limits.catalog_rounds):
            answer = await self._judge(statement, snapshot)
            if not isinstance(answer, NeedsCatalog):
                self._metrics.judge_cold.observe(time.perf_counter() - begun)
                if isinstance(answer, Cleared) and not answer.provisional:
                    self._keep((statement, policies.version, snapshot.catalog.version), answer)
                return answer
            snapshot = Snapshot(policies=policies, catalog=await self._catalog.look_up(answer.tables))
        return Refused(
            statement=statement,
            code="NOT_GOVERNABLE",
            sqlstate="54001",
            message="the statement reads views of views too deep to follow",
            snapshot_version=snapshot.version,
        )

    def _find(self, key: _Key) -> Cleared | None:
        found = self._kept.get(key)
        if found is None:
            return None
        made, cleared = found
        if self._clock() - made > self._limits.verdict_age_s:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return cleared

    def _keep(self, key: _Key, cleared: Cleared) -> None:
        if len(key[0].text) > self._limits.verdict_text_chars:
            return
        self._kept[key] = (self._clock(), cleared)
        self._kept.move_to_end(key)
        while len(self._kept) > self._limits.verdicts_cached:
            self._kept.popitem(last=False)
