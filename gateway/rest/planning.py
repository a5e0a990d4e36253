"""What belongs to a table that somebody may have: logins to its files, plans of scans, reports of metrics."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from gateway.catalog.rest import RestAnswer
from gateway.rest.answers import RestReply, route_of_credentials, withhold_config, withhold_logins
from gateway.rest.handles import SignedHandles
from gateway.rest.judging import CallJudge
from gateway.rest.requests import (
    RestCall,
    RestFault,
    forbidden,
    not_found,
    read_body,
    require_members,
    require_text,
)
from gateway.rest.tables import NO_TABLE, LoadedTable, ServedTables, read_delegation, read_query, resource_of
from gateway.rest.upstream import CatalogRelay, pass_fault_on, read_answer

_PLAN = (
    "snapshot-id", "select", "filter", "min-rows-requested", "case-sensitive", "use-snapshot-schema",
    "start-snapshot-id", "end-snapshot-id", "stats-fields",
)  # fmt: skip


@dataclass(slots=True)
class _PlanAnswer:
    """What is about to be answered about a table."""

    loaded: LoadedTable
    body: bytes = b""

    @property
    def reply(self) -> RestReply:
        return RestReply(body=self.body) if self.body else RestReply(status=204)


class Planning:
    """Answers for tables of one service's catalogs what takes the right to load them."""

    def __init__(
        self, relay: CatalogRelay, judge: CallJudge, tables: ServedTables, handles: SignedHandles
    ) -> None:
        """`handles`: for what plans are known by, since a catalog need not know of which table one is."""
        self._relay = relay
        self._judge = judge
        self._tables = tables
        self._handles = handles

    async def load_credentials(self, call: RestCall) -> RestReply:
        """Answer `loadCredentials`."""
        read_query(call, {"planId": (), "referenced-by": ()})
        async with self._answering(call) as made:
            if not made.loaded.credentials:  # RULE (rest-credentials-call)
                raise forbidden(
                    "logins to files are given to whoever may overwrite the table, and sees all of it"
                )
            answer = await self._ask(call, made.loaded, "GET", "/credentials")
            told = require_members(read_answer(answer), "the answer", ("storage-credentials",))
            logins = withhold_logins(told.get("storage-credentials"), route_of_credentials(call, call.table))
            made.body = orjson.dumps({"storage-credentials": logins})
        return made.reply

    async def plan(self, call: RestCall) -> RestReply:
        """Answer `planTableScan`."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", _PLAN)
        async with self._answering(call) as made:
            made.body = await self._pass(call, made.loaded, "POST", "/plan", content=orjson.dumps(body))
        return made.reply

    async def fetch_plan(self, call: RestCall) -> RestReply:
        """Answer `fetchPlanningResult`."""
        return await self._of_plan(call, "GET")

    async def cancel_plan(self, call: RestCall) -> RestReply:
        """Answer `cancelPlanning`."""
        return await self._of_plan(call, "DELETE")

    async def _of_plan(self, call: RestCall, method: str) -> RestReply:
        read_query(call, {})
        async with self._answering(call) as made:
            ident = await self._open_handle(call, "plan", call.parts["plan"], made.loaded)
            made.body = await self._pass(call, made.loaded, method, f"/plan/{quote(ident, safe='')}")
        return made.reply

    async def fetch_tasks(self, call: RestCall) -> RestReply:
        """Answer `fetchScanTasks`."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", ("plan-task",), ("plan-task",))
        handle = require_text(body["plan-task"], "a plan's task")
        async with self._answering(call) as made:
            task = await self._open_handle(call, "task", handle, made.loaded)
            content = orjson.dumps({"plan-task": task})
            made.body = await self._pass(call, made.loaded, "POST", "/tasks", content=content)
        return made.reply

    async def report_metrics(self, call: RestCall) -> RestReply:
        """Answer `reportMetrics`: a report is taken and not passed on, since its filters quote values."""
        name = call.table
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        record = await self._judge.record_list(call, {"table": str(name)})
        await self._judge.end(record)
        if not may_know(resource_of(name)):
            raise not_found(NO_TABLE, f"table `{name}` does not exist")
        return RestReply(status=204)

    # -- what is passed on -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _answering(self, call: RestCall) -> AsyncIterator[_PlanAnswer]:
        """Have the table within, of whoever may load it; who has to enforce restrictions does so for every
        row that he reads, whatever a plan says. The record hears of how the call ends."""
        loaded = await self._tables.decide(call, call.table, asks_for_logins=True)
        made, error = _PlanAnswer(loaded), "it was not answered"
        try:
            yield made
            error = ""
        except RestFault as fault:
            error = fault.message
            raise
        finally:
            await self._judge.end(loaded.judged.record, size=len(made.body), error=error)

    async def _pass(
        self, call: RestCall, loaded: LoadedTable, method: str, path: str, *, content: bytes | None = None
    ) -> bytes:
        answer = await self._ask(call, loaded, method, path, content=content)
        if not answer.content.strip():
            return b""
        return orjson.dumps(await self._close_handles(call, dict(read_answer(answer)), loaded))

    async def _ask(
        self, call: RestCall, loaded: LoadedTable, method: str, path: str, *, content: bytes | None = None
    ) -> RestAnswer:
        answer = await self._relay.ask(
            call,
            method,
            f"/tables/{quote(call.table.table, safe='')}{path}",
            namespace=call.namespace,
            content=content,
            headers=read_delegation(call) if loaded.credentials else None,
        )
        if answer.status >= 400:
            raise pass_fault_on(answer)
        return answer

    # -- what plans are known by -------------------------------------------------------------------------

    async def _close_handles(
        self, call: RestCall, told: dict[str, Any], loaded: LoadedTable
    ) -> Mapping[str, Any]:
        """Return an answer whose handles are of this table and user."""
        if not loaded.credentials:
            told.pop("storage-credentials", None)
        elif "storage-credentials" in told:
            route = route_of_credentials(call, call.table)
            told["storage-credentials"] = withhold_logins(told["storage-credentials"], route)
        if "config" in told:
            told["config"] = withhold_config(told["config"], credentials=loaded.credentials)
        if isinstance(told.get("plan-id"), str):
            told["plan-id"] = await self._handles.sign(_mean(call, "plan", loaded), told["plan-id"])
        tasks = told.get("plan-tasks")
        if isinstance(tasks, list):
            meaning = _mean(call, "task", loaded)
            told["plan-tasks"] = [await self._handles.sign(meaning, str(one)) for one in tasks]
        return told

    async def _open_handle(self, call: RestCall, kind: str, handle: str, loaded: LoadedTable) -> str:
        """Return what a catalog knows a plan by. INVARIANT (a plan is of its table): whoever was given the
        handle of a plan for one table does not read another's by it."""
        found = await self._handles.read(_mean(call, kind, loaded), handle)
        if found is None:
            raise not_found("NoSuchPlanIdException", "there is no such plan of this table; plan anew")
        return found


def _mean(call: RestCall, kind: str, loaded: LoadedTable) -> tuple[str, ...]:
    """Return what the handle of a plan is of: a user, a table, which is another one when it was made anew
    under its name, and what the user has to enforce on it."""
    name, uuid = loaded.table.name.fold(), loaded.content["metadata"].get("table-uuid")
    decided = hashlib.sha256(orjson.dumps(loaded.restrictions, option=orjson.OPT_SORT_KEYS)).hexdigest()
    # RULE (rest-plan-kind, rest-plan-of-user, rest-plan-made-anew, rest-plan-decided)
    return (kind, call.principal.user, name.catalog, name.database, name.table, str(uuid), decided)
