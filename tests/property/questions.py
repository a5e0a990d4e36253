"""Random questions in two spellings: Spark SQL text, and the DataFrame that asks the same of PySpark.

Both are grown together, one choice for both; how a column is written is chosen for each by itself: by its
name, with its table, as an attribute of a DataFrame. A policy pack is drawn beside them: hidden columns,
masks, those that may only be shown, filters, tables that nobody may see.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect.window import Window

from tests.plan.frames import Frame, table
from tests.property.expressions import Drawing
from tests.property.world import DATABASE, whole_tables

_FAMILIES = {"int": "number", "decimal(10,2)": "number", "string": "text", "date": "day"}
TABLES: dict[str, dict[str, str]] = {
    name: {column: _FAMILIES[type_] for column, type_ in columns.items() if type_ in _FAMILIES}
    for name, columns in whole_tables().items()
    if name != "person"
} | {"person": {"id": "number", "name": "text", "city": "text", "age": "number", "joined": "day"}}
"""Columns by family. Of `person` not all: a star of it is asked of it as of every other."""

_JOINS = (("JOIN", "inner"), ("LEFT JOIN", "left"), ("RIGHT JOIN", "right"), ("FULL JOIN", "outer"))
_COMPARISONS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    (">", operator.gt),
    ("<=", operator.le),
    ("=", operator.eq),
)
_LITERALS: dict[str, tuple[Any, ...]] = {
    "number": (0, 3, 700),
    "text": ("pen", "Oslo"),
    "day": ("2020-01-01",),
}
_SET_OPERATIONS: tuple[tuple[str, Callable[[Frame, Frame], Frame]], ...] = (
    ("UNION ALL", lambda a, b: a.union(b)),
    ("UNION", lambda a, b: a.union(b).distinct()),
    ("INTERSECT", lambda a, b: a.intersect(b)),
    ("EXCEPT ALL", lambda a, b: a.exceptAll(b)),
)


@dataclass(frozen=True)
class Both:
    """One thing in both spellings."""

    sql: str
    frame: Any


@dataclass(frozen=True)
class Named:
    """A column in scope."""

    qualifier: str
    name: str
    family: str
    of: Frame = None
    """The DataFrame that it is an attribute of, if it may be written so."""


@dataclass(frozen=True)
class Scope:
    """What stands in a FROM clause."""

    both: Both
    columns: tuple[Named, ...]

    def family(self, family: str | None) -> list[Named]:
        return [c for c in self.columns if family is None or c.family == family]

    def unique(self, column: Named) -> bool:
        return sum(other.name == column.name for other in self.columns) == 1


@dataclass(frozen=True)
class Question:
    """A query and a DataFrame, with the names and families of their columns."""

    both: Both
    columns: tuple[tuple[str, str], ...]
    explicit: bool = True
    """Whether its columns are listed, so that it may stand within another query: around a star that counts
    as showing everything, where a DataFrame only passes columns on."""

    def __repr__(self) -> str:
        return self.both.sql


@dataclass
class _Builder(Drawing):
    """Draws one question."""

    used: set[str] = field(default_factory=set)

    # ------------------------------------------------------------ what is read

    def table(self) -> Scope:
        name = self.pick(tuple(TABLES))
        spelled = self.pick((name, f"{DATABASE}.{name}", f"spark_catalog.{DATABASE}.{name}", name.upper()))
        text, frame, qualifier = spelled, table(spelled), name
        if name in self.used or self.chance(50):
            qualifier = self.fresh("q")
            text, frame = f"{text} AS {qualifier}", frame.alias(qualifier)
        self.used.add(name)
        columns = [Named(qualifier, column, family, frame) for column, family in TABLES[name].items()]
        return Scope(Both(text, frame), tuple(columns))

    def scope(self, depth: int) -> Scope:
        if depth > 0 and self.chance(35):
            inner = self.question(depth - 1)
            if inner.explicit:
                alias = self.fresh("w")
                frame = inner.both.frame.alias(alias)
                columns = [Named(alias, name, family, frame) for name, family in inner.columns]
                return Scope(Both(f"({inner.both.sql}) AS {alias}", frame), tuple(columns))
        return self.table()

    def joined(self, left: Scope, depth: int) -> Scope:
        right = self.scope(depth - 1)
        kind = self.number(0, 9)
        if kind == 0:
            frame = left.both.frame.crossJoin(right.both.frame)
            return Scope(
                Both(f"{left.both.sql} CROSS JOIN {right.both.sql}", frame), left.columns + right.columns
            )
        condition = self.equality(left, right)
        if condition is None:
            return left
        if kind < 3:
            word, how = self.pick((("LEFT SEMI JOIN", "left_semi"), ("LEFT ANTI JOIN", "left_anti")))
            columns = left.columns
        else:
            word, how = self.pick(_JOINS)
            columns = left.columns + right.columns
        text = f"{left.both.sql} {word} {right.both.sql} ON {condition.sql}"
        frame = left.both.frame.join(right.both.frame, condition.frame, how)
        return Scope(Both(text, frame), columns)

    def equality(self, left: Scope, right: Scope) -> Both | None:
        for family in ("number", "text"):
            mine, its = left.family(family), right.family(family)
            if mine and its:
                both = Scope(left.both, left.columns + right.columns)
                a, b = self.column(both, self.pick(mine)), self.column(both, self.pick(its))
                return Both(f"{a.sql} = {b.sql}", a.frame == b.frame)
        return None

    # ------------------------------------------------------------ columns and expressions

    def column(self, scope: Scope, column: Named) -> Both:
        texts = [f"{column.qualifier}.{column.name}"]
        frames: list[Callable[[], Any]] = [lambda: F.col(f"{column.qualifier}.{column.name}")]
        if scope.unique(column):
            texts += [column.name, self.spelled(column.name)]
            frames.append(lambda: F.col(column.name))
        if column.of is not None:
            frames.append(lambda: column.of[column.name])
        return Both(self.pick(texts), self.pick(frames)())

    def computed(self, scope: Scope, family: str) -> Both | None:
        """Return something computed of a family, or a column."""
        columns = scope.family(family)
        if not columns:
            return None
        one = self.column(scope, self.pick(columns))
        if self.chance(55):
            return one
        two = self.column(scope, self.pick(columns))
        match family:
            case "number":
                return self.pick(
                    (
                        Both(f"{one.sql} + {two.sql}", one.frame + two.frame),
                        Both(f"coalesce({one.sql}, 1)", F.coalesce(one.frame, F.lit(1))),
                        Both(
                            f"CASE WHEN {one.sql} > 3 THEN {two.sql} ELSE 0 END",
                            F.when(one.frame > 3, two.frame).otherwise(0),
                        ),
                    )
                )
            case "text":
                return self.pick(
                    (
                        Both(f"upper({one.sql})", F.upper(one.frame)),
                        Both(f"concat({one.sql}, {two.sql})", F.concat(one.frame, two.frame)),
                    )
                )
        return Both(f"date_add({one.sql}, 3)", F.date_add(one.frame, 3))

    def numbered(self, scope: Scope) -> Both:
        by, over = self.column(scope, self.pick(scope.columns)), self.column(scope, self.pick(scope.columns))
        spec = Window.partitionBy(by.frame).orderBy(over.frame)
        return Both(
            f"row_number() OVER (PARTITION BY {by.sql} ORDER BY {over.sql})", F.row_number().over(spec)
        )

    def condition(self, scope: Scope, depth: int) -> Both:
        column = self.pick(scope.columns)
        one = self.column(scope, column)
        kind = self.number(0, 9)
        if kind == 0:
            return Both(f"{one.sql} IS NOT NULL", one.frame.isNotNull())
        if kind == 1:
            values = _LITERALS[column.family]
            return Both(f"{one.sql} IN ({', '.join(map(repr, values))})", one.frame.isin(*values))
        if kind == 2 and depth > 0:
            inner = self.question(depth - 1, families=(column.family,))
            return Both(f"{one.sql} IN ({inner.both.sql})", one.frame.isin(inner.both.frame))
        if kind == 3 and (correlated := self.exists(scope)) is not None:
            return correlated
        word, compare = self.pick(_COMPARISONS)
        literal = self.pick(_LITERALS[column.family])
        return Both(f"{one.sql} {word} {literal!r}", compare(one.frame, literal))

    def exists(self, scope: Scope) -> Both | None:
        inner = self.table()
        if "." in inner.columns[0].qualifier or inner.columns[0].qualifier in TABLES:
            return None  # only an alias keeps the inner relation's names apart from the outer one's
        for family in ("number", "text"):
            mine, its = scope.family(family), inner.family(family)
            if mine and its:
                outer, own = self.pick(mine), self.pick(its)
                own_name = f"{own.qualifier}.{own.name}"
                outer_name = f"{outer.qualifier}.{outer.name}"
                frame = inner.both.frame.filter(F.col(own_name) == F.col(outer_name).outer())
                return Both(
                    f"EXISTS (SELECT * FROM {inner.both.sql} WHERE {own_name} = {outer_name})", frame.exists()
                )
        return None

    # ------------------------------------------------------------ queries

    def question(self, depth: int, families: Sequence[str] | None = None) -> Question:
        if depth > 0 and self.chance(15):
            return self.set_operation(depth - 1, families)
        scope = self.scope(depth)
        if self.chance(35):
            scope = self.joined(scope, depth)
        where = ""
        for word in ("WHERE", "AND")[: self.pick((0, 0, 1, 1, 2))]:
            condition = self.condition(scope, depth)
            where += f" {word} {condition.sql}"
            scope = replace(scope, both=Both(scope.both.sql, self.filtered(scope, condition)))
        shape = self.pick(("list",) * 4 + ("grouped",) * 2 + ("star",) * 3)
        if shape == "star" and families is None:
            return self.star(scope, where)
        if shape == "grouped":
            return self.grouped(scope, where, families)
        return self.listed(scope, where, families)

    def filtered(self, scope: Scope, condition: Both) -> Frame:
        """Filter by the Column, or by the text that it is in SQL."""
        if self.chance(25) and "SELECT" not in condition.sql:
            return scope.both.frame.filter(condition.sql)
        return scope.both.frame.filter(condition.frame)

    def star(self, scope: Scope, where: str) -> Question:
        shown, frame = "*", scope.both.frame
        columns = [(c.name, c.family) for c in scope.columns]
        unique = [c for c in scope.columns if scope.unique(c)]
        kind = self.number(0, 5)
        if kind == 0 and len(unique) > 1:
            left_out = self.pick(unique)
            shown, frame = f"* EXCEPT ({left_out.name})", frame.drop(left_out.name)
            columns.remove((left_out.name, left_out.family))
        elif kind == 1 and (value := self.computed(scope, "number")) is not None:
            name = self.fresh("n")
            shown, frame = f"*, {value.sql} AS {name}", frame.withColumn(name, value.frame)
            columns.append((name, "number"))
        elif kind == 2 and not where:
            frame, shown = frame.select("*"), "*"
        elif kind == 3 and all(scope.unique(c) for c in scope.columns):
            shown, frame = "DISTINCT *", frame.distinct()
        order = ""
        if kind > 3 and self.chance(40):
            key = self.column(scope, self.pick(scope.columns))
            order, frame = f" ORDER BY {key.sql} DESC", frame.orderBy(key.frame.desc())
        text = f"SELECT {shown} FROM {scope.both.sql}{where}{order}"
        return self.limited(Question(Both(text, frame), tuple(columns), explicit=False))

    def listed(self, scope: Scope, where: str, families: Sequence[str] | None) -> Question:
        wanted = families or [self.pick(("number", "text", "day")) for _ in range(self.number(1, 3))]
        texts, frames, columns = [], [], []
        for family in wanted:
            value = self.computed(scope, family) or self.literal_value(family)
            if family == "number" and self.chance(15):
                value = self.numbered(scope)
            name = self.fresh("o")
            texts.append(f"{value.sql} AS {name}")
            frames.append(value.frame.alias(name))
            columns.append((name, family))
        frame = scope.both.frame.select(*frames)
        distinct = self.chance(20)
        if distinct:
            frame = frame.distinct()
        order = ""
        if not distinct and self.chance(30):
            key: Both
            if self.chance(50):
                name = self.pick(columns)[0]
                key = Both(name, F.col(name))
            else:
                column = self.pick(scope.columns)
                name = f"{column.qualifier}.{column.name}"
                key = Both(name, F.col(name))
            order, frame = f" ORDER BY {key.sql}", frame.orderBy(key.frame)
        text = (
            f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(texts)} FROM {scope.both.sql}{where}{order}"
        )
        return self.limited(Question(Both(text, frame), tuple(columns)))

    def literal_value(self, family: str) -> Both:
        literal = self.pick(_LITERALS[family])
        return Both(repr(literal), F.lit(literal))

    def grouped(self, scope: Scope, where: str, families: Sequence[str] | None) -> Question:
        wanted = list(families or ("number",) * self.number(1, 2))
        keys: list[tuple[Both, str, str]] = []
        for family in wanted[:-1]:
            value = self.computed(scope, family)
            if value is not None:
                keys.append((value, self.fresh("k"), family))
        made = []
        for family in wanted[len(keys) :]:
            name = self.fresh("g")
            columns = scope.family(family)
            if not columns:
                made.append((self.literal_aggregate(family), name, family))
                continue
            one = self.column(scope, self.pick(columns))
            kinds = [Both(f"max({one.sql})", F.max(one.frame))]
            if family == "number":
                kinds += [
                    Both("count(*)", F.count("*")),
                    Both(f"sum({one.sql})", F.sum(one.frame)),
                    Both(f"count(DISTINCT {one.sql})", F.count_distinct(one.frame)),
                ]
            made.append((self.pick(kinds), name, family))
        shown = ", ".join(f"{value.sql} AS {name}" for value, name, _ in (*keys, *made))
        text = f"SELECT {shown} FROM {scope.both.sql}{where}"
        if keys:
            text += f" GROUP BY {', '.join(value.sql for value, _, _ in keys)}"
        frame = scope.both.frame.groupBy(*(value.frame.alias(name) for value, name, _ in keys)).agg(
            *(value.frame.alias(name) for value, name, _ in made)
        )
        if self.chance(30):
            value, name, family = self.pick(made)
            literal = self.pick(_LITERALS[family])
            text += f" HAVING {value.sql} > {literal!r}"
            frame = frame.filter(F.col(name) > literal)
        return Question(Both(text, frame), tuple((n, family) for _, n, family in (*keys, *made)))

    def literal_aggregate(self, family: str) -> Both:
        literal = self.pick(_LITERALS[family])
        return Both(f"max({literal!r})", F.max(F.lit(literal)))

    def set_operation(self, depth: int, families: Sequence[str] | None) -> Question:
        wanted = families or [self.pick(("number", "text")) for _ in range(self.number(1, 2))]
        left, right = self.question(depth, wanted), self.question(depth, wanted)
        word, combine = self.pick(_SET_OPERATIONS)
        text = f"({left.both.sql}) {word} ({right.both.sql})"
        return Question(Both(text, combine(left.both.frame, right.both.frame)), left.columns)

    def limited(self, question: Question) -> Question:
        if not self.chance(20):
            return question
        count = self.number(0, 9)
        both = Both(f"{question.both.sql} LIMIT {count}", question.both.frame.limit(count))
        return replace(question, both=both)


# -------------------------------------------------------------------- policies


_READ = "allow: [{groups: [testers], access: [select]}]"
_HIDE = "deny: [{groups: [testers], access: [select]}]"
_ON = "{{catalog: spark_catalog, database: {database}, table: {table}, column: {column}}}"


def pack(builder: Drawing) -> str:
    """Return a pack for the group `testers`: what is not told of a table may be read as it is."""
    policies = [
        "  - name: testers use the shop\n"
        f"    on: {{catalog: spark_catalog, database: {DATABASE}}}\n"
        "    allow: [{groups: [testers], access: [use, show]}]"
    ]
    for name, columns in sorted(whole_tables().items()):
        names = sorted(columns)
        if builder.chance(8):
            continue
        shown = "'*'"
        if builder.chance(15):
            shown = f"[{', '.join(n for n in names if n == 'id' or builder.chance(80)) or names[0]}]"
        policies.append(_policy(f"{name} is read", name, shown, _READ))
        if builder.chance(15):
            hidden = builder.pick(names)
            policies.append(
                _policy(
                    f"{name}.{hidden} is not", name, hidden, "deny: [{groups: [testers], access: [select]}]"
                )
            )
        for column in names:
            if builder.chance(12):
                predicate = ", predicate: deny" if builder.chance(50) else ""
                policies.append(
                    _policy(
                        f"{name}.{column} is masked",
                        name,
                        column,
                        f"mask: [{{groups: [testers], type: MASK_NULL{predicate}}}]",
                    )
                )
        if builder.chance(25):
            policies.append(
                f"  - name: rows of {name}\n"
                f"    on: {{catalog: spark_catalog, database: {DATABASE}, table: {name}}}\n"
                f'    filter: [{{groups: [testers], where: "{builder.pick(names)} IS NOT NULL"}}]'
            )
    return "service: spark\npolicies:\n" + "\n".join(policies) + "\n"


def _policy(name: str, of: str, column: str, says: str) -> str:
    on = _ON.format(database=DATABASE, table=of, column=column)
    return f"  - name: {name}\n    on: {on}\n    {says}"


def asked(integer: Callable[[int, int], int], depth: int = 2) -> tuple[Question, str]:
    """Return a question and the pack that it is judged by."""
    builder = _Builder(integer)
    text = pack(builder)
    return builder.question(depth), text


@st.composite
def questions(draw: st.DrawFn, depth: int = 2) -> tuple[Question, str]:
    """Draw a question that hypothesis can shrink, and a pack."""
    return asked(lambda low, high: draw(st.integers(low, high)), depth)
