"""What the pipeline asks of a reader; the JVM pool and the tests' fakes answer it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from gateway.model.reading import NotRead, Proof, ReadingAnswer, ScriptReading, Splice, UnnamedColumn


class ReaderPort(Protocol):
    """Spark's parser. Never raises for what a statement contains: trouble is a NotRead."""

    @property
    def spark_version(self) -> str:
        """Version of the parser, e.g. `4.3.0`."""
        ...

    async def read(self, text: str) -> ReadingAnswer:
        """Read one statement."""
        ...

    async def read_expression(self, text: str) -> ReadingAnswer:
        """Read one expression standing alone, such as a row filter."""
        ...

    async def column_names(
        self, text: str, *, expression: bool = False
    ) -> tuple[UnnamedColumn, ...] | NotRead:
        """Return what Spark calls the columns of select lists without an alias, where that is known."""
        ...

    async def read_script(self, text: str) -> ScriptReading | NotRead | None:
        """Return what a script is made of; None when the text is no script."""
        ...

    async def prove(
        self,
        original: str,
        rewritten: str,
        splices: Sequence[Splice],
        allowed: Collection[tuple[str, ...]],
        *,
        expression: bool = False,
    ) -> Proof:
        """Say whether `rewritten` means `original` with each splice applied, and nothing else.

        `expression`: both are texts that Spark parses as an expression standing alone, not as a statement.
        Holds when (a) `rewritten` is `original` with the splices applied textually; (b) the plan of
        `original`, with each spliced node replaced by the plan of what was spliced in, equals the plan of
        `rewritten`; (c) every relation mentioned in `rewritten`, read or written, that is not a reference
        to a common table expression in scope has its name parts in `allowed` (exact, case included).
        What the reader could not look at has a `not_read`.
        """
        ...


class LineageReader(ReaderPort, Protocol):
    """A reader that has the trees of larger statements, too, for whoever decides nothing by them."""

    async def large_tree(self, text: str, *, expression: bool = False) -> bytes | NotRead | None:
        """Return the tree of a text that has none in its reading; None for one that is still larger."""
        ...
