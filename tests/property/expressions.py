"""Random expressions over typed columns: what the queries of queries.py are made of between the keywords.

There is nothing in them whose value Spark may choose: no random, no `first`, no doubles, and windows and
aggregates do not depend on the order of ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.property.world import COLUMN_NAMES

T = TypeVar("T")

_TEXTS = (
    "'pen'",
    "'Oslo'",
    "'Ann Bell'",
    "'Rome'",
    "'ink'",
    r"'it\'s'",
    "'it''s'",
    "'%'",
    "CAST(NULL AS STRING)",
)

FAMILIES = {
    "int": "number",
    "decimal(10,2)": "number",
    "string": "text",
    "date": "day",
    "array<string>": "list",
    "struct<street:string,zip:int>": "record",
}
"""Types that may stand in one another's place; a query's columns are drawn by family."""

BASIC = ("number", "text", "day")
ALL = (*BASIC, *BASIC, "list", "record")
"""What a column of an answer may be; nested ones are rarer."""

Columns = tuple[tuple[str, str], ...]
"""(Name, family) of each column."""


@dataclass(frozen=True)
class Source:
    """A relation in scope: what its columns may be qualified with, and (name, family) of each."""

    qualifiers: tuple[str, ...]
    columns: Columns
    all_shown: bool = True
    """Whether everybody may see every column, so that a star over it is answered."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True)
class Ref:
    """A column as written, and its family."""

    text: str
    family: str


@dataclass
class Drawing:
    """Draws choices and expressions."""

    integer: Callable[[int, int], int]
    """Chooses a number between two, both included; everything else is chosen with it."""
    names: int = 0

    # ------------------------------------------------------------ choices

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) < percent

    def number(self, low: int, high: int) -> int:
        return self.integer(low, high)

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def spelled(self, name: str) -> str:
        """Write an identifier plain, quoted or in another case; none of it matters to Spark."""
        return self.pick((name, name, name, f"`{name}`", name.upper(), name.title()))

    # ------------------------------------------------------------ columns

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
        if not refs:
            return None
        qualifier, dot, name = self.pick(refs).text.rpartition(".")
        return qualifier + dot + (self.spelled(name) if self.chance(15) else name)

    # ------------------------------------------------------------ values

    def literal(self, family: str) -> str:
        match family:
            case "number":
                return str(self.pick((self.number(0, 60), self.number(0, 60), self.number(60, 4_000))))
            case "day":
                return f"DATE '20{self.number(10, 23)}-01-0{self.number(1, 9)}'"
            case "list":
                return self.pick(("array('pen', 'ink')", "array('a')", "CAST(array() AS ARRAY<STRING>)"))
            case "record":
                return f"named_struct('street', 'Elm', 'zip', {self.number(1, 9)})"
        return self.pick(_TEXTS)

    def value(self, sources: Sequence[Source], family: str, depth: int) -> str:
        ref = self.reference(sources, family)
        if depth > 0 and (ref is None or self.chance(12)):
            made = self.converted(sources, family)
            if made is not None:
                return made
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
        return self.pick(self.combined(family, ref, other))

    def combined(self, family: str, ref: str, other: str) -> tuple[str, ...]:
        match family:
            case "number":
                return f"{ref} + {other}", f"({ref} - {other})", f"abs({ref})", f"-{ref}"
            case "text":
                return f"concat({ref}, {other})", f"{ref} || {other}", f"upper({ref})", f"left({ref}, 2)"
            case "day":
                return f"date_add({ref}, {self.number(1, 40)})", f"last_day({ref})"
            case "list":
                # A lambda's parameter may be called like a column; inside it is the element.
                element = self.pick(("x", *COLUMN_NAMES))
                return (
                    f"transform({ref}, {element} -> upper({element}))",
                    f"filter({ref}, {element} -> {element} LIKE '%e%')",
                    f"concat({ref}, {other})",
                    f"array_sort({ref})",
                )
        return (ref,)

    def converted(self, sources: Sequence[Source], family: str) -> str | None:
        """Return a value of the family made of a column of another one."""
        wanted = {
            "number": ("text", "day", "list", "record"),
            "text": ("number", "day", "list", "record"),
            "day": ("number",),
            "list": ("text",),
            "record": ("text",),
        }
        origin = self.pick(wanted[family])
        ref = self.reference(sources, origin)
        if ref is None:
            return None
        match family, origin:
            case "number", "text":
                return f"length({ref})"
            case "number", "day":
                return self.pick((f"year({ref})", f"EXTRACT(DAY FROM {ref})"))
            case "number", "list":
                return f"size({ref})"
            case "number", "record":
                return f"{ref}.zip"
            case "text", "number":
                return self.pick((f"CAST({ref} AS STRING)", f"{ref}::string"))
            case "text", "day":
                return f"date_format({ref}, 'yyyy-MM')"
            case "text", "list":
                return self.pick((f"array_join({ref}, '-')", f"get({ref}, 0)"))
            case "text", "record":
                return self.pick((f"{ref}.street", f"upper({ref}.`street`)"))
            case "day", _:
                return f"date_add(DATE '2020-01-01', CAST({ref} AS INT) % 99)"
            case "list", _:
                return f"array({ref}, 'z')"
        return f"named_struct('street', {ref}, 'zip', length({ref}))"

    def aggregate(self, sources: Sequence[Source], family: str) -> str:
        ref = self.reference(sources, family)
        filtered = f" FILTER (WHERE {self.comparison(sources)})" if self.chance(15) else ""
        if family == "number":
            choices = ["count(*)"]
            if ref is not None:
                choices += [f"sum({ref})", f"max({ref})", f"count(DISTINCT {ref})", f"count({ref})"]
            return self.pick(choices) + filtered
        if family == "list":
            collected = self.reference(sources, "text") or "'a'"
            return f"array_sort({self.pick(('collect_list', 'collect_set'))}({collected}){filtered})"
        return f"{self.pick(('min', 'max'))}({ref or self.literal(family)}){filtered}"

    def window(self, sources: Sequence[Source], family: str) -> str:
        keys = [ref.text for each in BASIC for ref in self.references(sources, each)]
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
        family = self.pick(BASIC)
        left = self.value(sources, family, 1)
        match self.number(0, 6):
            case 0:
                return f"{left} IS {self.pick(('', 'NOT '))}NULL"
            case 1:
                return f"{left} BETWEEN {self.literal(family)} AND {self.value(sources, family, 0)}"
            case 2:
                return f"{left} {self.pick(('', 'NOT '))}IN ({self.literal(family)}, {self.literal(family)})"
            case 3 if family == "text":
                pattern = self.pick(("%e%", "A%", "%n"))
                return f"{left} {self.pick(('LIKE', 'NOT LIKE', 'ILIKE'))} '{pattern}'"
            case 4 if tags := self.reference(sources, "list"):
                element = self.pick(("x", *COLUMN_NAMES))
                return f"exists({tags}, {element} -> {element} > 'f')"
            case _:
                operator = self.pick(("=", "<>", "<", ">=", "<=>", "!="))
                return f"{left} {operator} {self.value(sources, family, 1)}"
