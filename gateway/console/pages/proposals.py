"""Proposals of tags and recommendations of changes to packs: listed, shown and decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.routes import (
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    PagedParameters,
    Viewer,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.lineage.proposals import (
    ACCEPTED,
    REJECTED,
    STATES,
    Proposal,
    decide,
    history,
    proposals,
)

MAX_DECIDED = 500
_NOT_OF_RECORD = "It shows what the gateway has found out, and nothing of the record."
ProposalState = Literal["", "proposed", "accepted", "rejected"]
RecommendationState = Literal["proposed", "rejected", "applied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalListQuestion(PagedParameters):
    state: ProposalState = parameter("Only in this state; empty: in any.", "proposed")
    tag: str = parameter("Only of this tag.", "")
    name: str = parameter("Only of this column or table, dotted and from its end.", "")
    gone: bool = parameter("Only those whose origin is gone.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalStep:
    """One step of the way that a tag came."""

    column: str
    flow: str
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalOrigin:
    """A column that a tag comes from."""

    column: str
    identical: bool
    """Whether the values are the same there."""
    way: tuple[ProposalStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagProposal:
    id: int
    column: str
    tag: str
    attributes: tuple[str, ...]
    state: str
    asks: bool
    """Whether somebody has to look, whatever the settings accept."""
    origin_gone: bool
    origins: tuple[ProposalOrigin, ...]
    evidence: tuple[str, ...]
    """What a classification found."""
    proposed_at: datetime
    decided_at: datetime | None
    decided_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagProposalList:
    items: tuple[TagProposal, ...]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalKey:
    proposal: int = parameter("The proposal's number.", most=10**18 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagDecision:
    time: datetime
    user: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProposal:
    proposal: TagProposal
    history: tuple[TagDecision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideProposals:
    proposals: tuple[str, ...] = parameter("Numbers of proposals.")
    decision: Literal["accept", "reject"] = parameter("What is decided of them.")
    again: bool = parameter("Also those of which the other was decided.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationQuestion(PagedParameters):
    state: RecommendationState = parameter("In this state.", "proposed")
    kind: str = parameter("Of this kind only.", "", most=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    id: int
    kind: str
    title: str
    state: str
    edits: tuple[str, ...]
    """Each in JSON, as packs are edited."""
    cases: tuple[str, ...]
    evidence: tuple[str, ...]
    proposed_at: str
    looked_at: str
    decided_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationList:
    items: tuple[Recommendation, ...]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationKey:
    recommendation: int = parameter("The recommendation's number.", most=10**18 - 1)
    pack: str = parameter("The pack to change; empty: the one that has the policy.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecommendation:
    recommendation: Recommendation
    packs: tuple[str, ...]
    pack: str
    diff: str
    """Of the pack, with which all packs load and all cases pass."""
    faults: tuple[str, ...]
    """Why it cannot be applied to this pack."""
    writable: bool
    """Whether this gateway may write the pack's file."""
    command: str
    """What applies it where the pack is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedRecommendation:
    recommendation: int
    state: str


class Recommendations(Protocol):
    """What of packs is recommended, shown and decided."""

    async def list_page(
        self, state: str, kind: str, after: tuple[str, int], limit: int
    ) -> Sequence[Mapping[str, Any]]: ...
    async def show(self, number: int, pack: str) -> ShownRecommendation: ...
    async def apply(self, number: int, pack: str, by: str) -> None: ...
    async def reject(self, number: int, by: str) -> None: ...


_Connect = Callable[[], AbstractAsyncContextManager[Any]]


class ProposalPages:
    """Answers what is proposed, and decides."""

    def __init__(
        self,
        connect: _Connect,
        recommendations: Recommendations,
    ) -> None:
        self._connect = connect
        self._recommendations = recommendations

    # -- tags ------------------------------------------------------------------------------------------------

    async def list_proposals(self, viewer: Viewer, asked: ProposalListQuestion) -> TagProposalList:
        limit = max(1, asked.limit)
        after = decode_cursor(asked.after, int)[0] if asked.after else 0
        async with self._connect() as connection:
            found = await proposals(
                connection,
                states=(asked.state,) if asked.state else STATES,
                tag=asked.tag or None,
                name=asked.name,
                gone=asked.gone,
                after=after,
                limit=limit + 1,
            )
        return TagProposalList(
            items=tuple(map(_proposal_of, found[:limit])),
            next=encode_cursor(found[limit - 1].id) if len(found) > limit else "",
        )

    async def show_proposal(self, viewer: Viewer, asked: ProposalKey) -> ShownProposal:
        async with self._connect() as connection:
            found = await proposals(connection, ids=[asked.proposal])
            if not found:
                raise NotFound("there is no such proposal")
            decided = await history(connection, asked.proposal)
        return ShownProposal(
            proposal=_proposal_of(found[0]),
            history=tuple(TagDecision(time=one.time, user=one.user, state=one.state) for one in decided),
        )

    async def decide_proposals(self, viewer: Viewer, asked: DecideProposals) -> TagProposalList:
        wrong = [one for one in asked.proposals if not (one.isascii() and one.isdecimal() and len(one) < 19)]
        if wrong or not 0 < len(asked.proposals) <= MAX_DECIDED:
            raise BadRequest(f"`proposals` must be 1 to {MAX_DECIDED} numbers of proposals")
        state = ACCEPTED if asked.decision == "accept" else REJECTED
        async with self._connect() as connection:
            found = await decide(
                connection, [int(one) for one in asked.proposals], state, viewer.user, again=asked.again
            )
        return TagProposalList(items=tuple(map(_proposal_of, found)), next="")

    # -- recommendations -------------------------------------------------------------------------------------

    async def list_recommendations(self, viewer: Viewer, asked: RecommendationQuestion) -> RecommendationList:
        limit = max(1, asked.limit)
        after = decode_cursor(asked.after, str, int) if asked.after else ("", 0)
        found = await self._recommendations.list_page(
            asked.state, asked.kind, (str(after[0]), int(after[1])), limit + 1
        )
        items = tuple(map(build_recommendation, found[:limit]))
        return RecommendationList(
            items=items, next=encode_cursor(items[-1].kind, items[-1].id) if len(found) > limit else ""
        )

    async def show_recommendation(self, viewer: Viewer, asked: RecommendationKey) -> ShownRecommendation:
        return await self._recommendations.show(asked.recommendation, asked.pack)

    async def apply_recommendation(self, viewer: Viewer, asked: RecommendationKey) -> DecidedRecommendation:
        await self._recommendations.apply(asked.recommendation, asked.pack, viewer.user)
        return DecidedRecommendation(recommendation=asked.recommendation, state="applied")

    async def reject_recommendation(self, viewer: Viewer, asked: RecommendationKey) -> DecidedRecommendation:
        await self._recommendations.reject(asked.recommendation, viewer.user)
        return DecidedRecommendation(recommendation=asked.recommendation, state="rejected")


def build_recommendation(found: Mapping[str, Any]) -> Recommendation:
    """Return a recommendation as it is stored."""
    return Recommendation(
        id=found["id"],
        kind=found["kind"],
        title=found["title"],
        state=found["state"],
        edits=tuple(map(_json, found["edits"])),
        cases=tuple(map(_json, found["cases"])),
        evidence=tuple(
            f"{key.replace('_', ' ')}: {value if isinstance(value, str | int | float) else _json(value)}"
            for key, value in found["evidence"].items()
        ),
        proposed_at=found["proposed_at"],
        looked_at=found["looked_at"],
        decided_by=found["decided_by"],
    )


def _proposal_of(found: Proposal) -> TagProposal:
    return TagProposal(
        id=found.id,
        column=found.target.name,
        tag=found.target.tag,
        attributes=tuple(_json(one) for one in found.attributes if one),
        state=found.state,
        asks=found.asks,
        origin_gone=found.origin_gone,
        origins=tuple(
            ProposalOrigin(
                column=str(one.get("column", "")),
                identical=bool(one.get("identical")),
                way=tuple(
                    ProposalStep(
                        column=str(step.get("column", "")),
                        flow=str(step.get("flow", "")),
                        statement=str(step.get("statement", "")),
                    )
                    for step in one.get("way") or ()
                ),
            )
            for one in found.origins
        ),
        evidence=tuple(map(_json, found.evidence)),
        proposed_at=found.proposed_at,
        decided_at=found.decided_at,
        decided_by=found.decided_by,
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def part(pages: ProposalPages) -> ConsolePart:
    """Return the routes, pages and forms of it."""

    listed = ConsoleRoute.get(
        "/tag-proposals",
        pages.list_proposals,
        "Tags that columns would get from what flows into them.",
    )
    shown = ConsoleRoute.get(
        "/tag-proposals/{proposal}",
        pages.show_proposal,
        "One proposal of a tag with its origins, step by step, and what was decided.",
        examples={"proposal": "1"},
    )
    decided = ConsoleRoute.post(
        "/tag-proposals",
        pages.decide_proposals,
        "Accept or reject proposals of tags, all or none.",
        examples={"proposals": "1", "decision": "accept"},
    )
    recommended = ConsoleRoute.get(
        "/recommendations",
        pages.list_recommendations,
        "Changes of packs that the use of policies speaks for.",
    )
    recommendation = ConsoleRoute.get(
        "/recommendations/{recommendation}",
        pages.show_recommendation,
        "One recommendation with its evidence and the difference it makes to a pack.",
        examples={"recommendation": "1"},
    )
    applied = ConsoleRoute.post(
        "/recommendations/{recommendation}/apply",
        pages.apply_recommendation,
        "Write a recommendation to its pack, where this gateway may write that.",
        examples={"recommendation": "1"},
    )
    rejected = ConsoleRoute.post(
        "/recommendations/{recommendation}/reject",
        pages.reject_recommendation,
        "Reject a recommendation; it comes again only when it is another.",
        examples={"recommendation": "1"},
    )
    return ConsolePart(
        routes=(
            listed,
            shown,
            decided,
            recommended,
            recommendation,
            applied,
            rejected,
        ),
        pages=(
            ConsolePage(
                route=listed,
                path="/tag-proposals",
                template="tag_proposals.html",
                title="Tags and proposals",
                menu="Proposals",
                place=7,
            ),
            ConsolePage(
                route=shown,
                path="/tag-proposals/{proposal}",
                template="tag_proposal.html",
                title="Proposal of a tag",
            ),
            ConsolePage(
                route=recommended,
                path="/recommendations",
                template="recommendations.html",
                title="Recommendations",
            ),
            ConsolePage(
                route=recommendation,
                path="/recommendations/{recommendation}",
                template="recommendation.html",
                title="Recommendation",
            ),
        ),
        forms=(
            ConsoleForm(route=decided, path="/tag-proposals", then=lambda *_: "/tag-proposals"),
            ConsoleForm(
                route=applied,
                path="/recommendations/{recommendation}/apply",
                then=lambda *_: "/recommendations",
            ),
            ConsoleForm(
                route=rejected,
                path="/recommendations/{recommendation}/reject",
                then=lambda *_: "/recommendations",
            ),
        ),
    )
