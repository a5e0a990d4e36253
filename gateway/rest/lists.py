"""Lists of namespaces, tables and views: those that the caller may know of, in pages of our own.

A catalog's page tokens are not passed on: some are the name that comes next, which may be a hidden one.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.catalog.rest import RestAnswer
from gateway.model.resource import Resource
from gateway.rest.answers import RestReply, reply_json
from gateway.rest.judging import CallJudge
from gateway.rest.requests import (
    RestCall,
    RestFault,
    bad_request,
    join_levels,
    not_found,
    read_levels,
)
from gateway.rest.statements import namespace_of
from gateway.rest.tables import read_query
from gateway.rest.upstream import CatalogRelay, pass_fault_on, read_answer

NO_NAMESPACE = "NoSuchNamespaceException"
MAX_PAGES = 1_000
MAX_NAMES = 100_000
"""Names of one list that are asked for; a catalog that has more is not listed."""
MAX_PAGE = 10_000
_PAGED = {"pageToken": (), "pageSize": ()}


class Lists:
    """Answers what is there, to whoever may know."""

    def __init__(self, upstream: CatalogRelay, judge: CallJudge) -> None:
        self._upstream = upstream
        self._judge = judge

    async def list_namespaces(self, call: RestCall) -> RestReply:
        """Answer `listNamespaces`."""
        query = read_query(call, {**_PAGED, "parent": ()})
        parent = read_levels(query["parent"]) if query.get("parent") else ()
        asked = {"parent": await self._upstream.join_levels(call, parent)} if parent else {}
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        record = await self._judge.record_list(call, {"parent": ".".join(parent)})
        try:
            if parent and not may_know(Resource.database(call.catalog, join_levels(parent))):
                raise not_found(NO_NAMESPACE, f"namespace `{'.'.join(parent)}` does not exist")
            found = await self._all(call, "namespaces", None, "namespaces", asked)
            names = [levels for one in found if (levels := _read_namespace(one, parent)) is not None]
            shown = [  # RULE (rest-list-namespaces)
                list(one)
                for one in sorted(names)
                if may_know(Resource.database(call.catalog, join_levels(one)))
            ]
        finally:
            await self._judge.end(record)
        return _page("namespaces", shown, query, lambda one: "\x1f".join(one))

    async def list_tables(self, call: RestCall) -> RestReply:
        """Answer `listTables`."""
        return await self._list_names(call, "/tables")

    async def list_views(self, call: RestCall) -> RestReply:
        """Answer `listViews`."""
        return await self._list_names(call, "/views")

    async def _list_names(self, call: RestCall, path: str) -> RestReply:
        query = read_query(call, _PAGED)
        database = Resource.database(call.catalog, call.database)
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        visible = self._judge.verdicts.visible_tables_to(call.principal, call.client)
        record = await self._judge.record_list(call, {"namespace": call.database})
        try:
            if not may_know(database):
                raise not_found(NO_NAMESPACE, f"namespace `{call.database}` does not exist")
            found = await self._all(call, path, call.namespace, "identifiers", {})
            names = sorted({name for one in found if (name := _read_name(one, call.namespace)) is not None})
            told = visible(database, names)  # RULE (rest-list-tables)
            shown = [
                {"namespace": list(call.namespace), "name": name}
                for name, may in zip(names, told, strict=True)
                if may
            ]
        finally:
            await self._judge.end(record)
        return _page("identifiers", shown, query, lambda one: one["name"])

    async def load_namespace(self, call: RestCall) -> RestReply:
        """Answer `loadNamespaceMetadata`."""
        read_query(call, {})
        await self._require_known(call)
        begun = time.perf_counter()
        text = f"DESCRIBE NAMESPACE {namespace_of(call.catalog, call.namespace)}"
        judged = await self._judge.record(call, await self._judge.judge(call, text), begun)
        answer = RestAnswer(status=500)
        try:
            answer = await self._upstream.ask(call, "GET", "", namespace=call.namespace)
        finally:
            error = f"the catalog answers with status {answer.status}" if answer.status >= 400 else ""
            await self._judge.end(judged.record, size=len(answer.content), error=error)
        if answer.status >= 400:
            raise pass_fault_on(answer)
        return RestReply(body=answer.content)

    async def namespace_exists(self, call: RestCall) -> RestReply:
        """Answer `namespaceExists`."""
        await self._require_known(call)
        record = await self._judge.record_list(call, {"namespace": call.database})
        try:
            answer = await self._upstream.ask(call, "GET", "", namespace=call.namespace)
        finally:
            await self._judge.end(record)
        if answer.status >= 400:
            raise not_found(NO_NAMESPACE, f"namespace `{call.database}` does not exist")
        return RestReply(status=204)

    async def _require_known(self, call: RestCall) -> None:
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        if not may_know(Resource.database(call.catalog, call.database)):
            raise not_found(NO_NAMESPACE, f"namespace `{call.database}` does not exist")

    async def _all(
        self,
        call: RestCall,
        path: str,
        namespace: Sequence[str] | None,
        key: str,
        query: Mapping[str, str],
    ) -> list[Any]:
        """Return all of a list of the catalog's."""
        found: list[Any] = []
        token = ""
        for _ in range(MAX_PAGES):
            answer = await self._upstream.ask(
                call, "GET", path, namespace=namespace, query={**query, "pageToken": token}
            )
            if answer.status >= 400:
                raise pass_fault_on(answer)
            told = read_answer(answer)
            page = told.get(key)
            if not isinstance(page, list):
                raise RestFault(502, "RESTException", "the catalog's list is none")
            found += page
            token = told.get("next-page-token") or ""
            if not token or not isinstance(token, str):
                return found
            if len(found) > MAX_NAMES:
                break
        raise RestFault(502, "RESTException", f"the catalog lists more than {MAX_NAMES} names")


def _page(key: str, shown: list[Any], query: Mapping[str, str], name: Callable[[Any], str]) -> RestReply:
    """Return a page of what may be shown: all of it where no page is asked for. A token is the last name that
    was shown."""
    if "pageToken" not in query and "pageSize" not in query:
        return reply_json({key: shown})
    after, size = _read_token(query.get("pageToken", "")), _read_size(query.get("pageSize"))
    left = [one for one in shown if name(one) > after] if after else shown
    told: dict[str, Any] = {key: left[:size]}
    if len(left) > size:
        told["next-page-token"] = base64.urlsafe_b64encode(name(left[size - 1]).encode()).decode()
    return reply_json(told)


def _read_token(told: str) -> str:
    try:
        return base64.b64decode(told.encode(), altchars=b"-_", validate=True).decode() if told else ""
    except (binascii.Error, UnicodeError):
        raise bad_request("a page token that was not given here") from None


def _read_size(told: str | None) -> int:
    if told is None:
        return MAX_PAGE
    if not (told.isascii() and told.isdecimal() and len(told) < 9 and int(told) > 0):
        raise bad_request("a page size is a number")
    return min(int(told), MAX_PAGE)


def _read_namespace(told: Any, parent: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return a namespace that can be governed and lies directly in another."""
    if not isinstance(told, list) or not all(isinstance(one, str) and one for one in told):
        return None
    levels = tuple(told)
    if levels[: len(parent)] != parent or len(levels) != len(parent) + 1:
        return None
    return None if any("." in one for one in levels) else levels


def _read_name(told: Any, namespace: tuple[str, ...]) -> str | None:
    name = told.get("name") if isinstance(told, dict) else None
    return name if isinstance(name, str) and name and "." not in name else None
