r"""Regular expressions of service definitions, matched by RE2 in time linear in the value.

They come from outside and are run on values from outside: with Python's own engine one of each could stop the
server. Ranger reads them as Java does. What Java and RE2 read otherwise is written anew (`\s`, `\p{Alpha}`)
or refused when the definition is saved: classes within classes, groups that begin with `(?` and are no `(?:`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

MAX_VALUE = 4096
"""Characters of a value that is checked; longer ones do not match."""
_MAX_DEPTH = 32
_MAX_BYTES = 1 << 20
"""Maximum size of a compiled expression."""

_POSIX = ("Alpha", "Digit", "Alnum", "Lower", "Upper", "Punct", "Space")
_ESCAPED = r"\\(?:[dDwWtnrf]|[^A-Za-z0-9]|[pP]\{[LN]\})"
"""Characters that mean the same after a backslash in both dialects."""
_CLASS = rf"\\(?P<kind>[sS]|[pP]\{{(?:{'|'.join(_POSIX)})\}})"
_OUTSIDE = re.compile(
    rf"(?P<same>{_ESCAPED}|\((?:\?:|(?!\?))|[|)^$]|\{{\d{{1,4}}(?:,\d{{0,4}})?\}}|[*+?]|[^\\\[(){{.])"
    rf"|{_CLASS}|(?P<any>\.)|(?P<set>\[\^?\]?)",
    re.DOTALL,
)
_INSIDE = re.compile(rf"(?P<same>{_ESCAPED}|(?!&&)[^\\\[])|{_CLASS}", re.DOTALL)
_NO_LOW_END = re.compile(r"\[|\\[dDwWpP]")
"""Places in a class where a `-` begins no range: its start, or after another class."""


class NotTaken(Exception):
    """The expression holds something that Java and RE2 do not read alike, or is too large."""


def fault_of(text: str) -> str | None:
    """Return why an expression is not taken, or None."""
    try:
        _compile(text)
    except NotTaken as found:
        return str(found)
    return None


def matches(text: str, value: str) -> bool:
    """Say whether the whole value matches; raise NotTaken for an expression that is not taken."""
    compiled = _compile(text)
    if len(value) > MAX_VALUE:
        return False
    try:
        return compiled.fullmatch(value) is not None
    except UnicodeEncodeError:  # a lone surrogate, which is no character
        return False


@lru_cache(maxsize=256)
def _compile(text: str) -> Any:
    options = re2.Options()
    options.max_mem = _MAX_BYTES
    options.log_errors = False
    try:
        return re2.compile(_for_re2(text), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise NotTaken(f"cannot parse it: {error}") from None


def _for_re2(text: str) -> str:
    """Write what Java reads in an expression as RE2 reads it. Raises NotTaken."""
    written: list[str] = []
    depth, at, in_set = 0, 0, False
    while at < len(text):
        found = (_INSIDE if in_set else _OUTSIDE).match(text, at)
        if found is None:
            raise NotTaken(f"`{text[at : at + 3]}` is not supported here")
        at = found.end()
        if found["kind"]:
            if in_set and written[-1] == "-" and not _NO_LOW_END.match(written[-2]):
                raise NotTaken("a range in a character class ends with a class")
            written.append(_posix(found["kind"], in_set=in_set))
        elif in_set:
            in_set = found[0] != "]"
            written.append(found[0])
        elif found["any"]:
            written.append(r"[^\n\r]")
        else:
            in_set = bool(found["set"])
            depth += found[0].startswith("(") - (found[0] == ")")
            if depth > _MAX_DEPTH:
                raise NotTaken("its groups are nested too deep")
            written.append(found[0])
    return "".join(written)


def _posix(kind: str, *, in_set: bool) -> str:
    """Return the class of ASCII that Java knows by `s` or by `p{Name}`; with a capital letter, all else."""
    name = "space" if kind in "sS" else kind[2:-1].lower()
    named = f"[:{'^' if kind[0].isupper() else ''}{name}:]"
    return named if in_set else f"[{named}]"
