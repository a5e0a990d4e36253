"""Loads tables: as they are, for who may read all of them; with `read-restrictions`, for who enforces these;
and for nobody else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gateway.catalog.read_restrictions import read_restrictions
from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import RestAnswer
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import Table, TableName
from gateway.model.resource import Resource
from gateway.model.statement import Cleared, Refused, Verdict
from gateway.rest.answers import RestReply, has_logins, is_same, make_etag, route_of_credentials, write_table
from gateway.rest.described import AnsweredTables, describe_all
from gateway.rest.judging import (
    ACCESS_DENIED,
    NOT_GOVERNABLE,
    CallJudge,
    JudgedCall,
    is_obliged,
    name_obligations,
)
from gateway.rest.requests import RestCall, RestFault, bad_request, not_found
from gateway.rest.restricting import NotServable, Restricting
from gateway.rest.statements import write_overwrite, write_select
from gateway.rest.trust import Trust
from gateway.rest.upstream import CatalogRelay, pass_fault_on, read_answer

NO_TABLE = "NoSuchTableException"
DELEGATION = "x-iceberg-access-delegation"
_VENDED = "vended-credentials"
MAX_KNOWN = 64
MAX_KNOWN_BYTES = 32 * 1024
"""How many answers of catalogs are kept as they were read, and how long one may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table that somebody may have, as the catalog answered it, and what was decided of it."""

    table: Table
    content: Mapping[str, Any]
    answer: RestAnswer
    judged: JudgedCall
    restrictions: Mapping[str, Any] | None
    """What the client has to enforce; None: nothing."""
    credentials: bool
    """Whether the client may have logins to the table's files."""


class ServedTables:
    """Loads tables of one service's catalogs."""

    def __init__(
        self, upstream: CatalogRelay, judge: CallJudge, trust: Trust, restricting: Restricting
    ) -> None:
        self._upstream = upstream
        self._judge = judge
        self._trust = trust
        self._restricting = restricting
        self._known: BoundedDict[tuple[TableName, bytes], tuple[Mapping[str, Any], Table]] = BoundedDict(
            MAX_KNOWN
        )
        """Answers as they were read, which nobody changes."""

    async def load(self, call: RestCall) -> RestReply:
        """Answer `loadTable`."""
        query = read_query(call, {"snapshots": ("all", "refs")})
        loaded = await self.decide(call, call.table, query=query, headers=read_delegation(call))
        try:
            body = write_table(
                loaded.answer,
                loaded.content,
                credentials=loaded.credentials,
                restrictions=loaded.restrictions,
                refresh=route_of_credentials(call, call.table),
            )
        except BaseException:  # whatever ends it, the record hears of it
            await self._judge.end(loaded.judged.record, error="the answer could not be written")
            raise
        etag = make_etag(
            body,
            call.principal.user,
            loaded.judged.cleared.snapshot_version,
            loaded.answer.headers.get("etag", ""),
        )
        same = is_same(call.headers.get("if-none-match", ""), etag)
        await self._judge.end(loaded.judged.record, size=0 if same else len(body))
        if same:
            return RestReply(status=304, headers={"ETag": etag})
        return RestReply(body=body, headers={"ETag": etag})

    async def exists(self, call: RestCall) -> RestReply:
        """Answer `tableExists`: what may not be known of is not there."""
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        name = call.table
        record = await self._judge.record_list(call, {"table": str(name)})
        found = False
        try:
            if may_know(resource_of(name)):  # RULE (rest-exists-visible)
                answer = await self._upstream.ask(
                    call, "HEAD", f"/tables/{quote(name.table, safe='')}", namespace=call.namespace
                )
                found = answer.status < 400
        finally:
            await self._judge.end(record)
        if not found:
            raise not_found(NO_TABLE, f"table `{name}` does not exist")
        return RestReply(status=204)

    async def decide(
        self,
        call: RestCall,
        name: TableName,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        asks_for_logins: bool = False,
    ) -> LoadedTable:
        """Return a table that the caller may have, on record; whoever gets it ends the record.
        `asks_for_logins`: whether it matters who may have logins to files, whatever the answer holds. Raises
        RestFault."""
        begun = time.perf_counter()
        answer = await self._upstream.ask(
            call,
            "GET",
            f"/tables/{quote(name.table, safe='')}",
            namespace=call.namespace if "namespace" in call.parts else name.database.split("."),
            query=query,
            headers=headers,
        )
        if answer.status >= 400:
            raise await self._explain_missing(call, name, answer, begun)
        told, table = await self._read(call, name, answer)
        described = AnsweredTables({name.fold(): table})
        verdict = await self._judge.judge(call, write_select(name), described)
        hidden: tuple[str, ...] = ()
        if self._trust.enforces(call) and self._trust.nulls_denied_columns:
            verdict, hidden = await self._without_denied(call, name, table, verdict)
        restrictions = await self._restrict(call, told, table, verdict, hidden)
        credentials = False
        if isinstance(verdict, Cleared) and (asks_for_logins or has_logins(told)):
            credentials = await self._may_have_credentials(call, name, described, restrictions is not None)
        judged = await self._judge.record(call, verdict, begun)
        return LoadedTable(
            table=table,
            content=told,
            answer=answer,
            judged=judged,
            restrictions=restrictions,
            credentials=credentials,
        )

    async def _read(
        self, call: RestCall, name: TableName, answer: RestAnswer
    ) -> tuple[Mapping[str, Any], Table]:
        """Return what an answer says, and the table that it is about. The same bytes say the same."""
        known = self._known.get(key := (name, answer.content))
        if known is None:
            told = read_answer(answer)
            known = told, await self._describe(call, name, told)
            if len(answer.content) <= MAX_KNOWN_BYTES:
                self._known[key] = known
        else:
            self._known.move_to_end(key)
        return known

    async def _describe(self, call: RestCall, name: TableName, told: Mapping[str, Any]) -> Table:
        try:
            metadata = told.get("metadata")
            if not isinstance(metadata, dict):
                raise CatalogUnavailable("an answer without a table")
            return describe_all(name, metadata)
        except CatalogUnavailable as why:
            verdict = await self._judge.judge(
                call, write_select(name), AnsweredTables(missing=frozenset({name.fold()}))
            )
            message = f"what the catalog answers of table `{name}` is not understood: {why}"
            raise await self._judge.refuse(call, verdict, NOT_GOVERNABLE, message) from None

    async def _explain_missing(
        self, call: RestCall, name: TableName, answer: RestAnswer, begun: float
    ) -> RestFault:
        """Return what is said of a table that the catalog does not give: its own error, to whoever might have
        had the table, and else what is said of one that there is."""
        verdict = await self._judge.judge(
            call, write_select(name), AnsweredTables(missing=frozenset({name.fold()}))
        )
        try:
            judged = await self._judge.record(call, verdict, begun)
        except RestFault as fault:
            return fault
        await self._judge.end(judged.record, error=f"the catalog answers with status {answer.status}")
        if answer.status == 404:
            return not_found(NO_TABLE, f"table `{name}` does not exist")
        return pass_fault_on(answer)

    async def _restrict(
        self,
        call: RestCall,
        told: Mapping[str, Any],
        table: Table,
        verdict: Verdict,
        hidden: tuple[str, ...],
    ) -> Mapping[str, Any] | None:
        """Return what the client has to enforce. Raises RestFault where it may not have the table."""
        if isinstance(verdict, Refused):
            return None
        own = read_restrictions(table.name.catalog, dict(told))
        obliged = is_obliged(verdict) or bool(hidden)
        if not (obliged or own.restricts):  # RULE (rest-own-restrictions)
            return None
        if own.fault:  # RULE (rest-own-not-understood)
            raise await self._judge.refuse(call, verdict, NOT_GOVERNABLE, own.fault)
        if not self._trust.enforces(call):  # RULE (rest-obliged-refused)
            what = (
                name_obligations(verdict) if obliged else f"a restriction of catalog `{table.name.catalog}`"
            )
            message = (
                f"{what} of table {table.name} applies to user {call.principal.user}, and whoever loads the "
                "table here reads its files as they are; query it through Sluice's SQL or Spark Connect "
                "endpoint, which applies them"
            )
            raise await self._judge.refuse(call, verdict, ACCESS_DENIED, message)
        try:
            return await self._restricting.restrict(call.principal.user, told, table, verdict, hidden)
        except NotServable as why:
            message = (
                f"table {table.name} cannot be given to a reader that enforces restrictions: {why}; query it "
                "through Sluice's SQL or Spark Connect endpoint"
            )
            raise await self._judge.refuse(call, verdict, NOT_GOVERNABLE, message) from None

    async def _without_denied(
        self, call: RestCall, name: TableName, table: Table, verdict: Verdict
    ) -> tuple[Verdict, tuple[str, ...]]:
        """Return the verdict on the columns that may be selected, where not all may, and the others."""
        if isinstance(verdict, Cleared) and not verdict.hides_columns:
            return verdict, ()
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        resource = resource_of(name, table.owner)
        shown = [one.name for one in table.columns if may_know(resource.child("column", one.name))]
        if not shown or len(shown) == len(table.columns):
            return verdict, ()
        again = await self._judge.judge(call, write_select(name, shown), AnsweredTables({name.fold(): table}))
        hidden = tuple(one.name for one in table.columns if one.name not in shown)
        return (again, hidden) if isinstance(again, Cleared) else (verdict, ())

    async def _may_have_credentials(
        self, call: RestCall, name: TableName, described: AnsweredTables, restricted: bool
    ) -> bool:
        """Whether the caller may have logins to the table's files: they are not for one access alone."""
        match self._trust.credentials:
            case "never":
                return False
            case "readers":
                return True
        if restricted:  # RULE (rest-credentials-restricted)
            return False
        rights = self._judge.verdicts.rights_of(call.principal, call.client, "QUERY")
        resource = resource_of(name, described.tables[name.fold()].owner)
        # RULE (rest-credentials-overwrite)
        if not all(rights.decide(resource, access).allowed for access in ("insert", "delete")):
            return False  # a refusal is judged anew each time
        return isinstance(await self._judge.judge(call, write_overwrite(name), described), Cleared)


def resource_of(name: TableName, owner: str | None = None) -> Resource:
    """Return a table as policies speak of it."""
    return Resource.table(name.catalog, name.database, name.table, owner)


def read_query(call: RestCall, known: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the parameters of a call: those that are known, with values that are; empty: any value."""
    for key, value in call.query.items():
        if key not in known or (known[key] and value not in known[key]):  # RULE (rest-unknown-parameter)
            raise bad_request(
                f"the parameter `{key[:60]}` is not known here, or has another value than it may"
            )
    return dict(call.query)


def read_delegation(call: RestCall) -> dict[str, str]:
    """Return the header that asks for logins to files, where the client asks for them. Nothing is signed
    here: what a request to sign is for does not say of which table it is."""
    wanted = {one.strip() for one in call.headers.get(DELEGATION, "").split(",")}
    return {"X-Iceberg-Access-Delegation": _VENDED} if _VENDED in wanted else {}
