"""Runs a history: does each step, asks the model what must have come of it, and looks for secrets."""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.e2e.running import until
from tests.histories.clients import Answer, Connect, Session, Thrift, open_session
from tests.histories.comparing import Failure, among, without, wrong
from tests.histories.lab import INTERPRETED, MARGIN_S, Lab
from tests.histories.model import State
from tests.histories.refusals import by_design
from tests.histories.sent import COMPARED, MAKING, text_of
from tests.histories.steps import Step
from tests.histories.world import LATE, NEVER, PASSWORD, TABLES, VIEWS, Relation, secrets_in


@dataclass(slots=True)
class Counts:
    """What was done."""

    histories: int = 0
    steps: int = 0
    statements: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    """Kind of step → how many were answered as they must be."""
    refused: Counter[str] = field(default_factory=Counter)
    """Reason → how many were refused for it, by design."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was done: what came of it, and when it ran."""

    step: Step
    answer: Answer
    start: float
    end: float


SKIPPED = Answer(error="skipped")


class Run:
    """One history in a database of its own."""

    def __init__(self, lab: Lab, counts: Counts, say: Callable[[str], None] = lambda _: None) -> None:
        self._lab, self._counts, self._say = lab, counts, say
        self._state = State(lab.new_database())
        self._sessions: dict[str, Session] = {}
        self._opened: dict[tuple[str, str], tuple[list[Answer], set[str]]] = {}
        """Result that is half taken → what it may hold, and the secrets in it."""

    # -- a whole history -------------------------------------------------------------------------------------

    def run(self, history: Sequence[Step]) -> Failure | None:
        """Run the steps until one fails."""
        self._make(_named(history))
        try:
            self._lab.govern(self._state.database, self._state.slots)
            for number, step in enumerate(history, 1):
                failure = self._step(number, step)
                self._counts.steps += 1
                if failure is not None:
                    return failure
            self._counts.histories += 1
            return None
        finally:
            self._clear()

    def _make(self, needed: set[str]) -> None:
        """Make the tables and views that are named, and all that those read."""
        db = self._state.database
        views = {name: text for name, text in VIEWS.items() if name in needed}
        needed = needed | {name for name in TABLES for text in views.values() if f"{{{name}}}" in text}
        needed.add("blocked")
        self._lab.run(f"CREATE DATABASE {db}")
        for name, relation in TABLES.items():
            if name in needed:
                self._lab.run(f"CREATE TABLE {db}.{name} USING parquet AS {relation.query()}")
            elif name != "blocked":
                del self._state.tables[name]
        for name in VIEWS:
            if name in views:
                text = self._state.written("operator operator 0", views[name])
                self._lab.run(f"CREATE VIEW {db}.{name} AS {text}")
            else:
                del self._state.views[name]

    def _clear(self) -> None:
        for session in self._sessions.values():
            session.close()
        for user in self._state.groups:
            self._lab.group(user, State("").groups[user])
        self._lab.run("CLEAR CACHE", f"DROP DATABASE {self._state.database} CASCADE")

    # -- one step --------------------------------------------------------------------------------------------

    def _step(self, number: int, step: Step) -> Failure | None:
        if step.do == "pair":
            return self._pair(number, step)
        if step.by:
            self._session(step.by)
        done = self._do(step)
        self._say(f"{number:3} {step}\n      {done.answer}")
        found = self._judge(self._state, number, done)
        return found or self._settle(number, done)

    def _pair(self, number: int, step: Step) -> Failure | None:
        """Two steps at once: the answers must be those of one order or of the other."""
        for one in step.both:
            if one.by:
                self._session(one.by)
        barrier, done = threading.Barrier(2), dict[int, Done]()

        def work(place: int, one: Step) -> None:
            barrier.wait()
            done[place] = self._do(one)

        threads = [threading.Thread(target=work, args=given) for given in enumerate(step.both)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first, second = done[0], done[1]
        self._say(f"{number:3} {step}\n      {first.answer}\n      {second.answer}")
        failures = []
        for order in ((first, second), (second, first)):
            state = copy.deepcopy(self._state)
            found = None
            for act in order:
                found = found or self._judge(state, number, act)
                if not act.answer.error:
                    state.apply(act.step)
            if found is None:
                for act in order:
                    found = found or self._settle(number, act)
                return found
            failures.append(found)
        return failures[0]

    def _session(self, by: str) -> Session:
        if by not in self._sessions:
            session = self._sessions[by] = open_session(self._lab.gateway, by, PASSWORD)
            self._state.begin(by)
            session.run(INTERPRETED)
        return self._sessions[by]

    def _do(self, step: Step) -> Done:
        """Do a step; nothing is judged, so that two can be done at once."""
        start = time.time()
        try:
            answer = self._of_session(step) if step.by else self._of_operator(step)
        except AssertionError as error:  # of the operator's own: a finding like any other
            answer = Answer(error=f"broken: {error}")
        self._counts.statements += 1
        return Done(step, answer, start, time.time())

    def _of_session(self, step: Step) -> Answer:
        session, state = self._sessions[step.by], self._state
        if step.do == "end":
            session.close()
            del self._sessions[step.by]
            return Answer()
        if step.do in {"block", "data"}:
            table = "blocked" if step.do == "block" else step.name
            rows = [(n,) for n in step.numbers] if step.do == "block" else [state.row_for(table)]
            return session.run(f"INSERT INTO {state.database}.{table} {_rows(TABLES[table], rows)}")
        if step.do == "open":
            return session.open(step.name, state.written(step.by, step.text))
        if step.do == "fetch":
            return session.fetch(step.name) if (step.by, step.name) in self._opened else SKIPPED
        if step.do == "same":
            return self._alike(step)
        if step.do == "unwatched":
            return self._begun(session, step)
        if step.do in {"frame", "collect", "filtered", "stream", "memory", "clone"}:
            if not isinstance(session, Connect):
                return SKIPPED
            if step.do == "clone":
                self._sessions[step.to] = session.clone()
                return Answer()
            if step.do == "memory":
                return session.in_memory(f"{state.database}.{step.name}", step.to)
            if step.do == "stream":
                source, sink = f"{state.database}.{step.name}", f"{state.database}.{step.to}"
                spelled = f"{{db}}_{step.text}".replace("{db}", state.database)
                place = f"{self._lab.checkpoints.as_uri()}/{spelled}"
                return session.stream(source, sink, place, fails=bool(step.numbers))
            if step.do == "filtered":
                table = state.written(step.by, f"{{{step.name}}}")
                return session.filtered(table, step.text.replace("current_user()", "current_user"))
            if step.do == "frame":
                text = state.written(step.by, step.text)
                return session.keep(step.name, text, cache=step.to == "cache")
            return session.collect(step.name) if step.name in session.frames else SKIPPED
        return session.run(state.written(step.by, text_of(step)))

    def _begun(self, session: Session, step: Step) -> Answer:
        """Begin to replace a view, and return when Spark's catalog has it: nobody asks for the end."""
        if not isinstance(session, Thrift):
            return SKIPPED
        name, text = (self._state.written(step.by, part) for part in (f"{{{step.name}}}", step.text))
        before = self._view_text(step.name)
        answer = session.begin(f"CREATE OR REPLACE VIEW {name} AS {text}")
        if not answer.error:
            # Spark drops a view that it replaces: for a moment it has none of that name.
            until(lambda: self._view_text(step.name) not in (before, None), "the view is in the catalog")
        return answer

    def _view_text(self, name: str) -> str | None:
        rows = self._lab.operator.run(f"DESCRIBE EXTENDED {self._state.database}.{name}").rows
        return next((row[1] for row in rows if row[0] == "View Text"), None)

    def _alike(self, step: Step) -> Answer:
        """Ask for two columns; an answer without error says that they were told apart, or found."""
        texts = []
        for column in (step.name, step.to):
            text = self._state.written(step.by, step.text.replace("{c}", column))
            answer = self._sessions[step.by].run(text)
            texts.append(without(answer.error, column))
        if "" in texts or texts[0] != texts[1]:
            return Answer(("told apart",), ("string",), ((str(texts),),))
        return Answer(error=str(texts[0]))

    def _of_operator(self, step: Step) -> Answer:
        lab, state = self._lab, self._state
        db = state.database
        if step.do == "policy":
            lab.govern(db, {**state.slots, step.name: step.to})
        elif step.do == "groups":
            lab.group(step.name, frozenset(step.to.split(",")))
        elif step.do == "block":
            lab.run(f"INSERT INTO {db}.blocked {_rows(TABLES['blocked'], [(n,) for n in step.numbers])}")
        elif step.do == "unblock":
            left = [row for row in state.tables["blocked"][-1].rows if row[0] not in step.numbers]
            lab.run(
                f"REFRESH TABLE {db}.blocked",
                f"INSERT OVERWRITE {db}.blocked {Relation(TABLES['blocked'].columns, tuple(left)).query()}",
            )
        elif step.do == "data":
            lab.run(f"INSERT INTO {db}.{step.name} {_rows(TABLES[step.name], [state.row_for(step.name)])}")
        elif step.do == "expiring":
            end = time.time() + step.numbers[0]
            state.expiring(end)
            lab.run(f"INSERT INTO {db}.timed {_rows(TABLES['timed'], [state.tables['timed'][-1].rows[-1]])}")
        elif step.do == "wait":
            ends = [row[1] for row in state.tables["timed"][-1].rows if row[1] != NEVER]
            time.sleep(max(0.0, max(ends, default=0.0) + MARGIN_S - time.time()))
        elif step.do == "late":
            lab.run(f"CREATE TABLE {db}.{step.name} USING parquet AS {LATE.query()}")
        elif step.do == "restart":
            self._restart()
        elif step.do == "intact":
            return self._stored(step.name)
        else:
            raise AssertionError(step.do)
        return Answer()

    def _restart(self) -> None:
        """Start the gateway anew: Spark keeps the sessions of Connect, with all that is in them."""
        self._lab.restart()
        self._opened.clear()
        for by, session in list(self._sessions.items()):
            if isinstance(session, Connect):
                self._sessions[by] = session.come_back(self._lab.gateway.connect_port)
            else:
                session.close()
                del self._sessions[by]

    def _stored(self, name: str) -> Answer:
        lab, db = self._lab, self._state.database
        lab.operator.run(f"REFRESH TABLE {db}.{name}")
        return lab.operator.run(f"SELECT * FROM {db}.{name}").sorted()

    # -- what came of it -------------------------------------------------------------------------------------

    def _judge(self, state: State, number: int, done: Done) -> Failure | None:
        """Return what is wrong with an answer in a state, or None."""
        step, answer = done.step, done.answer
        if answer is SKIPPED:
            return None
        if step.by and step.do != "end":
            shown = secrets_in(answer.names) | secrets_in(answer.rows) | secrets_in(answer.error)
            own = secrets_in(step.text) | secrets_in(step.name) | secrets_in(step.to)
            held = self._opened.get((step.by, step.name), ([], set()))[1] if step.do == "fetch" else set()
            entitled = state.entitled(step.by, done.start) | own | held
            if foreign := shown - entitled:
                return Failure(number, step, f"{step.user} was shown {sorted(foreign)}", str(answer))
        if step.do in {"refused", "same"}:
            return None if answer.error else Failure(number, step, "this must be refused", str(answer))
        if step.do == "intact":
            expected = self._relation_answer(state.tables[step.name][-1])
            same = answer.rows == expected.rows
            return None if same else Failure(number, step, "it was changed", str(answer), (str(expected),))
        if step.do in COMPARED:
            return self._compared(state, number, done)
        if step.do == "stream" and step.numbers:
            return None if answer.error else Failure(number, step, "this stream was to fail")
        if step.do in MAKING and not answer.error:
            must = state.candidates(step.by, step.text, done.start, done.end)[0].must_refuse
            return Failure(number, step, f"this must be refused: {must}") if must else None
        if answer.error and not (step.do in MAKING and self._cannot_be_made(state, done)):
            return self._refused(number, step, answer)
        return None

    def _cannot_be_made(self, state: State, done: Done) -> bool:
        """Whether the query that a step keeps may not be asked, or fails over a governed copy as well."""
        verdict, texts = state.candidates(done.step.by, done.step.text, done.start, done.end)
        if verdict.must_refuse or verdict.may_refuse:
            return True
        return bool(self._lab.reference.answer(done.step.endpoint, next(texts)).error)

    def _refused(self, number: int, step: Step, answer: Answer) -> Failure | None:
        why = by_design(step.do, answer.error)
        if why is None and "SLUICE" not in answer.error and "NOT_FOUND" in answer.error:
            why = "its ground is missing"
        if why is None and "ALREADY_EXISTS" in answer.error:
            why = "its ground is missing"
        return None if why else Failure(number, step, "refused, and no rule says why", str(answer))

    def _compared(self, state: State, number: int, done: Done) -> Failure | None:
        step, answer = done.step, done.answer
        if step.do == "fetch":
            if answer.error:
                return self._refused(number, step, answer)
            expected, _ = self._opened[step.by, step.name]
            return None if among(answer, expected, step) else wrong(number, step, answer, expected)
        text, may_end = self._asked(state, step)
        if text is None:
            return None
        verdict, texts = state.candidates(step.by, text, done.start, done.end)
        tried: list[Answer] = []
        for query in () if verdict.must_refuse else texts:
            one = self._lab.reference.answer(step.endpoint, query)
            tried.append(one)
            if answer.error and one.error:
                return None
            # Of what is half taken all are needed: which one it is shows when the rest is there.
            if step.do != "open" and not answer.error and among(answer, (one,), step):
                return None
        if step.do == "open" and not answer.error and not verdict.must_refuse:
            self._opened[step.by, step.name] = (tried, state.entitled(step.by, done.start))
            return None
        if answer.error:
            if verdict.must_refuse or verdict.may_refuse or may_end:
                return None
            return self._refused(number, step, answer)
        if step.do == "describe" and verdict.must_refuse and not answer.rows:
            return None  # it tells of no column
        if verdict.must_refuse:
            return Failure(number, step, f"this must be refused: {verdict.must_refuse}", str(answer))
        return wrong(number, step, answer, tried)

    def _asked(self, state: State, step: Step) -> tuple[str | None, bool]:
        """Return the query that a step asks, and whether what it asks of may have ended."""
        if step.do == "collect":
            kept = state.frames.get(step.by, {}).get(step.name)
            return (kept.text, kept.slots != state.slots) if kept is not None else (None, False)
        if step.do == "describe":
            return f"DESCRIBE {{{step.name}}}", False
        if step.do == "filtered":
            return f"SELECT * FROM {{{step.name}}} WHERE {step.text}", False
        return step.text, False

    def _settle(self, number: int, done: Done) -> Failure | None:
        """Put a step in force in the model, and count it."""
        step, answer = done.step, done.answer
        if answer is SKIPPED:
            return None
        if step.do == "fetch":
            self._opened.pop((step.by, step.name), None)
        if answer.error:
            self._counts.refused[by_design(step.do, answer.error) or "as it must be"] += 1
            return None
        self._counts.answered[step.do] += 1
        if step.do == "end":
            for key in [key for key in self._opened if key[0] == step.by]:
                del self._opened[key]
        if step.do in {"table", "insert"}:
            return self._written(number, done)
        if step.do == "stream":
            return self._streamed(number, done)
        self._state.apply(step)
        if step.do in {"block", "unblock"}:
            self._lab.settle()
        return None

    def _written(self, number: int, done: Done) -> Failure | None:
        """What was written must be what the writer could see; take it over as it is stored."""
        step, state = done.step, self._state
        verdict, texts = state.candidates(step.by, step.text, done.start, done.end)
        if verdict.must_refuse:
            return Failure(number, step, f"this must be refused: {verdict.must_refuse}")
        stored = self._stored(step.name)
        before = state.tables[step.name][-1].rows if step.do == "insert" else ()
        tried = []
        for query in texts:
            answer = self._lab.reference.answer("thrift", query)
            expected = tuple(sorted((*before, *answer.rows), key=repr))
            tried.append(answer)
            if stored.rows == expected and stored.names:
                columns = tuple(zip(stored.names, map(_type, stored.types), strict=True))
                state.wrote(step.name, Relation(columns, stored.rows))
                return None
        return wrong(number, step, stored, tried)

    def _streamed(self, number: int, done: Done) -> Failure | None:
        """What a stream wrote must be of what its user could see of its source."""
        step = done.step
        stored = self._stored(step.to)
        text = f"SELECT * FROM {{{step.name}}}"
        verdict, texts = self._state.candidates(step.by, text, done.start, done.end)
        if verdict.must_refuse:
            return Failure(number, step, f"this must be refused: {verdict.must_refuse}")
        tried = []
        for query in texts:
            tried.append(self._lab.reference.answer("thrift", query))
            if set(stored.rows) <= set(tried[-1].rows):
                columns = tuple(zip(stored.names, map(_type, stored.types), strict=True))
                self._state.wrote(step.to, Relation(columns, stored.rows))
                return None
        return wrong(number, step, stored, tried)

    def _relation_answer(self, relation: Relation) -> Answer:
        rows = tuple(sorted(relation.rows, key=repr))
        return Answer(relation.names, (), rows)


def _named(history: Iterable[Step]) -> set[str]:
    """Return every name that a history's steps may mean."""
    found = set()
    for step in history:
        found |= _named(step.both) | {step.name, step.to}
        found |= {name for name in (*TABLES, *VIEWS) if f"{{{name}}}" in step.text}
    return found


def _rows(table: Relation, rows: Iterable[tuple[object, ...]]) -> str:
    return Relation(table.columns, tuple(rows)).query()


def _type(thrift_type: str) -> str:
    name = thrift_type.removesuffix("_TYPE").lower()
    return {"bigint": "bigint"}.get(name, name)
