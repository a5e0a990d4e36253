"""What the sessions of every endpoint of one Spark need: one object for each Spark behind the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.model.principal import Principal
from gateway.model.spark_configuration import NOT_COMPARED, ParserConfiguration
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.model.statement import SessionContext
from gateway.model.tracing import Tracer
from gateway.session.budgets import Budgets
from gateway.session.identifiers import tag_of
from gateway.session.locks import CatalogLocks
from gateway.session.ports import AskOwner, CurrentIdentity, Ledger, LoginIdentity
from gateway.session.recorder import MakeLineageInput, Recorder, no_lineage
from gateway.session.session_counts import SessionCounts
from gateway.session.states import Lifecycle
from gateway.session.verdicts import VerdictInputs, Verdicts

FIRST_CONTEXT = SessionContext()
"""Where sessions of Spark's own begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies(VerdictInputs):
    """Ports and bounds, and the two things that are made of them and shared by all endpoints."""

    locks: CatalogLocks
    ledger: Ledger
    gateway: str
    """Its name in the audit log."""
    console_url: str = ""
    """Where browsers reach the console; refusals end with the address of their event there."""
    reader: ParserConfiguration = NOT_COMPARED
    """The parser that its Spark has been found to read texts as."""
    backend: str = DEFAULT_BACKEND
    """Name of the Spark whose sessions these are. INVARIANT (one Spark): catalog, judge, verdicts and slots
    here are of this Spark alone; what one Spark has told is not used to judge for another."""
    may_use: Callable[[Principal], bool] = lambda _: True
    """Whether somebody, with his groups of now, may have sessions on this Spark."""
    records_backend: bool = False
    """Whether the record says which Spark an event is about: there are several."""
    lineage_input: MakeLineageInput = no_lineage
    first_context: SessionContext = FIRST_CONTEXT
    """Where sessions of HiveServer2 clients begin."""
    secrets: Sequence[str] = ()
    """Secrets of catalogs, which no client may read in what Spark says; there may be more later."""
    session_catalogs: Callable[[], Mapping[str, int]] = dict
    """Catalogs that come and go, as a session that is opened now is told of them, with their revisions."""
    identity: CurrentIdentity = field(default_factory=LoginIdentity)
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    ask_owner: AskOwner | None = None
    """None: there are no other gateways."""
    tag: bytes = field(init=False)
    """What this gateway's handles begin with."""
    tracer: Tracer | None = None
    """Where requests are traced; None: nowhere."""
    session_counts: SessionCounts = field(default_factory=SessionCounts)
    """Shared by the Sparks of a gateway, so that its limits are for all of them together."""
    budgets: Budgets = field(default_factory=Budgets)
    """Shared likewise."""
    recorder: Recorder = field(init=False)
    verdicts: Verdicts = field(init=False)

    def __post_init__(self) -> None:
        backend = self.backend if self.records_backend else ""
        recorder = Recorder(self.ledger, self.gateway, self.metrics, self.lineage_input, backend=backend)
        object.__setattr__(self, "recorder", recorder)
        object.__setattr__(self, "tag", tag_of(self.gateway))
        object.__setattr__(self, "verdicts", Verdicts(self))
