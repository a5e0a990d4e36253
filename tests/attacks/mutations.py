"""Mutations of statements: of their tokens, their letters, their comments, and of one within another."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from tests.attacks import world

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\w+|\|>|::|->|=>|<=>|[<>!]=|.""",
    re.S,
)
_NAMES = (
    *(shape.name for shape in world.SHAPES),
    *(f"{world.LIVE}.{shape.name}" for shape in world.SHAPES),
    world.HIDDEN_COLUMN,
    "secret",
    "amount",
    "region",
    "_metadata",
    "id",
    "*",
    "home.street",
    f"{world.LIVE}",
)
_KEYWORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LATERAL TABLE WITH RECURSIVE UNION ALL INTERSECT EXCEPT NATURAL JOIN "
    "USING ON EXISTS IN NOT NULL DISTINCT CASE WHEN THEN ELSE END AS OVER PARTITION PIVOT UNPIVOT VALUES "
    "IDENTIFIER TABLESAMPLE FOR CUBE ROLLUP QUALIFY WINDOW LIMIT OFFSET CLUSTER SORT DISTRIBUTE "
    "STREAM COLLATE INTERVAL DATE LIKE ESCAPE HAVING FILTER WITHIN SEMI ANTI CROSS FULL "
    "LEFT RIGHT EXPLAIN DESCRIBE CACHE INSERT INTO"
).split()
_COMMENTS = (
    "/**/",
    "/* x */",
    "--\n",
    "-- \\\n",
    "/*+ COALESCE(1) */",
    "/*+ x */",
    "\n",
    "\t",
    "\u00a0",
    "\u3000",
)
_CONFUSABLE = str.maketrans({"s": "ſ", "i": "ı", "k": "K", "e": "е", "a": "а", "I": "İ", "o": "ο"})
_PUNCTUATION = (*"(),.'\"`;*=[]:?${\\", "|>", "->", "::")


def tokens(text: str) -> list[str]:
    """Cut a text into tokens; joined they are the text."""
    return _TOKEN.findall(text)


class Mutator:
    """Makes other statements of statements; `others` are those to take pieces from."""

    def __init__(self, chance: random.Random, others: Sequence[str]) -> None:
        self.chance = chance
        self.others = others
        self._kinds: tuple[Callable[[list[str]], list[str]], ...] = (
            self._swap,
            self._delete,
            self._repeat,
            *(self._rename,) * 6,
            self._keyword,
            *(self._quote,) * 2,
            *(self._comment,) * 3,
            self._confuse,
            *(self._case,) * 2,
            self._punctuate,
            *(self._splice,) * 2,
            *(self._nest,) * 3,
            *(self._wrap,) * 5,
        )

    def mutated(self, text: str) -> str:
        """Return the statement after one to three mutations."""
        parts = tokens(text)
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            if not parts:
                break
            parts = self.chance.choice(self._kinds)(parts)
        return "".join(parts)

    def _at(self, parts: list[str]) -> int:
        solid = [i for i, part in enumerate(parts) if part.strip()]
        return self.chance.choice(solid) if solid else 0

    def _word(self, parts: list[str]) -> int:
        words = [i for i, part in enumerate(parts) if re.fullmatch(r"\w+|`[^`]*`", part)]
        return self.chance.choice(words) if words else self._at(parts)

    def _swap(self, parts: list[str]) -> list[str]:
        i, j = self._at(parts), self._at(parts)
        parts[i], parts[j] = parts[j], parts[i]
        return parts

    def _delete(self, parts: list[str]) -> list[str]:
        i = self._at(parts)
        return parts[:i] + parts[i + self.chance.randint(1, 3) :]

    def _repeat(self, parts: list[str]) -> list[str]:
        i = self._at(parts)
        n = self.chance.randint(1, 6)
        return [*parts[: i + n], " ", *parts[i:]]

    def _rename(self, parts: list[str]) -> list[str]:
        parts[self._word(parts)] = self.chance.choice(_NAMES)
        return parts

    def _keyword(self, parts: list[str]) -> list[str]:
        i = self._at(parts)
        return [*parts[:i], f" {self.chance.choice(_KEYWORDS)} ", *parts[i:]]

    def _quote(self, parts: list[str]) -> list[str]:
        i = self._word(parts)
        mark = self.chance.choice("`'\"")
        bare = parts[i].strip("`'\"")
        parts[i] = self.chance.choice((f"{mark}{bare}{mark}", bare, f"`{bare}` ", f"IDENTIFIER('{bare}')"))
        return parts

    def _comment(self, parts: list[str]) -> list[str]:
        i = self._at(parts)
        return [*parts[:i], self.chance.choice(_COMMENTS), *parts[i:]]

    def _confuse(self, parts: list[str]) -> list[str]:
        i = self._word(parts)
        parts[i] = parts[i].translate(_CONFUSABLE)
        return parts

    def _case(self, parts: list[str]) -> list[str]:
        i = self._word(parts)
        parts[i] = self.chance.choice((str.upper, str.lower, str.title, str.swapcase))(parts[i])
        return parts

    def _punctuate(self, parts: list[str]) -> list[str]:
        i = self._at(parts)
        return [*parts[:i], self.chance.choice(_PUNCTUATION), *parts[i:]]

    def _splice(self, parts: list[str]) -> list[str]:
        """Go over into another statement, at a clause of both where they have one."""
        other = tokens(self.chance.choice(self.others))
        mine, theirs = self._clauses(parts), self._clauses(other)
        return [*parts[: self.chance.choice(mine)], " ", *other[self.chance.choice(theirs) :]]

    def _clauses(self, parts: list[str]) -> list[int]:
        starts = {"SELECT", "FROM", "WHERE", "GROUP", "ORDER", "UNION", "JOIN", "|>", "(", "LATERAL", "WITH"}
        return [i for i, part in enumerate(parts) if part.upper() in starts] or [self._at(parts)]

    def _nest(self, parts: list[str]) -> list[str]:
        """Put another statement where a relation stands, or where anything else does."""
        inner = self.chance.choice(self.others)
        relations = [
            i for i, part in enumerate(parts) if part == world.LIVE and parts[i + 1 : i + 2] == ["."]
        ]
        if relations and self.chance.random() < 0.7:
            i = self.chance.choice(relations)
            return [*parts[:i], f"({inner})", *parts[i + 3 :]]
        parts[self._word(parts)] = f"({inner})"
        return parts

    def _wrap(self, parts: list[str]) -> list[str]:
        text = "".join(parts)
        form = self.chance.choice(
            (
                "SELECT * FROM ({0}) w",
                "SELECT count(*) FROM ({0})",
                "WITH w AS ({0}) SELECT * FROM w",
                "SELECT * FROM {1}.open WHERE EXISTS ({0})",
                "SELECT ({0})",
                "({0})",
                "{0} UNION ALL {0}",
                "FROM ({0}) |> SELECT *",
                "EXPLAIN EXTENDED {0}",
                "DESCRIBE QUERY {0}",
                "CREATE OR REPLACE TEMP VIEW w AS {0}",
                "{0} -- ",
                "SELECT * FROM {1}.open, LATERAL ({0})",
            )
        )
        return tokens(form.format(text, world.LIVE))
