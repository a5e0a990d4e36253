"""Random Spark queries over the tables of world.py: valid, deterministic, of every shape that reads rows.

A query is grown from a scope of typed columns, so nearly all of them pass Spark's analyser. There is nothing
in them whose answer Spark may choose: no random, no sampling, no `first`, no LIMIT without a total order, no
doubles. Equal tables therefore give equal answers, up to the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

from tests.property.world import DATABASE, TABLES

T = TypeVar("T")

FAMILIES = {"int": "number", "decimal(10,2)": "number", "string": "text", "date": "day"}
_DATABASE = "@database@"


@dataclass(frozen=True)
class Query:
    """A query with the database left open, to be asked of the real tables and of a copy."""

    template: str
    ordered: bool = False

    def over(self, database: str = DATABASE) -> str:
        return self.template.replace(_DATABASE, database)

    def __repr__(self) -> str:
        return self.over()


@dataclass(frozen=True)
class Source:
    """A relation in scope: what its columns may be qualified with, and (name, family) of each."""

    qualifiers: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True)
class Ref:
    """A column as written, and its family."""

    text: str
    family: str


@dataclass
class _Builder:
    """Draws one query. Common table expressions in scope shadow tables of their name."""

    draw: st.DrawFn
    ctes: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    names: int = 0

    # ------------------------------------------------------------ choices

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def spelled(self, name: str) -> str:
        """Write an identifier plain, quoted or in another case; none of it matters to Spark."""
        return self.pick((name, name, name, f"`{name}`", name.upper(), name.title()))

    # ------------------------------------------------------------ queries

    def query(
        self, depth: int, families: Sequence[str] | None = None, outer: Sequence[Source] = ()
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
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
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        left, columns = self.query(depth, families)
        right, _ = self.query(depth, [family for _, family in columns])
        operator = self.pick(
            ("UNION ALL", "UNION", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "INTERSECT", "MINUS")
        )
        return f"({left}) {operator} ({right})", columns

    def select(
        self, depth: int, families: Sequence[str] | None, outer: Sequence[Source]
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        sources, from_clause = self.from_clause(depth)
        where = f" WHERE {self.condition(depth, sources, outer)}" if outer or self.chance(45) else ""
        style = self.pick(("plain",) * 5 + ("grouped",) * 3 + ("star",) * 2)
        if style == "grouped":
            return self.grouped(sources, from_clause + where, families)
        if style == "star" and families is None and len(sources) == 1:
            return f"SELECT {self.star(sources[0])} FROM {from_clause}{where}", sources[0].columns
        if families is None:
            families = [self.pick(("number", "text", "day")) for _ in range(self.number(1, 4))]
        items, columns = [], []
        for family in families:
            name = self.fresh("o")
            value = self.window(sources, family) if self.chance(8) else self.value(sources, family, 2)
            if depth > 0 and self.chance(8):
                value = self.scalar_subquery(depth - 1, sources, family)
            items.append(f"{value} {self.pick(('AS ', ''))}{name}")
            columns.append((name, family))
        listed = self.pick(("", "", "", "DISTINCT ", "ALL ")) + ", ".join(items)
        if self.chance(15):
            return f"FROM {from_clause} SELECT {listed}{where}", tuple(columns)
        return f"SELECT {listed} FROM {from_clause}{where}", tuple(columns)

    def star(self, source: Source) -> str:
        return self.pick(("*", *(f"{qualifier}.*" for qualifier in source.qualifiers)))

    def grouped(
        self, sources: Sequence[Source], rest: str, families: Sequence[str] | None
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        wanted = families or [self.pick(("number", "text", "day")) for _ in range(self.number(1, 3))]
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
                listed,
                f"{listed} WITH ROLLUP",
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
            kind = self.pick(
                ("INNER JOIN", "JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "SEMI", "ANTI", ",")
            )
            if kind == "," or joined.startswith("LATERAL"):
                text += f", {joined}" if kind == "," else f" CROSS JOIN {joined}"
                sources.append(source)
                continue
            condition = self.join_condition(sources, source)
            if kind in ("SEMI", "ANTI"):
                text += f" LEFT {kind} JOIN {joined} ON {condition}"
                continue
            shared = [n for n in source.names if sum(n in s.names for s in sources) == 1]
            if kind == "JOIN" and shared and len(sources) == 1 and self.chance(40):
                return self.using(text, joined, sources[0], source, self.pick(shared))
            text += f" {kind} {joined} ON {condition}"
            sources.append(source)
        return sources, text

    def using(self, left: str, right: str, a: Source, b: Source, name: str) -> tuple[list[Source], str]:
        """Return a USING join; its key is then written without a qualifier, which one of both sides keeps."""
        families = dict(a.columns) | {n: f for n, f in b.columns if n == name}
        if dict(a.columns)[name] != dict(b.columns)[name]:
            return [a, b], f"{left} CROSS JOIN {right}"
        key = Source((), ((name, families[name]),))
        rest = [Source(s.qualifiers, tuple(c for c in s.columns if c[0] != name)) for s in (a, b)]
        return [key, *rest], f"{left} JOIN {right} USING ({name})"

    def relation(self, depth: int, taken: set[str], lateral: Sequence[Source] = ()) -> tuple[Source, str]:
        alias = self.fresh("t")
        kind = self.pick(("table",) * 6 + ("query", "query", "lateral", "values", "keyword", "pipe", "pivot"))
        if kind == "lateral" and lateral and depth > 0:
            text, columns = self.query(0, outer=lateral)
            return Source((alias,), columns), f"LATERAL ({text}) AS {alias}"
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
        return self.table(name, alias, taken)

    def table(self, name: str, alias: str, taken: set[str]) -> tuple[Source, str]:
        text, columns, qualifiers = self.named(name)
        if name in taken or self.chance(50):
            if self.chance(20):
                columns = tuple((self.fresh("r"), family) for _, family in columns)
                return Source((alias,), columns), f"{text} AS {alias}({', '.join(n for n, _ in columns)})"
            return Source((alias,), columns), f"{text} {self.pick(('AS ', ''))}{alias}"
        taken.add(name)
        return Source(qualifiers, columns), text

    def named(self, name: str) -> tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Return how a table or common table expression is written, its columns and its qualifiers."""
        if name in self.ctes:
            plain = self.chance(80) or name not in TABLES
            if plain:
                return self.spelled(name), self.ctes[name], (name,)
        columns = tuple((column, FAMILIES[type_]) for column, type_ in TABLES[name].items())
        spellings = [f"{_DATABASE}.{self.spelled(name)}", f"spark_catalog.{_DATABASE}.{name}"]
        if name not in self.ctes:
            spellings.append(self.spelled(name))
        return self.pick(spellings), columns, (name, name, f"{_DATABASE}.{name}")

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

    # ------------------------------------------------------------ expressions

    def references(self, sources: Sequence[Source], family: str) -> list[Ref]:
        """Return every way to write a column of the family that is not ambiguous."""
        refs: list[Ref] = []
        for source in sources:
            for name, its in source.columns:
                if its != family:
                    continue
                if sum(other.names.count(name) for other in sources) == 1:
                    refs.append(Ref(name, family))
                if source.names.count(name) == 1:
                    refs.extend(Ref(f"{qualifier}.{name}", family) for qualifier in source.qualifiers)
        return refs

    def reference(self, sources: Sequence[Source], family: str) -> str | None:
        refs = self.references(sources, family)
        return self.pick(refs).text if refs else None

    def literal(self, family: str) -> str:
        if family == "number":
            return str(self.pick((self.number(0, 60), self.number(0, 60), self.number(60, 4_000))))
        if family == "day":
            return f"DATE '20{self.number(10, 23)}-01-0{self.number(1, 9)}'"
        return self.pick(
            ("'pen'", "'Oslo'", "'Ann Bell'", "'Rome'", "'ink'", "'it''s'", "'%'", "CAST(NULL AS STRING)")
        )

    def value(self, sources: Sequence[Source], family: str, depth: int) -> str:
        ref = self.reference(sources, family)
        if ref is None:
            return self.literal(family)
        if depth == 0 or self.chance(55):
            return ref
        other = self.value(sources, family, depth - 1)
        if self.chance(20):
            condition = self.comparison(sources)
            return f"CASE WHEN {condition} THEN {ref} ELSE {other} END"
        if self.chance(15):
            return f"{self.pick(('coalesce', 'nullif', 'greatest'))}({ref}, {other})"
        match family:
            case "number":
                return self.pick((f"{ref} + {other}", f"({ref} - {other})", f"abs({ref})", f"-{ref}"))
            case "text":
                return self.pick(
                    (f"concat({ref}, {other})", f"{ref} || {other}", f"upper({ref})", f"left({ref}, 2)")
                )
            case _:
                return self.pick((f"date_add({ref}, {self.number(1, 40)})", f"last_day({ref})"))

    def aggregate(self, sources: Sequence[Source], family: str) -> str:
        ref = self.reference(sources, family)
        filtered = f" FILTER (WHERE {self.comparison(sources)})" if self.chance(15) else ""
        if family == "number":
            choices = ["count(*)"]
            if ref is not None:
                choices += [f"sum({ref})", f"max({ref})", f"count(DISTINCT {ref})", f"count({ref})"]
            return self.pick(choices) + filtered
        return f"{self.pick(('min', 'max'))}({ref or self.literal(family)}){filtered}"

    def window(self, sources: Sequence[Source], family: str) -> str:
        """Return a window function whose value does not depend on the order of ties."""
        keys = [ref.text for each in ("number", "text", "day") for ref in self.references(sources, each)]
        partition = f"PARTITION BY {self.pick(keys)} " if keys and self.chance(70) else ""
        order = (
            f"ORDER BY {self.pick(keys)} {self.pick(('', 'DESC ', 'NULLS LAST '))}" if keys else "ORDER BY 1"
        )
        if family == "number":
            ref = self.reference(sources, family) or "1"
            call = self.pick(("rank()", "dense_rank()", f"sum({ref})", "count(*)", f"max({ref})"))
            return f"{call} OVER ({partition}{order})"
        ref = self.reference(sources, family) or self.literal(family)
        return f"{self.pick(('min', 'max'))}({ref}) OVER ({partition}{order})"

    # ------------------------------------------------------------ conditions

    def comparison(self, sources: Sequence[Source]) -> str:
        family = self.pick(("number", "text", "day"))
        left = self.value(sources, family, 1)
        match self.number(0, 5):
            case 0:
                return f"{left} IS {self.pick(('', 'NOT '))}NULL"
            case 1:
                return f"{left} BETWEEN {self.literal(family)} AND {self.value(sources, family, 0)}"
            case 2:
                return f"{left} {self.pick(('', 'NOT '))}IN ({self.literal(family)}, {self.literal(family)})"
            case 3 if family == "text":
                pattern = self.pick(("%e%", "A%", "%n"))
                return f"{left} {self.pick(('LIKE', 'NOT LIKE', 'ILIKE'))} '{pattern}'"
            case _:
                operator = self.pick(("=", "<>", "<", ">=", "<=>", "!="))
                return f"{left} {operator} {self.value(sources, family, 1)}"

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
        for family in ("number", "text", "day"):
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
        family = self.pick(("number", "text", "day"))
        text, _ = self.query(depth, [family])
        return f"{self.value(sources, family, 0)} IN ({text})"

    def scalar_subquery(self, depth: int, sources: Sequence[Source], family: str) -> str:
        inner, from_clause = self.from_clause(-1)
        where = self.correlation(inner, sources) if self.chance(60) else self.comparison(inner)
        ref = self.reference(inner, family) or self.literal(family)
        return f"(SELECT max({ref}) FROM {from_clause} WHERE {where})"

    def join_condition(self, sources: Sequence[Source], right: Source) -> str:
        for family in self.pick((("number", "text", "day"), ("text", "number", "day"))):
            names = {name for source in sources for name in source.names}
            left = [r for r in self.references(sources, family) if "." in r.text or r.text not in right.names]
            its = [r for r in self.references([right], family) if "." in r.text or r.text not in names]
            if left and its:
                return f"{self.pick(left).text} = {self.pick(its).text}"
        return "true"


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> Query:
    """Draw a query; one in three is ordered by all of its columns, half of those with a limit."""
    builder = _Builder(draw)
    text, columns = builder.query(depth)
    if not builder.chance(33):
        return Query(text)
    order = ", ".join(
        f"{i} {builder.pick(('', 'DESC', 'NULLS LAST'))}".strip() for i in range(1, len(columns) + 1)
    )
    limit = f" LIMIT {builder.number(0, 5)}{builder.pick(('', ' OFFSET 1'))}" if builder.chance(50) else ""
    return Query(f"SELECT * FROM ({text}) ORDER BY {order}{limit}", ordered=True)
