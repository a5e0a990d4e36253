"""Drafts of packs and policies: checked, compared with what is in force and with what was recorded, and put
in force where they can be here. Versions of before, compared the same way."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol
from urllib.parse import urlencode

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.pages.table_access import OtherPolicySet
from gateway.console.routes import (
    ConsoleConflict,
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NoParameters,
    PagedParameters,
    Viewer,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.database.policy_drafts import PolicyDraft, delete_draft, list_drafts, load_draft, save_draft
from gateway.errors import Faults
from gateway.model.audit import AuditEvent
from gateway.model.policy import PolicySet
from gateway.policy.diff_reports import diff_recorded
from gateway.policy.page_comparison import PolicyComparison, build_comparison, compare_policies

MAX_TEXT = 1_000_000
"""Characters of a draft."""
MAX_EVENTS = 5_000
"""Statements of the record that a draft is tried on."""
MAX_WARNINGS = 200
RECORDED_DAYS = 7
_NO_DRAFT = "there is no such draft, or it is not yours"
_OWN = "One's own drafts alone; administrators see everybody's."


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftListQuestion(PagedParameters):
    """Which drafts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftList:
    items: tuple[PolicyDraft, ...]
    next: str
    targets: tuple[DraftTarget, ...]
    """What a new draft may be of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTarget:
    """A pack, or a service whose policies are kept here."""

    kind: Literal["pack", "policy"]
    target: str
    change_at: str
    """Where it is changed in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveDraft:
    kind: Literal["pack", "policy"] = parameter("`pack`, or `policy` of a service that is kept here.")
    target: str = parameter("The pack's file, or the service.")
    title: str = parameter("What it is for.", most=200)
    text: str = parameter("The pack's YAML, or the policy in Ranger's JSON.", most=MAX_TEXT)
    draft: int = parameter("The draft to change; 0: a new one.", 0, most=10**15)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftKey:
    draft: int = parameter("The draft's number.", most=10**15)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion:
    draft: int = parameter("The draft's number.", most=10**15)
    impact: bool = parameter("Try it on the statements of the last week, too; for auditors.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDraft:
    draft: PolicyDraft
    faults: tuple[str, ...]
    """What is wrong with it, each with its line; with any it cannot be in force."""
    failing: tuple[str, ...]
    """Cases that fail with it."""
    comparison: PolicyComparison | None
    impact: PolicyComparison | None
    """What of the recorded accesses would be decided otherwise."""
    impact_since: datetime | None
    impact_events: int
    patch: str
    """What changes of the pack, or of the stored policy; unified."""
    change_at: str
    may_apply: bool
    may_see_impact: bool
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedDraft:
    service: str
    zone: str
    name: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedDraft:
    draft: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVersion:
    """All packs at one time, or one change of policies that are kept here."""

    time: datetime
    kind: Literal["packs", "policy"]
    what: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionListQuestion(PagedParameters):
    """Which versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionList:
    items: tuple[ListedVersion, ...]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareQuestion:
    before: datetime | None = parameter("The policies as of this time.", None)
    after: datetime | None = parameter("Against those of this time; empty: of now.", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVersions:
    before: datetime | None
    after: datetime | None
    comparison: PolicyComparison | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySourceState:
    """One source of policies, as it is now."""

    name: str
    policies: int
    version: int | None
    contact_age_s: float | None
    faults: tuple[str, ...]
    stale: str
    change_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySources:
    items: tuple[PolicySourceState, ...]
    warnings: tuple[str, ...]


class TriedPolicies(OtherPolicySet, Protocol):
    """Policies with a draft, and the cases that fail."""

    @property
    def failing(self) -> tuple[str, ...]: ...


class DraftPolicies(Protocol):
    """What drafts are tried on and put in force by."""

    @property
    def current(self) -> PolicySet: ...
    async def find_at(self, at: datetime) -> OtherPolicySet: ...
    async def try_draft(self, draft: PolicyDraft) -> TriedPolicies: ...
    async def list_targets(self, viewer: Viewer) -> Sequence[DraftTarget]: ...
    async def text_in_force(self, draft: PolicyDraft) -> str: ...
    async def may_write(self, viewer: Viewer, draft: PolicyDraft) -> bool: ...
    async def check_write(self, viewer: Viewer, draft: PolicyDraft) -> Sequence[str]: ...
    async def apply(self, viewer: Viewer, draft: PolicyDraft) -> AppliedDraft: ...
    async def list_sources(self) -> Sequence[PolicySourceState]: ...


LoadRecorded = Callable[[datetime, int], Awaitable[Sequence[AuditEvent]]]
"""Since when, and how many at most → the newest decided statements."""
_Connect = Callable[[], AbstractAsyncContextManager[Any]]


class DraftPages:
    """Answers what drafts and versions there are, and what they would change."""

    def __init__(
        self,
        connect: _Connect,
        policies: DraftPolicies,
        recorded: LoadRecorded,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._connect = connect
        self._policies = policies
        self._recorded = recorded
        self._now = now
        self._comparing = asyncio.Lock()
        """One comparison at a time: statements share the processor with them."""

    # -- drafts ----------------------------------------------------------------------------------------------

    async def list_drafts(self, viewer: Viewer, asked: DraftListQuestion) -> DraftList:
        before = decode_cursor(asked.after, int)[0] if asked.after else None
        owner = None if viewer.is_administrator else viewer.user  # RULE (console-own-drafts)
        limit = max(1, asked.limit)
        async with self._connect() as connection:
            found = await list_drafts(connection, owner, before=before, limit=limit + 1)
        return DraftList(
            items=tuple(found[:limit]),
            next=encode_cursor(found[limit - 1].id) if len(found) > limit else "",
            targets=tuple(await self._policies.list_targets(viewer)),
        )

    async def save_draft(self, viewer: Viewer, asked: SaveDraft) -> PolicyDraft:
        targets = await self._policies.list_targets(viewer)
        if not any((one.kind, one.target) == (asked.kind, asked.target) for one in targets):
            raise NotFound("there is nothing like that which you may write")  # RULE (console-draft-target)
        async with self._connect() as connection:
            saved = await save_draft(
                connection,
                id_=asked.draft or None,
                owner=viewer.user,
                kind=asked.kind,
                target=asked.target,
                title=asked.title,
                text=asked.text.replace("\r\n", "\n"),
            )
        if saved is None:
            raise (
                NotFound(_NO_DRAFT)
                if asked.draft
                else ConsoleConflict("you have too many drafts: delete some")
            )
        return saved

    async def delete_draft(self, viewer: Viewer, asked: DraftKey) -> DeletedDraft:
        async with self._connect() as connection:
            if not await delete_draft(connection, asked.draft, viewer.user):
                raise NotFound(_NO_DRAFT)
        return DeletedDraft(draft=asked.draft)

    async def find_draft(self, viewer: Viewer, number: int) -> PolicyDraft:
        """Return a draft that the viewer may see. Raises NotFound."""
        async with self._connect() as connection:
            draft = await load_draft(connection, number)
        # RULE (console-draft-sight)
        if draft is None or not (draft.owner == viewer.user or viewer.is_administrator):
            raise NotFound(_NO_DRAFT)
        return draft

    async def check_draft(self, viewer: Viewer, asked: CheckQuestion) -> CheckedDraft:
        draft = await self.find_draft(viewer, asked.draft)
        may_write = await self._policies.may_write(viewer, draft)
        targets = await self._policies.list_targets(viewer)
        checked = CheckedDraft(
            draft=draft,
            faults=(),
            failing=(),
            comparison=None,
            impact=None,
            impact_since=None,
            impact_events=0,
            patch="",
            change_at=next(
                (one.change_at for one in targets if (one.kind, one.target) == (draft.kind, draft.target)), ""
            ),
            may_apply=may_write,
            may_see_impact=viewer.is_auditor or viewer.is_administrator,
            is_own=draft.owner == viewer.user,
        )
        if not (may_write or viewer.is_auditor or viewer.is_administrator):
            # Of what they do not administer the comparison would tell, and the text in force more so.
            return replace(checked, faults=("this is not for you to write",))  # RULE (console-draft-compared)
        checked = replace(checked, patch=_patch(await self._policies.text_in_force(draft), draft))
        try:
            tried = await self._policies.try_draft(draft)
        except Faults as error:
            return replace(checked, faults=tuple(error.faults), may_apply=False)
        if may_write and (against := await self._policies.check_write(viewer, draft)):
            checked = replace(checked, faults=tuple(against), may_apply=False)
        current = self._policies.current
        comparison = await self._compare(current, tried.policies)
        checked = replace(checked, failing=tried.failing, comparison=comparison)
        if asked.impact and checked.may_see_impact:  # RULE (console-draft-impact)
            since = self._now() - timedelta(days=RECORDED_DAYS)
            events = await self._recorded(since, MAX_EVENTS)
            async with self._comparing:
                report = await asyncio.to_thread(diff_recorded, current, tried.policies, events)
            if len(events) >= MAX_EVENTS:
                since = datetime.fromisoformat(events[-1].time)
            checked = replace(
                checked,
                impact=build_comparison((), report.groups, report.asked, cut=False, notes=report.notes),
                impact_since=since,
                impact_events=len(events),
            )
        return checked

    async def apply_draft(self, viewer: Viewer, asked: DraftKey) -> AppliedDraft:
        draft = await self.find_draft(viewer, asked.draft)
        if draft.owner != viewer.user or not await self._policies.may_write(viewer, draft):
            raise NotFound("this is not for you to put in force, or not here")
        applied = await self._policies.apply(viewer, draft)
        async with self._connect() as connection:
            await delete_draft(connection, draft.id, viewer.user)
        return applied

    # -- versions --------------------------------------------------------------------------------------------

    async def list_versions(self, viewer: Viewer, asked: VersionListQuestion) -> VersionList:
        limit = max(1, asked.limit)
        before = decode_cursor(asked.after, str)[0] if asked.after else None
        try:
            at = datetime.fromisoformat(before) if before else self._now()
            if at.tzinfo is None or not 1970 <= at.year <= 9000:
                raise ValueError
        except ValueError:
            raise BadRequest("`after` is not a place in this list") from None
        async with self._connect() as connection:
            rows = await connection.fetch(_VERSIONS, at, limit + 1)
        items = tuple(
            ListedVersion(time=row["time"], kind=row["kind"], what=row["what"], who=row["who"])
            for row in rows[:limit]
        )
        following = encode_cursor(items[-1].time.isoformat()) if len(rows) > limit else ""
        return VersionList(items=items, next=following)

    async def compare_versions(self, viewer: Viewer, asked: CompareQuestion) -> ComparedVersions:
        if asked.before is None:
            return ComparedVersions(before=None, after=asked.after, comparison=None, notes=())
        old = await self._policies.find_at(asked.before)
        new, notes = self._policies.current, tuple(old.notes)
        if asked.after is not None:
            other = await self._policies.find_at(asked.after)
            new, notes = other.policies, tuple(dict.fromkeys((*notes, *other.notes)))
        comparison = await self._compare(old.policies, new)
        return ComparedVersions(before=asked.before, after=asked.after, comparison=comparison, notes=notes)

    async def list_sources(self, viewer: Viewer, asked: NoParameters) -> PolicySources:
        return PolicySources(
            items=tuple(await self._policies.list_sources()),
            warnings=self._policies.current.warnings[:MAX_WARNINGS],
        )

    async def _compare(self, old: PolicySet, new: PolicySet) -> PolicyComparison:
        async with self._comparing:
            return await asyncio.to_thread(compare_policies, old, new)


_VERSIONS = """
SELECT * FROM (
  (SELECT seen_at AS time, 'packs' AS kind, digest AS what, gateway AS who FROM sluice.pack_version
   WHERE seen_at < $1 ORDER BY seen_at DESC LIMIT $2)
  UNION ALL
  (SELECT time, 'policy', action || ' ' || service || ': ' || name, who FROM sluice.ranger_history
   WHERE kind = 'policy' AND time < $1 ORDER BY time DESC LIMIT $2)
) AS versions ORDER BY time DESC LIMIT $2"""


def _patch(before: str, draft: PolicyDraft) -> str:
    name = draft.target
    return "\n".join(
        difflib.unified_diff(
            before.splitlines(), draft.text.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
        )
    )


def part(pages: DraftPages) -> ConsolePart:
    """Return the routes, pages and forms of it."""
    listed = ConsoleRoute.get(
        "/policy-drafts",
        pages.list_drafts,
        "Drafts of packs and policies.",
        own=_OWN,
        unrecorded_because="It shows drafts, and nothing of the record.",
    )
    checked = ConsoleRoute.get(
        "/policy-drafts/{draft}",
        pages.check_draft,
        "A draft with its faults, its cases, what it would change, and its impact on the record.",
        own=f"{_OWN} The record is for auditors.",
        examples={"draft": "1"},
    )
    saved = ConsoleRoute.post(
        "/policy-drafts",
        pages.save_draft,
        "Keep a draft; nothing of it is in force.",
        own="A draft of what one may write, and changes of one's own drafts alone.",
        examples={"kind": "pack", "target": "none.yaml", "title": "none", "text": "{}"},
    )
    deleted = ConsoleRoute.post(
        "/policy-drafts/{draft}/delete",
        pages.delete_draft,
        "Throw a draft away.",
        own="One's own drafts alone.",
        examples={"draft": "1"},
    )
    applied = ConsoleRoute.post(
        "/policy-drafts/{draft}/apply",
        pages.apply_draft,
        "Put a draft of a policy in force, by the rights that the Ranger-compatible API has.",
        own="One's own drafts, of policies that one may change through the Ranger-compatible API.",
        examples={"draft": "1"},
    )
    versions = ConsoleRoute.get(
        "/policy-versions",
        pages.list_versions,
        "When packs and policies changed, the newest first.",
        unrecorded_because="It shows changes of policies, and nothing of the record.",
    )
    compared = ConsoleRoute.get(
        "/policy-comparison",
        pages.compare_versions,
        "Which policies and which answers differ between two times.",
        unrecorded_because="It shows policies, and nothing of the record.",
    )
    sources = ConsoleRoute.get(
        "/policy-sources",
        pages.list_sources,
        "Where policies come from, what is wrong there, and where they are changed.",
        unrecorded_because="It shows how sources are doing, and nothing of the record.",
    )
    return ConsolePart(
        routes=(listed, checked, saved, deleted, applied, versions, compared, sources),
        pages=(
            ConsolePage(
                route=listed, path="/policy-drafts", template="policy_drafts.html", title="Drafts of policies"
            ),
            ConsolePage(
                route=checked, path="/policy-drafts/{draft}", template="policy_draft.html", title="Draft"
            ),
            ConsolePage(
                route=versions,
                path="/policy-versions",
                template="policy_versions.html",
                title="Versions of policies",
            ),
            ConsolePage(
                route=compared,
                path="/policy-comparison",
                template="policy_comparison.html",
                title="Versions compared",
            ),
            ConsolePage(
                route=sources,
                path="/policy-sources",
                template="policy_sources.html",
                title="Sources of policies",
            ),
        ),
        forms=(
            ConsoleForm(route=saved, path="/policy-drafts", then=lambda _, made: f"/policy-drafts/{made.id}"),
            ConsoleForm(
                route=deleted, path="/policy-drafts/{draft}/delete", then=lambda *_: "/policy-drafts"
            ),
            ConsoleForm(
                route=applied,
                path="/policy-drafts/{draft}/apply",
                then=lambda _, made: "/policies?" + _query(service=made.service, q=made.name),
            ),
        ),
    )


def _query(**values: str) -> str:
    return urlencode(values)
