"""Changes tables and namespaces: each change counts as the statements that would make it, and is passed on
when policies let all of these pass."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson

from gateway.catalog.rest import RestAnswer
from gateway.model.catalog import TableName, quote_parts
from gateway.model.statement import Cleared, Refused
from gateway.rest.answers import RestReply, route_of_credentials, write_table
from gateway.rest.commits import (
    OWNER,
    STAGED,
    CommitParts,
    check_order,
    check_spec,
    names_files,
    read_commit,
    take_staged,
    write_commit,
    write_created,
)
from gateway.rest.described import AnsweredTables, describe, describe_all
from gateway.rest.handles import SignedHandles
from gateway.rest.judging import ACCESS_DENIED, CallJudge, JudgedCall, is_obliged, name_obligations
from gateway.rest.requests import (
    RestCall,
    RestFault,
    bad_request,
    build_name,
    check_levels,
    forbidden,
    read_body,
    read_identifier,
    require_list,
    require_members,
    require_text,
    require_texts,
)
from gateway.rest.schemas import read_columns, read_schema
from gateway.rest.statements import (
    literal,
    name_of,
    namespace_of,
    write_create,
    write_overwrite,
    write_properties,
    write_select,
)
from gateway.rest.tables import read_delegation, read_query
from gateway.rest.trust import Trust
from gateway.rest.upstream import CatalogRelay, pass_fault_on, read_answer

MAX_TABLES = 50
"""Tables of one transaction."""
_LOCATION = "location"


class Changes:
    """Passes changes on to one service's catalogs."""

    def __init__(
        self, upstream: CatalogRelay, judge: CallJudge, trust: Trust, handles: SignedHandles
    ) -> None:
        """`handles`: for the locations that catalogs have chosen for tables which are staged."""
        self._upstream = upstream
        self._judge = judge
        self._trust = trust
        self._handles = handles

    # -- namespaces --------------------------------------------------------------------------------------

    async def create_namespace(self, call: RestCall) -> RestReply:
        """Answer `createNamespace`."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", ("namespace", "properties"), ("namespace",))
        levels = check_levels(body["namespace"])
        told = require_texts(body.get("properties") or {}, "`properties`")
        text = f"CREATE NAMESPACE {namespace_of(call.catalog, levels)}"
        if _LOCATION in told:
            text += f" LOCATION {literal(told[_LOCATION])}"
        others = {key: one for key, one in told.items() if key not in (_LOCATION, OWNER)}
        if others:
            text += f" WITH PROPERTIES {write_properties(others)}"
        _require_owner(told, call)
        return await self.pass_on(call, [(text, None)], "POST", "namespaces", content=orjson.dumps(body))

    async def drop_namespace(self, call: RestCall) -> RestReply:
        """Answer `dropNamespace`."""
        read_query(call, {})
        text = f"DROP NAMESPACE {namespace_of(call.catalog, call.namespace)}"
        return await self.pass_on(call, [(text, None)], "DELETE", "", namespace=call.namespace)

    async def update_namespace(self, call: RestCall) -> RestReply:
        """Answer `updateNamespaceProperties`."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", ("removals", "updates"))
        updates = require_texts(body.get("updates") or {}, "`updates`")
        removals = [
            require_text(one, "a property") for one in require_list(body.get("removals") or [], "`removals`")
        ]
        if OWNER in updates or OWNER in removals:
            raise forbidden("a namespace's owner cannot be changed here")
        altered = f"ALTER NAMESPACE {namespace_of(call.catalog, call.namespace)}"
        texts = []
        if _LOCATION in updates:
            texts.append(f"{altered} SET LOCATION {literal(updates[_LOCATION])}")
        others = {key: one for key, one in updates.items() if key != _LOCATION}
        if others:
            texts.append(f"{altered} SET PROPERTIES {write_properties(others)}")
        if removals:
            texts.append(f"{altered} UNSET PROPERTIES ({', '.join(map(literal, removals))})")
        if not texts:
            raise bad_request("nothing is to be changed")
        return await self.pass_on(
            call,
            [(text, None) for text in texts],
            "POST",
            "/properties",
            namespace=call.namespace,
            content=orjson.dumps(body),
        )

    # -- tables ------------------------------------------------------------------------------------------

    async def create_table(self, call: RestCall) -> RestReply:
        """Answer `createTable`."""
        read_query(call, {})
        body = dict(
            require_members(
                read_body(call.body),
                "the body",
                ("name", "location", "schema", "partition-spec", "write-order", "stage-create", "properties"),
                ("name", "schema"),
            )
        )
        name = build_name(call.catalog, call.namespace, body["name"])
        schema = read_schema(body["schema"])
        if body.get("partition-spec") is not None:
            check_spec(body["partition-spec"])
        if body.get("write-order") is not None:
            check_order(body["write-order"])
        told = require_texts(body.get("properties") or {}, "`properties`")
        location = require_text(body.get("location") or "", "a location")
        others = {key: one for key, one in told.items() if key != OWNER}
        text = write_create(name, read_columns(schema["fields"]), location, others)
        # Whoever creates a table owns it, whatever his engine calls him.
        body["properties"] = {**told, OWNER: call.principal.user}  # RULE (rest-owner-of-created)
        staged = body.get("stage-create") is True

        async def write_answer(answer: RestAnswer) -> bytes:
            loaded = read_answer(answer)
            if staged and not location:
                answer, loaded = await self._sign_place(call, name, answer, loaded)
            return write_table(
                answer,
                loaded,
                credentials=await self._may_have_credentials(call, name, loaded),
                restrictions=None,
                refresh=route_of_credentials(call, name),
            )

        return await self.pass_on(
            call,
            [(text, None)],
            "POST",
            "/tables",
            namespace=call.namespace,
            content=orjson.dumps(body),
            headers=read_delegation(call),
            write_answer=write_answer,
        )

    async def _sign_place(
        self, call: RestCall, name: TableName, answer: RestAnswer, loaded: Mapping[str, Any]
    ) -> tuple[RestAnswer, Mapping[str, Any]]:
        """Return the answer for a staged table, whose properties say that the catalog has chosen its place:
        clients send all of them when they commit it, at whichever gateway."""
        metadata = loaded.get("metadata")
        place = metadata.get(_LOCATION) if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(place, str):
            return answer, loaded
        told = metadata.get("properties")
        signed = await self._handles.sign(_mean_place(call, name), place)
        properties = {**(told if isinstance(told, dict) else {}), STAGED: signed}
        loaded = {**loaded, "metadata": {**metadata, "properties": properties}}
        return replace(answer, content=orjson.dumps(loaded)), loaded

    async def _may_have_credentials(self, call: RestCall, name: TableName, loaded: Mapping[str, Any]) -> bool:
        if self._trust.credentials == "never":
            return False
        described = AnsweredTables({name.fold(): describe_all(name, loaded.get("metadata") or {})})
        reads = await self._judge.judge(call, write_select(name), described)
        if not isinstance(reads, Cleared) or is_obliged(reads):
            return False
        if self._trust.credentials == "readers":
            return True
        return isinstance(await self._judge.judge(call, write_overwrite(name), described), Cleared)

    async def drop_table(self, call: RestCall) -> RestReply:
        """Answer `dropTable`."""
        query = read_query(call, {"purgeRequested": ("true", "false", "True", "False")})
        name = call.table
        text = f"DROP TABLE {name_of(name)}"
        if query.get("purgeRequested", "").lower() == "true":
            text += " PURGE"
        return await self.pass_on(
            call, [(text, None)], "DELETE", _path(name), namespace=call.namespace, query=query
        )

    async def rename_table(self, call: RestCall) -> RestReply:
        """Answer `renameTable`."""
        return await self._rename(call, "TABLE", "tables/rename")

    async def rename_view(self, call: RestCall) -> RestReply:
        """Answer `renameView`."""
        return await self._rename(call, "VIEW", "views/rename")

    async def _rename(self, call: RestCall, kind: str, path: str) -> RestReply:
        read_query(call, {})
        both = ("source", "destination")
        body = require_members(read_body(call.body), "the body", both, both)
        old, new = (read_identifier(call.catalog, body[key]) for key in both)
        # Spark writes the new name without its catalog.
        text = f"ALTER {kind} {name_of(old)} RENAME TO {quote_parts(new.parts[1:])}"
        return await self.pass_on(call, [(text, None)], "POST", path, content=orjson.dumps(body))

    async def register_table(self, call: RestCall) -> RestReply:
        """Answer `registerTable`: metadata names files, which may be those of other tables."""
        read_query(call, {})
        known = ("name", "metadata-location", "overwrite")
        body = require_members(read_body(call.body), "the body", known, known[:2])
        name = build_name(call.catalog, call.namespace, body["name"])
        location = require_text(body["metadata-location"], "a location")
        texts = [f"CREATE TABLE {name_of(name)} (id INT) USING iceberg LOCATION {literal(location)}"]
        if body.get("overwrite") is True:
            texts.append(f"DROP TABLE {name_of(name)}")
        await self._require_writer(call, texts[0], None)

        async def write_answer(answer: RestAnswer) -> bytes:
            loaded = read_answer(answer)
            described = AnsweredTables({name.fold(): describe_all(name, loaded.get("metadata") or {})})
            reads = await self._judge.judge(call, write_select(name), described)
            if not isinstance(reads, Cleared) or is_obliged(reads):
                raise RestFault(403, "ForbiddenException", "the table is registered; you may not load it")
            credentials = await self._may_have_credentials(call, name, loaded)
            return write_table(answer, loaded, credentials=credentials, restrictions=None)

        return await self.pass_on(
            call,
            [(text, AnsweredTables(missing=frozenset({name.fold()}))) for text in texts],
            "POST",
            "/register",
            namespace=call.namespace,
            content=orjson.dumps(body),
            write_answer=write_answer,
        )

    # -- commits -----------------------------------------------------------------------------------------

    async def commit_table(self, call: RestCall) -> RestReply:
        """Answer `updateTable`."""
        read_query(call, {})
        body = dict(
            require_members(
                read_body(call.body), "the body", ("identifier", "requirements", "updates"), ("updates",)
            )
        )
        name = call.table
        if body.get("identifier") is not None and read_identifier(call.catalog, body["identifier"]) != name:
            raise bad_request("the body names another table than the path")
        texts, requirements = await self._list_statements(call, name, read_commit(body))
        body["requirements"] = requirements
        return await self.pass_on(
            call,
            texts,
            "POST",
            _path(name),
            namespace=call.namespace,
            content=orjson.dumps(body),
            write_answer=_write_committed,
        )

    async def commit_transaction(self, call: RestCall) -> RestReply:
        """Answer `commitTransaction`: all of its tables, or none."""
        read_query(call, {})
        body = require_members(read_body(call.body), "the body", ("table-changes",), ("table-changes",))
        changes = require_list(body["table-changes"], "`table-changes`")
        if not 1 <= len(changes) <= MAX_TABLES:
            raise bad_request(f"a transaction has 1 to {MAX_TABLES} tables")
        texts: list[_Judged] = []
        passed, named = [], set[TableName]()
        for one in changes:
            told = dict(
                require_members(
                    one, "a change", ("identifier", "requirements", "updates"), ("identifier", "updates")
                )
            )
            name = read_identifier(call.catalog, told["identifier"])
            if name.fold() in named:
                raise bad_request("a transaction has a table twice")
            named.add(name.fold())
            found, told["requirements"] = await self._list_statements(call, name, read_commit(told))
            texts += found
            passed.append(told)
        content = orjson.dumps({"table-changes": passed})
        return await self.pass_on(call, texts, "POST", "transactions/commit", content=content)

    async def _list_statements(
        self, call: RestCall, name: TableName, commit: CommitParts
    ) -> tuple[list[_Judged], list[Any]]:
        """Return what a commit counts as, with the table as it is, and the requirements that go with it."""
        user = call.principal.user
        signed = take_staged(commit)
        if commit.creates:
            place = await self._handles.read(_mean_place(call, name), signed) if signed else None
            texts = write_created(name, commit, user, [] if place is None else [place])
            missing = AnsweredTables(missing=frozenset({name.fold()}))
            if names_files(commit):
                await self._require_writer(call, texts[0], missing)
            return [(text, missing) for text in texts], commit.requirements
        answer = await self._upstream.ask(
            call, "GET", _path(name), namespace=name.database.split("."), query={"snapshots": "refs"}
        )
        select = write_select(name)
        if answer.status >= 400:
            nothing = AnsweredTables(missing=frozenset({name.fold()}))
            verdict = await self._judge.judge(call, select, nothing)
            if isinstance(verdict, Refused):
                await self._judge.record(call, verdict, time.perf_counter())
            raise pass_fault_on(answer)
        told = read_answer(answer)
        described = AnsweredTables({name.fold(): describe(name, told.get("metadata") or {})})
        # Who commits has the table's metadata, and is answered with more of it.
        whole = AnsweredTables({name.fold(): describe_all(name, told.get("metadata") or {})})
        reads = await self._judge.judge(call, select, whole)
        restricted = told.get("read-restrictions") is not None
        if isinstance(reads, Refused):
            await self._judge.record(call, reads, time.perf_counter())
        elif is_obliged(reads) or restricted:  # RULE (rest-commit-obliged)
            what = name_obligations(reads) or "a restriction of its catalog"
            message = f"{what} of table {name} applies to user {user}, so nothing can be committed to it"
            raise await self._judge.refuse(call, reads, ACCESS_DENIED, message)
        texts, requirements = write_commit(name, told["metadata"], commit)
        if names_files(commit):
            await self._require_writer(call, texts[0], described)
        return [(text, described) for text in texts], requirements

    async def _require_writer(self, call: RestCall, text: str, described: AnsweredTables | None) -> None:
        if self._trust.writes(call):  # RULE (rest-writers)
            return
        verdict = await self._judge.judge(call, text, described)
        message = (
            "files that you wrote may be those of other tables, which cannot be seen here; write through "
            "Sluice's SQL or Spark Connect endpoint, or as one of `listeners.iceberg_rest.writers`"
        )
        raise await self._judge.refuse(call, verdict, ACCESS_DENIED, message)

    # -- passing on --------------------------------------------------------------------------------------

    async def pass_on(
        self,
        call: RestCall,
        texts: Sequence[_Judged],
        method: str,
        path: str,
        *,
        namespace: Sequence[str] | None = None,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        write_answer: Any = None,
    ) -> RestReply:
        """Judge a change, record it, pass it on, and tell the rest of the gateway of it."""
        begun = time.perf_counter()
        verdicts = await self._judge_all(call, texts)
        judged: list[JudgedCall] = []
        size, error = 0, "it was not passed on"
        async with self._judge.hold(verdicts) as waited:
            try:
                if waited:
                    verdicts = await self._judge_all(call, texts)
                for one in verdicts:
                    recorded = await self._judge.record(call, one, begun, together=verdicts)
                    judged.append(recorded)  # each ends
                error = "what came of it is not known"
                answer = await self._upstream.ask(
                    call, method, path, namespace=namespace, query=query, content=content, headers=headers
                )
                if answer.status >= 400:
                    error = f"the catalog answers with status {answer.status}"
                    raise pass_fault_on(answer)
                error = ""
                body = answer.content if write_answer is None else await write_answer(answer)
                size = len(body)
            finally:
                for each in judged:
                    await self._judge.end(each.record, size=size, error=error)
        if not body:
            return RestReply(status=204)
        return RestReply(body=body)

    async def _judge_all(self, call: RestCall, texts: Sequence[_Judged]) -> list[Cleared]:
        found = []
        for text, described in texts:
            verdict = await self._judge.judge(call, text, described)
            if isinstance(verdict, Refused):
                await self._judge.record(call, verdict, time.perf_counter())
                raise AssertionError("a refusal was recorded as cleared")
            found.append(verdict)
        return found


_Judged = tuple[str, AnsweredTables | None]
"""A statement that something counts as, and what is known of the tables in it."""


async def _write_committed(answer: RestAnswer) -> bytes:
    return write_table(answer, read_answer(answer), credentials=False, restrictions=None)


def _path(name: TableName) -> str:
    return f"/tables/{quote(name.table, safe='')}"


def _mean_place(call: RestCall, name: TableName) -> tuple[str, ...]:
    """Return what the handle of a location is of."""
    folded = name.fold()
    # RULE (rest-place-of-user, rest-place-of-table)
    return ("place", call.principal.user, folded.catalog, folded.database, folded.table)


def _require_owner(told: Mapping[str, str], call: RestCall) -> None:
    if told.get(OWNER, call.principal.user) != call.principal.user:
        raise forbidden("whoever creates something owns it")
