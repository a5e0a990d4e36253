"""Spark's error conditions: its sentence of each with those parameters that may be told under obligations.

Spark's own words between the parameters tell nothing of a row. A parameter is told where its name says that
it is a type, a setting, a function or a count, and it looks like one; where it names something that the
statement names; and what a function was called with only where it is one of a few literals of the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

_HERE = files("gateway.session")

STARS = "***"
MAX_LITERALS = 32
"""Literals of a statement beyond which none of them is told: which one failed may depend on a row."""
MAX_MESSAGE_CHARS = 4096
"""Of a message, in which parameters are looked for."""
MAX_PARAMETER_CHARS = 256
MAX_TEXT_CHARS = 100_000
"""Of a statement; of a longer one no word is told."""

ParameterKind = Literal["types", "configs", "functions", "counts", "own", "arguments", "overflow", "values"]

_PARAMETER = re.compile(r"<(\w+)>")
_BETWEEN = re.compile(r"<\w+>")
_SIMPLE = (
    r"(?:BOOLEAN|BYTE|TINYINT|SHORT|SMALLINT|INT|INTEGER|INTEGRAL|LONG|BIGINT|FLOAT|REAL|DOUBLE|DECIMAL"
    r"|NUMERIC|STRING(?: COLLATE [A-Z0-9_]{1,40})?|CHAR|VARCHAR|BINARY|DATE|TIME|TIMESTAMP(?:_NTZ|_LTZ)?|VOID"
    r"|(?:ANSI )?INTERVAL(?: (?:YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)(?: TO (?:MONTH|HOUR|MINUTE|SECOND))?)?"
    r"|NULL|ANY|VARIANT|GEOMETRY|GEOGRAPHY|ARRAY|MAP|STRUCT)(?:\(\d{1,5}(?:, ?\d{1,2})?\))?"
)
"""Types by their names: any other word in capitals could be somebody's."""
_TYPE = rf'"?(?:(?:ARRAY|MAP)<{_SIMPLE}(?:, {_SIMPLE})?>|{_SIMPLE})"?'
_SHAPES: Mapping[str, re.Pattern[str]] = {
    "types": re.compile(rf"{_TYPE}(?: or {_TYPE})?|\({_TYPE}(?:(?:, | or ){_TYPE}){{0,5}}\)"),
    "configs": re.compile(
        r'"?spark\.[a-z][A-Za-z.]{1,100}"?|"?(?:true|false)"?|https://spark\.apache\.org/docs/(?:latest|[\d.]{3,9})'
    ),
    "functions": re.compile(
        r"([`'\"]?)[a-z][a-z_0-9]{1,40}\1"
        r"|(?: Use '[a-z_]{1,40}' to tolerate overflow and return NULL instead\.)?"
    ),
    "counts": re.compile(r"\d{1,10}"),
    "overflow": re.compile(r"(?:(?:byte|short|integer|long|[Ii]nterval) )?overflow"),
}
"""What a parameter of each kind looks like. No user can write it where the exception is one that Spark alone
raises with it."""
_OTHERWISE: Mapping[str, Mapping[str, ParameterKind]] = {
    "ARITHMETIC_OVERFLOW": {"message": "overflow"},
    "DATETIME_OVERFLOW": {"operation": "values"},
    "INTERVAL_ARITHMETIC_OVERFLOW": {"message": "overflow"},
    "INVALID_PARAMETER_VALUE.PATTERN": {"value": "arguments"},
}
"""Parameters that are of another kind than others of their name."""
RAISED_BY_USERS = frozenset({"org.apache.spark.SparkRuntimeException", "java.lang.RuntimeException", ""})
"""Exceptions whose condition and parameters a user may choose, and the one that is not known."""
_LITERAL = re.compile(r"'((?:[^'\\]|\\.|'')*)'|\"((?:[^\"\\]|\\.|\"\")*)\"")
_WORD = re.compile(r"`(?:[^`]|``)+`|\w+")
_BEGINNING = 12
"""Characters of Spark's words after a parameter by which its end is found where the rest is another."""
_END = re.compile(r"\n== SQL|\n\tat |\s+SQLSTATE: [0-9A-Z]{5}")
_QUOTED = re.compile(r"(['\"`])(.*)\1", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCondition:
    """One of Spark's error conditions."""

    text: str
    """Spark's sentence on one line, with `<name>` for each parameter."""
    sqlstate: str
    """Empty where Spark has none."""
    kinds: Mapping[str, ParameterKind]
    """Of its parameters, by name."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a statement says itself, as its sender wrote it."""

    words: frozenset[str] = frozenset()
    literals: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Own:
        literals: set[str] = set()
        words = {"spark_catalog"}
        if sum(map(len, texts)) > MAX_TEXT_CHARS:
            return NO_PARAMETERS_SHOWN
        for text in texts:
            for found in _LITERAL.finditer(text):
                literals.add(found[1] if found[1] is not None else found[2])
            words.update(word.strip("`").lower() for word in _WORD.findall(_LITERAL.sub(" ", text)))
        # RULE (many-literals-untold)
        return cls(frozenset(words), frozenset(literals) if len(literals) <= MAX_LITERALS else frozenset())


NO_PARAMETERS_SHOWN = Own()


@cache
def conditions() -> Mapping[str, KnownCondition]:
    """Return the conditions of Spark 4.3 by name, from its own list of them (`error-conditions.json`)."""
    kinds = {name: kind for kind, names in parameters().items() for name in names}
    listed = json.loads(_HERE.joinpath("error_conditions.json").read_text(encoding="utf-8"))
    return {
        name: KnownCondition(
            text=text,
            sqlstate=sqlstate,
            kinds={
                parameter: _OTHERWISE.get(name, {}).get(parameter) or kinds.get(parameter, "values")
                for parameter in _PARAMETER.findall(text)
            },
        )
        for name, (text, sqlstate) in listed.items()
    }


@cache
def parameters() -> Mapping[ParameterKind, Sequence[str]]:
    """Return the names of all parameters by what stands in them."""
    listed: Mapping[ParameterKind, Sequence[str]] = json.loads(
        _HERE.joinpath("error_parameters.json").read_text(encoding="utf-8")
    )
    return listed


def sqlstate_of(name: str) -> str:
    """Return the SQLSTATE of a condition; empty where it has none, or is not known."""
    known = conditions().get(name)
    return known.sqlstate if known is not None else ""


@cache
def sqlstates() -> frozenset[str]:
    """Return the SQLSTATEs that Spark's conditions have: a user may choose one, but not make one up."""
    return frozenset(known.sqlstate for known in conditions().values() if known.sqlstate)


_LEGACY = "_LEGACY_ERROR_"
"""Begins the names of conditions that Spark leaves out of its messages."""
_FEWEST_WORDS = 3
"""Of a sentence that is told from all others."""
_REQUIREMENT = "requirement failed: "
_WORDS = re.compile(r"[A-Za-z]{2,}")


def find_legacy(exception: str, message: str) -> str:
    """Return the condition of a message that is told without its name: the only one with such a sentence.

    Empty where there is none, and where whoever raised the exception may have chosen the message.
    """
    # RULE (raised-sentences-unnamed)
    if exception in RAISED_BY_USERS or not exception.startswith(("org.apache.spark.", "java.lang.Illegal")):
        return ""
    message = " ".join(_END.split(message[:MAX_MESSAGE_CHARS], maxsplit=1)[0].split())
    message = message.removeprefix(_REQUIREMENT)
    found = [name for name, pieces in _legacy_sentences().items() if _has_pieces(message, pieces)]
    return found[0] if len(found) == 1 else ""


@cache
def _legacy_sentences() -> Mapping[str, Sequence[str]]:
    """Return what stands between the parameters of each legacy condition with enough words of its own."""
    pieces = {
        name: _BETWEEN.split(known.text) for name, known in conditions().items() if name.startswith(_LEGACY)
    }
    return {
        name: found for name, found in pieces.items() if len(_WORDS.findall(" ".join(found))) >= _FEWEST_WORDS
    }


def _has_pieces(message: str, pieces: Sequence[str]) -> bool:
    """Whether a message has these pieces in their order, from its beginning to its end, in linear time."""
    if len(pieces) == 1:
        return message == pieces[0]
    if not message.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        found = message.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return message.endswith(pieces[-1]) and at + len(pieces[-1]) <= len(message)


def sentence(
    name: str,
    exception: str,
    message: str,
    *,
    own: Own = NO_PARAMETERS_SHOWN,
    given: Mapping[str, str] | None = None,
) -> str | None:
    """Return Spark's sentence for a condition, with stars for what may be a value of a row.

    `message` is Spark's, without the name of its condition; `given` are its parameters, where Spark tells
    them. None when nothing would be told: the condition is not known, or is nothing but parameters.
    """
    known = conditions().get(name)
    if known is None or not re.search(r"\w", _PARAMETER.sub("", known.text)):
        return None
    values = given if given is not None else _find_parameters(known.text, message)

    def show_parameter(found: re.Match[str]) -> str:
        value = values.get(found[1])
        return (
            value
            if value is not None and may_show_parameter(name, found[1], value, exception, own)
            else STARS
        )

    return " ".join(_PARAMETER.sub(show_parameter, known.text).split())


def may_show_parameter(
    name: str, parameter: str, value: str, exception: str, own: Own = NO_PARAMETERS_SHOWN
) -> bool:
    """Whether a parameter of a condition may be told under obligations.

    INVARIANT (no values under obligations): what is not listed, does not look as it should, or could have
    been written by whoever raised it, is not.
    """
    known = conditions().get(name)
    kind = known.kinds.get(parameter, "values") if known is not None else "values"
    if kind == "values" or len(value) > MAX_PARAMETER_CHARS:
        return False  # RULE (parameter-values-untold)
    plain = _unquote(value)
    if kind in ("own", "arguments") and plain in own.literals:
        return True
    # INVARIANT (no values under obligations): an argument may be a value of a row. A statement has as many
    # words as its sender likes, and they would tell which one it is.
    # RULE (raised-parameters-untold, argument-parameters-untold)
    if kind == "arguments" or exception in RAISED_BY_USERS:
        return False
    if kind == "own":
        names = [word.strip("`").lower() for word in _WORD.findall(value)]
        return bool(names) and not re.search(r"[^\w.`'\" ,()]", value) and own.words.issuperset(names)
    return _SHAPES[kind].fullmatch(value) is not None


def _unquote(value: str) -> str:
    found = _QUOTED.fullmatch(value)
    return found[2] if found is not None else value


def _find_parameters(text: str, message: str) -> Mapping[str, str]:
    """Find the parameters in a message: each ends where Spark's next words begin.

    A value may hold those words too, and then what is found is another piece of it: so each is looked at.
    """
    message = " ".join(_END.split(message[:MAX_MESSAGE_CHARS], maxsplit=1)[0].split())
    pieces = _PARAMETER.split(text)
    found: dict[str, str] = {}
    at = 0
    for index, piece in enumerate(pieces):
        if index % 2:
            continue
        begins = message.find(piece, at) if piece else (at if index == 0 else len(message))
        if begins < 0:
            # Another version says the rest otherwise.
            begins = message.find(piece[:_BEGINNING], at)
        if begins < 0:
            break
        if index:
            found.setdefault(pieces[index - 1], message[at:begins])
        at = begins + len(piece)
    return found
