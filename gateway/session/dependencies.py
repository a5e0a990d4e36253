"""What the sessions of every endpoint need, but for the Spark behind them: one object for a whole process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.statement import SessionContext
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks
from gateway.session.metrics import Metrics
from gateway.session.ports import Authority, Catalog, Judge, Ledger, Promotion
from gateway.session.recorder import LineageInput, Recorder, no_lineage
from gateway.session.verdicts import Verdicts

FIRST_CONTEXT = SessionContext()
"""Where sessions of Spark's own begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Ports and bounds, and the two things that are made of them and shared by all endpoints."""

    judge: Judge
    policies: Callable[[], PolicySet]
    authority: Callable[[PolicySet], Authority]
    catalog: Catalog
    locks: CatalogLocks
    ledger: Ledger
    gateway: str
    """Its name in the audit log."""
    metrics: Metrics = field(default_factory=Metrics)
    limits: SessionLimits = field(default_factory=SessionLimits)
    clock: Callable[[], float] = time.monotonic
    stale: Callable[[], str | None] = lambda: None
    """Says why the policies in force are too old to be relied on, None when they are not."""
    principals: Callable[[], Mapping[str, Principal]] = dict
    """Those who may log in now."""
    lineage_input: LineageInput = no_lineage
    first_context: SessionContext = FIRST_CONTEXT
    """Where sessions of HiveServer2 clients begin."""
    secrets: Sequence[str] = ()
    """Secrets of catalogs, which no client may read in what Spark says; there may be more later."""
    told_catalogs: Callable[[], Mapping[str, int]] = dict
    """Catalogs that come and go, as a session that is opened now is told of them, with their revisions."""
    promotion: Promotion | None = None
    """Makes tables of files that a statement names."""
    recorder: Recorder = field(init=False)
    verdicts: Verdicts = field(init=False)

    def __post_init__(self) -> None:
        recorder = Recorder(self.ledger, self.gateway, self.metrics, self.lineage_input)
        verdicts = Verdicts(
            judge=self.judge,
            policies=self.policies,
            authority=self.authority,
            catalog=self.catalog,
            limits=self.limits,
            metrics=self.metrics,
            clock=self.clock,
            stale=self.stale,
            principals=self.principals,
            promotion=self.promotion,
        )
        object.__setattr__(self, "recorder", recorder)
        object.__setattr__(self, "verdicts", verdicts)
