"""Makes histories from a seed: the same seed makes the same history, and nothing else decides.

What is made is a sequence of episodes: something is made, kept or opened, the world changes, and everybody
whom that could bear on asks again. Every step stands in the history by itself, so that it can be cut down.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.histories.steps import Step
from tests.histories.world import AUDIENCES, INITIALLY, SLOTS

TEXT_COLUMNS = {
    "open": ("label",),
    "people": ("name", "owner", "region", "ssn", "ssn", "salary"),
    "owned": ("owner", "note"),
    "timed": ("note",),
    "mapped": ("note",),
    "docs": ("note", "doc"),
    "staff": ("note", "pay"),
    "mine": ("owner",),
    "others": ("owner",),
    "over_mapped": ("note",),
    "over_people": ("name", "ssn"),
}
"""Relation → columns that queries use beside `id`; twice is twice as often."""
GUARDED = ("people", "owned", "timed", "mapped", "docs")
MADE_OF = (*GUARDED, "open", "mine", "others", "over_people")
READ = (*TEXT_COLUMNS,)
SHAPES = (
    "SELECT * FROM {t} p",
    "SELECT id, {c} FROM {t} p ORDER BY id, 2",
    "SELECT {c} AS c, id FROM {t} p WHERE id < 4",
    "SELECT count(*) AS n, min({c}) AS a, max({c}) AS b FROM {t} p",
    "SELECT {c}, count(*) AS n FROM {t} p GROUP BY {c}",
    "SELECT count(*) AS n FROM {t} p",
    "SELECT p.id, o.label, p.{c} FROM {t} p JOIN {open} o ON p.id = o.id",
    "SELECT o.id, p.{c} FROM {open} o LEFT JOIN {t} p ON p.id = o.id",
    "SELECT o.label FROM {open} o WHERE o.id IN (SELECT p.id FROM {t} p)",
    "SELECT o.label FROM {open} o WHERE o.id NOT IN (SELECT p.id FROM {t} p WHERE p.{c} IS NOT NULL)",
    "SELECT o.label FROM {open} o WHERE EXISTS (SELECT 1 FROM {t} p WHERE p.id = o.id)",
    "WITH w AS (SELECT id, {c} AS c FROM {t} p) SELECT w.id, x.c FROM w JOIN w x ON w.id = x.id",
    "SELECT o.id, (SELECT max(q.{c}) FROM {t} q WHERE q.id = o.id) AS m FROM {open} o",
    "SELECT id, row_number() OVER (ORDER BY id) AS r FROM {t} p WHERE {c} IS NOT NULL",
    "FROM {t} p |> WHERE id > 1 |> SELECT id, {c}",
    "SELECT id, current_user() AS me FROM {t} p",
    "SELECT id FROM {t} p WHERE {c} LIKE 'K%'",
    "SELECT id FROM {t} p EXCEPT SELECT id FROM {open} o WHERE id > 2",
    "SELECT DISTINCT upper({c}) AS c FROM {t} p",
    "TABLE {t}",
)
ARGUED = ("SELECT id, {c} FROM {t} p WHERE id > :low", "SELECT count(*) AS n FROM {t} p WHERE id >= :low")
"""With an argument, which only PySpark can give."""
MAKES = (
    "SELECT id, {c} AS c FROM {t} p",
    "SELECT id, {c} AS c FROM {t} p WHERE id < 4",
    "SELECT id, max({c}) AS c FROM {t} p GROUP BY id",
    "SELECT p.id, p.{c} AS c FROM {t} p JOIN {open} o ON p.id = o.id",
    "SELECT * FROM (SELECT id, {c} AS c FROM {t} p) q",
)
"""What temporary views, tables and views are made of: all have the columns `id` and `c`."""


class Maker:
    """One history on its way."""

    def __init__(self, seed: int) -> None:
        self._seed, self._random = seed, random.Random(seed)
        self._steps: list[Step] = []
        self._slots = dict(INITIALLY)
        self._temps: dict[str, list[str]] = {}
        self._frames: dict[str, list[str]] = {}
        self._made: list[str] = []
        """Tables and views that somebody made."""
        self._views: list[str] = []
        self._names = 0
        users = ("u1", "u2", "steward")
        self._sessions = [f"{user} {endpoint} 0" for user in users for endpoint in ("thrift", "connect")]
        self._sessions += ["u1 thrift 1", "u2 connect 1"]
        self._analysts = [by for by in self._sessions if not by.startswith("steward")]

    # -- parts -----------------------------------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _columns(self, name: str) -> Sequence[str]:
        return TEXT_COLUMNS.get(name, ("c",))

    def _filled(self, shape: str, table: str) -> str:
        column: str = self._random.choice(self._columns(table))
        return shape.replace("{t}", f"{{{table}}}").replace("{c}", column)

    def _query(self, table: str, by: str) -> str:
        shapes = (*SHAPES, *ARGUED) if " connect " in by else SHAPES
        return self._filled(self._random.choice(shapes), table)

    def _add(self, do: str, by: str = "", **fields: object) -> None:
        self._steps.append(Step(do=do, by=by, **fields))  # type: ignore[arg-type]

    def _relation(self, by: str) -> str:
        """Return something to read: most often what policies guard."""
        own: list[str] = [*self._temps.get(by, ()), *self._made]
        if own and self._random.random() < 0.35:
            return self._random.choice(own)
        relations: Sequence[str] = GUARDED if self._random.random() < 0.7 else READ
        return self._random.choice(relations)

    def _read(self, by: str, table: str) -> None:
        self._add("read", by, text=self._query(table, by))

    def _everybody_reads(self, table: str) -> None:
        """Each analyst reads, from one session or the other; each of what was made of it is read as well."""
        for user in ("u1", "u2"):
            by = self._random.choice([by for by in self._analysts if by.startswith(user)])
            self._read(by, table)
        if self._random.random() < 0.2:
            self._read("steward thrift 0", table)
        for by, names in self._temps.items():
            if self._random.random() < 0.7:
                self._read(by, self._random.choice(names))
        for by, names in self._frames.items():
            self._add("collect", by, name=self._random.choice(names))

    # -- what sessions do ------------------------------------------------------------------------------------

    def keep_something(self) -> None:
        """A temporary view, a cache, a DataFrame: what Spark goes on with when the world has changed."""
        by = self._random.choice(self._sessions)
        table = self._random.choice(MADE_OF)
        text = self._filled(self._random.choice(MAKES), table)
        kind = self._random.choice(
            ("temp_view", "temp_view", "cache_as", "cache_as", "cache", "frame", "frame")
        )
        if kind == "cache":
            self._add("cache", by, name=table)
        elif kind == "frame" and " connect " in by:
            name = self._name("f_")
            to = self._random.choice(("", "cache"))
            self._add("frame", by, name=name, text=self._query(table, by), to=to)
            self._frames.setdefault(by, []).append(name)
            self._add("collect", by, name=name)
        elif kind in {"temp_view", "cache_as"}:
            name = self._name("t_")
            self._add(kind, by, name=name, text=text)
            self._temps.setdefault(by, []).append(name)
            self._read(by, name)
            if kind == "temp_view" and self._random.random() < 0.4:
                self._add("cache", by, name=name)
        self._everybody_reads(table)

    def make_something(self) -> None:
        """A table or a view of one's own, that others read."""
        by = self._random.choice(self._sessions)
        user = by.split(" ")[0]
        table = self._random.choice(MADE_OF)
        name = self._name(f"{user}_")
        text = self._filled(self._random.choice(MAKES), table)
        is_table = self._random.random() < 0.5
        if is_table:
            self._add("table", by, name=name, text=text)
            if self._random.random() < 0.4:
                self._add("insert", by, name=name, text=text)
        else:
            self._add("view", by, name=name, text=text)
            if self._random.random() < 0.3:
                text = self._filled(self._random.choice(MAKES), self._random.choice(MADE_OF))
                self._add("alter_view", by, name=name, text=text)
        self._made.append(name)
        self._views += [] if is_table else [name]
        self._everybody_reads(name)
        if self._random.random() < 0.2:
            self._made.remove(name)
            if is_table and self._random.random() < 0.5:
                to = self._name(f"{user}_")
                self._add("rename", by, name=name, to=to)
                self._made.append(to)
                self._everybody_reads(to)
            else:
                self._add("drop" if is_table else "drop_view", by, name=name)

    def read_half(self) -> None:
        """Half a result, the world changes, the other half."""
        by = self._random.choice(self._analysts)
        table = self._random.choice(GUARDED)
        name = self._name("r_")
        self._add("open", by, name=name, text=self._filled("SELECT id, {c} FROM {t} p", table))
        self.change(table)
        self._add("fetch", by, name=name)

    def replace_view_at_once(self) -> None:
        """A view changes what it reads, to and fro, while others read it."""
        steward = self._random.choice(("steward thrift 0", "steward connect 0"))
        name = self._name("shared_")
        texts = [self._filled(MAKES[0], table) for table in ("open", self._random.choice(GUARDED))]
        self._add("view", steward, name=name, text=texts[0])
        self._views.append(name)
        for turn in range(1, 5):
            change = Step(do="view", by=steward, name=name, text=texts[turn % 2])
            by = self._random.choice(self._analysts)
            self._steps.append(
                Step(do="pair", both=(Step(do="read", by=by, text=self._query(name, by)), change))
            )
            self._everybody_reads(name)
        self._made.append(name)

    def read_at_once(self) -> None:
        """A read while the world changes."""
        by = self._random.choice(self._analysts)
        table = self._random.choice(GUARDED)
        read = Step(do="read", by=by, text=self._query(table, by))
        before = len(self._steps)
        self.change(table, reads=False)
        if len(self._steps) == before + 1 and self._steps[-1].do in {"policy", "data"}:
            change = self._steps.pop()
            self._steps.append(Step(do="pair", both=(read, change)))
        else:
            self._steps.append(read)
        self._everybody_reads(table)

    def look_round(self) -> None:
        by = self._random.choice(self._sessions)
        kind = self._random.choice(("describe", "show", "use", "set", "set", "uncache", "end"))
        if kind == "set":
            self._add("set", by, text=f"spark.sql.shuffle.partitions = {self._random.choice((1, 2))}")
        elif kind in {"describe", "uncache"}:
            self._add(kind, by, name=self._random.choice(READ if kind == "describe" else GUARDED))
        else:
            self._add(kind, by)
            if kind == "end":
                self._temps.pop(by, None)
                self._frames.pop(by, None)
        self._read(by, self._relation(by))

    def read_something(self) -> None:
        by = self._random.choice(self._analysts)
        self._read(by, self._relation(by))

    # -- what changes ----------------------------------------------------------------------------------------

    def change(self, table: str = "", *, reads: bool = True) -> None:
        """Policies, groups, what a filter reads, or rows."""
        table = table or self._random.choice(GUARDED)
        kind = self._random.choice(("policy", "policy", "policy", "data", "groups", "block"))
        if kind == "block":
            table = "mapped"
            by = self._random.choice(("", "steward thrift 0", "steward connect 0"))
            if self._random.random() < 0.25:
                self._add("unblock", numbers=(self._random.randint(1, 4),))
            else:
                self._add("block", by, numbers=(self._random.randint(1, 4),))
        elif kind == "data":
            self._add("data", self._random.choice(("", "steward thrift 0", "steward connect 0")), name=table)
        elif kind == "groups":
            user = self._random.choice(("u1", "u2"))
            self._add("groups", name=user, to=self._random.choice(("analysts", "analysts,red", "red")))
            self._add("end", self._random.choice([by for by in self._analysts if by.startswith(user)]))
            self._temps.pop(self._steps[-1].by, None)
            self._frames.pop(self._steps[-1].by, None)
        else:
            slots = [s for s in SLOTS if s.split(" ")[1].partition(".")[0] == table]
            slot = self._random.choice(slots)
            variants = [v for v in ("none", *SLOTS[slot]) if v != self._slots.get(slot, "none").split(" ")[0]]
            variant = self._random.choice(variants)
            to = variant if variant == "none" else f"{variant} {self._random.choice(AUDIENCES)}"
            self._slots[slot] = to
            self._add("policy", name=slot, to=to)
        if reads:
            self._everybody_reads(table)

    def let_time_pass(self) -> None:
        """A row expires, in front of what was kept of it."""
        self._add("expiring", numbers=(4,))
        by = self._random.choice(self._analysts)
        self._read(by, "timed")
        name = self._name("t_")
        self._add(
            self._random.choice(("temp_view", "cache_as")),
            by,
            name=name,
            text="SELECT id, note AS c FROM {timed}",
        )
        self._temps.setdefault(by, []).append(name)
        self._everybody_reads("timed")
        self._add("wait")
        self._everybody_reads("timed")

    # -- what happens seldom ---------------------------------------------------------------------------------

    def start_anew(self) -> None:
        """The gateway is started anew, behind sessions of Spark Connect that live on."""
        self._add("restart")
        self._temps.clear()
        self._frames.clear()
        for by in self._analysts:
            self._read(by, self._random.choice(self._made or GUARDED))

    def stream_into_memory(self) -> None:
        """The rows of a stream, as a view that ends with its policies."""
        by = self._random.choice([by for by in self._analysts if " connect " in by])
        table, name = self._random.choice(("people", "owned", "docs")), self._name("t_")
        self._add("memory", by, name=table, to=name)
        self._add("read", by, text=f"SELECT * FROM {{{name}}}")
        self.change(table)
        self._add("read", by, text=f"SELECT * FROM {{{name}}}")

    def clone_a_session(self) -> None:
        """Two sessions that begin alike, and go on by themselves."""
        by = self._random.choice([by for by in self._analysts if " connect " in by])
        clone = f"{by.split(' ')[0]} connect {self._name('c')}"
        self._add("clone", by, to=clone)
        if by in self._temps:
            self._temps[clone] = list(self._temps[by])
        self._sessions.append(clone)
        self._analysts.append(clone)
        self.change()
        self._read(clone, self._relation(clone))

    def history(self, steps: int) -> list[Step]:
        """Return a history of at least so many steps."""
        kinds = {
            self.keep_something: 5,
            self.make_something: 3,
            self.change: 5,
            self.read_half: 1,
            self.read_at_once: 2,
            self.look_round: 2,
            self.read_something: 2,
            self.replace_view_at_once: 1,
        }
        for_time = self._random.random() < 0.15
        # By a chance of its own: what a seed makes beside that is as it was.
        seldom = random.Random(f"{self._seed} seldom").choices(
            (None, self.start_anew, self.stream_into_memory, self.clone_a_session), (24, 1, 2, 2)
        )[0]
        while len(self._steps) < steps:
            if seldom is not None and len(self._steps) > steps // 3:
                seldom()
                seldom = None
            self._random.choices(list(kinds), list(kinds.values()))[0]()
            if for_time and len(self._steps) > steps // 2:
                self.let_time_pass()
                for_time = False
        return self._steps


def history(seed: int, steps: int = 30) -> list[Step]:
    """Return the history of a seed."""
    return Maker(seed).history(steps)
