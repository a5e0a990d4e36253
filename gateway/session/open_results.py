"""Whether a result that is open may still be read: `sessions.end_results_on_policy_change`."""

from __future__ import annotations

from gateway.model.statement import Client
from gateway.session.endpoint import EndpointOperation
from gateway.session.failures import StatementFailed
from gateway.session.freshness import gives_the_same
from gateway.session.judged import build_judged
from gateway.session.verdicts import Verdicts


class OpenResults:
    """Ends results that would be others by the policies of now.

    A result ends when policies have changed since it was judged, and its statement, or one that a temporary
    view or cached relation in it came from, judged again with what names meant then, is refused or would be
    handed to Spark otherwise. The answer of a metadata call, and one
    that the gateway filtered row by row, ends with every change of policies. It is found out when rows are
    asked for, once for each change.
    """

    def __init__(self, verdicts: Verdicts, *, end: bool) -> None:
        """`end`: whether any result ends so; otherwise each can be read to its end."""
        self._verdicts = verdicts
        self.end = end

    async def require(self, result: EndpointOperation, client: Client, *, filtered: bool = False) -> None:
        """Raise StatementFailed when the result has ended. `filtered`: the gateway filtered its rows."""
        version = self._verdicts.policies_version
        session = result.session
        if not self.end or (result.policies_version == version and session.renewed is None):
            return
        cleared, basis = result.cleared, result.basis
        if cleared is None or basis is None or filtered:
            raise explain_ended(result.statement_id)
        made_of = (build_judged(cleared), *basis)
        if not await gives_the_same(made_of, session.principal_now, self._verdicts, client):
            raise explain_ended(result.statement_id)
        result.policies_version = version


def explain_ended(statement_id: str) -> StatementFailed:
    """Return what the client of a result is told that has ended."""
    message = (
        "[SLUICE_POLICIES_CHANGED] policies have changed since this result was computed, and it would "
        "differ now; run the statement again"
    )
    return StatementFailed(message, "40001", 0, statement_id)
