"""The console's pages of policies, of what somebody sees, and of proposals, put together."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import orjson
import yaml

from gateway.admin.ranger.calls import RangerError, change_policies, parse, parse_object
from gateway.admin.ranger.kinds import Conflict as StaleVersion
from gateway.admin.ranger.kinds import ObjectKind
from gateway.admin.ranger.policy_changes import create_policy, update_policy
from gateway.admin.ranger.shapes import POLICY
from gateway.admin.requests import BadRequest, NotFound
from gateway.app.console_proposals import make_parts as make_proposals
from gateway.app.console_samples import run_sample
from gateway.app.console_tools import ConsoleTools, find_person
from gateway.app.current_policies import SupposedPolicies
from gateway.app.gateway_parts import GatewayParts
from gateway.app.logins import make_impersonation
from gateway.app.pack_history import keep_pack_history
from gateway.app.past_policies import OtherPolicies, PolicyVersions, is_own_service
from gateway.app.policy_diff import load_recorded
from gateway.app.rule_files import FILES, RuleFiles
from gateway.console.pages import policies as policy_pages
from gateway.console.pages import policy_drafts as draft_pages
from gateway.console.pages import table_access as access_pages
from gateway.console.pages.policies import (
    PolicyCaseResult,
    PolicyChange,
    PolicyDetails,
    PolicyPages,
    PolicySource,
)
from gateway.console.pages.policy_drafts import AppliedDraft, DraftPages, DraftTarget, PolicySourceState
from gateway.console.pages.table_access import JudgedSelect, TableAccessPages
from gateway.console.routes import ConsoleConflict, ConsolePart, Viewer
from gateway.database.pack_versions import list_pack_versions, load_pack_texts
from gateway.database.policy_drafts import PolicyDraft
from gateway.database.policy_use import PolicyUse, load_policy_use
from gateway.errors import Faults
from gateway.model.audit import AuditEvent
from gateway.model.catalog import Table, TableName
from gateway.model.context import AccessContext
from gateway.model.policy import Policy, PolicySet
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, Client, SessionContext, Statement
from gateway.policy.directory import directory_for
from gateway.policy.documents import parse_document
from gateway.policy.engine import engine_for
from gateway.policy.limits import limits_of
from gateway.policy.packs import PackCase, load_cases
from gateway.policy.packs.cases import failures, list_settling
from gateway.policy.subjects import PUBLIC
from gateway.session.verdicts import VerdictInputs, Verdicts

PROTOCOL = "console"
MAX_HISTORY = 50
MAX_CASES = 200


def list_parts(parts: GatewayParts, tools: ConsoleTools) -> list[ConsolePart]:
    """Return the pages with what they need."""
    composed = _Composition(parts, tools)
    drafts = DraftPages(tools.pool.acquire, composed, composed.load_recorded)
    access = TableAccessPages(
        _OtherPolicies(composed, drafts),
        partial(find_person, parts),
        composed.look_up,
        composed.judge_under,
        first_catalog=parts.dependencies.first_context.catalog,
        may_act_as=composed.may_act_as,
        run_sample=None if parts.sessions is None else partial(run_sample, parts.sessions),
    )
    pages = PolicyPages(
        lambda: parts.rules.current,
        composed.load_use,
        composed.load_details,
        principals=lambda: parts.identities.principals,
        first_catalog=parts.dependencies.first_context.catalog,
    )
    return [
        access_pages.part(access),
        policy_pages.part(pages),
        draft_pages.part(drafts),
        *make_proposals(parts, tools),
    ]


def keep_history(parts: GatewayParts, tools: ConsoleTools) -> Coroutine[Any, Any, None]:
    """Return what keeps the texts of packs, for as long as the gateway serves."""
    every_s = parts.settings.policies.reload_s
    return keep_pack_history(tools.pool, parts.ledger.gateway, lambda: parts.rules.texts, every_s)


class _TakenBack(Exception):
    """A change that was only tried: nothing of it stays."""


class _Composition:
    """What the pages ask of the gateway's other parts."""

    def __init__(self, parts: GatewayParts, tools: ConsoleTools) -> None:
        self._parts = parts
        self._tools = tools
        self._versions = PolicyVersions(
            parts.rules, parts.settings.policies, tools.pool, lambda: parts.users.principals
        )
        self._impersonation = make_impersonation(parts.settings, parts.logins.known, parts.identities)
        self._admin = tools.admin
        self._cases: tuple[RuleFiles | None, PolicySet | None, Mapping[str, list[PolicyCaseResult]]] = (
            None,
            None,
            {},
        )
        self._own: dict[str, bool] = {}

    # -- what is in force, was, or would be ------------------------------------------------------------------

    @property
    def current(self) -> PolicySet:
        return self._parts.rules.current

    async def find_at(self, at: datetime) -> OtherPolicies:
        return await self._versions.find_at(at)

    async def try_draft(self, draft: PolicyDraft) -> OtherPolicies:
        """Return the policies with a draft. Raises Faults with all that is wrong with it."""
        if draft.kind == "pack":
            return await self._versions.try_pack(draft.target, draft.text)
        return await self._versions.try_policy(draft.target, _read_policy(draft))

    async def judge_under(
        self, policies: PolicySet, principal: Principal, text: str, context: AccessContext
    ) -> JudgedSelect:
        """Return the verdict on a text under these policies, as judging has it; nothing runs."""
        dependencies, parts = self._parts.dependencies, self._parts
        verdicts = Verdicts(
            VerdictInputs(
                judge=dependencies.judge,
                policies=SupposedPolicies(policies, parts.identities.principals),
                catalog=dependencies.catalog,
                now=lambda: context.time or datetime.now().astimezone(),
                places=dependencies.places,
            )
        )
        told = frozenset(verdicts.listed.revisions.items())
        statement = Statement(text=text, principal=principal, context=SessionContext(catalogs=told))
        client = Client(address=context.client_ip or "", protocol=PROTOCOL)
        verdict = await verdicts.judge(statement, client)
        if isinstance(verdict, Cleared):
            return JudgedSelect(cleared=True, forwarded=verdict.forwarded)
        return JudgedSelect(cleared=False, code=verdict.code, message=verdict.text)

    # -- people and tables -----------------------------------------------------------------------------------

    async def may_act_as(self, viewer: Viewer, user: str) -> Principal | None:
        if self._impersonation is None:
            return None
        return (await self._impersonation.find(viewer.principal, viewer.address, user)).principal

    async def look_up(self, name: TableName) -> Table | None:
        return (await self._parts.dependencies.catalog.look_up((name,))).table(name)

    # -- one policy ------------------------------------------------------------------------------------------

    async def load_use(self, names: Sequence[str]) -> PolicyUse:
        async with self._tools.pool.acquire() as connection:
            return await load_policy_use(connection, names)

    async def load_recorded(self, since: datetime, most: int) -> Sequence[AuditEvent]:
        return await load_recorded(self._parts.dsn, None, since=since, until=None, limit=most)

    async def load_details(self, viewer: Viewer, policy: Policy, whole: bool) -> PolicyDetails:
        source = await self._source_of(policy)
        if not whole:
            cut = PolicySource(kind=source.kind, where="", editable=False, change_at="")
            return PolicyDetails(source=cut)
        history, note = await self._history_of(policy, source)
        text = ""
        if source.editable and self._admin is not None:
            async with self._admin.store.reading() as reading:
                stored = await reading.get(ObjectKind.POLICY, policy.id)
                service = await reading.find_named(ObjectKind.SERVICE, policy.service)
                admin = self._admin.access
                if stored and service and await admin.may_change(reading, viewer.principal, service, stored):
                    text = _pretty(stored)
        return PolicyDetails(
            source=source,
            # Cases name others and what they may: they are for who sees all.
            cases=tuple((await self._cases_of(policy))[:MAX_CASES])
            if viewer.is_auditor or viewer.is_administrator
            else (),
            history=history,
            history_note=note,
            editable_text=text,
        )

    async def _source_of(self, policy: Policy) -> PolicySource:
        policies = self._parts.settings.policies
        entry = next((one for one in policies.ranger if self._is_of(policy, one.service)), None)
        if entry is not None:
            if await self._is_own(entry.service):
                told = "here, or by the Ranger-compatible API below `/service`"
                return PolicySource(kind="api", where=policy.service, editable=True, change_at=told)
            urls = ", ".join(map(str, entry.urls))
            return PolicySource(
                kind="ranger", where=urls, editable=False, change_at=f"in the Ranger Admin at {urls}"
            )
        if policy.place is None or policy.is_closing:
            return PolicySource(
                kind="gateway",
                where="",
                editable=False,
                change_at="nowhere: the gateway makes it of its settings, or of what it found at fault",
            )
        is_json = policy.place.file.lower().endswith(".json")
        return PolicySource(
            kind="file" if is_json else "pack",
            where=str(policy.place),
            editable=False,
            change_at=f"in the file {policy.place}; a gateway takes it up by itself",
        )

    def _is_of(self, policy: Policy, service: str) -> bool:
        found = self.current.services.get(service)
        tags = found.tags.name if found is not None and found.tags is not None else None
        return policy.service in (service, tags)

    async def _is_own(self, service: str) -> bool:
        """Whether a service's policies are kept in this database."""
        part = self._parts.rules.part(service)
        found = part.services.get(service) if part is not None else None
        if self._admin is None or found is None:
            return False
        if not self._own.get(service):
            async with self._tools.pool.acquire() as connection:
                self._own[service] = await is_own_service(connection, found)
        return self._own[service]

    async def _history_of(self, policy: Policy, source: PolicySource) -> tuple[tuple[PolicyChange, ...], str]:
        if source.kind == "api":
            async with self._tools.pool.acquire() as connection:
                rows = await connection.fetch(
                    "SELECT time, who, action, version, before, after FROM sluice.ranger_history"
                    " WHERE kind = 'policy' AND object_id = $1 ORDER BY sequence DESC LIMIT $2",
                    policy.id,
                    MAX_HISTORY,
                )
            changes = [
                PolicyChange(
                    time=row["time"],
                    who=row["who"],
                    action=row["action"],
                    version=row["version"],
                    difference=_difference(_pretty_text(row["before"]), _pretty_text(row["after"])),
                )
                for row in rows
            ]
            return tuple(changes), ""
        if source.kind == "pack" and policy.place is not None:
            return await self._history_in_pack(policy, policy.place.file)
        if source.kind == "ranger":
            return (), "its history is in the Ranger Admin"
        return (), ""

    async def _history_in_pack(self, policy: Policy, file: str) -> tuple[tuple[PolicyChange, ...], str]:
        async with self._tools.pool.acquire() as connection:
            versions = await list_pack_versions(connection, limit=MAX_HISTORY)
            texts = {}
            for version in versions:
                digest = version.packs.get(file)
                if digest is not None and digest not in texts:
                    found = await load_pack_texts(connection, version)
                    texts[digest] = found.get(file, "")
        written = await asyncio.to_thread(
            lambda: {digest: _entry_of(text, file, policy.name) for digest, text in texts.items()}
        )
        changes = []
        before = None
        for number, version in enumerate(reversed(versions), 1):
            now = written.get(version.packs.get(file, ""), "")
            if before is not None and now != before:
                action = "update" if before and now else "create" if now else "delete"
                changes.append(
                    PolicyChange(
                        time=version.seen_at,
                        who=version.gateway,
                        action=action,
                        version=number,
                        difference=_difference(before, now),
                    )
                )
            before = now
        since = f"{versions[-1].seen_at:%Y-%m-%d %H:%M} UTC" if versions else "now"
        note = f"packs are kept since {since}; who wrote them is known to where they are kept"
        return tuple(reversed(changes)), note

    async def _cases_of(self, policy: Policy) -> list[PolicyCaseResult]:
        """Return the cases that a policy settles or that expect it; run once for each state of the packs."""
        texts, policies = self._parts.rules.texts, self.current
        if texts is None:
            return []
        if self._cases[:2] != (texts, policies):
            people = dict(self._parts.users.principals)
            definitions = {one.definition.name: one.definition for one in policies.services.values()}
            read = await asyncio.to_thread(load_cases, texts.packs, definitions, people)
            self._cases = (texts, policies, await asyncio.to_thread(_run_cases, read, policies))
        return self._cases[2].get(policy.name, [])

    # -- drafts ----------------------------------------------------------------------------------------------

    async def list_targets(self, viewer: Viewer) -> Sequence[DraftTarget]:
        found: list[DraftTarget] = []
        texts = self._parts.rules.texts
        if viewer.is_administrator and texts is not None:
            found += [
                DraftTarget(
                    kind="pack",
                    target=file,
                    change_at=f"in the file {file}: take the patch to where it is kept; a gateway takes it "
                    "up by itself",
                )
                for file in sorted(texts.packs)
            ]
        for entry in self._parts.settings.policies.ranger:
            if await self._is_own(entry.service) and (
                viewer.is_administrator or self._delegates(viewer, entry.service)
            ):
                found.append(DraftTarget(kind="policy", target=entry.service, change_at="here"))
        return found

    def _delegates(self, viewer: Viewer, service: str) -> bool:
        subject = engine_for(self.current).subject_of(viewer.principal)
        directory = directory_for(self.current)
        who = [("user", subject.user), ("group", PUBLIC), ("user", "{USER}"), ("user", "{OWNER}")]
        who += [("group", one) for one in subject.groups] + [("role", one) for one in subject.roles]
        return any(directory.count("delegate", *one) for one in who) and service in self.current.services

    async def text_in_force(self, draft: PolicyDraft) -> str:
        texts = self._parts.rules.texts
        if draft.kind == "pack":
            return "" if texts is None else texts.packs.get(draft.target, "")
        try:
            number = _read_policy(draft).get("id")
        except Faults:
            return ""
        if self._admin is None or not isinstance(number, int):
            return ""
        async with self._admin.store.reading() as reading:
            stored = await reading.get(ObjectKind.POLICY, number)
        return "" if stored is None or stored.get("service") != draft.target else _pretty(stored)

    async def may_write(self, viewer: Viewer, draft: PolicyDraft) -> bool:
        """Whether the viewer may put a draft in force: by the rights of the Ranger-compatible API, on what it
        is about and on what it takes the place of."""
        if draft.kind != "policy" or self._admin is None or not await self._is_own(draft.target):
            return False
        try:
            body = parse_object(POLICY, {**_read_policy(draft), "service": draft.target})
        except (Faults, RangerError):
            return False
        async with self._admin.store.reading() as reading:
            service = await reading.find_named(ObjectKind.SERVICE, draft.target)
            if service is None:
                return False
            concerned = [body]
            stored = await reading.get(ObjectKind.POLICY, body["id"]) if body.get("id") else None
            if stored is not None:
                if stored["service"] != draft.target:
                    return False
                concerned.append(stored)
            for one in concerned:
                if not await self._admin.access.may_change(reading, viewer.principal, service, one):
                    return False
        return True

    async def check_write(self, viewer: Viewer, draft: PolicyDraft) -> Sequence[str]:
        """Return what the Ranger-compatible API would say against a draft: it is stored and taken back."""
        try:
            await self._write(viewer, draft, keep=False)
        except _TakenBack:
            return ()
        except RangerError as error:
            return (error.message,)
        except StaleVersion:
            return ("the policy was changed since: the draft is of an older version",)
        return ()

    async def apply(self, viewer: Viewer, draft: PolicyDraft) -> AppliedDraft:
        """Put a draft of a policy in force. Raises BadRequest, Conflict, NotFound."""
        if self._admin is None or draft.kind != "policy":
            raise BadRequest("this draft is put in force where its pack is kept")
        try:
            made = await self._write(viewer, draft, keep=True)
        except StaleVersion:
            raise ConsoleConflict("the policy was changed meanwhile: look at the difference again") from None
        except RangerError as error:
            if error.status == 403:
                raise NotFound("this is not for you to put in force") from None
            raise BadRequest(error.message) from None
        return AppliedDraft(
            service=made["service"],
            zone=made.get("zoneName") or "",
            name=made["name"],
            version=made["version"],
        )

    async def _write(self, viewer: Viewer, draft: PolicyDraft, *, keep: bool) -> Mapping[str, Any]:
        """Store a draft by the rights of the API. Raises RangerError, StaleVersion, NotFound, and _TakenBack
        where it is not to be kept."""
        admin = self._admin
        if admin is None:
            raise NotFound("no policies are kept here")
        body = parse_object(POLICY, {**_read_policy(draft), "service": draft.target})

        async def work(writing: Any, access: Any) -> Mapping[str, Any]:
            stored = await writing.get(ObjectKind.POLICY, body["id"]) if body.get("id") else None
            if stored is None:
                new = {key: value for key, value in body.items() if key not in ("id", "guid", "version")}
                made = await create_policy(writing, access, viewer.principal, new)
            elif stored["service"] != draft.target:
                raise NotFound("there is no such policy in this service")
            else:
                made = await update_policy(writing, access, viewer.principal, stored, body)
            if not (keep or access.unread):
                raise _TakenBack
            return made

        return await change_policies(admin.store, admin.access, viewer.principal, work, {})

    async def list_sources(self) -> Sequence[PolicySourceState]:
        told = {entry.service: entry for entry in self._parts.settings.policies.ranger}
        found = []
        for one in self._parts.rules.sources():
            entry = told.get(one.name)
            if entry is None and one.name != FILES:
                change_at = "on the page of proposals"
            elif entry is None:
                change_at = ", ".join(map(str, self._parts.settings.policies.paths))
            elif await self._is_own(one.name):
                change_at = "here, or by the Ranger-compatible API"
            else:
                change_at = f"in the Ranger Admin at {', '.join(map(str, entry.urls))}"
            found.append(
                PolicySourceState(
                    name=one.name,
                    policies=one.policies,
                    version=one.version,
                    contact_age_s=one.contact_age_s,
                    faults=one.faults,
                    stale=one.stale or "",
                    change_at=change_at,
                )
            )
        return found


class _OtherPolicies:
    """What page 2 asks of policies; a draft is the viewer's, as page 3 has it."""

    def __init__(self, composed: _Composition, drafts: DraftPages) -> None:
        self._composed = composed
        self._drafts = drafts

    @property
    def current(self) -> PolicySet:
        return self._composed.current

    def stale(self) -> str | None:
        return self._composed._parts.dependencies.policies.stale()

    async def find_at(self, at: datetime) -> OtherPolicies:
        return await self._composed.find_at(at)

    async def find_draft(self, viewer: Viewer, draft: int) -> OtherPolicies:
        found = await self._drafts.find_draft(viewer, draft)
        if not (
            viewer.is_administrator or viewer.is_auditor or await self._composed.may_write(viewer, found)
        ):
            raise NotFound("there is no such draft, or it is not yours")
        return await self._composed.try_draft(found)


def _read_policy(draft: PolicyDraft) -> dict[str, Any]:
    try:
        found = parse(draft.text.encode(), 200_000)
    except RangerError as error:
        raise Faults([error.message]) from None
    if not isinstance(found, dict):
        raise Faults(["the policy must be a JSON object"])
    return found


def _run_cases(cases: Sequence[PackCase], policies: PolicySet) -> dict[str, list[PolicyCaseResult]]:
    engine, limits = engine_for(policies), limits_of(policies)
    found: dict[str, list[PolicyCaseResult]] = {}
    for one in cases:
        names = list_settling(one.case, engine, one.service)
        if one.case.policy is not None and one.case.policy not in names:
            names.append(one.case.policy)
        result = PolicyCaseResult(
            place=f"{one.file}:{one.line}",
            written=one.written,
            failures=tuple(failures(one.case, engine, one.service, limits)),
        )
        for name in names:
            found.setdefault(name, []).append(result)
    return found


def _entry_of(text: str, file: str, name: str) -> str:
    """Return a policy of a pack as it is written there, in one form; empty where it is not there."""
    try:
        data = parse_document(text, file).data
    except Faults:
        return ""
    entries = data.get("policies") if isinstance(data, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
    return ""


def _difference(before: str, after: str) -> str:
    return "\n".join(
        difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    )


_OF_STORE = ("createTime", "updateTime", "resourceSignature")


def _pretty(body: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in body.items() if key not in _OF_STORE}
    return json.dumps(shown, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _pretty_text(text: str | None) -> str:
    return "" if text is None else _pretty(orjson.loads(text))
