"""What of SHOW CREATE TABLE a principal may read from whom policies hide something of the table.

What stays is a statement, as Spark writes it. Location, options, buckets, defaults, constraints and unlisted
properties go, and so does what names a column that may not be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.model.catalog import unquote
from gateway.session.descriptions import HARMLESS_PROPERTIES

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|\w+|[^\s\w'`]|\S", re.DOTALL)
_AFTER_TYPE = frozenset({",", ")", "NOT", "DEFAULT", "GENERATED", "COMMENT"})
_CONSTRAINTS = frozenset({"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"})


def reduce_create_statement(text: str, columns: frozenset[str]) -> str:
    """Return the statement with those of its `columns` (lower case) that may be seen.

    Raises ValueError for what is not understood: the statement of a view above all.
    """
    reader = _StatementReader(text)
    if not reader.takes("CREATE", "TABLE"):
        raise ValueError("it is not of a table")
    name = reader.skip({"("})
    shown = []
    while reader.take() != ")":  # the parenthesis that opens, then commas
        if column := _take_column(reader, columns):
            shown.append(column)
    if not shown:
        raise ValueError("it has no column that may be seen")
    body = ",\n  ".join(shown)
    return "\n".join([f"CREATE TABLE {name} (\n  {body})", *_take_clauses(reader, columns)]) + "\n"


class _StatementReader:
    """Reads a text by words, signs, strings and quoted names. Raises ValueError behind its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*_TOKEN.finditer(text)]
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at == len(self._tokens)

    def look(self, ahead: int = 0) -> str:
        """Return a token that comes, in capitals."""
        if self._at + ahead >= len(self._tokens):
            raise ValueError("it ends too early")
        return self._tokens[self._at + ahead].group().upper()

    def take(self) -> str:
        self.look()
        self._at += 1
        return self._tokens[self._at - 1].group()

    def takes(self, *words: str) -> bool:
        """Read these words if they are next."""
        if self._at + len(words) > len(self._tokens) or any(
            self.look(at) != word for at, word in enumerate(words)
        ):
            return False
        self._at += len(words)
        return True

    def take_string(self) -> str:
        """Read a string. Return nothing for one of several lines: Spark does not escape backslashes, so
        it may reach as far as the next string."""
        string = self.take()
        if len(string) < 2 or string[0] != "'":
            raise ValueError("it has no string where one was expected")
        return "" if "\n" in string else string  # RULE (statement-strings)

    def skip(self, until: frozenset[str] | set[str], *, angles: bool = False) -> str:
        """Read up to a token of `until` outside of parentheses, and of `<>` if these are brackets here."""
        first, depth = self._at, 0
        while depth or self.look() not in until:
            sign = self.take()
            if sign in "()" or (angles and sign in "<>"):
                depth += 1 if sign in "(<" else -1
        if first == self._at:
            return ""
        return self._text[self._tokens[first].start() : self._tokens[self._at - 1].end()]


def _take_column(reader: _StatementReader, columns: frozenset[str]) -> str | None:
    """Read a column or a constraint. Return the column with type and comment, if it may be seen."""
    is_constraint = reader.look() == "CONSTRAINT" and reader.look(2) in _CONSTRAINTS
    name = reader.take()
    kind = reader.skip(_AFTER_TYPE, angles=True)
    optional = ""
    while reader.look() not in {",", ")"}:
        if reader.takes("NOT", "NULL"):
            optional += " NOT NULL"
        elif reader.takes("COMMENT"):
            if comment := reader.take_string():
                optional += f" COMMENT {comment}"
        else:
            reader.take()
            reader.skip({",", ")", "COMMENT"})
    if is_constraint or not kind or "\n" in kind or not _shows(name, columns):  # RULE (statement-columns)
        return None
    return f"{name} {kind}{optional}"


def _take_clauses(reader: _StatementReader, columns: frozenset[str]) -> Iterator[str]:
    while not reader.ended:
        if reader.takes("USING"):
            # A class may be named: `org.example.Source`.
            provider = reader.take()
            while reader.takes("."):
                provider += f".{reader.take()}"
            yield f"USING {provider}"
        elif reader.takes("PARTITIONED", "BY", "("):
            if items := [*_take_partitioning(reader, columns)]:
                yield f"PARTITIONED BY ({', '.join(items)})"
        elif reader.takes("COMMENT"):
            if comment := reader.take_string():
                yield f"COMMENT {comment}"
        elif reader.takes("DEFAULT", "COLLATION"):
            yield f"DEFAULT COLLATION {reader.take()}"
        elif reader.takes("TBLPROPERTIES", "("):
            if pairs := [*_take_properties(reader)]:
                yield "TBLPROPERTIES (\n  " + ",\n  ".join(pairs) + ")"
        elif reader.take() == "(":
            reader.skip({")"})
            reader.take()


def _take_partitioning(reader: _StatementReader, columns: frozenset[str]) -> Iterator[str]:
    """Read `b, days(at), bucket(4, a.b))`; return what names only columns that may be seen."""
    end = ","
    while end == ",":
        call = reader.look(1) == "("
        function = reader.take() if call else ""
        arguments = [reader.skip({",", ")"})]
        if call:
            arguments = [*_take_arguments(arguments[0])]
        if all(argument.isdecimal() or _shows_path(argument, columns) for argument in arguments):
            yield f"{function}({', '.join(arguments)})" if call else arguments[0]
        end = reader.take()


def _take_arguments(written: str) -> Iterator[str]:
    reader = _StatementReader(written)
    while not reader.ended and reader.take() != ")":  # the parenthesis that opens, then commas
        yield reader.skip({",", ")"})


def _shows_path(written: str, columns: frozenset[str]) -> bool:
    """Whether a column or a field of one may be seen."""
    reader = _StatementReader(written)
    name = "" if reader.ended else reader.take()
    while reader.takes("."):
        reader.take()
    return reader.ended and _shows(name, columns)  # RULE (statement-partitions)


def _take_properties(reader: _StatementReader) -> Iterator[str]:
    end = ","
    while end == ",":
        key = reader.take_string()
        if not reader.takes("="):
            raise ValueError("a property in it has no value")
        value = reader.take_string()
        if value and key[1:-1] in HARMLESS_PROPERTIES:  # RULE (statement-properties)
            yield f"{key} = {value}"
        end = reader.take()


def _shows(name: str, columns: frozenset[str]) -> bool:
    return unquote(name).lower() in columns
