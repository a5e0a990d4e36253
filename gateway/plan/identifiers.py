"""Names in plans are text: Spark's two grammars for them, as far as they are understood for certain."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[0-9]+(?:[eE][0-9]+)?(?:[lLsSyYfFdD]|[bB][dD])?")
"""Spark's lexer prefers a number to an identifier of the same length."""

_Parts = tuple[str, ...]


def table_parts(text: str) -> _Parts | None:
    """Return the parts of a table's or a function's name as Spark's SQL parser reads it, unquoted.

    None when it is not understood for certain: text after the name (`t VERSION AS OF 1`), comments, signs
    outside of backticks. Spark is sent the parts in backticks, so it reads what was judged.
    """
    parts: list[str] = []
    at, end = 0, len(text)
    while True:
        at = _blanks(text, at)
        start = at
        if at < end and text[at] == "`":
            closing = _find_closing_backtick(text, at)
            if closing is None or closing == at + 1:
                return None
            parts.append(text[at + 1 : closing].replace("``", "`"))
            at = closing + 1
        else:
            while at < end and _in_identifier(text[at]):
                at += 1
            word = text[start:at]
            if not word or _NUMBER.fullmatch(word):  # RULE (name-number)
                return None
            parts.append(word)
        at = _blanks(text, at)
        if at == end:
            return tuple(parts)
        if text[at] != ".":  # RULE (name-trailing-text)
            return None
        at += 1


def attribute_parts(text: str) -> _Parts | None:
    """Return the parts of a column's name as Spark's analyzer splits it, or None where it raises an error.

    Anything may stand outside of backticks but dots and backticks; a part in backticks ends at a dot.
    """
    if "`" not in text:
        if "." not in text:
            return (text,)
        return tuple(text.split(".")) if _well_dotted(text) else None
    parts: list[str] = []
    part: list[str] = []
    quoted = False
    at, end = 0, len(text)
    while at < end:
        sign = text[at]
        if quoted:
            if sign != "`":
                part.append(sign)
            elif text[at + 1 : at + 2] == "`":
                part.append("`")
                at += 1
            elif at + 1 < end and text[at + 1] != ".":  # RULE (column-quote-dot)
                return None
            else:
                quoted = False
        elif sign == "`":
            if part:
                return None
            quoted = True
        elif sign == ".":
            if at in (0, end - 1) or text[at - 1] == ".":
                return None
            parts.append("".join(part))
            part.clear()
        else:
            part.append(sign)
        at += 1
    if quoted:
        return None
    parts.append("".join(part))
    return tuple(parts)


def _well_dotted(text: str) -> bool:
    return text[0] != "." and text[-1] != "." and ".." not in text


def _in_identifier(sign: str) -> bool:
    return sign == "_" or (sign.isascii() and sign.isalnum())  # RULE (name-other-alphabets)


def _blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _find_closing_backtick(text: str, opening: int) -> int | None:
    """Return where the name ends that begins at the backtick `opening`; doubled ones are part of it."""
    at = opening + 1
    while (at := text.find("`", at)) >= 0:
        if text[at + 1 : at + 2] != "`":
            return at
        at += 2
    return None
