"""Runs attacks, looks for canaries in what comes back, and compares it with the answer over the copy."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import text_format

from gateway.wire import calls
from tests.attacks import canaries, world
from tests.attacks.clients import ConnectSession, Endpoint, Outcome, ThriftSession, is_query, proto
from tests.attacks.corpus import Attack, fill, values, written_in
from tests.attacks.tallies import ConnectionLimiter, Finding, Tally
from tests.e2e.connect.attacker import RawClient
from tests.e2e.running import RunningGateway, Spark

Trial = tuple[Attack, world.Shape, ConnectionLimiter]
ENDPOINTS: tuple[ConnectionLimiter, ...] = ("thrift", "connect")
BEGINNING = (f"USE {world.LIVE}", "SET spark.sql.codegen.wholeStage=false")
"""How every session begins: a few rows are not worth generated code."""
LASTING = 200
"""Statements after which a session is renewed: neither Spark nor the gateway need hold more of them."""


class Doors:
    """Sessions of the attacker's, of the owner's and of a direct connection, at both endpoints."""

    def __init__(self, gateway: RunningGateway, spark: Spark) -> None:
        self.gateway = gateway
        self.spark = spark
        self.warehouse = str(spark.directory / "warehouse")
        self._sessions: dict[tuple[ConnectionLimiter, str], tuple[Endpoint, int]] = {}
        self._own = itertools.count()

    def own(self) -> str:
        """Return a table name that is free."""
        return f"o{next(self._own)}"

    def session(self, endpoint: ConnectionLimiter, who: str) -> Endpoint:
        """Return somebody's session: `direct` is at Spark itself, others come through the gateway."""
        known = self._sessions.get((endpoint, who))
        if known is None or known[1] >= LASTING:
            self.renew(endpoint, who)
            known = (self._open(endpoint, who), 0)
        self._sessions[endpoint, who] = (known[0], known[1] + 1)
        return known[0]

    def renew(self, endpoint: ConnectionLimiter, who: str) -> None:
        """End a session; the next one asked for is a new one."""
        if known := self._sessions.pop((endpoint, who), None):
            with contextlib.suppress(Exception):
                known[0].close()

    def close(self) -> None:
        for endpoint, who in list(self._sessions):
            self.renew(endpoint, who)

    def _open(self, endpoint: ConnectionLimiter, who: str) -> Endpoint:
        direct = who.startswith("direct")
        host, thrift_port = (
            (self.spark.host, self.spark.port) if direct else (self.gateway.host, self.gateway.port)
        )
        session: Endpoint
        if endpoint == "thrift":
            session = ThriftSession(host, thrift_port, who, world.PASSWORD)
        elif direct:
            session = ConnectSession(RawClient(self.spark.connect_port, self.spark.connect_token), who)
        else:
            token = f"{who}:{world.PASSWORD}"
            session = ConnectSession(RawClient(self.gateway.connect_port, token))
        for statement in BEGINNING:
            outcome = session.run(world.over_the_copy(statement) if direct else statement)
            assert outcome.kind == "answered", outcome
        session.take()
        return session


@contextlib.contextmanager
def doors(gateway: RunningGateway, spark: Spark) -> Iterator[Doors]:
    opened = Doors(gateway, spark)
    try:
        yield opened
    finally:
        opened.close()


def try_attack(doors: Doors, attack: Attack, shape: world.Shape, endpoint: ConnectionLimiter) -> Tally:
    """Run one attack against one shape through one endpoint, and judge what came of it."""
    if attack.form == "plan":
        text = fill(attack.template, values(shape, doors.own(), doors.warehouse))
        plan = text_format.Parse(text, proto.Plan())
        return try_plan(doors, plan.SerializeToString(), marks=attack.marks, way=attack.number)
    if attack.form == "call":
        return try_call(doors, attack.template)
    script = attack.script(shape, doors.own(), doors.warehouse)
    return try_script(doors, script, endpoint, marks=attack.marks)


def try_script(
    doors: Doors, script: Sequence[str], endpoint: ConnectionLimiter, *, marks: frozenset[str] = frozenset()
) -> Tally:
    """Run the statements of one session through the gateway; where they were answered, over the copy."""
    tally = Tally()

    def say(what: str, detail: str) -> None:
        tally.findings.append(Finding(what, tuple(script), endpoint, detail))

    written = written_in("\n".join(text for who, text in map(speaker, script) if who == world.ATTACKER))
    outcomes: list[Outcome] = []
    for statement in script:
        who, text = speaker(statement)
        session = doors.session(endpoint, who)
        try:
            outcome = session.run(text)
        except (OSError, TimeoutError) as error:
            doors.renew(endpoint, who)
            outcome = Outcome("failed", message=repr(error))
            say("the connection was lost", repr(error))
        seen = session.take()
        outcomes.append(outcome)
        # What the owner sees is hers.
        if who == world.ATTACKER and (leak := canaries.found(seen, [outcome.shown], written=written)):
            say("a canary", leak)
    tally.kinds[outcomes[-1].kind] += 1
    if "refused" in marks and outcomes[-1].kind not in ("refused", "unparsed"):
        say("not refused", outcomes[-1].shown)
    if "ill" not in marks and outcomes[-1].kind == "unparsed":
        say("not SQL", outcomes[-1].message)
    if "loose" not in marks and not tally.findings:
        tally.findings += [
            Finding(what, tuple(script), endpoint, detail)
            for what, detail in _compared(doors, script, outcomes, endpoint)
        ]
    if len(script) > 1 or not is_query(script[0]):
        # What it did to its session is of no use to others.
        for who in {speaker(statement)[0] for statement in script} | {"direct", "direct-owner"}:
            doors.renew(endpoint, who)
    return tally


def try_plan(doors: Doors, data: bytes, *, marks: frozenset[str] = frozenset(), way: int = 0) -> Tally:
    """Run a plan through the gateway, and over the copy where it was answered; `way` picks an analysis."""
    tally = Tally()
    plan = proto.Plan.FromString(data)
    text = text_format.MessageToString(plan, as_one_line=True)

    def say(what: str, detail: str) -> None:
        tally.findings.append(Finding(what, (text,), "connect", detail))

    session = doors.session("connect", world.ATTACKER)
    assert isinstance(session, ConnectSession)
    ours = session.execute(plan)
    shown = [ours.shown, *session.notes]
    if plan.HasField("root"):
        shown.append(session.analyze(_analysis(plan, way)).shown)
    tally.kinds[ours.kind] += 1
    if leak := canaries.found(session.take(), shown, written=written_in(text)):
        say("a canary", leak)
    elif "refused" in marks and ours.kind != "refused":
        say("not refused", ours.shown)
    elif "loose" not in marks and ours.kind in ("answered", "failed"):
        direct = doors.session("connect", "direct")
        assert isinstance(direct, ConnectSession)
        theirs = direct.execute(proto.Plan.FromString(world.bytes_over_the_copy(data)))
        direct.take()
        if different := difference("SELECT", ours, theirs):
            say(*different)
    if plan.HasField("command"):
        doors.renew("connect", world.ATTACKER)
    return tally


_ANALYSES = ("schema", "tree_string", "explain", "input_files", "is_local", "semantic_hash", "same_semantics")


def _analysis(plan: Any, way: int) -> Any:
    """A request that analyses the plan in one of the ways that there are."""
    request = proto.AnalyzePlanRequest()
    kind = _ANALYSES[way % len(_ANALYSES)]
    if kind == "same_semantics":
        request.same_semantics.target_plan.CopyFrom(plan)
        request.same_semantics.other_plan.CopyFrom(plan)
        return request
    getattr(request, kind).plan.CopyFrom(plan)
    if kind == "explain":
        request.explain.explain_mode = 1 + way % 5
    return request


def try_call(doors: Doors, written: str) -> Tally:
    """Make a metadata call: it tells of nothing that is denied."""
    tally = Tally()
    fields = json.loads(written)
    method = fields.pop("call")
    session = doors.session("thrift", world.ATTACKER)
    assert isinstance(session, ThriftSession)
    request = calls.METHODS[method][0](sessionHandle=session.handle, **fields)
    outcome = session.call(method, request)
    tally.kinds[outcome.kind] += 1
    leak = canaries.found(session.take(), [outcome.shown])
    if leak is None and re.search(r"\bdenied\b", outcome.shown):
        leak = outcome.shown
    if leak:
        tally.findings.append(Finding("a canary", (written,), "thrift", leak))
    return tally


def speaker(statement: str) -> tuple[str, str]:
    """Return who runs a statement, and its text."""
    if statement.startswith(f"@{world.OWNER} "):
        return world.OWNER, statement.removeprefix(f"@{world.OWNER} ")
    return world.ATTACKER, statement


def _compared(
    doors: Doors, script: Sequence[str], outcomes: Sequence[Outcome], endpoint: ConnectionLimiter
) -> Iterator[tuple[str, str]]:
    """Yield where answers differ from those over the copy, up to the first statement that Sluice refused."""
    for statement, ours in zip(script, outcomes, strict=True):
        if ours.kind in ("refused", "unparsed"):
            return
        who, text = speaker(statement)
        direct = doors.session(endpoint, "direct" if who == world.ATTACKER else "direct-owner")
        theirs = direct.run(world.over_the_copy(text))
        direct.take()
        if who == world.OWNER:
            if theirs.kind != ours.kind:
                return
            continue  # the copy has nothing of what only she may read
        if different := difference(text, ours, theirs):
            yield different
            return


def difference(statement: str, ours: Outcome, theirs: Outcome) -> tuple[str, str] | None:
    """Return how an answer through the gateway differs from the one over the copy."""
    ours_shown = f"gateway: {ours.kind} {ours.condition} {ours.shown[:500]}"
    pair = f"{ours_shown}\n    direct: {theirs.kind} {theirs.condition} {theirs.shown[:500]}"
    explained = statement.lstrip().upper().startswith("EXPLAIN") and ours.condition
    if explained and ours.kind == "failed" and ours.condition in theirs.shown:
        return None  # Spark puts errors of analysis into what it explains; the gateway meets them before
    if ours.kind != theirs.kind:
        return "another outcome than over governed data", pair
    if ours.kind == "failed":
        # Neither has read a row: which of several errors of analysis comes first tells nothing of them.
        if all("SQLSTATE: 42" in outcome.message for outcome in (ours, theirs)):
            return None
        # Under obligations the class of some errors is withheld.
        if ours.condition not in ("", theirs.condition):
            return "another error than over governed data", pair
        return None
    if not is_query(statement):
        return None
    if ours.columns != theirs.columns:
        return "other columns than over governed data", pair
    # Without ORDER BY there is no order; those who ask for one get it from the same rows.
    if sorted(world.over_the_copy(row) for row in ours.rows) != sorted(theirs.rows):
        return "another answer than over governed data", pair
    return None


def share(attacks: Sequence[Attack], total: int) -> Iterator[Trial]:
    """Yield of each attack `total` runs: shapes and endpoints go round by what the attack says."""
    for attack in attacks:
        places = list(_places(attack))
        first = zlib.crc32(attack.template.encode())
        # Steps that have nothing in common with the number of places visit all of them before any twice.
        for i in range(min(total, len(places))):
            yield attack, *places[(first + i * 5) % len(places)]


def by_day(attacks: Sequence[Attack]) -> Iterator[Trial]:
    """Yield one attack of three, in one place each: what continuous integration has the time for."""
    return share([attack for attack in attacks if attack.number % 3 == 0], 1)


def whole_matrix(attacks: Sequence[Attack]) -> Iterator[Trial]:
    for attack in attacks:
        yield from ((attack, shape, endpoint) for shape, endpoint in _places(attack))


def _places(attack: Attack) -> Iterator[tuple[world.Shape, ConnectionLimiter]]:
    """Yield where an attack can be run."""
    endpoints: tuple[ConnectionLimiter, ...] = ENDPOINTS
    if attack.form != "sql":
        endpoints = ("connect",) if attack.form == "plan" else ("thrift",)
    shapes = world.SHAPES[:1] if attack.shapeless else world.SHAPES
    yield from ((shape, endpoint) for shape in shapes for endpoint in endpoints)


def run(doors: Doors, trials: Iterable[Trial]) -> dict[str, Tally]:
    """Run trials; return how each class went."""
    tallies: dict[str, Tally] = {}
    for attack, shape, endpoint in trials:
        tried = try_attack(doors, attack, shape, endpoint)
        tried.shapes[shape.name] = Counter(tried.kinds)
        tallies.setdefault(attack.of, Tally()).add(tried)
    return tallies
