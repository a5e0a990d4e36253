"""Every page of policies is written for each viewer, whatever others have put into names and texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.console.pages.inventory import (
    CatalogList,
    DatasetQuestion,
    FileTable,
    FileTableList,
    JobRun,
    JobRunList,
    JobRunQuestion,
    ListedCatalog,
    ScheduledJob,
)
from gateway.console.pages.policies import (
    MatrixQuestion,
    PolicyCaseResult,
    PolicyChange,
    PolicyDetails,
    PolicyKeyQuestion,
    PolicyListQuestion,
    PolicyPages,
    PolicySource,
    TreeQuestion,
)
from gateway.console.pages.policy_drafts import (
    CheckedDraft,
    CheckQuestion,
    ComparedVersions,
    CompareQuestion,
    DraftList,
    DraftListQuestion,
    DraftTarget,
    ListedVersion,
    PolicySources,
    PolicySourceState,
    VersionList,
    VersionListQuestion,
)
from gateway.console.pages.proposals import (
    ProposalKey,
    ProposalListQuestion,
    ProposalOrigin,
    ProposalStep,
    RecommendationKey,
    RecommendationList,
    RecommendationQuestion,
    ShownProposal,
    ShownRecommendation,
    TagDecision,
    TagProposal,
    TagProposalList,
    build_recommendation,
)
from gateway.console.pages.table_access import (
    SampleKey,
    TableAccessPages,
    TableAccessQuestion,
    TableSample,
)
from gateway.console.rendering import Renderer, StaticFiles
from gateway.console.routes import NoParameters, Viewer
from gateway.database.policy_drafts import PolicyDraft
from gateway.model.policy import Policy, PolicySet
from gateway.policy.packs import load_packs
from gateway.policy.page_comparison import compare_policies
from tests.console.doors import PARTS
from tests.console.pages import test_table_access as access
from tests.console.pages.test_policies import load_use
from tests.console.pages.test_proposals import recommended
from tests.console.pages.viewers import ADMIN, AS_ANN, AS_BOB, AUDITOR
from tests.policy.offices import PACK, offices
from tests.policy.scenarios import definitions

EVIL = "<img src=x>'\"&\u202e"
NOW = datetime(2026, 11, 1, tzinfo=UTC)
PAGES = {page.route.name: page for one in PARTS for page in one.pages}
RENDERER = Renderer(PARTS, StaticFiles())
SALES = ("spark", "catalog", "c", "database", "sales")


def write(name: str, viewer: Viewer, asked: Any, it: Any) -> str:
    page = RENDERER.page(PAGES[name], viewer, "secret", asked, it)
    assert "<img" not in page
    # What is edited is sent back as it was.
    assert "\u202e" not in re.sub(r"<textarea.*?</textarea>", "", page, flags=re.DOTALL)
    return page


async def details(viewer: Viewer, policy: Policy, whole: bool) -> PolicyDetails:
    return PolicyDetails(
        source=PolicySource(kind="api", where=EVIL, editable=True, change_at="here"),
        cases=(PolicyCaseResult(place="a.yaml:1", written=EVIL, failures=(EVIL,)),),
        history=(PolicyChange(time=NOW, who=EVIL, action="update", version=2, difference=EVIL),),
        history_note=EVIL,
        editable_text=EVIL if whole else "",
    )


def evil() -> PolicySet:
    name = "'" + EVIL.replace("'", "''").replace("\u202e", "") + "'"
    text = PACK.replace("description: everybody in sales reads", f"description: {name}")
    return load_packs({"offices.yaml": text}, definitions(), catalog_services={"c": "spark"})


@pytest.mark.parametrize("viewer", [ADMIN, AUDITOR, AS_ANN], ids=lambda one: one.user)
async def test_pages_of_policies(viewer: Viewer) -> None:
    pages = PolicyPages(evil, load_use, details)
    for asked in (PolicyListQuestion(), PolicyListQuestion(under=SALES, q=EVIL), PolicyListQuestion(limit=1)):
        page = write("list_policies", viewer, asked, await pages.list_policies(viewer, asked))
        assert (
            ("no cards" in page) == (not asked.q and asked.limit > 1) or viewer is AS_ANN or asked.limit == 1
        )
    one = PolicyKeyQuestion(service="spark", name="sales read")
    page = write("show_policy", viewer, one, await pages.show_policy(viewer, one))
    assert ("<textarea" in page) == (viewer is not AS_ANN)
    if viewer is AS_ANN:
        assert "lead" not in page
        return
    for place in ((), ("spark",), SALES, (*SALES, "table", "customer")):
        tree, matrix = TreeQuestion(under=place), MatrixQuestion(under=place)
        write("list_policy_tree", viewer, tree, await pages.list_tree(viewer, tree))
        write("show_matrix", viewer, matrix, await pages.show_matrix(viewer, matrix))


async def test_pages_of_table_access() -> None:
    pages = TableAccessPages(
        access.FakePolicies(),
        access.find_person,
        access.look_up,
        access.judge,
        first_catalog="c",
        may_act_as=access.may_act_as,
        run_sample=access.run_sample,
    )
    customer = "sales.customer"
    for viewer, asked in (
        (ADMIN, TableAccessQuestion(table=customer, user="bob", column="card")),
        (ADMIN, TableAccessQuestion(table=customer, user="zoe", draft=7)),
        (AUDITOR, TableAccessQuestion(table="hr.staff", user="sue", at=NOW)),
        (AS_BOB, TableAccessQuestion(table=customer)),
        (AS_BOB, TableAccessQuestion()),
    ):
        page = write("see_table", viewer, asked, await pages.see_table(viewer, asked))
        assert ("region = " in page) == (asked.user == "bob")
    sample = TableSample(
        id="x", table="c.d.t", user="bob", by="root", columns=(EVIL,), rows=((EVIL,),), statement_id="s"
    )
    write("show_sample", ADMIN, SampleKey(sample="x"), sample)


DRAFT = PolicyDraft(
    id=1, owner="root", kind="pack", target=EVIL, title=EVIL, text=EVIL, made_at=NOW, changed_at=NOW
)
COMPARISON = compare_policies(
    offices(),
    load_packs(
        {"offices.yaml": PACK.replace("MASK_HASH", "MASK_NULL")},
        definitions(),
        catalog_services={"c": "spark"},
    ),
)


def checked(faults: Sequence[str] = (), *, impact: bool = False) -> CheckedDraft:
    return CheckedDraft(
        draft=DRAFT,
        faults=tuple(faults),
        failing=(EVIL,) if not faults else (),
        comparison=None if faults else COMPARISON,
        impact=COMPARISON if impact else None,
        impact_since=NOW if impact else None,
        impact_events=5,
        patch=EVIL,
        change_at=EVIL,
        may_apply=True,
        may_see_impact=True,
        is_own=not impact,
    )


def test_pages_of_drafts_and_versions() -> None:
    targets = (
        DraftTarget(kind="pack", target=EVIL, change_at=""),
        DraftTarget(kind="policy", target="s", change_at=""),
    )
    write("list_drafts", ADMIN, DraftListQuestion(), DraftList(items=(DRAFT,), next="n", targets=targets))
    for one in (checked(), checked([EVIL]), checked(impact=True)):
        page = write("check_draft", ADMIN, CheckQuestion(draft=1), one)
        assert ("Put it in force" in page) == (one.is_own and not one.faults)
    versions = VersionList(items=(ListedVersion(time=NOW, kind="packs", what=EVIL, who=EVIL),), next="")
    write("list_versions", ADMIN, VersionListQuestion(), versions)
    for question in (CompareQuestion(), CompareQuestion(before=NOW, after=NOW)):
        found = ComparedVersions(
            before=question.before,
            after=question.after,
            comparison=COMPARISON if question.before else None,
            notes=(EVIL,),
        )
        write("compare_versions", ADMIN, question, found)
    source = PolicySourceState(
        name=EVIL, policies=1, version=None, contact_age_s=1.0, faults=(EVIL,), stale=EVIL, change_at=EVIL
    )
    write("list_sources", ADMIN, NoParameters(), PolicySources(items=(source,), warnings=(EVIL,)))


@pytest.mark.parametrize("viewer", [ADMIN, AUDITOR], ids=lambda one: one.user)
def test_pages_of_proposals_and_of_what_there_is(viewer: Viewer) -> None:
    origin = ProposalOrigin(
        column=EVIL, identical=True, way=(ProposalStep(column=EVIL, flow="IDENTITY", statement=EVIL),)
    )
    proposal = TagProposal(
        id=1,
        column=EVIL,
        tag=EVIL,
        attributes=(EVIL,),
        state="proposed",
        asks=True,
        origin_gone=False,
        origins=(origin,) * 5,
        evidence=(EVIL,),
        proposed_at=NOW,
        decided_at=NOW,
        decided_by="ann",
    )
    page = write(
        "list_proposals", viewer, ProposalListQuestion(), TagProposalList(items=(proposal,), next="n")
    )
    assert ('<button type="submit" name="decision"' in page) == viewer.is_administrator
    decided = TagDecision(time=NOW, user=EVIL, state="accepted")
    write(
        "show_proposal", viewer, ProposalKey(proposal=1), ShownProposal(proposal=proposal, history=(decided,))
    )
    one = build_recommendation({**recommended(1), "title": EVIL, "edits": [EVIL], "cases": [EVIL]})
    write("list_recommendations", viewer, RecommendationQuestion(), RecommendationList(items=(one,), next=""))
    for writable in (True, False):
        shown = ShownRecommendation(
            recommendation=one,
            packs=(EVIL, "b"),
            pack=EVIL,
            diff=EVIL,
            faults=(EVIL,),
            writable=writable,
            command=EVIL,
        )
        page = write("show_recommendation", viewer, RecommendationKey(recommendation=1), shown)
        assert ("Accept: write it" in page) == (writable and viewer.is_administrator)
    table = FileTable(
        source=EVIL,
        path=EVIL,
        table=EVIL,
        format="csv",
        files=1,
        bytes=2,
        promoted_by=EVIL,
        promoted_at=NOW,
        looked_at=None,
        finding=EVIL,
    )
    write("list_datasets", viewer, DatasetQuestion(), FileTableList(items=(table,), next=""))
    catalogs = CatalogList(items=(ListedCatalog(name=EVIL, service="spark", source=EVIL),))
    write("list_catalogs", viewer, NoParameters(), catalogs)
    run = JobRun(
        id=1,
        job=EVIL,
        state="failed",
        runner=EVIL,
        started_at=NOW,
        ended_at=None,
        seconds=None,
        rows_in=1,
        rows_out=1,
        error=EVIL,
    )
    runs = JobRunList(items=(run,), next="", scheduled=(ScheduledJob(name=EVIL, schedule=EVIL),))
    write("list_job_runs", viewer, JobRunQuestion(), runs)
