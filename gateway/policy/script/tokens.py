"""Tokens of the expression language, and a cursor over them that refuses what does not fit, with its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_SCRIPT: Final = 8_192
"""Characters; the longest script in Ranger's documentation has 200."""
MAX_PARTS: Final = 2_000
"""Tokens of one script."""

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)"
    r"|(?P<number>[0-9]{1,30}(?:\.[0-9]{1,30})?(?![\w.]))"
    r"|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<text>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<mark>===|!==|==|!=|<=|>=|&&|\|\||[-+!<>()\[\].,?:;={}])"
)
_ESCAPE = re.compile(r"\\(?:u(?P<four>[0-9A-Fa-f]{4})|x(?P<two>[0-9A-Fa-f]{2})|(?P<one>.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


class Untranslatable(Exception):
    """A script is not of our language; the message names the part that is not."""


@dataclass(frozen=True, slots=True)
class ScriptToken:
    """One token: `kind` is `number`, `name`, `text`, `mark` or, once and last, `end`."""

    kind: str
    text: str
    place: int


def unescape(quoted: str) -> str:
    """Return what a quoted token stands for."""

    def unescape(found: re.Match[str]) -> str:
        code = found["four"] or found["two"]
        if code:
            return chr(int(code, 16))
        return _ESCAPED.get(found["one"], found["one"])

    return _ESCAPE.sub(unescape, quoted[1:-1])


class Cursor:
    """A place among the tokens of one script."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = self._read()
        self._at = 0

    def _read(self) -> list[ScriptToken]:
        if len(self._source) > MAX_SCRIPT:
            raise Untranslatable(f"a script is longer than {MAX_SCRIPT} characters")
        tokens: list[ScriptToken] = []
        place = 0
        while place < len(self._source):
            found = _TOKEN.match(self._source, place)
            if found is None:
                raise self._build_refusal("is not understood", place)
            if found.lastgroup != "space":
                tokens.append(ScriptToken(found.lastgroup or "", found.group(), place))
            place = found.end()
        if len(tokens) > MAX_PARTS:
            raise Untranslatable(f"a script has more than {MAX_PARTS} parts")
        tokens.append(ScriptToken("end", "", place))
        return tokens

    def _build_refusal(self, why: str, place: int | None = None) -> Untranslatable:
        """Return the refusal of what stands at a place, or else of the next token."""
        place = self._tokens[self._at].place if place is None else place
        bit = " ".join(self._source[place : place + 40].split())
        return Untranslatable(f"script: `{bit}` {why}" if bit else f"script: the end {why}")

    def _peek(self, ahead: int = 0) -> ScriptToken:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _next(self) -> ScriptToken:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _is(self, mark: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token.kind == "mark" and token.text == mark

    def _is_name(self, name: str) -> bool:
        token = self._peek()
        return token.kind == "name" and token.text == name

    def _take(self, mark: str) -> bool:
        if self._is(mark):
            self._at += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._build_refusal(f"stands where `{mark}` is expected")

    def _find_closing_bracket(self, place: int) -> int:
        """Return the number of the token that closes the bracket at token `place`; −1 when none does."""
        depth = 0
        for number in range(place, len(self._tokens)):
            token = self._tokens[number]
            if token.kind == "mark":
                depth += (token.text in "([{") - (token.text in ")]}")
                if depth == 0:
                    return number
        return -1
