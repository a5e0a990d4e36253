"""Judges a call as the statement that it is, and records what was decided before anything is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.errors import LimitExceeded
from gateway.model.decision import ColumnMask, Obligation, RowFilter
from gateway.model.statement import Cleared, Client, Refused, SessionContext, Statement, Verdict
from gateway.rest.described import CURRENT, AnsweredTables
from gateway.rest.requests import RestCall, RestFault
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import RecordedCall
from gateway.session.failures import CallRefusal, StatementRefused
from gateway.session.locks import LockKey, LockRequest
from gateway.session.verdicts import Verdicts
from gateway.session.view_rules import build_refusal

ACCESS_DENIED = ("ACCESS_DENIED", "42501")
NOT_GOVERNABLE = ("NOT_GOVERNABLE", "0A000")
_GOES_ON = frozenset({"fetchPlanningResult", "cancelPlanning", "fetchScanTasks"})
"""Calls that go on with what an earlier one was counted for, as the handle that they show proves."""
_REFUSALS = {400: ("MALFORMED", "22023"), 429: ("LIMIT_EXCEEDED", "54000")}
"""Status of an answer → code and SQLSTATE of the record, for what is refused without a verdict."""


@dataclass(eq=False, kw_only=True)
class JudgedCall:
    """A call that is on record as cleared, and has to be ended on record as well."""

    cleared: Cleared
    record: RecordedCall


class CallJudge:
    """Judges the calls of one service."""

    def __init__(self, dependencies: Dependencies, verdicts: Verdicts) -> None:
        """`verdicts`: made of the dependencies with a DescribedCatalog in the place of their catalog."""
        self._verdicts = verdicts
        self._recorder = dependencies.recorder
        self._locks = dependencies.locks
        self._limits = dependencies.limits
        self._budgets = dependencies.budgets
        self._backend = dependencies.backend
        self._console_url = dependencies.console_url

    async def judge(self, call: RestCall, text: str, told: AnsweredTables | None = None) -> Verdict:
        """Return the verdict on a statement in the place of a call, by the tables that it is about."""
        CURRENT.set(told)
        try:
            return await self._verdicts.judge(build_statement(call, text), call.client)
        finally:
            CURRENT.set(None)

    @property
    def verdicts(self) -> Verdicts:
        """What else policies say of the catalog, for lists."""
        return self._verdicts

    async def record(
        self, call: RestCall, verdict: Verdict, begun: float, *, together: Sequence[Verdict] = ()
    ) -> JudgedCall:
        """Make a verdict durable. `together`: all of the call's verdicts, where it has several. Raises
        RestFault for one that refuses, LedgerUnavailable.

        INVARIANT (audit first): nothing of a catalog's answer leaves before this has returned.
        """
        verdict = await self._admit(call, verdict, together or [verdict])
        record = RecordedCall(principal=call.principal, session_id="")
        await self._recorder.record_decided(
            verdict,
            statement_id=record.statement_id,
            client=read_caller(call),
            session="",
            judged_s=time.perf_counter() - begun,
        )
        call.on_record.append(record.statement_id)
        if isinstance(verdict, Refused):
            raise self.explain(verdict, record.statement_id)
        return JudgedCall(cleared=verdict, record=record)

    async def _admit(self, call: RestCall, verdict: Verdict, together: Sequence[Verdict]) -> Verdict:
        """Count a call that may pass as one statement on the tables of all of its verdicts, or refuse it
        where a limit of statements does."""
        if isinstance(verdict, Refused) or call.counted or call.name in _GOES_ON:
            return verdict
        who, client = call.principal, call.client
        await self._budgets.prepare(who, client, self._backend)
        cleared = [one for one in together if isinstance(one, Cleared)]  # RULE (rest-limit-together)
        scans = [scan for one in cleared for scan in one.scans]
        named = {name for one in cleared for name in one.names - one.policy_tables}
        tables = [*sorted(named, key=str), *(scan.table for scan in scans)]
        try:
            # RULE (rest-limit)
            self._budgets.admit(who, client, lambda: tables, scans, self._backend)
        except LimitExceeded as fault:
            refused = build_refusal(verdict, fault.code, fault.sqlstate, fault.message)
            return replace(refused, limit=fault.limit, retry_s=fault.retry_s)
        call.counted.append(call.name)
        return verdict

    async def refuse(
        self, call: RestCall, verdict: Verdict, code: tuple[str, str], message: str
    ) -> RestFault:
        """Record the refusal of what policies alone would let pass, and return it; a verdict that refuses
        stays as it is."""
        refused = build_refusal(verdict, *code, message) if isinstance(verdict, Cleared) else verdict
        try:
            await self.record(call, refused, time.perf_counter())
        except RestFault as fault:
            return fault
        raise AssertionError("a refusal is no clearance")

    def explain(self, refused: Refused, statement_id: str) -> RestFault:
        """Return a refusal as the client is told of it."""
        fault = StatementRefused(refused, statement_id, console_url=self._console_url)
        if refused.code == "POLICIES_STALE":
            return RestFault(503, "ServiceUnavailableException", fault.text)
        words = fault.text.splitlines()[0]
        if refused.retry_s is not None:
            return RestFault(429, "TooManyRequestsException", words, retry_s=refused.retry_s)
        return RestFault(403, "ForbiddenException", words)

    async def record_list(self, call: RestCall, arguments: Mapping[str, str]) -> RecordedCall:
        """Make durable that a list is answered: it holds only what the principal may know of."""
        record = RecordedCall(principal=call.principal, session_id="")
        await self._recorder.metadata_decided(call.name, arguments, record, read_caller(call))
        call.on_record.append(record.statement_id)
        return record

    async def record_fault(self, call: RestCall, status: int, message: str) -> None:
        """Make durable that a call was refused, or could not be answered, before it was judged."""
        record = RecordedCall(principal=call.principal, session_id="")
        code, sqlstate = _REFUSALS.get(status, NOT_GOVERNABLE)
        refusal = CallRefusal(code=code, sqlstate=sqlstate, message=message) if status < 500 else None
        names = [f"{key}={value}" for key, value in call.parts.items()]
        await self._recorder.call_decided(call.name, names, record, read_caller(call), (), refusal)
        if refusal is None:
            await self.end(record, error=message)

    async def end(self, record: RecordedCall, *, size: int = 0, error: str = "") -> None:
        """Record how a call ended that was cleared."""
        record.relayed_bytes = size
        await self._recorder.record_completed(record, "failed" if error else "finished", error)

    @asynccontextmanager
    async def hold(self, changes: Sequence[Cleared]) -> AsyncIterator[bool]:
        """Hold the names that a change is about: no statement is run by what they meant before. Says whether
        others were in the way, so that it has to be judged again. Raises RestFault."""
        until = asyncio.get_running_loop().time() + self._limits.catalog_wait_s
        requests = [LockRequest.of(one, one.names) for one in changes]
        exclusive = frozenset[LockKey]().union(*(one.exclusive for one in requests))
        request = LockRequest(
            shared=frozenset[LockKey]().union(*(one.shared for one in requests)) - exclusive,
            exclusive=exclusive,
            changes=tuple(change for one in requests for change in one.changes),
            rewritten=tuple(name for one in requests for name in one.rewritten),
        )
        locks = await self._locks.acquire(request, until=until)
        if locks is None:
            raise RestFault(
                503, "ServiceUnavailableException", "statements are still running on it; try again later"
            )
        try:
            locks.forget_before_forwarding()
            yield locks.waited
        finally:
            locks.release()


def build_statement(call: RestCall, text: str) -> Statement:
    """Return a text as a statement of the caller's, in which every name is whole."""
    context = SessionContext(catalog=call.catalog, namespace=call.session_namespace)
    return Statement(text=text, principal=call.principal, context=context)


def read_caller(call: RestCall) -> Client:
    """Return what the record says of where a call came from, and which it was."""
    return replace(call.client, extra={**call.client.extra, "operation": call.name})


def name_obligations(cleared: Cleared) -> str:
    """Say in words what a verdict obliges to, for who may not have the files."""
    found = list(dict.fromkeys(_name(one) for one in cleared.obligations))
    if cleared.hides_columns:
        found.append("columns that you may not select")
    return " and ".join(found[:3]) + (" and others" if len(found) > 3 else "")


def is_obliged(cleared: Cleared) -> bool:
    """Whether not all of the rows and values are shown as they are."""
    return bool(cleared.obligations) or cleared.hides_columns  # RULE (rest-hidden-columns)


def _name(one: Obligation) -> str:
    match one:
        case RowFilter():
            return "a row filter"
        case ColumnMask():
            return f"a mask of column `{one.column}`"
