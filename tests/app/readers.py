"""A parser that reads everything, for tests of where policies come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gateway.model.reading import (
    NotParsed,
    NotRead,
    Proof,
    Reading,
    ReadingAnswer,
    ScriptReading,
    Splice,
    UnnamedColumn,
)

NONE: frozenset[str] = frozenset()
ROOTS = {"1": "Literal", "true": "Literal", "a + 1": "Add"}


class ReaderThatCounts:
    """Parses every expression but those that hold the word `broken`; `asked` are those that it was given."""

    spark_version = "4.3.0"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def read(self, text: str) -> ReadingAnswer:
        return Reading(
            root=ROOTS.get(text, "EqualTo"),
            nodes=NONE,
            expressions=NONE,
            relations=(),
            columns=(),
            functions=(),
            commands=(),
            subquery_aliases=NONE,
        )

    async def read_expression(self, text: str) -> ReadingAnswer:
        self.asked.append(text)
        if "broken" in text:
            return NotParsed("syntax error at\n'broken'", "PARSE_SYNTAX_ERROR", "42601")
        return await self.read(text)

    async def column_names(
        self, text: str, *, expression: bool = False
    ) -> tuple[UnnamedColumn, ...] | NotRead:
        return ()

    async def read_script(self, text: str) -> ScriptReading | NotRead | None:
        return None

    async def prove(
        self,
        original: str,
        rewritten: str,
        splices: Sequence[Splice],
        allowed: Collection[tuple[str, ...]],
        *,
        expression: bool = False,
    ) -> Proof:
        return Proof(holds=True)
