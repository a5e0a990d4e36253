"""Drafts: whose they are, what is wrong with them, what they would change, and who may put them in force."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.pages import policy_drafts
from gateway.console.pages.policy_drafts import (
    AppliedDraft,
    CheckQuestion,
    CompareQuestion,
    DraftKey,
    DraftListQuestion,
    DraftPages,
    DraftTarget,
    PolicySourceState,
    SaveDraft,
    VersionListQuestion,
)
from gateway.console.routes import NoParameters, Viewer, encode_cursor
from gateway.database.policy_drafts import PolicyDraft
from gateway.model.audit import AuditEvent
from gateway.model.policy import PolicySet
from gateway.policy import page_comparison
from gateway.policy.packs import load_packs
from gateway.policy.page_comparison import compare_policies
from tests.console.pages.viewers import ADMIN, AS_ANN, AS_LEA, AUDITOR, STRANGER
from tests.policy.offices import PACK, offices
from tests.policy.scenarios import definitions

NOW = datetime(2026, 11, 1, tzinfo=UTC)
PACK_FILE = DraftTarget(kind="pack", target="offices.yaml", change_at="in the file")
SERVICE = DraftTarget(kind="policy", target="spark", change_at="here")


@dataclass
class MemoryDatabase:
    """Answers what is asked of drafts."""

    drafts: dict[int, dict[str, Any]] = field(default_factory=dict)

    async def fetch(self, query: str, *given: Any) -> list[dict[str, Any]]:
        if "pack_version" in query:
            return [{"time": NOW, "kind": "packs", "what": "d", "who": "g"}] * min(2, given[1])
        owner, _, limit = given
        found = [one for one in self.drafts.values() if owner in (None, one["owner"])]
        return sorted(found, key=lambda one: -one["id"])[:limit]

    async def fetchrow(self, query: str, *given: Any) -> dict[str, Any] | None:
        if query.startswith("SELECT"):
            return self.drafts.get(given[0])
        if query.startswith("UPDATE"):
            known = self.drafts.get(given[0])
            if known is None or known["owner"] != given[1]:
                return None
            known.update(title=given[2], text=given[3])
            return known
        names = ("owner", "kind", "target", "title", "text")
        made = dict(zip(names, given, strict=False)) | {
            "id": len(self.drafts) + 1,
            "made_at": NOW,
            "changed_at": NOW,
        }
        self.drafts[made["id"]] = made
        return made

    async def execute(self, query: str, id_: int, owner: str) -> str:
        known = self.drafts.get(id_)
        if known is None or known["owner"] != owner:
            return "DELETE 0"
        del self.drafts[id_]
        return "DELETE 1"


@dataclass
class Tried:
    policies: PolicySet
    notes: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


@dataclass
class FakePolicies:
    """Drafts of the one pack; whoever is in `writers` may write policies of the service."""

    writers: set[str] = field(default_factory=lambda: {"lea"})
    applied: list[str] = field(default_factory=list)
    current = offices()

    async def find_at(self, at: datetime) -> Tried:
        return Tried(self.current if at == NOW else load(PACK.replace("MASK_HASH", "MASK_NULL")), ("then",))

    async def try_draft(self, draft: PolicyDraft) -> Tried:
        return Tried(load(draft.text), failing=("case fails",) if "# failing" in draft.text else ())

    async def list_targets(self, viewer: Viewer) -> Sequence[DraftTarget]:
        return (
            [PACK_FILE, SERVICE]
            if viewer.is_administrator
            else [SERVICE]
            if viewer.user in ("lea", "ann")
            else []
        )

    async def text_in_force(self, draft: PolicyDraft) -> str:
        return PACK

    async def may_write(self, viewer: Viewer, draft: PolicyDraft) -> bool:
        return draft.kind == "policy" and viewer.user in self.writers

    async def check_write(self, viewer: Viewer, draft: PolicyDraft) -> Sequence[str]:
        return ("the same resources",) if "# twice" in draft.text else ()

    async def apply(self, viewer: Viewer, draft: PolicyDraft) -> AppliedDraft:
        self.applied.append(draft.text)
        return AppliedDraft(service="spark", zone="", name="n", version=2)

    async def list_sources(self) -> Sequence[PolicySourceState]:
        return []


def load(text: str) -> PolicySet:
    return load_packs({"offices.yaml": text}, definitions(), catalog_services={"c": "spark"})


asked_events: list[tuple[datetime, int]] = []
EVENT = AuditEvent(
    event_id="e",
    kind="decided",
    time="2026-10-31T10:00:00Z",
    statement_id="s",
    gateway="g",
    user="ann",
    body={
        "groups": ["sales"],
        "decisions": [
            {"action": "select", "resType": "@column", "resource": "c/sales/customer", "columns": ["name"]}
        ],
    },
)


async def recorded(since: datetime, most: int) -> Sequence[AuditEvent]:
    asked_events.append((since, most))
    return [EVENT]


@dataclass
class World:
    pages: DraftPages
    policies: FakePolicies
    database: MemoryDatabase

    async def save(self, viewer: Viewer, text: str, kind: str = "pack", draft: int = 0) -> PolicyDraft:
        target = "offices.yaml" if kind == "pack" else "spark"
        return await self.pages.save_draft(
            viewer,
            SaveDraft(kind=kind, target=target, title="t", text=text, draft=draft),  # type: ignore[arg-type]
        )


@pytest.fixture
def world() -> World:
    asked_events.clear()
    database, policies = MemoryDatabase(), FakePolicies()

    @asynccontextmanager
    async def connect() -> AsyncIterator[MemoryDatabase]:
        yield database

    return World(DraftPages(connect, policies, recorded, now=lambda: NOW), policies, database)


async def test_a_draft_is_checked_and_says_what_it_would_change(world: World) -> None:
    draft = await world.save(ADMIN, PACK.replace("MASK_HASH", "MASK_NULL"))
    checked = await world.pages.check_draft(ADMIN, CheckQuestion(draft=draft.id))
    assert checked.faults == checked.failing == ()
    assert checked.comparison is not None
    assert [(one.change, one.policy.name) for one in checked.comparison.policies] == [
        ("changed", "customer emails")
    ]
    assert {(one.kind, one.people, one.by) for one in checked.comparison.answers} == {
        ("mask", ("(someone in sales)",), "customer emails")
    }
    assert "-      - {groups: [sales], type: MASK_HASH}" in checked.patch
    assert checked.change_at == "in the file"
    assert not checked.may_apply
    assert checked.impact is None
    assert not asked_events


async def test_the_impact_on_the_last_week_is_told(world: World) -> None:
    draft = await world.save(
        ADMIN,
        PACK.replace("groups: [sales], access", "groups: [x], access").replace(
            "effect: allow, policy: sales read", "effect: deny"
        ),
    )
    checked = await world.pages.check_draft(ADMIN, CheckQuestion(draft=draft.id, impact=True))
    assert checked.impact is not None
    assert [(one.kind, one.people) for one in checked.impact.answers] == [("lost", ("ann",))]
    assert (checked.impact_events, checked.impact_since) == (1, datetime(2026, 10, 25, tzinfo=UTC))
    assert asked_events == [(datetime(2026, 10, 25, tzinfo=UTC), policy_drafts.MAX_EVENTS)]


async def test_faults_and_failing_cases_are_told(world: World) -> None:
    broken = await world.save(ADMIN, PACK.replace("select", "selct"))
    checked = await world.pages.check_draft(ADMIN, CheckQuestion(draft=broken.id))
    assert checked.comparison is None
    assert any("offices.yaml:" in fault for fault in checked.faults)
    failing = await world.save(ADMIN, PACK + "# failing\n")
    assert (await world.pages.check_draft(ADMIN, CheckQuestion(draft=failing.id))).failing == ("case fails",)


@pytest.mark.parametrize("viewer", [AS_ANN, AUDITOR, STRANGER], ids=lambda viewer: viewer.user)
async def test_drafts_are_their_owners(world: World, viewer: Viewer) -> None:
    draft = await world.save(AS_LEA, PACK, "policy")
    assert (await world.pages.list_drafts(viewer, DraftListQuestion())).items == ()
    assert [one.id for one in (await world.pages.list_drafts(ADMIN, DraftListQuestion())).items] == [draft.id]
    for ask in (world.pages.delete_draft, world.pages.apply_draft):
        with pytest.raises(NotFound):
            await ask(viewer, DraftKey(draft=draft.id))
    with pytest.raises(NotFound):
        await world.pages.check_draft(viewer, CheckQuestion(draft=draft.id))
    with pytest.raises(NotFound):
        await world.save(viewer, "another", "policy", draft.id)
    assert world.database.drafts[draft.id]["text"] == PACK
    assert not world.policies.applied


async def test_a_draft_is_of_what_one_may_write(world: World) -> None:
    for viewer, kind in ((AS_LEA, "pack"), (AUDITOR, "pack"), (AUDITOR, "policy"), (STRANGER, "policy")):
        with pytest.raises(NotFound, match="nothing like that"):
            await world.save(viewer, PACK, kind)
    assert not world.database.drafts


async def test_what_is_not_ones_to_write_is_not_compared(world: World) -> None:
    draft = await world.save(AS_ANN, PACK.replace("MASK_HASH", "MASK_NULL"), "policy")
    checked = await world.pages.check_draft(AS_ANN, CheckQuestion(draft=draft.id, impact=True))
    assert checked.faults == ("this is not for you to write",)
    assert checked.comparison is None
    # A draft names the policy that it is to take the place of: its text is not theirs either.
    assert checked.patch == ""
    with pytest.raises(NotFound):
        await world.pages.apply_draft(AS_ANN, DraftKey(draft=draft.id))


async def test_a_delegate_puts_theirs_in_force_without_seeing_the_record(world: World) -> None:
    draft = await world.save(AS_LEA, PACK.replace("MASK_HASH", "MASK_NULL"), "policy")
    checked = await world.pages.check_draft(AS_LEA, CheckQuestion(draft=draft.id, impact=True))
    assert checked.may_apply
    assert checked.comparison is not None
    assert checked.impact is None
    assert not asked_events
    # Not even an administrator puts another's draft in force by a click.
    with pytest.raises(NotFound):
        await world.pages.apply_draft(ADMIN, DraftKey(draft=draft.id))
    assert (await world.pages.apply_draft(AS_LEA, DraftKey(draft=draft.id))).version == 2
    assert world.policies.applied == [draft.text]
    assert not world.database.drafts


async def test_what_the_api_says_against_a_draft_is_told_before(world: World) -> None:
    draft = await world.save(AS_LEA, PACK + "# twice\n", "policy")
    checked = await world.pages.check_draft(AS_LEA, CheckQuestion(draft=draft.id))
    assert checked.faults == ("the same resources",)
    assert not checked.may_apply
    assert checked.comparison is not None


async def test_versions_are_listed_and_compared(world: World) -> None:
    page = await world.pages.list_versions(AUDITOR, VersionListQuestion(limit=1))
    assert len(page.items) == 1
    assert page.next
    for nowhen in ("2026-01-01", "9999-12-31T23:59:59-12:00", "now"):
        with pytest.raises(BadRequest):
            await world.pages.list_versions(AUDITOR, VersionListQuestion(after=encode_cursor(nowhen)))
    compared = await world.pages.compare_versions(
        AUDITOR, CompareQuestion(before=datetime(2026, 1, 1, tzinfo=UTC))
    )
    assert compared.comparison is not None
    assert [one.before.split(" ")[0] for one in compared.comparison.answers] == ["MASK_NULL"]
    assert compared.notes == ("then",)
    same = await world.pages.compare_versions(AUDITOR, CompareQuestion(before=NOW, after=NOW))
    assert same.comparison is not None
    assert (same.comparison.policies, same.comparison.asked) == ((), 0)
    assert (await world.pages.compare_versions(AUDITOR, CompareQuestion())).comparison is None
    assert (await world.pages.list_sources(AUDITOR, NoParameters())).items == ()


def test_a_comparison_ends_when_it_is_enough_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_comparison, "MAX_ASKED", 0)
    found = compare_policies(offices(), load(PACK.replace("MASK_HASH", "MASK_NULL")))
    assert found.cut
    assert [one.kind for one in found.answers] == ["mask"]
