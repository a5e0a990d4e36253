"""SQL text of policies: what it may contain, and how a user's values are bound into it.

Text is never pasted together with values: a token stands where a literal may stand, and becomes one. Values
that hold anything but letters, digits and a few marks are bound as hexadecimal, so that no setting of Spark's
lexer (backslash escapes, doubled quotes, adjacent literals) can give them another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.model.principal import Principal
from gateway.policy.documents import hint

MAX_EXPRESSION = 16_384
"""Characters of one expression."""

_QUOTED = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"\$\{\{\s*USER\.(?P<ranger>[A-Za-z_][\w.-]*)\s*\}\}"
    r"|\{USER(?:\.(?P<attribute>[A-Za-z_][\w.-]*))?\}"
    r"|\{(?P<name>col|colType|type)\}"
)
_BRACED = re.compile(r"\{[^{}']*\}?|\}")
_SIMPLE = re.compile(r"[A-Za-z0-9_.@+ -]{0,256}\Z")
_STRINGS = ("'", '"')

_PLACE = {"filter": "a row filter", "mask": "a custom mask"}


def quote_name(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def string_literal(text: str) -> str | None:
    """Return Spark SQL of exactly this string, or None when it is not Unicode text."""
    if _SIMPLE.match(text):
        return f"'{text}'"
    try:
        return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"
    except UnicodeEncodeError:
        return None


def _pieces(text: str) -> list[tuple[bool, str]]:
    """Cut text into (quoted, piece); an unbalanced quote stays in an unquoted piece."""
    pieces: list[tuple[bool, str]] = []
    position = 0
    for found in _QUOTED.finditer(text):
        if found.start() > position:
            pieces.append((False, text[position : found.start()]))
        pieces.append((True, found.group()))
        position = found.end()
    if position < len(text):
        pieces.append((False, text[position:]))
    return pieces


def faults_of(text: str, kind: str) -> list[str]:
    """Return what is wrong with a `filter` or a `mask` text before Spark's parser looks at it."""
    what = _PLACE[kind]
    if len(text) > MAX_EXPRESSION:
        return [f"{what} is longer than {MAX_EXPRESSION} characters"]
    faults: list[str] = []
    if "${" in _TOKEN.sub("", text):
        faults.append(f"{what} may not hold `${{`: Spark would substitute it")
    if any((ord(c) < 32 and c not in "\t\n\r") or 0xD800 <= ord(c) < 0xE000 for c in text):
        faults.append(f"{what} may not hold control characters")
    for quoted, piece in _pieces(text):
        found = _TOKEN.search(piece) if quoted else None
        if found:
            token = found.group()
            faults.append(f"token `{token}` stands inside quotes; write it without, it becomes a literal")
        elif not quoted:
            faults += _unquoted_faults(piece, kind)
    faults += _neighbour_faults(text)
    return list(dict.fromkeys(faults))


def _unquoted_faults(piece: str, kind: str) -> list[str]:
    what, faults = _PLACE[kind], list[str]()
    rest = _TOKEN.sub(" ", piece)
    for mark, reason in (
        ("--", "comments"),
        ("/*", "comments"),
        (";", "a semicolon"),
        ("\\", "a backslash outside quotes"),
        ("$", "`$`"),
        ("?", "parameters"),
    ):
        if mark in rest:
            faults.append(f"{what} may not hold {reason}")
    if re.search("['\"`]", rest):
        faults.append(f"a quote in {what} is not closed")
    for found in _TOKEN.finditer(piece):
        if kind == "filter" and found["name"]:
            faults.append(f"`{found.group()}` means something in a custom mask only")
    known = ("{USER}", "{USER.attribute}") if kind == "filter" else ("{col}", "{colType}", "{type}", "{USER}")
    for found in _BRACED.finditer(rest):
        faults.append(f"unknown token `{found.group()}`{hint(found.group(), known)}")
    return faults


def _neighbour_faults(text: str) -> list[str]:
    """Two string literals side by side are one string to Spark, so a token may not stand beside one."""
    # One character for each thing: S a string, N a quoted name, V a token for a value.
    outline = "".join(
        ("\x01S" if piece[0] in _STRINGS else "\x01N")
        if quoted
        else _TOKEN.sub(lambda found: " " if found["name"] else "\x01V", piece)
        for quoted, piece in _pieces(text)
    )
    faults = []
    if re.search("\x01[SV]\\s*\x01V|\x01V\\s*\x01S", outline):
        faults.append("a token stands beside another literal; Spark would join the two")
    if re.search("(?:[\\w.]|\x01N)(?<!\x01S)\x01V|\x01V(?:[\\w.]|\x01N)", outline):
        faults.append("a token stands directly beside a name")
    if re.search("(?<![\\w\x01])[rR]\x01S", outline):
        faults.append("raw strings (r'…') are not taken; double the backslashes instead")
    return faults


def bind(text: str, principal: Principal, names: Mapping[str, str] | None = None) -> str | None:
    """Return the text with its tokens bound; None when a value is missing or is not text.

    `names` holds what `{col}`, `{colType}` and `{type}` stand for: SQL that the gateway wrote.
    """
    missing = False

    def value(found: re.Match[str]) -> str:
        nonlocal missing
        if found["name"]:
            written = (names or {}).get(found["name"])
        else:
            attribute = found["ranger"] or found["attribute"]
            own = principal.user if attribute is None else principal.attribute(attribute)
            written = None if own is None else string_literal(own)
        if written is None:
            missing = True
            return "NULL"
        return written

    bound = "".join(piece if quoted else _TOKEN.sub(value, piece) for quoted, piece in _pieces(text))
    return None if missing else bound


def sample(text: str) -> str:
    """Return the text with plausible values bound, for a parser to read when a pack loads."""

    def named(found: re.Match[str]) -> str:
        return {"col": "`c`", "colType": "STRING", "type": "STRING"}.get(found["name"] or "", "'x'")

    return "".join(piece if quoted else _TOKEN.sub(named, piece) for quoted, piece in _pieces(text))
