"""Views of a served catalog: shown to whoever may read all that they show, made of texts that were judged."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import orjson

from gateway.catalog.rest import RestAnswer
from gateway.model.catalog import TableName
from gateway.model.definers import definer_property, is_definer_property
from gateway.model.statement import Cleared, Refused, Verdict
from gateway.rest.answers import RestReply, is_same, make_etag, write_view
from gateway.rest.changes import Changes
from gateway.rest.commits import OWNER, REQUIREMENTS
from gateway.rest.judging import (
    ACCESS_DENIED,
    NOT_GOVERNABLE,
    CallJudge,
    is_obliged,
    name_obligations,
)
from gateway.rest.requests import (
    RestCall,
    bad_request,
    build_name,
    check_levels,
    forbidden,
    not_found,
    read_body,
    read_identifier,
    require_list,
    require_members,
    require_text,
    require_texts,
)
from gateway.rest.schemas import read_schema
from gateway.rest.statements import literal, name_of, write_properties, write_select
from gateway.rest.tables import read_query, resource_of
from gateway.rest.upstream import CatalogRelay, pass_fault_on, read_answer

NO_VIEW = "NoSuchViewException"
DIALECT: Final = "spark"
_VERSION = (
    "version-id", "timestamp-ms", "schema-id", "summary", "representations", "default-catalog",
    "default-namespace",
)  # fmt: skip
_REPRESENTATION = ("type", "sql", "dialect")
_UPDATES: Mapping[str, tuple[str, ...]] = {
    "add-schema": ("schema", "last-column-id"),
    "add-view-version": ("view-version",),
    "set-current-view-version": ("view-version-id",),
    "set-location": ("location",),
    "set-properties": ("updates",),
    "remove-properties": ("removals",),
}


class ServedViews:
    """Answers for views of one service's catalogs."""

    def __init__(self, relay: CatalogRelay, judge: CallJudge, changes: Changes) -> None:
        self._relay = relay
        self._judge = judge
        self._changes = changes

    async def load(self, call: RestCall) -> RestReply:
        """Answer `loadView`. Its text is judged as Spark knows it: what a client reads by it, it loads table
        by table."""
        read_query(call, {})
        begun, name = time.perf_counter(), call.table
        answer = await self._relay.ask(call, "GET", _path(name), namespace=call.namespace)
        verdict = await self._judge.judge(call, write_select(name))
        if answer.status >= 400:
            judged = await self._judge.record(call, verdict, begun)
            await self._judge.end(judged.record, error=f"the catalog answers with status {answer.status}")
            if answer.status == 404:
                raise not_found(NO_VIEW, f"view `{name}` does not exist")
            raise pass_fault_on(answer)
        told = read_answer(answer)
        if isinstance(verdict, Cleared):
            await self._require_as_judged(call, name, told, verdict)
            if is_obliged(verdict):
                message = (
                    f"{name_obligations(verdict)} applies to what view {name} shows you; "
                    "query it through Sluice's SQL or Spark Connect endpoint"
                )
                raise await self._judge.refuse(call, verdict, ACCESS_DENIED, message)
        judged = await self._judge.record(call, verdict, begun)
        body = write_view(told)
        etag = make_etag(body, call.principal.user, judged.cleared.snapshot_version, "")
        same = is_same(call.headers.get("if-none-match", ""), etag)
        await self._judge.end(judged.record, size=0 if same else len(body))
        if same:
            return RestReply(status=304, headers={"ETag": etag})
        return RestReply(body=body, headers={"ETag": etag})

    async def _require_as_judged(
        self, call: RestCall, name: TableName, told: Mapping[str, Any], verdict: Verdict
    ) -> None:
        """Refuse a view whose text is another one than was judged."""
        if not isinstance(verdict, Cleared):
            return
        known = next((one for one in verdict.tables if one.name.fold() == name.fold()), None)
        text = _read_text(told.get("metadata"))
        if known is None or known.view is None or text is None or known.view.text.strip() != text.strip():
            message = f"the text of view {name} is not the one that Spark knows; try again"
            raise await self._judge.refuse(call, verdict, NOT_GOVERNABLE, message)

    async def exists(self, call: RestCall) -> RestReply:
        """Answer `viewExists`."""
        name = call.table
        may_know = self._judge.verdicts.visible_to(call.principal, call.client)
        record = await self._judge.record_list(call, {"view": str(name)})
        found = False
        try:
            if may_know(resource_of(name)):
                answer = await self._relay.ask(call, "HEAD", _path(name), namespace=call.namespace)
                found = answer.status < 400
        finally:
            await self._judge.end(record)
        if not found:
            raise not_found(NO_VIEW, f"view `{name}` does not exist")
        return RestReply(status=204)

    async def create(self, call: RestCall) -> RestReply:
        """Answer `createView`."""
        read_query(call, {})
        body = require_members(
            read_body(call.body),
            "the body",
            ("name", "location", "schema", "view-version", "properties"),
            ("name", "schema", "view-version"),
        )
        name = build_name(call.catalog, call.namespace, body["name"])
        read_schema(body["schema"])
        if body.get("location"):
            raise forbidden("a view's location cannot be chosen here")
        told = require_texts(body.get("properties") or {}, "`properties`")
        self._require_owner(call, told)
        # A statement is run without these; here the body goes on as it came.
        if any(map(is_definer_property, told)):  # RULE (rest-given-definer)
            raise forbidden("a view's properties do not say who defines it")
        judged_as, text = self._read_version(call, body["view-version"])
        others = {key: one for key, one in told.items() if key != OWNER}
        clause = f" TBLPROPERTIES {write_properties(others)}" if others else ""
        statement = f"CREATE VIEW {name_of(name)}{clause} AS {text}"
        await self._require_view(judged_as, statement)
        kept = {**told, **_define(text, call)}  # RULE (rest-view-definer)
        return await self._changes.pass_on(
            judged_as,
            [(statement, None)],
            "POST",
            "/views",
            namespace=call.namespace,
            content=orjson.dumps({**body, "properties": kept}),
            write_answer=_write_answer,
        )

    async def replace(self, call: RestCall) -> RestReply:
        """Answer `replaceView`."""
        read_query(call, {})
        body = require_members(
            read_body(call.body), "the body", ("identifier", "requirements", "updates"), ("updates",)
        )
        name = call.table
        if body.get("identifier") is not None and read_identifier(call.catalog, body["identifier"]) != name:
            raise bad_request("the body names another view than the path")
        for one in require_list(body.get("requirements", []), "`requirements`"):
            kind = one.get("type") if isinstance(one, dict) else None
            if not isinstance(kind, str) or kind not in REQUIREMENTS:
                raise bad_request("a requirement that is not known")
            require_members(one, f"`{kind}`", ("type", *REQUIREMENTS[kind]))
        judged_as, texts = call, []
        added = False
        own: list[dict[str, Any]] = []
        for one in require_list(body["updates"], "`updates`"):
            action = one.get("action") if isinstance(one, dict) else None
            if not isinstance(action, str) or action not in _UPDATES:
                raise bad_request("an update of views that is not known")
            require_members(one, f"`{action}`", ("action", *_UPDATES[action]), _UPDATES[action][:1])
            match action:
                case "add-schema":
                    read_schema(one["schema"])
                case "add-view-version":
                    if added:
                        raise bad_request("one version of a view is added at a time")
                    added = True
                    judged_as, text = self._read_version(call, one["view-version"])
                    texts.append(f"CREATE OR REPLACE VIEW {name_of(name)} AS {text}")
                    # A record that the view has of this text from before is somebody else's.
                    # RULE (rest-replaced-definer)
                    own.append({"action": "set-properties", "updates": _define(text, call)})
                case "set-current-view-version":
                    if one["view-version-id"] != -1 or not added:
                        raise forbidden("an older version of a view cannot be taken back here; make it anew")
                case "set-properties":
                    told = require_texts(one["updates"], "`updates`")
                    if OWNER in told:
                        raise forbidden("a view's owner cannot be changed here")
                    if told:
                        texts.append(f"ALTER VIEW {name_of(name)} SET TBLPROPERTIES {write_properties(told)}")
                case "remove-properties":
                    keys = [
                        literal(require_text(each, "a property"))
                        for each in require_list(one["removals"], "`removals`")
                    ]
                    if literal(OWNER) in keys:
                        raise forbidden("a view's owner cannot be changed here")
                    texts.append(f"ALTER VIEW {name_of(name)} UNSET TBLPROPERTIES ({', '.join(keys)})")
                case _:
                    raise forbidden("a view's location cannot be chosen here")
        if not texts:
            raise bad_request("nothing is to be changed")
        for text in texts:
            if " AS " in text:
                await self._require_view(judged_as, text)
        return await self._changes.pass_on(
            judged_as,
            [(text, None) for text in texts],
            "POST",
            _path(name),
            namespace=call.namespace,
            content=orjson.dumps({**body, "updates": [*body["updates"], *own]}),
            write_answer=_write_answer,
        )

    async def drop(self, call: RestCall) -> RestReply:
        """Answer `dropView`."""
        read_query(call, {})
        name = call.table
        return await self._changes.pass_on(
            call, [(f"DROP VIEW {name_of(name)}", None)], "DELETE", _path(name), namespace=call.namespace
        )

    @staticmethod
    def _require_owner(call: RestCall, told: Mapping[str, str]) -> None:
        if told.get(OWNER, call.principal.user) != call.principal.user:
            raise forbidden("a view is owned by who creates it")

    @staticmethod
    def _read_version(call: RestCall, told: Any) -> tuple[RestCall, str]:
        """Return a version's text, and the call in the session that names in it are of."""
        version = require_members(told, "a version", _VERSION, ("representations", "default-namespace"))
        listed = require_list(version["representations"], "`representations`")
        if len(listed) != 1:
            raise forbidden(f"a view has one text, in the dialect `{DIALECT}`: others cannot be judged")
        one = require_members(listed[0], "a representation", _REPRESENTATION, _REPRESENTATION)
        if one["type"] != "sql" or one["dialect"] != DIALECT:
            raise forbidden(f"a view's text is of the dialect `{DIALECT}`: others cannot be judged")
        if version.get("default-catalog") not in (None, call.catalog):
            raise forbidden(f"the names in a view's text are of catalog `{call.catalog}`")
        levels = check_levels(version["default-namespace"]) if version["default-namespace"] else ("default",)
        return replace(call, session_namespace=levels), require_text(one["sql"], "a view's text")

    async def _require_view(self, call: RestCall, statement: str) -> None:
        """Require that a text is that of a view, and of nothing that shows others more than they may see."""
        verdict = await self._judge.judge(call, statement)
        if isinstance(verdict, Refused):
            return  # whoever passes it on records that
        if verdict.plan_class != "CreateView":
            raise await self._judge.refuse(call, verdict, NOT_GOVERNABLE, "this is not the text of a view")


def _define(text: str, call: RestCall) -> dict[str, str]:
    """Return the properties that say that the caller defines the view with this text, with the blanks around
    it or as Spark may tell it without them."""
    return dict(definer_property(each, call.principal.identity) for each in (text, text.strip()))


async def _write_answer(answer: RestAnswer) -> bytes:
    return write_view(read_answer(answer))


def _read_text(metadata: Any) -> str | None:
    """Return the text of a view's current version, where it has one of our dialect."""
    if not isinstance(metadata, dict):
        return None
    for version in metadata.get("versions") or ():
        if isinstance(version, dict) and version.get("version-id") == metadata.get("current-version-id"):
            listed = version.get("representations") or ()
            found = [one for one in listed if isinstance(one, dict) and one.get("dialect") == DIALECT]
            text = found[0].get("sql") if len(found) == len(listed) == 1 else None
            return text if isinstance(text, str) else None
    return None


def _path(name: TableName) -> str:
    return f"/views/{quote(name.table, safe='')}"
