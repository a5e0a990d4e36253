"""What there is at a moment, and what each session must be answered then.

The model holds tables, views, policies and groups as plain Python. For a query it gives texts for a
reference: the same query over relations that hold just what its user may see at that moment.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.histories.steps import Step
from tests.histories.world import (
    INITIALLY,
    LATE,
    TABLES,
    USERS,
    VIEWS,
    Asking,
    Relation,
    governed,
    governing,
    new_row,
    secrets_in,
)

_NAME = re.compile(r"\{(\w+)\}")
OPERATOR = "operator"
"""Who made the views that were there before; may read everything, always."""


@dataclass(frozen=True, slots=True)
class View:
    """A persistent view, and who created or last altered it."""

    text: str
    definer: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a session made and keeps: a temporary view, or a DataFrame."""

    text: str
    slots: dict[str, str]
    """The policies under which it was made: others may end it."""


@dataclass(slots=True)
class Rendered:
    """A query for the reference."""

    text: str
    views: dict[str, str]
    """The temporary views that it reads → their queries; each after those that it reads itself."""


@dataclass(slots=True)
class Verdict:
    """What the model says of a query beside its rows."""

    must_refuse: str = ""
    may_refuse: str = ""
    tables: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Eyes:
    """Whose access counts where a table is named: docs/adr/0016."""

    reader: Asking
    definer: Asking | None = None
    """Of the view within which it is named; None outside, and for views of the operator, who may read all."""
    within: str | None = None
    """That view's text."""

    def through(self, view: View, state: State, now: float) -> Eyes:
        """Return whose access counts within a view."""
        definer = None if view.definer == OPERATOR else state.user(view.definer, now)
        return Eyes(self.reader, definer, view.text)

    def lent(self, name: str, state: State) -> Iterator[Asking]:
        """Yield all whose masks and filters hold: a definer lends what the definer sees, and not more."""
        yield self.reader
        if self.definer is not None and self.within and state.lacks(name, self.reader, self.within):
            yield self.definer


@dataclass(slots=True)
class State:
    """Everything at one moment. `copy.deepcopy` of it is another possible world."""

    database: str
    tables: dict[str, list[Relation]] = field(default_factory=lambda: {n: [r] for n, r in TABLES.items()})
    """Every version of each, the latest last: a session of Spark's goes on with the files that it knows."""
    views: dict[str, View] = field(default_factory=lambda: {n: View(t, OPERATOR) for n, t in VIEWS.items()})
    slots: dict[str, str] = field(default_factory=lambda: dict(INITIALLY))
    groups: dict[str, frozenset[str]] = field(default_factory=lambda: dict(USERS))
    sessions: dict[str, frozenset[str]] = field(default_factory=dict)
    """Open session → the groups that it began with."""
    temps: dict[str, dict[str, Kept]] = field(default_factory=dict)
    frames: dict[str, dict[str, Kept]] = field(default_factory=dict)
    using: set[str] = field(default_factory=set)
    rows_made: int = 100

    # -- who asks --------------------------------------------------------------------------------------------

    def asking(self, by: str, now: float) -> Asking:
        user = by.split(" ")[0]
        groups = self.sessions.get(by, self.groups[user])
        return self._asking(user, groups, now)

    def user(self, name: str, now: float) -> Asking:
        """Return a user with the groups of this moment, whatever sessions there are."""
        return self._asking(name, self.groups[name], now)

    def _asking(self, user: str, groups: frozenset[str], now: float) -> Asking:
        blocked = frozenset(row[0] for row in self.tables["blocked"][-1].rows)
        return Asking(user, groups, now, blocked)

    def keeps(self, by: str, name: str) -> Kept | None:
        return self.temps.get(by, {}).get(name)

    # -- texts -----------------------------------------------------------------------------------------------

    def written(self, by: str, text: str) -> str:
        """Return a text as the session sends it."""

        def name(found: re.Match[str]) -> str:
            if found[1] == "db":
                return self.database
            if found[1].startswith("t_") or by in self.using:
                return found[1]
            return f"{self.database}.{found[1]}"

        return _NAME.sub(name, text)

    def candidates(self, by: str, text: str, start: float, end: float) -> tuple[Verdict, Iterator[Rendered]]:
        """Return what may answer a query that ran from `start` to `end`: the likeliest first.

        Policies and what they depend on are as they are now. The rows of a table may be those of an earlier
        version, as without a gateway: Spark keeps file listings for a session.
        """
        verdict = Verdict()
        first = self._rendered(by, text, end, {}, verdict)

        def texts() -> Iterator[Rendered]:
            yield first
            seen = {first.text: first.views}
            versions = [
                [(name, number) for number in reversed(range(len(self.tables[name])))]
                for name in sorted(verdict.tables)
            ]
            for chosen in itertools.product(*versions):
                for now in (end, start):
                    other = self._rendered(by, text, now, dict(chosen), Verdict())
                    if seen.get(other.text) != other.views:
                        seen[other.text] = other.views
                        yield other

        return verdict, texts()

    def _rendered(
        self, by: str, text: str, now: float, versions: dict[str, int], verdict: Verdict
    ) -> Rendered:
        reader = self.asking(by, now)
        views: dict[str, str] = {}

        def put(name: str, eyes: Eyes) -> str:
            kept = self.keeps(by, name)
            if kept is not None:
                if kept.slots != self.slots:
                    verdict.may_refuse = "a temporary view ends with its policies"
                body = fill(kept.text, Eyes(reader))
            elif name in self.views:
                body = fill(self.views[name].text, eyes.through(self.views[name], self, now))
            elif name in self.tables:
                body = self._visible(name, eyes, versions, verdict).query()
            else:
                return name
            key = "g_" + hashlib.sha256(body.encode()).hexdigest()[:16]
            views.setdefault(key, body)
            return key

        def fill(body: str, eyes: Eyes) -> str:
            body = body.replace("current_user()", f"'{reader.user}'")
            return _NAME.sub(lambda found: put(found[1], eyes), body)

        return Rendered(fill(text, Eyes(reader)), views)

    def _visible(self, name: str, eyes: Eyes, versions: dict[str, int], verdict: Verdict) -> Relation:
        """Return a table as a query may see it that names it, or a view's text."""
        verdict.tables.add(name)
        relation = self.tables[name][versions.get(name, -1)]
        rules = governing(name, self.slots, eyes.reader)
        if eyes.within is None:
            if rules.denied:
                verdict.must_refuse = f"{eyes.reader.user} may not read {name}"
            return governed(relation, rules, eyes.reader)
        for who in eyes.lent(name, self):
            relation = governed(relation, governing(name, self.slots, who), who, hides=False)
        if eyes.definer is not None and self.lacks(name, eyes.definer, eyes.within):
            verdict.must_refuse = f"{eyes.definer.user}, whose view it is, may not read all of it in {name}"
        return relation

    def lacks(self, name: str, who: Asking, text: str) -> bool:
        """Whether somebody may not select all that a view's text uses of a table."""
        rules = governing(name, self.slots, who)
        return rules.denied or any(re.search(rf"\b{column}\b", text) for column in rules.hidden)

    # -- secrets ---------------------------------------------------------------------------------------------

    def entitled(self, by: str, now: float) -> set[str]:
        """Return the secret values that a session may be shown."""
        who = self.asking(by, now)
        found: set[str] = set()
        texts = [view.text for view in self.views.values()]
        for name, versions in self.tables.items():
            rules = governing(name, self.slots, who)
            within = [text for text in texts if f"{{{name}}}" in text]
            if rules.denied and not within:
                continue
            shown = {column for text in within for column in rules.hidden if column in text}
            for relation in versions:
                visible = governed(relation, rules, who, hides=False)
                for row in visible.rows:
                    for column, value in zip(visible.names, row, strict=True):
                        if column not in rules.hidden or column in shown:
                            found |= secrets_in(value)
        return found

    # -- effects ---------------------------------------------------------------------------------------------

    def begin(self, by: str) -> None:
        """A session opens, with the groups of this moment."""
        user = by.split(" ")[0]
        self.sessions[by] = self.groups[user]

    def apply(self, step: Step) -> None:
        """Put in force what a step changed that succeeded. What it wrote into tables is told by `wrote`."""
        effect: Callable[[Step], None] | None = getattr(self, f"_do_{step.do}", None)
        if effect is not None:
            effect(step)

    def wrote(self, name: str, relation: Relation) -> None:
        self.tables.setdefault(name, []).append(relation)

    def row_for(self, table: str) -> tuple[object, ...]:
        """Return the row that the next step writes into a table."""
        return new_row(table, self.rows_made + 1)

    def _do_end(self, step: Step) -> None:
        self.sessions.pop(step.by, None)
        self.temps.pop(step.by, None)
        self.frames.pop(step.by, None)
        self.using.discard(step.by)

    def _do_restart(self, step: Step) -> None:
        """Whoever comes back logs in anew. Temporary views are out of reach; the database is learnt."""
        for by in list(self.sessions):
            self.temps.pop(by, None)
            self.frames.pop(by, None)
            if " connect " in by:
                self.begin(by)
            else:
                self._do_end(Step(do="end", by=by))

    def _do_use(self, step: Step) -> None:
        self.using.add(step.by)

    def _do_temp_view(self, step: Step) -> None:
        kept = Kept(step.text, dict(self.slots))
        self.temps.setdefault(step.by, {})[step.name] = kept

    _do_cache_as = _do_temp_view

    def _do_memory(self, step: Step) -> None:
        kept = Kept(f"SELECT * FROM {{{step.name}}}", dict(self.slots))
        self.temps.setdefault(step.by, {})[step.to] = kept

    def _do_clone(self, step: Step) -> None:
        """What a session can name goes along; DataFrames are of the client that made them."""
        self.sessions[step.to] = self.sessions[step.by]
        self.temps[step.to] = dict(self.temps.get(step.by, {}))
        if step.by in self.using:
            self.using.add(step.to)

    def _do_drop_temp(self, step: Step) -> None:
        self.temps.get(step.by, {}).pop(step.name, None)

    def _do_uncache(self, step: Step) -> None:
        """What CACHE TABLE … AS made stays a temporary view, which is computed again."""

    def _do_frame(self, step: Step) -> None:
        self.frames.setdefault(step.by, {})[step.name] = Kept(step.text, dict(self.slots))

    def _do_view(self, step: Step) -> None:
        self.views[step.name] = View(step.text, step.user)

    _do_alter_view = _do_unwatched = _do_view

    def _do_drop_view(self, step: Step) -> None:
        self.views.pop(step.name, None)

    def _do_rename(self, step: Step) -> None:
        if step.name in self.tables:
            self.tables[step.to] = self.tables.pop(step.name)

    def _do_drop(self, step: Step) -> None:
        self.tables.pop(step.name, None)

    def _do_policy(self, step: Step) -> None:
        self.slots[step.name] = step.to

    def _do_groups(self, step: Step) -> None:
        self.groups[step.name] = frozenset(step.to.split(","))

    def _do_block(self, step: Step) -> None:
        self._append("blocked", [(number,) for number in step.numbers])

    def _do_unblock(self, step: Step) -> None:
        latest = self.tables["blocked"][-1]
        left = tuple(row for row in latest.rows if row[0] not in step.numbers)
        self.tables["blocked"].append(Relation(latest.columns, left))

    def _do_data(self, step: Step) -> None:
        self._append(step.name, [self.row_for(step.name)])
        self.rows_made += 1

    def expiring(self, until: float) -> None:
        """A row was written that is there until a moment, in seconds since 1970."""
        number = self.rows_made = self.rows_made + 1
        self._append("timed", [(number, until, f"Ktimed{number}K")])

    def _do_late(self, step: Step) -> None:
        self.tables[step.name] = [LATE]

    def _append(self, name: str, rows: list[tuple[object, ...]]) -> None:
        self.wrote(name, self.tables[name][-1].with_rows(rows))
