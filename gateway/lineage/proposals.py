"""Tags that columns would get from what flows into them: proposed, accepted or rejected, in PostgreSQL.

A look walks the graph from the tagged columns and brings the list up to date; any gateway may repeat it.
Only administrators decide, one after the other: whoever writes holds the one row of `tag_state`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from gateway.database.telling import tell_policies_changed
from gateway.database.texts import storable
from gateway.errors import Faults
from gateway.lineage.evidence import absorb_drift
from gateway.lineage.propagation import PropagationNode, Spread, find_ids, nodes, sources, spread_tags
from gateway.model.lineage import Dataset, DatasetKind
from gateway.model.tags import Propagation, PropagationRules, Tag

STATES = PROPOSED, ACCEPTED, REJECTED = "proposed", "accepted", "rejected"
BY_SETTING = "(auto-accept)"
"""Recorded as the acceptor of tags that the setting accepts."""
BY_ORIGIN = "(new origin)"
"""Recorded as the proposer of tags that were rejected for other origins."""
MAX_ORIGINS = 20
MAX_NAME_BYTES = 2_000
"""Maximum size of all names of a target together; PostgreSQL's indexes take no more than some 2,700."""
MAX_STEPS = 50
"""Maximum number of steps stored of a path; of a longer one, the last steps."""
_TOO_LONG = f"names of more than {MAX_NAME_BYTES:,} bytes are skipped"
_LOOKING = 0x746167  # key of the advisory lock: one gateway looks at a time
_LOOK_AGAIN = "1 hour"
"""After which it is looked again whatever is the same: tags have periods in which they hold."""

_TagsOf = Callable[[Sequence[PropagationNode]], Awaitable[Sequence[Sequence[Tag]]]]
"""The tags that policies give columns now, in their order."""


class Target(NamedTuple):
    """A column that is proposed a tag; `column` is `*` for all of the table."""

    catalog: str
    database: str
    table: str
    column: str
    tag: str

    @property
    def name(self) -> str:
        return ".".join(self[:4])


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A tag that a column would have, or has, for what flows into it."""

    id: int
    target: Target
    attributes: tuple[Mapping[str, str], ...]
    """The tag's, each set of them once; those that are in force, of one that was accepted."""
    state: str
    asks: bool
    """Whether somebody has to look, whatever the settings accept by themselves."""
    origins: tuple[Mapping[str, Any], ...]
    """`column`, `attributes`, `identical` and `way` (`column`, `flow`, `statement` of each step) of each."""
    evidence: tuple[Mapping[str, Any], ...]  # what a classification found
    proposed_at: datetime
    decided_at: datetime | None
    decided_by: str

    @property
    def origin_gone(self) -> bool:
        return not self.origins and not self.evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """How a look went."""

    columns: int
    """Tagged columns whose values flow on."""
    flows: int
    proposed: int
    accepted: int
    gone: int
    """Proposals that have no origin any more."""
    cut_off: str
    """Why there may be more; empty when this is all."""


@dataclass(slots=True)
class _Wanted:
    """Tags that the graph gives a target now."""

    attributes: list[Mapping[str, str]] = field(default_factory=list)
    asks: bool = True
    origins: list[dict[str, Any]] = field(default_factory=list)
    tagged: bool = False
    """Whether policies give it the tag anyway."""

    @property
    def keys(self) -> list[str]:
        return sorted(
            f"{origin['column']} {'identical' if origin['identical'] else 'derived'}"
            for origin in self.origins
        )


async def look(
    connection: Any,
    rules: PropagationRules,
    tags_of: _TagsOf,
    *,
    basis: str,
    tags_within: _TagsOf | None = None,
    auto_accept: bool = False,
    most_flows: int | None = None,
) -> Looked | None:
    """Bring the proposals up to date with the graph; None when nothing is new or another gateway looks.

    `tags_within`: of a whole table (`*`) also the tags of what is in it, for flows of which only tables are
    known; as `tags_of` by default. `basis` is another text for other tags of policies. Raises what asyncpg
    raises, and changes nothing then.
    """
    basis = f"{basis} {rules.digest} {auto_accept}"
    if not await _is_due(connection, basis, rules):
        return None
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOOKING):
        return None
    try:
        # Again, now that nobody else is at it.
        if not await _is_due(connection, basis, rules):
            return None
        look_ = _Look(connection, rules, tags_of, tags_within or tags_of)
        if most_flows is not None:
            look_.most_flows = most_flows
        return await look_.run(basis, auto_accept=auto_accept)
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOOKING)


async def _is_due(connection: Any, basis: str, rules: PropagationRules) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT s.basis <> $1 OR s.decided <> s.decisions"
            f" OR s.looked_at < now() - interval '{_LOOK_AGAIN}'"
            # A database that was restored elsewhere counts its transactions anew.
            " OR s.edges > pg_snapshot_xmin(pg_current_snapshot())"
            " OR EXISTS (SELECT FROM sluice.lineage_edge e"
            "   JOIN sluice.lineage_column c ON c.id = e.target"
            "   JOIN sluice.lineage_dataset d ON d.id = c.dataset"
            "   WHERE e.changed_in >= s.edges AND NOT e.masking"
            "   AND e.subtype = ANY($2::text[]) AND d.kind <> 'result')"
            " FROM sluice.tag_state s",
            basis,
            sorted(rules.carrying),
        )
    )


class _Look:
    """One look at the graph."""

    def __init__(
        self, connection: Any, rules: PropagationRules, tags_of: _TagsOf, tags_within: _TagsOf
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._tags_of = tags_of
        self._tags_within = tags_within
        self.most_flows = 2_000_000
        self._columns: dict[int, PropagationNode] = {}
        self._tags: dict[int, dict[str, list[Mapping[str, str]]]] = {}
        """Column → tag → attributes, of the columns that things come from."""

    async def run(self, basis: str, *, auto_accept: bool) -> Looked:
        connection = self._connection
        # Before the graph is read: what is brought meanwhile is looked at the next time.
        edges, decided = await connection.fetchrow(
            "SELECT pg_snapshot_xmin(pg_current_snapshot()), decisions FROM sluice.tag_state"
        )
        before = await _all(connection)
        stops = await self._ids(p.target for p in before.values() if p.state == REJECTED)
        async for page in sources(connection, self._rules.carrying):
            for node, found in zip(page, await self._tags_within(page), strict=True):
                for one in found:
                    if not one.propagated:
                        self._tag(node.id, one.type, [one.attributes])
        roots = {column: frozenset(tags) for column, tags in self._tags.items()}
        first = await self._spread(roots, stops)
        # What was accepted is a tag like any other, also when its own origin is gone.
        accepted = {p.target: p for p in before.values() if p.state == ACCEPTED}
        ids = await self._ids(accepted)
        alone: dict[int, set[str]] = {}
        for (column, tag), target in ids.items():
            if tag not in first.arrivals.get(column, {}):
                self._tag(column, tag, accepted[target].attributes)
                alone.setdefault(column, set()).add(tag)
        second = await self._spread(alone, stops)
        wanted = await self._list_wanted(first, second, frozenset(accepted))
        cut_off = first.cut_off or second.cut_off
        too_long = [one for one in wanted if sum(len(name.encode()) for name in one) > MAX_NAME_BYTES]
        for target in too_long:
            # Nobody else's proposals wait for it.
            del wanted[target]
        told = await self._write(
            before, wanted, basis, edges, decided, auto_accept=auto_accept, whole=not cut_off
        )
        return Looked(
            columns=len(roots),
            flows=first.flows + second.flows,
            cut_off=cut_off or (_TOO_LONG if too_long else ""),
            **told,
        )

    async def _spread(
        self, starts: Mapping[int, Collection[str]], stops: Collection[tuple[int, str]]
    ) -> Spread:
        return await spread_tags(
            self._connection, starts, self._rules, stops=stops, most_flows=self.most_flows
        )

    def _tag(self, column: int, tag: str, attributes: Iterable[Mapping[str, str]]) -> None:
        known = self._tags.setdefault(column, {}).setdefault(tag, [])
        known += [dict(one) for one in attributes if one not in known]

    async def _ids(self, targets: Iterable[Target]) -> dict[tuple[int, str], Target]:
        """Return the columns of targets, with the tag, as far as the graph has them."""
        wanted = list(targets)
        known = await find_ids(self._connection, [_graph_name(target) for target in wanted])
        return {
            (known[_graph_name(target)], target.tag): target
            for target in wanted
            if _graph_name(target) in known
        }

    async def _list_wanted(
        self, first: Spread, second: Spread, accepted: Collection[Target]
    ) -> dict[Target, _Wanted]:
        passed = {
            column
            for one in (first, second)
            for tags in one.arrivals.values()
            for arrived in tags.values()
            for column in (arrival.before for arrival in arrived.values())
        }
        self._columns = await nodes(
            self._connection,
            sorted(first.arrivals.keys() | second.arrivals.keys() | passed | self._tags.keys()),
        )
        reached = [
            self._columns[column]
            for column in first.arrivals.keys() | second.arrivals.keys()
            if self._columns[column].is_in_table
        ]
        own = {}
        for node, tags in zip(reached, await self._tags_of(reached), strict=True):
            own[node.id] = {tag.type for tag in tags if not tag.propagated}
        wanted: dict[Target, _Wanted] = {}
        for one in (first, second):
            for node in reached:
                for tag, arrived in one.arrivals.get(node.id, {}).items():
                    target = Target(*node.parts, node.name, tag)  # type: ignore[call-arg]
                    if one is second and target in accepted:
                        continue
                    there = wanted.setdefault(target, _Wanted(tagged=tag in own[node.id]))
                    self._take(there, one, node.id, tag, [s for s in arrived if s != node.id])
        return {target: one for target, one in wanted.items() if one.origins}

    def _take(self, wanted: _Wanted, found: Spread, column: int, tag: str, arrived: Iterable[int]) -> None:
        for source in sorted(arrived, key=lambda one: self._columns[one].column):
            arrival = found.arrivals[column][tag][source]
            attributes = self._tags[source][tag]
            wanted.attributes += [one for one in attributes if one not in wanted.attributes]
            wanted.asks = wanted.asks and arrival.how is Propagation.ASK
            if len(wanted.origins) < MAX_ORIGINS:
                wanted.origins.append(
                    {
                        "column": str(self._columns[source].column),
                        "attributes": attributes,
                        "identical": arrival.identical,
                        "way": [
                            {
                                "column": str(self._columns[flow.target].column),
                                "flow": flow.kind,
                                "statement": str(flow.statement),
                            }
                            for flow in found.trace(column, tag, source)[-MAX_STEPS:]
                        ],
                    }
                )

    async def _write(
        self,
        before: Mapping[Target, Proposal],
        wanted: Mapping[Target, _Wanted],
        basis: str,
        edges: Any,
        decided: int,
        *,
        auto_accept: bool,
        whole: bool,
    ) -> dict[str, int]:
        connection = self._connection
        told = {"proposed": 0, "accepted": 0, "gone": 0}
        async with _changing(connection) as state:
            if state["decisions"] != decided:
                # What is rejected may be another list: the next look has it.
                return told
            new, changed, moot, gone = [], [], [], []
            for target, one in wanted.items():
                known = before.get(target)
                if known is None:
                    if not one.tagged:
                        new.append((target, one))
                elif one.tagged and known.state == PROPOSED:
                    moot.append(known.id)
                else:
                    changed.append((known, one))
            if whole:
                gone = [p.id for t, p in before.items() if t not in wanted and p.origins]
            accepts = [one for one in new if auto_accept and not one[1].asks]
            await _insert(connection, new, {id(one) for _, one in accepts})
            by_setting, reopened = await _update(connection, changed, auto_accept=auto_accept)
            await connection.execute(
                "UPDATE sluice.tag_proposal SET origins = '[]' WHERE id = ANY($1::bigint[])", gone
            )
            await connection.execute("DELETE FROM sluice.tag_proposal WHERE id = ANY($1::bigint[])", moot)
            told["accepted"] = len(accepts) + by_setting
            told["proposed"] = len(new) - len(accepts)
            told["gone"] = len(gone)
            await connection.execute(
                "UPDATE sluice.tag_state SET basis = $1, edges = $2, decided = decisions, looked_at = now(),"
                # What was rejected no longer passes nothing on: that is for the next look.
                " decisions = decisions + $3, accepted = accepted + $4",
                basis,
                edges,
                1 if reopened else 0,
                1 if told["accepted"] else 0,
            )
        return told


@asynccontextmanager
async def _changing(connection: Any) -> AsyncIterator[Any]:
    """Lock the proposals for a transaction that changes them; yields the row of their state."""
    async with connection.transaction():
        yield await connection.fetchrow("SELECT * FROM sluice.tag_state FOR UPDATE")


async def _insert(connection: Any, new: Sequence[tuple[Target, _Wanted]], accepted: Collection[int]) -> None:
    await connection.execute(
        "WITH new AS (INSERT INTO sluice.tag_proposal (catalog, database, table_name, column_name, tag,"
        " attributes, asks, origins, state, decided_at, decided_by)"
        " SELECT c, d, t, n, g, a, k, o, s, CASE s WHEN 'accepted' THEN now() END,"
        " CASE s WHEN 'accepted' THEN $10 ELSE '' END"
        " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[],"
        "  $7::boolean[], $8::jsonb[], $9::text[]) AS u (c, d, t, n, g, a, k, o, s) RETURNING id, state)"
        " INSERT INTO sluice.tag_decision (proposal, user_name, state)"
        " SELECT id, $10, state FROM new WHERE state = 'accepted'",
        *([target[i] for target, _ in new] for i in range(5)),
        [_json(one.attributes) for _, one in new],
        [one.asks for _, one in new],
        [_json(one.origins) for _, one in new],
        [ACCEPTED if id(one) in accepted else PROPOSED for _, one in new],
        BY_SETTING,
    )


async def _update(
    connection: Any, changed: Sequence[tuple[Proposal, _Wanted]], *, auto_accept: bool
) -> tuple[int, int]:
    """Bring known proposals up to date; return how many were accepted by the setting, and how many are
    proposed again."""
    rows = []
    by_setting = reopened = 0
    judged = await _lock_proposals(connection, [known.id for known, _ in changed if known.state == REJECTED])
    for known, one in changed:
        state, asks, attributes = known.state, one.asks, one.attributes
        if known.state == REJECTED and not judged[known.id].issuperset(one.keys):
            # It was not rejected for what comes from there.
            state, asks = PROPOSED, True
            reopened += 1
        elif known.state == PROPOSED:
            asks = asks or (known.asks and bool(known.decided_by))
            if auto_accept and not asks:
                state = ACCEPTED
                by_setting += 1
        elif known.state == ACCEPTED:
            attributes = list(known.attributes)
        now = (state, asks, _json(attributes), _json(one.origins))
        if now != (known.state, known.asks, _json(known.attributes), _json(known.origins)):
            by = "" if state == known.state else BY_SETTING if state == ACCEPTED else BY_ORIGIN
            rows.append((known.id, *now, by))
    await connection.execute(
        "WITH changed AS (UPDATE sluice.tag_proposal p SET state = u.state, asks = u.asks,"
        " attributes = u.attributes, origins = u.origins,"
        " decided_at = CASE u.by WHEN '' THEN p.decided_at ELSE now() END,"
        " decided_by = CASE u.by WHEN '' THEN p.decided_by ELSE u.by END"
        " FROM unnest($1::bigint[], $2::text[], $3::boolean[], $4::jsonb[], $5::jsonb[], $6::text[])"
        " AS u (id, state, asks, attributes, origins, by) WHERE p.id = u.id"
        " RETURNING p.id, p.state, u.by)"
        " INSERT INTO sluice.tag_decision (proposal, user_name, state)"
        " SELECT id, by, state FROM changed WHERE by <> ''",
        *([row[i] for row in rows] for i in range(6)),
    )
    return by_setting, reopened


async def _lock_proposals(connection: Any, ids: Sequence[int]) -> dict[int, frozenset[str]]:
    rows = await connection.fetch(
        "SELECT id, judged FROM sluice.tag_proposal WHERE id = ANY($1::bigint[])", ids
    )
    return {row["id"]: frozenset(row["judged"]) for row in rows}


# -- lists and decisions -------------------------------------------------------------------------------------


async def _all(connection: Any) -> dict[Target, Proposal]:
    rows = await connection.fetch("SELECT * FROM sluice.tag_proposal")
    return {proposal.target: proposal for proposal in map(_as_proposal, rows)}


async def proposals(
    connection: Any,
    *,
    ids: Sequence[int] | None = None,
    states: Collection[str] = STATES,
    tag: str | None = None,
    name: str = "",
    gone: bool = False,
    after: int = 0,
    limit: int = 1000,
) -> list[Proposal]:
    """Return proposals in the order in which they came, from behind the number `after` on.

    `name` is a column or table, dotted and from its end; `gone`: only those whose origin is gone."""
    rows = await connection.fetch(
        "SELECT * FROM sluice.tag_proposal WHERE state = ANY($1::text[]) AND ($2::text IS NULL OR tag = $2)"
        " AND ($3 = '' OR right('.' || concat_ws('.', catalog, database, table_name), length($3)) = $3"
        "   OR right('.' || concat_ws('.', catalog, database, table_name, column_name), length($3)) = $3)"
        " AND (NOT $4 OR (origins = '[]' AND evidence = '[]')) AND ($5::bigint[] IS NULL OR id = ANY($5))"
        " AND id > $7 ORDER BY id LIMIT $6",
        list(states),
        tag,
        "." + name.lower().replace("`", "") if name else "",
        gone,
        ids,
        limit,
        after,
    )
    return [_as_proposal(row) for row in rows]


class Decided(NamedTuple):
    """A decision in the history of a proposal."""

    time: datetime
    user: str
    state: str


async def history(connection: Any, proposal: int) -> list[Decided]:
    """Return what was decided of a proposal, the first first."""
    rows = await connection.fetch(
        "SELECT time, user_name, state FROM sluice.tag_decision WHERE proposal = $1 ORDER BY time", proposal
    )
    return [Decided(*row) for row in rows]


async def decide(
    connection: Any, ids: Sequence[int], state: str, user: str, *, again: bool = False
) -> list[Proposal]:
    """Accept or reject proposals, all or none of them; return them as they are now.

    What was decided the other way is a fault without `again`, so that of two who decide at once the second
    learns of the first. Raises Faults for these and for ids that there are not.
    """
    if state not in (ACCEPTED, REJECTED):
        raise Faults([f"a proposal can be accepted or rejected, not {state}"])
    wanted = sorted(set(ids))
    async with _changing(connection):
        rows = await connection.fetch(
            "SELECT * FROM sluice.tag_proposal WHERE id = ANY($1::bigint[]) FOR UPDATE", wanted
        )
        there = {row["id"]: _as_proposal(row) for row in rows}
        faults = [f"proposal {missing} does not exist" for missing in wanted if missing not in there]
        faults += [
            f"proposal {known.id} (`{known.target.tag}` on `{known.target.name}`) was {known.state} by "
            f"{known.decided_by} at {known.decided_at:%Y-%m-%d %H:%M}; use `again` to change the decision"
            for known in there.values()
            if known.state not in (PROPOSED, state) and not again
        ]
        if faults:
            raise Faults(faults)
        new = [known for known in there.values() if known.state != state or state == ACCEPTED]
        await connection.execute(
            "WITH changed AS (UPDATE sluice.tag_proposal p SET state = $2, decided_at = now(),"
            " decided_by = $3, attributes = u.attributes, judged = u.judged"
            " FROM (SELECT id, attributes, string_to_array(judged, chr(31)) AS judged"
            "   FROM unnest($1::bigint[], $4::jsonb[], $5::text[]) AS n (id, attributes, judged)) AS u"
            " WHERE p.id = u.id RETURNING p.id)"
            " INSERT INTO sluice.tag_decision (proposal, user_name, state, time)"
            " SELECT id, $3, $2, clock_timestamp() FROM changed",
            [known.id for known in new],
            state,
            user,
            [_json(_attributes_now(known)) for known in new],
            [chr(31).join(_Wanted(origins=[dict(o) for o in known.origins]).keys) for known in new],
        )
        await absorb_drift(connection, wanted)
        accepted = any(known.state == ACCEPTED or state == ACCEPTED for known in new)
        counted = "UPDATE sluice.tag_state SET decisions = decisions + 1, accepted = accepted + $1"
        await connection.execute(counted, int(accepted))
        await tell_policies_changed(connection)
        return await proposals(connection, ids=wanted, limit=len(wanted))


def _attributes_now(proposal: Proposal) -> list[Mapping[str, str]]:
    """Return the attributes that the origins' tags have; those that it had when they are gone."""
    found: list[Mapping[str, str]] = []
    for origin in proposal.origins:
        found += [one for one in origin["attributes"] if one not in found]
    return found or list(proposal.attributes)


async def read_acceptance_number(connection: Any) -> int:
    """Return a number that goes up when what is accepted changes."""
    number: int = await connection.fetchval("SELECT accepted FROM sluice.tag_state")
    return number


async def load_accepted_tags(connection: Any) -> tuple[int, list[tuple[Target, str]]]:
    """Return what is accepted and the number of this state; attributes as a JSON list of objects."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        number = await read_acceptance_number(connection)
        rows = await connection.fetch(
            "SELECT catalog, database, table_name, column_name, tag, attributes FROM sluice.tag_proposal"
            " WHERE state = 'accepted' ORDER BY id"
        )
    return number, [(Target(*row[:5]), row[5]) for row in rows]


def _as_proposal(row: Any) -> Proposal:
    return Proposal(
        id=row["id"],
        target=Target(row["catalog"], row["database"], row["table_name"], row["column_name"], row["tag"]),
        attributes=tuple(json.loads(row["attributes"])),
        state=row["state"],
        asks=row["asks"],
        origins=tuple(json.loads(row["origins"])),
        evidence=tuple(json.loads(row["evidence"])),
        proposed_at=row["proposed_at"],
        decided_at=row["decided_at"],
        decided_by=row["decided_by"],
    )


def as_json(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as JSON can hold it."""
    return {
        "id": proposal.id,
        "column": proposal.target.name,
        "tag": proposal.target.tag,
        "attributes": list(proposal.attributes),
        "state": proposal.state,
        "asks": proposal.asks,
        "origin_gone": proposal.origin_gone,
        "origins": list(proposal.origins),
        "evidence": list(proposal.evidence),
        "proposed_at": proposal.proposed_at.isoformat(),
        "decided_at": None if proposal.decided_at is None else proposal.decided_at.isoformat(),
        "decided_by": proposal.decided_by,
    }


async def load_proposal(connection: Any, proposal: int) -> dict[str, Any] | None:
    """Return a proposal with its history, as JSON can hold it, or None."""
    found = await proposals(connection, ids=[proposal])
    if not found:
        return None
    decisions = await history(connection, proposal)
    return as_json(found[0]) | {
        "history": [{"time": one.time.isoformat(), "user": one.user, "state": one.state} for one in decisions]
    }


def _graph_name(target: Target) -> tuple[str, str]:
    return str(Dataset(DatasetKind.TABLE, target[:3])), target.column


def _json(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=dict, ensure_ascii=False)
    # PostgreSQL's jsonb has no NUL.
    return storable(text.replace("\\u0000", "\ufffd"))
