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
    cursor = _Cursor(text)
    if not cursor.takes("CREATE", "TABLE"):
        raise ValueError("it is not of a table")
    name = cursor.skip({"("})
    shown = []
    while cursor.take() != ")":  # the parenthesis that opens, then commas
        if column := _take_column(cursor, columns):
            shown.append(column)
    if not shown:
        raise ValueError("it has no column that may be seen")
    body = ",\n  ".join(shown)
    return "\n".join([f"CREATE TABLE {name} (\n  {body})", *_take_clauses(cursor, columns)]) + "\n"


class _Cursor:
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


def _take_column(cursor: _Cursor, columns: frozenset[str]) -> str | None:
    """Read a column or a constraint. Return the column with type and comment, if it may be seen."""
    is_constraint = cursor.look() == "CONSTRAINT" and cursor.look(2) in _CONSTRAINTS
    name = cursor.take()
    kind = cursor.skip(_AFTER_TYPE, angles=True)
    optional = ""
    while cursor.look() not in {",", ")"}:
        if cursor.takes("NOT", "NULL"):
            optional += " NOT NULL"
        elif cursor.takes("COMMENT"):
            if comment := cursor.take_string():
                optional += f" COMMENT {comment}"
        else:
            cursor.take()
            cursor.skip({",", ")", "COMMENT"})
    if is_constraint or not kind or "\n" in kind or not _shows(name, columns):  # RULE (statement-columns)
        return None
    return f"{name} {kind}{optional}"


def _take_clauses(cursor: _Cursor, columns: frozenset[str]) -> Iterator[str]:
    while not cursor.ended:
        if cursor.takes("USING"):
            # A class may be named: `org.example.Source`.
            provider = cursor.take()
            while not cursor.ended and cursor.takes("."):
                provider += f".{cursor.take()}"
            yield f"USING {provider}"
        elif cursor.takes("PARTITIONED", "BY", "("):
            if items := [*_take_partitioning(cursor, columns)]:
                yield f"PARTITIONED BY ({', '.join(items)})"
        elif cursor.takes("COMMENT"):
            if comment := cursor.take_string():
                yield f"COMMENT {comment}"
        elif cursor.takes("DEFAULT", "COLLATION"):
            yield f"DEFAULT COLLATION {cursor.take()}"
        elif cursor.takes("TBLPROPERTIES", "("):
            if pairs := [*_take_properties(cursor)]:
                yield "TBLPROPERTIES (\n  " + ",\n  ".join(pairs) + ")"
        elif cursor.take() == "(":
            cursor.skip({")"})
            cursor.take()


def _take_partitioning(cursor: _Cursor, columns: frozenset[str]) -> Iterator[str]:
    """Read `b, days(at), bucket(4, a.b))`; return what names only columns that may be seen."""
    end = ","
    while end == ",":
        call = cursor.look(1) == "("
        function = cursor.take() if call else ""
        arguments = [cursor.skip({",", ")"})]
        if call:
            arguments = [*_take_arguments(arguments[0])]
        if all(argument.isdecimal() or _shows_path(argument, columns) for argument in arguments):
            yield f"{function}({', '.join(arguments)})" if call else arguments[0]
        end = cursor.take()


def _take_arguments(written: str) -> Iterator[str]:
    cursor = _Cursor(written)
    while not cursor.ended and cursor.take() != ")":  # the parenthesis that opens, then commas
        yield cursor.skip({",", ")"})


def _shows_path(written: str, columns: frozenset[str]) -> bool:
    """Whether a column or a field of one may be seen."""
    cursor = _Cursor(written)
    name = "" if cursor.ended else cursor.take()
    while not cursor.ended and cursor.takes("."):
        cursor.take()
    return cursor.ended and _shows(name, columns)  # RULE (statement-partitions)


def _take_properties(cursor: _Cursor) -> Iterator[str]:
    end = ","
    while end == ",":
        key = cursor.take_string()
        if not cursor.takes("="):
            raise ValueError("a property in it has no value")
        value = cursor.take_string()
        if value and key[1:-1] in HARMLESS_PROPERTIES:  # RULE (statement-properties)
            yield f"{key} = {value}"
        end = cursor.take()


def _shows(name: str, columns: frozenset[str]) -> bool:
    return unquote(name).lower() in columns
