"""Random Spark queries over the tables of world.py: valid, deterministic, of every shape that reads rows.

A query is grown from a scope of typed columns, so nearly all of them pass Spark's analyser. There is nothing
in them whose answer Spark may choose: no random, no sampling, no LIMIT without a total order. Equal tables
therefore give equal answers, up to the order of rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tests.property.expressions import ALL, BASIC, FAMILIES, Columns, Drawing, Source
from tests.property.world import DATABASE, HIDDEN, TABLES

_DATABASE = "@database@"
_JOINS = ("INNER JOIN", "JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN")
_OTHERS = ("values", "keyword", "pipe", "pipe", "pivot", "unpivot")

OPEN_TABLES = tuple(name for name in TABLES if name not in HIDDEN)
"""Tables that may be read with a star."""


@dataclass(frozen=True)
class Query:
    """A query with the database left open, to be asked of the real tables and of a copy."""

    template: str
    ordered: bool = False

    def over(self, database: str = DATABASE) -> str:
        return self.template.replace(_DATABASE, database)

    def __repr__(self) -> str:
        return self.over()


@dataclass
class _Builder(Drawing):
    """Draws one query. Common table expressions in scope shadow tables of their name."""

    ctes: dict[str, Columns] = field(default_factory=dict)

    # ------------------------------------------------------------ queries

    def query(
        self, depth: int, families: Sequence[str] | None = None, outer: Sequence[Source] = ()
    ) -> tuple[str, Columns]:
        """Return a query and its columns, of the given families if any are asked for."""
        saved = self.ctes
        prefix = ""
        if depth > 0 and self.chance(25):
            prefix = self.with_clause(depth - 1)
        kind = self.pick(("select",) * 8 + ("set",) * 3) if depth > 0 else "select"
        if kind == "set":
            text, columns = self.set_operation(depth - 1, families, outer)
        else:
            text, columns = self.select(depth, families, outer)
        self.ctes = saved
        return prefix + text, columns

    def with_clause(self, depth: int) -> str:
        made: list[tuple[str, str]] = []
        for _ in range(self.number(1, 2)):
            name = self.pick((*TABLES, self.fresh("c"), "c"))
            if any(name == taken for taken, _ in made):
                continue
            text, columns = self.query(depth)
            if self.chance(30):
                renamed = tuple((self.fresh("k"), family) for _, family in columns)
                made.append((name, f"{name} ({', '.join(n for n, _ in renamed)}) AS ({text})"))
                columns = renamed
            else:
                made.append((name, f"{name} AS ({text})"))
            self.ctes = {**self.ctes, name: columns}
        return f"WITH {', '.join(text for _, text in made)} "

    def set_operation(
        self, depth: int, families: Sequence[str] | None, outer: Sequence[Source]
    ) -> tuple[str, Columns]:
        left, columns = self.query(depth, families)
        right, _ = self.query(depth, [family for _, family in columns])
        operator = self.pick(
            ("UNION ALL", "UNION", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "INTERSECT", "MINUS")
        )
        return f"({left}) {operator} ({right})", columns

    def select(
        self, depth: int, families: Sequence[str] | None, outer: Sequence[Source]
    ) -> tuple[str, Columns]:
        if families is None and not outer and self.chance(5):
            return self.keyword()
        sources, from_clause = self.from_clause(depth)
        where = f" WHERE {self.condition(depth, sources, outer)}" if outer or self.chance(45) else ""
        style = self.pick(("plain",) * 5 + ("grouped",) * 3 + ("star",) * 2)
        if style == "grouped":
            return self.grouped(sources, from_clause + where, families)
        if style == "star" and families is None and len(sources) == 1 and sources[0].all_shown:
            shown, columns = self.star(sources[0])
            return f"SELECT {shown} FROM {from_clause}{where}", columns
        if families is None:
            families = [self.pick(ALL) for _ in range(self.number(1, 4))]
        items, made = [], []
        for family in families:
            name = self.fresh("o")
            value = self.window(sources, family) if self.chance(8) else self.value(sources, family, 2)
            if depth > 0 and self.chance(8):
                value = self.scalar_subquery(depth - 1, sources, family)
            items.append(f"{value} {self.pick(('AS ', ''))}{name}")
            made.append((name, family))
        listed = self.pick(("", "", "", "DISTINCT ", "ALL ")) + ", ".join(items)
        if self.chance(15):
            return f"FROM {from_clause} SELECT {listed}{where}", tuple(made)
        return f"SELECT {listed} FROM {from_clause}{where}", tuple(made)

    def keyword(self) -> tuple[str, Columns]:
        """Return a query without SELECT."""
        if self.chance(30):
            return "VALUES (1, 'pen'), (2, NULL) AS v(v, w)", (("v", "number"), ("w", "text"))
        text, columns, _ = self.named(self.pick(OPEN_TABLES))
        return f"TABLE {text}", columns

    def star(self, source: Source) -> tuple[str, Columns]:
        star = self.pick(("*", *(f"{qualifier}.*" for qualifier in source.qualifiers)))
        if len(source.columns) > 1 and self.chance(20):
            left_out = self.pick(source.columns)
            if source.names.count(left_out[0]) == 1:
                return f"{star} EXCEPT ({left_out[0]})", tuple(c for c in source.columns if c != left_out)
        return star, source.columns

    def grouped(
        self, sources: Sequence[Source], rest: str, families: Sequence[str] | None
    ) -> tuple[str, Columns]:
        wanted = families or [self.pick(ALL) for _ in range(self.number(1, 3))]
        keys: list[str] = []
        items, columns = [], []
        for family in wanted:
            name = self.fresh("g")
            if self.chance(50) and (refs := self.references(sources, family)):
                value = self.pick(refs).text
                keys.append(value)
            else:
                value = self.aggregate(sources, family)
            items.append(f"{value} AS {name}")
            columns.append((name, family))
        text = f"SELECT {', '.join(items)} FROM {rest}"
        if keys:
            text += f" GROUP BY {self.grouping(list(dict.fromkeys(keys)))}"
        if self.chance(30):
            having = self.aggregate(sources, "number")
            text += f" HAVING {having} {self.pick(('>', '<=', '<>'))} {self.number(0, 300)}"
        return text, tuple(columns)

    def grouping(self, keys: list[str]) -> str:
        listed = ", ".join(keys)
        return self.pick(
            (
                listed,
                "ALL",
                f"{listed} WITH ROLLUP",
                f"ROLLUP ({listed})",
                f"CUBE ({listed})",
                f"GROUPING SETS (({listed}), ({keys[0]}), ())",
            )
        )

    # ------------------------------------------------------------ relations

    def from_clause(self, depth: int) -> tuple[list[Source], str]:
        taken: set[str] = set()
        source, text = self.relation(depth, taken)
        sources = [source]
        for _ in range(self.pick((0, 0, 0, 1, 1, 2)) if depth >= 0 else 0):
            source, joined = self.relation(depth - 1, taken, lateral=sources)
            kind = self.pick((*_JOINS, "SEMI", "ANTI", ","))
            if kind == "," or joined.startswith("LATERAL"):
                text += f", {joined}" if kind == "," else f" CROSS JOIN {joined}"
                sources.append(source)
                continue
            condition = self.join_condition(sources, source)
            if kind in ("SEMI", "ANTI"):
                text += f" LEFT {kind} JOIN {joined} ON {condition}"
                continue
            shared = [n for n in source.names if sum(n in s.names for s in sources) == 1]
            if shared and len(sources) == 1 and self.chance(40):
                return self.using(kind, text, joined, sources[0], source, shared)
            text += f" {kind} {joined} ON {condition}"
            sources.append(source)
        if self.chance(12) and (tags := self.reference(sources, "list")):
            view, element = self.fresh("t"), self.fresh("x")
            text += f" LATERAL VIEW {self.pick(('', 'OUTER '))}explode({tags}) {view} AS {element}"
            sources.append(Source((view,), ((element, "text"),)))
        return sources, text

    def using(
        self, kind: str, left: str, right: str, a: Source, b: Source, shared: Sequence[str]
    ) -> tuple[list[Source], str]:
        """Return a USING or NATURAL join; its keys are then written without a qualifier, as neither's."""
        of_a, of_b = dict(a.columns), dict(b.columns)
        natural = a.all_shown and b.all_shown and self.chance(40)
        names = shared if natural else [self.pick(shared)]
        if any(of_a[name] != of_b[name] for name in names):
            return [a, b], f"{left} CROSS JOIN {right}"
        keys = Source((), tuple((name, of_a[name]) for name in names))
        rest = [replace(s, columns=tuple(c for c in s.columns if c[0] not in names)) for s in (a, b)]
        joined = f"NATURAL {kind} {right}" if natural else f"{kind} {right} USING ({', '.join(names)})"
        return [keys, *rest], f"{left} {joined}"

    def relation(self, depth: int, taken: set[str], lateral: Sequence[Source] = ()) -> tuple[Source, str]:
        alias = self.fresh("t")
        kind = self.pick(("table",) * 6 + ("query", "query", "lateral", "explode") + _OTHERS)
        if kind == "lateral" and lateral and depth > 0:
            text, columns = self.query(0, outer=lateral)
            return Source((alias,), columns), f"LATERAL ({text}) AS {alias}"
        if kind == "explode" and (tags := self.reference(lateral, "list")):
            return Source((alias,), (("x", "text"),)), f"LATERAL explode({tags}) AS {alias}(x)"
        if kind in ("query", "lateral") and depth > 0:
            text, columns = self.query(depth - 1)
            if self.chance(30):
                columns = tuple((self.fresh("r"), family) for _, family in columns)
                return Source((alias,), columns), f"({text}) {alias} ({', '.join(n for n, _ in columns)})"
            return Source((alias,), columns), f"({text}) AS {alias}"
        if kind == "values":
            rows = ", ".join(f"({self.number(0, 16)}, 'pen')" for _ in range(self.number(1, 3)))
            return Source((alias,), (("v", "number"), ("w", "text"))), f"VALUES {rows} AS {alias}(v, w)"
        name = self.pick((*TABLES, *self.ctes))
        if kind in ("keyword", "pipe") and name in HIDDEN and name not in self.ctes:
            name = self.pick(OPEN_TABLES)
        if kind == "keyword":
            text, columns, _ = self.named(name)
            return Source((alias,), columns), f"(TABLE {text}) AS {alias}"
        if kind == "pipe":
            return self.pipe(name, alias)
        if kind == "pivot" and name == "purchase" and name not in self.ctes:
            columns = (("item", "text"), ("pens", "number"))
            inner = f"(SELECT item, person_id, amount FROM {_DATABASE}.purchase)"
            return Source((alias,), columns), (
                f"(SELECT item, `1` AS pens FROM {inner} "
                f"PIVOT (sum(amount) FOR person_id IN (1, 2, 3))) AS {alias}"
            )
        if kind == "unpivot" and name == "purchase" and name not in self.ctes:
            columns = (("item", "text"), ("k", "text"), ("n", "number"))
            return Source((alias,), columns), (
                f"(SELECT item, k, n FROM {_DATABASE}.purchase "
                f"UNPIVOT (n FOR k IN (id, person_id))) AS {alias}"
            )
        return self.table(name, alias, taken)

    def table(self, name: str, alias: str, taken: set[str]) -> tuple[Source, str]:
        text, columns, qualifiers = self.named(name)
        shown = name not in HIDDEN or qualifiers == (name,)
        if name in taken or self.chance(50):
            if self.chance(10):
                # An alias that is another table's name.
                alias = self.pick([other for other in TABLES if other not in taken] or [alias])
                taken.add(alias)
            if shown and self.chance(20):
                columns = tuple((self.fresh("r"), family) for _, family in columns)
                return Source((alias,), columns), f"{text} AS {alias}({', '.join(n for n, _ in columns)})"
            return Source((alias,), columns, shown), f"{text} {self.pick(('AS ', ''))}{alias}"
        taken.add(name)
        return Source(qualifiers, columns, shown), text

    def named(self, name: str) -> tuple[str, Columns, tuple[str, ...]]:
        """Return how a table or common table expression is written, its columns and its qualifiers."""
        if name in self.ctes:
            plain = self.chance(80) or name not in TABLES
            if plain:
                return self.spelled(name), self.ctes[name], (name,)
        columns = tuple((column, FAMILIES[type_]) for column, type_ in TABLES[name].items())
        spellings = [f"{_DATABASE}.{self.spelled(name)}", f"spark_catalog.{_DATABASE}.{name}"]
        if name not in self.ctes:
            spellings.append(self.spelled(name))
        return (
            self.pick(spellings),
            columns,
            (
                name,
                name,
                f"{_DATABASE}.{name}",
                f"spark_catalog.{_DATABASE}.{name}",
            ),
        )

    def pipe(self, name: str, alias: str) -> tuple[Source, str]:
        text, columns, _ = self.named(name)
        inner = Source((), columns)
        steps = [f"FROM {text}" if self.chance(50) else f"TABLE {text}"]
        if self.chance(60):
            steps.append(f"WHERE {self.comparison([inner])}")
        if self.chance(50):
            extended = self.fresh("e")
            steps.append(f"EXTEND {self.value([inner], 'text', 1)} AS {extended}")
            inner = replace(inner, columns=(*inner.columns, (extended, "text")))
        if self.chance(20):
            changed = self.pick(inner.columns)
            steps.append(f"SET {changed[0]} = {self.value([inner], changed[1], 1)}")
        if self.chance(20):
            beside = self.fresh("t")
            other = Source((beside,), (("v", "number"), ("w", "text")))
            joined = f"{self.pick(('JOIN', 'LEFT JOIN'))} VALUES (3, 'pen') AS {beside}(v, w)"
            steps.append(f"{joined} ON {self.join_condition([inner], other)}")
            inner = replace(inner, columns=(*inner.columns, *other.columns))
        if self.chance(40):
            key = self.pick(inner.columns)
            total = self.fresh("a")
            steps.append(f"AGGREGATE {self.aggregate([inner], 'number')} AS {total} GROUP BY {key[0]}")
            inner = replace(inner, columns=(key, (total, "number")))
        elif self.chance(30):
            dropped = self.pick(inner.columns)
            if len(inner.columns) > 1:
                steps.append(f"DROP {dropped[0]}")
                inner = replace(inner, columns=tuple(c for c in inner.columns if c != dropped))
        return Source((alias,), inner.columns), f"({' |> '.join(steps)}) AS {alias}"

    # ------------------------------------------------------------ subqueries and conditions

    def condition(self, depth: int, sources: Sequence[Source], outer: Sequence[Source]) -> str:
        parts = [self.comparison(sources) for _ in range(self.number(1, 2))]
        if outer:
            parts = [self.correlation(sources, outer)] + ([parts[0]] if self.chance(30) else [])
            return " AND ".join(parts)
        if depth > 0 and self.chance(35):
            parts.append(self.subquery_condition(depth - 1, sources))
        joined = self.pick((" AND ", " OR ")).join(parts)
        return f"NOT ({joined})" if self.chance(10) else joined

    def correlation(self, sources: Sequence[Source], outer: Sequence[Source]) -> str:
        """Return an equality between a column here and one of the query around."""
        names = {name for source in sources for name in source.names}
        inner_qualifiers = {q for source in sources for q in source.qualifiers}
        for family in BASIC:
            mine = self.references(sources, family)
            # What would be taken for a column of the inner query is not a reference to the outer one.
            theirs = [
                ref
                for ref in self.references(outer, family)
                if ref.text.rpartition(".")[0] not in inner_qualifiers
                and (("." in ref.text) or ref.text not in names)
            ]
            if mine and theirs:
                return f"{self.pick(mine).text} = {self.pick(theirs).text}"
        return "1 = 1"

    def subquery_condition(self, depth: int, sources: Sequence[Source]) -> str:
        if self.chance(50):
            text, _ = self.select(0, ["number"], sources)
            if "sum(" in text or "count(" in text or " GROUP BY " in text or "OVER" in text:
                text, _ = self.query(depth)
            return f"{self.pick(('EXISTS', 'NOT EXISTS'))} ({text})"
        families = [self.pick(BASIC) for _ in range(self.pick((1, 1, 2)))]
        text, _ = self.query(depth, families)
        values = ", ".join(self.value(sources, family, 0) for family in families)
        left = f"({values})" if len(families) > 1 else values
        return f"{left} {self.pick(('', '', 'NOT '))}IN ({text})"

    def scalar_subquery(self, depth: int, sources: Sequence[Source], family: str) -> str:
        inner, from_clause = self.from_clause(-1)
        where = self.correlation(inner, sources) if self.chance(60) else self.comparison(inner)
        ref = self.reference(inner, family) or self.literal(family)
        return f"(SELECT max({ref}) FROM {from_clause} WHERE {where})"

    def join_condition(self, sources: Sequence[Source], right: Source) -> str:
        for family in self.pick((BASIC, ("text", "number", "day"))):
            names = {name for source in sources for name in source.names}
            left = [r for r in self.references(sources, family) if "." in r.text or r.text not in right.names]
            its = [r for r in self.references([right], family) if "." in r.text or r.text not in names]
            if left and its:
                return f"{self.pick(left).text} = {self.pick(its).text}"
        return "true"


def grown(integer: Callable[[int, int], int], depth: int = 2) -> Query:
    """Return a query; one in three is ordered by all of its columns, half of those with a limit."""
    builder = _Builder(integer)
    text, columns = builder.query(depth)
    if not builder.chance(33):
        return Query(text)
    order = ", ".join(
        f"{i} {builder.pick(('', 'DESC', 'NULLS LAST'))}".strip() for i in range(1, len(columns) + 1)
    )
    limit = f" LIMIT {builder.number(0, 5)}{builder.pick(('', ' OFFSET 1'))}" if builder.chance(50) else ""
    return Query(f"SELECT * FROM ({text}) ORDER BY {order}{limit}", ordered=True)


def of_seed(seed: int, depth: int = 2) -> Query:
    """Return the query of a seed: unlike hypothesis's, neighbours have nothing in common."""
    return grown(random.Random(seed).randint, depth)


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> Query:
    """Draw a query that hypothesis can shrink."""
    return grown(lambda low, high: draw(st.integers(low, high)), depth)
