"""Maps principals of Kerberos to users, by rules as Hadoop's `hadoop.security.auth_to_local` has them.

`RULE:[COMPONENTS:FORMAT](REGEX)s/FROM/TO/g/L`: the principal with so many components is written as the format
says (`$0` is the realm), has to fit the first expression, if there is one, and is changed by the second. The
first rule that fits counts. `DEFAULT` takes principals of one component, of the own realm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import re2

MAX_PRINCIPAL_CHARS = 512
DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"RULE:\[(\d):([^\]]*)\](?:\(((?:[^()\\]|\\.|\([^()]*\))*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?(/?L)?"
)
_PRINCIPAL = re.compile(r"([^@\\\s]+)@([^@/\\\s]+)")
_USER = re.compile(r"[^\s/@\\]{1,200}")


class NoSuchRule(ValueError):
    """A rule that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRule:
    """One rule."""

    components: int
    """0: `DEFAULT`."""
    format: str = ""
    fits: Any = None
    change_from: Any = None
    change_to: str = ""
    everywhere: bool = False
    lower: bool = False


def parse_rule(text: str) -> LocalRule:
    """Return a rule. Raises NoSuchRule."""
    if text == DEFAULT:
        return LocalRule(components=0)
    found = _RULE.fullmatch(text)
    if found is None:
        raise NoSuchRule(f"`{text}` is neither DEFAULT nor RULE:[COMPONENTS:FORMAT](REGEX)s/FROM/TO/g/L")
    components, form, fits, change_from, change_to, everywhere, lower = found.groups()
    if any(int(number) > int(components) for number in re.findall(r"\$(\d)", form)) or components == "0":
        raise NoSuchRule(f"`{text}` names a component that such principals do not have")
    try:
        return LocalRule(
            components=int(components),
            format=form,
            fits=compile_expression(fits) if fits is not None else None,
            change_from=compile_expression(change_from) if change_from else None,
            change_to=re.sub(r"\$(\d)", r"\\\1", change_to or ""),
            everywhere=everywhere is not None,
            lower=lower is not None,
        )
    except ValueError as fault:
        raise NoSuchRule(f"`{text}`: {fault}") from None


def compile_expression(text: str) -> Any:
    """Return an expression that takes no longer than the name it is held against is. Raises ValueError."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as fault:
        why = fault.args[0] if fault.args else ""
        told = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(fault)
        raise ValueError(f"`{text}` is not a regular expression of RE2: {told}") from None


def map_principal(principal: str, rules: Sequence[LocalRule], realm: str) -> str | None:
    """Return the user that a principal is, or None where no rule says so."""
    found = _PRINCIPAL.fullmatch(principal)
    if found is None or len(principal) > MAX_PRINCIPAL_CHARS:
        return None
    names, of = found[1].split("/"), found[2]
    for rule in rules:
        user = _apply(rule, names, of, realm)
        if user is not None:
            return user if _USER.fullmatch(user) and user.isprintable() else None
    return None


def _apply(rule: LocalRule, names: Sequence[str], of: str, realm: str) -> str | None:
    if rule.components == 0:
        return names[0] if len(names) == 1 and of == realm else None
    if len(names) != rule.components:
        return None
    parts = [of, *names]
    written = re.sub(r"\$(\d)", lambda number: parts[int(number[1])], rule.format)
    if rule.fits is not None and rule.fits.fullmatch(written) is None:
        return None
    if rule.change_from is not None:
        written = rule.change_from.sub(rule.change_to, written, count=0 if rule.everywhere else 1)
    return written.lower() if rule.lower else written
