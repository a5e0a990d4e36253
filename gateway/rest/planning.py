"""What belongs to a table that somebody may have: logins to its files, plans of scans, reports of metrics."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from gateway.catalog.rest import RestAnswer
from gateway.model.catalog import TableName
from gateway.rest.answers import RestReply, route_of_credentials, withhold_config, withhold_logins
from gateway.rest.judging import CallJudge
from gateway.rest.requests import (
    RestCall,
    RestFault,
    bad_request,
    forbidden,
    not_found,
    read_body,
    require_members,
    require_text,
)
from gateway.rest.tables import NO_TABLE, LoadedTable, ServedTables, read_delegation, read_query, resource_of
from gateway.rest.upstream import CatalogRelay, pass_fault_on, read_answer

MAX_HANDLE_CHARS = 8_192
_PLAN = (
    "snapshot-id", "select", "filter", "min-rows-requested", "case-sensitive", "use-snapshot-schema",
    "start-snapshot-id", "end-snapshot-id", "stats-fields",
)  # fmt: skip
_SIGNATURE_BYTES = 16


class Planning:
    """Answers for tables of one service's catalogs what takes the right to load them."""

    def __init__(self, relay: CatalogRelay, judge: CallJudge, tables: ServedTables) -> None:
        self._relay = relay
        self._judge = judge
        self._tables = tables
        self._key = secrets.token_bytes(32)
        """Signs what plans are known by: a catalog need not know of which table one is."""

    async def load_credentials(self, call: RestCall) -> RestReply:
        """Answer `loadCredentials`."""
        read_query(call, {"planId": (), "referenced-by": ()})
        loaded = await self._tables.decide(call, call.table, asks_for_logins=True)
        if not loaded.credentials:
            why = "logins to files are given to whoever may overwrite the table, and sees all of it"
            await self._judge.end(loaded.judged.record, error=why)
            raise forbidden(why)
        answer = await self._ask(call, loaded, "GET", "/credentials")
        told = require_members(read_answer(answer), "the answer", ("storage-credentials",))
        logins = withhold_logins(told.get("storage-credentials"), route_of_credentials(call, call.table))
        return await self._end(loaded, orjson.dumps({"storage-credentials": logins}))

    async def plan(self, call: RestCall) -> RestReply:
        """Answer `planTableScan`."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", _PLAN)
        return await self._pass(call, "POST", "/plan", content=orjson.dumps(body))

    async def fetch_plan(self, call: RestCall) -> RestReply:
        """Answer `fetchPlanningResult`."""
        read_query(call, {})
        ident = self._open_handle(call, "plan", call.parts["plan"])
        return await self._pass(call, "GET", f"/plan/{quote(ident, safe='')}")

    async def cancel_plan(self, call: RestCall) -> RestReply:
        """Answer `cancelPlanning`."""
        read_query(call, {})
        ident = self._open_handle(call, "plan", call.parts["plan"])
        return await self._pass(call, "DELETE", f"/plan/{quote(ident, safe='')}")

    async def fetch_tasks(self, call: RestCall) -> RestReply:
        """Answer `fetchScanTasks`."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", ("plan-task",), ("plan-task",))
        task = self._open_handle(call, "task", require_text(body["plan-task"], "a plan's task"))
        return await self._pass(call, "POST", "/tasks", content=orjson.dumps({"plan-task": task}))

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

    async def _pass(
        self, call: RestCall, method: str, path: str, *, content: bytes | None = None
    ) -> RestReply:
        """Pass a request on of whoever may load the table; who has to enforce restrictions does so for every
        row that he reads, whatever a plan says."""
        loaded = await self._tables.decide(call, call.table, asks_for_logins=True)
        answer = await self._ask(call, loaded, method, path, content=content)
        if not answer.content.strip():
            return await self._end(loaded, b"")
        try:
            body = orjson.dumps(self._close_handles(call, dict(read_answer(answer)), loaded))
        except RestFault as fault:
            await self._judge.end(loaded.judged.record, error=fault.message)
            raise
        return await self._end(loaded, body)

    async def _ask(
        self, call: RestCall, loaded: LoadedTable, method: str, path: str, *, content: bytes | None = None
    ) -> RestAnswer:
        error = "the catalog gives no answer"
        try:
            answer = await self._relay.ask(
                call,
                method,
                f"/tables/{quote(call.table.table, safe='')}{path}",
                namespace=call.namespace,
                content=content,
                headers=read_delegation(call) if loaded.credentials else None,
            )
            error = f"the catalog answers with status {answer.status}" if answer.status >= 400 else ""
            if error:
                raise pass_fault_on(answer)
            return answer
        finally:
            if error:
                await self._judge.end(loaded.judged.record, error=error)

    async def _end(self, loaded: LoadedTable, body: bytes) -> RestReply:
        await self._judge.end(loaded.judged.record, size=len(body))
        return RestReply(body=body) if body else RestReply(status=204)

    # -- what plans are known by -------------------------------------------------------------------------

    def _close_handles(self, call: RestCall, told: dict[str, Any], loaded: LoadedTable) -> Mapping[str, Any]:
        """Return an answer whose handles are of this table and user."""
        if not loaded.credentials:
            told.pop("storage-credentials", None)
        elif "storage-credentials" in told:
            route = route_of_credentials(call, call.table)
            told["storage-credentials"] = withhold_logins(told["storage-credentials"], route)
        if "config" in told:
            told["config"] = withhold_config(told["config"], credentials=loaded.credentials)
        if isinstance(told.get("plan-id"), str):
            told["plan-id"] = self._close_handle(call, "plan", told["plan-id"])
        tasks = told.get("plan-tasks")
        if isinstance(tasks, list):
            told["plan-tasks"] = [self._close_handle(call, "task", str(one)) for one in tasks]
        return told

    def _close_handle(self, call: RestCall, kind: str, ident: str) -> str:
        raw = ident.encode()
        return base64.urlsafe_b64encode(self._sign(call, kind, raw) + raw).decode().rstrip("=")

    def _open_handle(self, call: RestCall, kind: str, handle: str) -> str:
        """Return what a catalog knows a plan by. INVARIANT (a plan is of its table): whoever was given the
        handle of a plan for one table does not read another's by it."""
        if len(handle) > MAX_HANDLE_CHARS:
            raise bad_request("a handle that was not given here")
        try:
            sealed = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4))
            signature, raw = sealed[:_SIGNATURE_BYTES], sealed[_SIGNATURE_BYTES:]
            ident = raw.decode()
        except ValueError:
            raise bad_request("a handle that was not given here") from None
        if not hmac.compare_digest(signature, self._sign(call, kind, raw)):
            raise not_found("NoSuchPlanIdException", "there is no such plan of this table")
        return ident

    def _sign(self, call: RestCall, kind: str, raw: bytes) -> bytes:
        name: TableName = call.table.fold()
        told = orjson.dumps([kind, call.principal.user, name.catalog, name.database, name.table])
        return hmac.digest(self._key, told + b"\0" + raw, hashlib.sha256)[:_SIGNATURE_BYTES]
