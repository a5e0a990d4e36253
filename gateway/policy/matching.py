"""A policy's values at one level become one matcher; values are never compared in any other place.

Ranger's default, path and URL matchers: globs, which the whole value must match; case matters or not as the
service definition says. Substituted tokens are matched literally: a user called `*` is no wildcard (a
deviation from Ranger, on the safe side).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gateway.model.policy import ResourceDef, ResourceValues
from gateway.model.resource import AnyOf, ElementScope
from gateway.policy.facts import Facts
from gateway.policy.globs import GlobPieces, glob, has_wildcard, may_go_on, parent
from gateway.policy.macros import Template, compile_template
from gateway.policy.paths import canonical
from gateway.policy.script import Untranslatable

_PLAIN_LEVEL = ResourceDef(name="")
_WILDCARD = re.compile(r"[*?]")
_OWN_TOKENS = frozenset({"USER", "OWNER"})
_KNOWN_TOKENS = frozenset({"USER", "OWNER", "ROLES"})
SCRIPT_START = "${{"
NO_CONTEXT_DEPENDENCIES: frozenset[str] = frozenset()
_MAX_REMEMBERED = 4096
_REMEMBERED_LENGTH = 128
"""Longer names than anybody gives are folded each time, so that they cannot fill the memory."""
_MAX_SEGMENTS = 512
"""More segments than any real path; keeps a hostile path from costing more than a page of work."""


def fold(text: str) -> str:
    """Return `text` as Java's `equalsIgnoreCase` sees it, character by character.

    That is how Spark resolves names. `str.lower` differs: `ſ` and `K` (Kelvin) must meet `s` and `k` here.
    """
    return _remembered_fold(text) if len(text) <= _REMEMBERED_LENGTH else _fold(text)


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


_remembered_fold = lru_cache(maxsize=65_536)(_fold)


def _fold_character(character: str) -> str:
    upper = character.upper()
    single = upper if len(upper) == 1 else character
    lower = single.lower()
    return lower if len(lower) == 1 else "i" if single == "İ" else single


def comparison(level: ResourceDef) -> Callable[[str], str]:
    """Return what makes of a requested value at a level the text that matchers compare."""
    folded = _choose_folding(level)
    if not is_file_path(level):
        return folded
    return lambda value: folded(canonical(value))


def is_file_path(level: ResourceDef) -> bool:
    """Say whether values are paths of a file system, rather than names with another separator."""
    return level.is_path and level.separator == "/"


def _choose_folding(level: ResourceDef) -> Callable[[str], str]:
    if not level.ignore_case:  # RULE (case-sensitive-values)
        return str
    quotes = level.quote_characters
    if not quotes:  # RULE (quoted-case)
        return fold
    return lambda value: value if value[:1] in quotes and value else fold(value)


class Asker:
    """Values behind tokens and scripts: the principal who asks, and the owner of the resource."""

    __slots__ = ("owner", "user")

    def __init__(self, user: str, owner: str | None = None) -> None:
        self.user = user
        self.owner = owner

    def facts(self) -> Facts:
        """Return everything that a script may ask."""
        return Facts(user=self.user, owner=self.owner)

    def note(self, context_dependencies: frozenset[str]) -> None:
        """Take notice of what a match depended on; who remembers no answers need not."""


@dataclass(frozen=True, slots=True)
class _ValuePart:
    """A piece of a value: a token, a script, or text in which wildcards mean what they mean."""

    text: str
    """As it is written; of a token too, which stays so when nobody knows it."""
    token: str = ""
    """Name of the token; empty: this is not a token."""
    script: Template | None = None


_LOST = Template((), frozenset())
"""Stands for a script that is not of our language: what it yields cannot be told."""


def _parts(value: str, level: ResourceDef) -> tuple[_ValuePart, ...]:
    if SCRIPT_START not in value or not level.replaces_expressions:
        return _plain_parts(value, level)
    try:
        template = compile_template(value)
    except Untranslatable:
        return (_ValuePart("", script=_LOST),)
    parts: list[_ValuePart] = []
    for piece in template.parts:
        if isinstance(piece, str):
            parts += _plain_parts(piece, level)
        else:
            parts.append(_ValuePart("", script=Template((piece,), template.context_dependencies)))
    return tuple(parts)


def _has_marks(value: str, level: ResourceDef) -> bool:
    start, end, escape, _ = level.token_marks
    return level.replaces_tokens and (escape in value or (start in value and end in value))


def _plain_parts(value: str, level: ResourceDef) -> tuple[_ValuePart, ...]:
    """Return the tokens of a value and what stands between them, read as Ranger reads them.

    What escapes stands for itself but before itself and before what begins a token, or ends the one that is
    open. Nothing begins a token within another.
    """
    if not _has_marks(value, level):
        return (_ValuePart(value),)
    start, end, escape, prefix = level.token_marks
    parts: list[_ValuePart] = []
    plain: list[str] = []
    token: list[str] | None = None
    characters = iter(value)
    for character in characters:
        into, closing = (plain, start) if token is None else (token, end)  # RULE (token-nested)
        if character == escape:
            escaped = next(characters, "")
            into.append(escaped if escaped in (escape, closing) else escape + escaped)  # RULE (token-escape)
        elif character != closing:
            into.append(character)
        elif token is None:
            token = []
        else:
            name = "".join(token)
            written = f"{start}{name}{end}"  # RULE (token-unknown)
            if name.startswith(prefix) and len(name) > len(prefix):
                parts += [_ValuePart("".join(plain)), _ValuePart(written, token=name.removeprefix(prefix))]
                plain = []
            else:
                plain.append(written)
            token = None
    if token is not None:
        plain += [start, *token]
    parts.append(_ValuePart("".join(plain)))
    return tuple([part for part in parts if part.text])


def is_dynamic(value: str, level: ResourceDef = _PLAIN_LEVEL) -> bool:
    """Return whether the value's meaning may depend on who asks, as Ranger tells it for its order."""
    return (level.replaces_expressions and SCRIPT_START in value) or _has_marks(value, level)


@lru_cache(maxsize=_MAX_REMEMBERED)
def _pattern(pieces: tuple[tuple[str, bool], ...], tree: str) -> re.Pattern[str]:
    """Return what matches the pieces, and with a separator `tree` whatever lies below them."""
    pattern = glob(pieces)
    return re.compile(f"{pattern}(?s:{re.escape(tree)}.*)?" if tree else pattern)


NOBODY = Asker("")
_NEVER = re.compile(r"(?!)")
_UNMADE = re.compile(r"(?!)(?#not made yet)")

_UNKNOWN_OWNER: GlobPieces = [("", False)]
"""Stands for a value that matches nothing; compared by identity."""


class _Value:
    """One policy value that is not a plain literal: wildcards, tokens, scripts or a recursive path."""

    __slots__ = ("_fold", "_memory", "_parts", "_plain", "_recursive", "_separator", "_wild")

    def __init__(self, value: str, definition: ResourceDef, recursive: bool) -> None:
        wild = definition.wildcard
        self._separator = definition.separator  # RULE (path-separator)
        self._recursive = recursive and definition.is_path  # RULE (recursion)
        if self._recursive and wild and value.endswith(self._separator):  # RULE (path-end-not-recursive)
            value += "*"  # RULE (path-end-separator)
        self._wild = wild and has_wildcard(value)
        self._fold = definition.ignore_case
        self._plain = self._recursive and not self._wild
        self._parts = _parts(value.rstrip(self._separator) if self._plain else value, definition)
        # Patterns are made when they are first needed: most of a hundred thousand never are.
        self._memory: dict[tuple[str, str | None], re.Pattern[str]] | re.Pattern[str] | None
        if any(part.script or (part.token and part.token not in _OWN_TOKENS) for part in self._parts):
            self._memory = None
        elif any(part.token for part in self._parts):
            self._memory = {}
        else:
            self._memory = _UNMADE

    @property
    def context_dependencies(self) -> frozenset[str]:
        """Return the fields of the context that the value's meaning depends on."""
        tokens = {part.token for part in self._parts} - _KNOWN_TOKENS - {""}
        found = {"attributes"} if tokens else set[str]()
        return frozenset(found).union(
            *(part.script.context_dependencies for part in self._parts if part.script)
        )

    @property
    def prefix(self) -> str:
        """Return what everything that matches begins with, folded like it; empty when that is not known."""
        fixed = ""
        for part in self._parts:
            if part.token or part.script:
                break
            if self._wild and has_wildcard(part.text):
                fixed += _WILDCARD.split(part.text, maxsplit=1)[0]
                break
            fixed += part.text
        return fold(fixed) if self._fold else fixed

    def _compile(self, asker: Asker) -> re.Pattern[str] | None:
        """Return what to compare with; None when it cannot be told."""
        pieces = self._pieces(asker)
        if pieces is None:
            return None
        if pieces is _UNKNOWN_OWNER:
            return _NEVER  # an unknown owner owns nothing
        return _pattern(tuple(pieces), self._separator if self._plain else "")

    def _pieces(self, asker: Asker) -> GlobPieces | None:
        """Return the value as it is for who asks; None when it cannot be told."""
        pieces: list[tuple[str, bool]] = []
        for part in self._parts:
            text: str | None = part.text
            # What was put in is compared as it is: a user called `*` is no wildcard.
            live = self._wild and part.script is None
            if part.script is not None:
                facts = asker.facts()
                known = part.script is not _LOST and facts.is_determined(part.script.context_dependencies)
                text = part.script.render(facts) if known else None
            elif part.token:
                known_as = _token(part.token, asker)
                if known_as is None:
                    return _UNKNOWN_OWNER
                if known_as:
                    text, live = known_as, False  # RULE (token-literal)
            if text is None:
                return None
            pieces.append((fold(text) if self._fold else text, live))
        return pieces

    def _pattern_for(self, asker: Asker) -> re.Pattern[str] | None:
        memory = self._memory
        if memory is None:
            return self._compile(asker)
        if isinstance(memory, re.Pattern):
            if memory is _UNMADE:
                self._memory = memory = self._compile(asker) or _NEVER
            return memory
        key = (asker.user, asker.owner)
        pattern = memory.get(key)
        if pattern is None:
            if len(memory) >= _MAX_REMEMBERED:
                memory.clear()
            pattern = memory[key] = self._compile(asker) or _NEVER
        return pattern

    def matches(self, value: str, asker: Asker) -> bool | None:
        """Say whether `value` matches; None when that cannot be told."""
        pattern = self._pattern_for(asker)
        if pattern is None:
            return None
        if self._recursive and self._wild:
            # RULE (recursion-by-segment)
            return any(pattern.fullmatch(part) for part in list_prefixes(value, self._separator))
        return pattern.fullmatch(value) is not None

    def reaches(self, value: str, asker: Asker, scope: ElementScope) -> bool:
        """Say whether something that matches is a child of `value`, or begins with it, as Ranger tells it."""
        pieces = self._pieces(asker)
        if pieces is None or pieces is _UNKNOWN_OWNER:
            return False
        if scope is ElementScope.SELF_OR_PREFIX:
            if self._wild or self._recursive:
                return may_go_on(pieces, value)
            return "".join(text for text, _ in pieces).startswith(value)
        above = parent(pieces, self._separator)
        if above is None:
            return False
        pattern = _pattern(tuple(above), "")
        if self._recursive and self._wild:
            # RULE (child-below-wildcard)
            return any(pattern.fullmatch(part) for part in list_prefixes(value, self._separator))
        return pattern.fullmatch(value) is not None


def _token(name: str, asker: Asker) -> str | None:
    """Return what a token stands for: nothing when nobody knows it, None for an owner who is not known."""
    if name == "USER":
        return asker.user or None  # RULE (user-token)
    if name == "OWNER":
        return asker.owner or None  # RULE (owner-token)
    if name == "ROLES":
        return f"[{', '.join(sorted(asker.facts().roles))}]"
    attributes = dict(asker.facts().context.attributes)
    return next(iter(attributes.get(f"token:{name}", ())), "")


def list_prefixes(path: str, separator: str = "/") -> list[str]:
    """Return the path's leading sub-paths, segment by segment, the whole path last."""
    scheme = path.find("://")
    start = scheme + 3 if scheme >= 0 else 1
    ends = [i for i in range(start, len(path)) if path[i] == separator][:_MAX_SEGMENTS]
    return [path[:end] for end in ends] + [path]


def any_of(answers: Sequence[bool | None]) -> bool | None:
    """Say whether one of the answers is yes; None when that cannot be told."""
    return True if True in answers else None if None in answers else False


def all_of(answers: Sequence[bool | None]) -> bool | None:
    """Say whether none of the answers is no; None when that cannot be told."""
    return False if False in answers else None if None in answers else True


_NO_LITERALS: frozenset[str] = frozenset()


def _is_one_name(value: str, definition: ResourceDef) -> bool:
    """Whether a value is a name of letters, digits and underscores alone, at a level of names.

    Nearly all are, and no mark of a pattern, token or script can be in one.
    """
    return (
        value.isascii()
        and value.replace("_", "").isalnum()
        and not (definition.is_path or definition.needs_scheme or definition.quote_characters)
        and definition.token_marks == _PLAIN_LEVEL.token_marks
    )


def _fold_literal(value: str, definition: ResourceDef) -> str:
    return fold(value) if definition.ignore_case else value  # RULE (fold-values)


class LevelMatcher:
    """Says whether a requested value at one level is among a policy's values there."""

    __slots__ = (
        "_children_by",
        "_others",
        "_quoted",
        "_quotes",
        "any",
        "context_dependencies",
        "dynamic",
        "excludes",
        "is_literal",
        "literals",
        "scripted",
    )

    def __init__(self, definition: ResourceDef, values: ResourceValues) -> None:
        self.excludes = values.excludes
        self._quoted: LevelMatcher | None = None
        self._others: tuple[_Value, ...] = ()
        if len(values.values) == 1 and _is_one_name(values.values[0], definition):
            self.any = self.dynamic = self.scripted = False
            self._quotes = self._children_by = ""
            self.literals = frozenset((_fold_literal(values.values[0], definition),))
            self.context_dependencies = NO_CONTEXT_DEPENDENCIES
            self.is_literal = not self.excludes
            return
        kept = [v for v in values.values if v.strip()]
        # RULE (star-without-wildcards)
        self.any = not kept or (definition.wildcard and any(not v.strip("*") for v in kept))
        """Whether every value matches, also the absent one; with `excludes` nothing does."""
        self.dynamic = any(is_dynamic(value, definition) for value in kept)
        scripts = definition.replaces_expressions and self.dynamic and not self.any
        self.scripted = scripts and any(SCRIPT_START in v for v in kept)
        """Whether a script has a say, so that the answer may be None."""
        self._quotes = definition.quote_characters if definition.ignore_case else ""
        if self._quotes:
            cased = replace(definition, ignore_case=False, quote_characters="")
            self._quoted = LevelMatcher(cased, values)
        # RULE (children-scope-paths)
        self._children_by = definition.separator if definition.is_path and not definition.needs_scheme else ""
        """Of levels whose values have children, which Ranger's URL matcher does not know."""
        literals, others = set[str](), list[_Value]()
        marks = (definition.token_marks[0], definition.token_marks[2], "{")
        for value in map(canonical, kept) if is_file_path(definition) else kept:
            if definition.needs_scheme and value.strip("*") and ":" not in value:
                continue
            wild = definition.wildcard and has_wildcard(value)
            recursive = values.recursive and definition.is_path
            if wild or recursive or any(mark in value for mark in marks):
                if not self.any:
                    others.append(_Value(value, definition, values.recursive))
            else:
                literals.add(_fold_literal(value, definition))
        self.literals = frozenset(literals) if literals and not self.any else _NO_LITERALS
        self._others = tuple(others)
        self.context_dependencies = (
            NO_CONTEXT_DEPENDENCIES.union(*(other.context_dependencies for other in others))
            if self.dynamic
            else NO_CONTEXT_DEPENDENCIES
        )
        """Fields of the context that the answer depends on."""
        self.is_literal = not (self.any or self.excludes or self._others or self._quotes)
        """Whether membership in `literals` is the whole answer, so that an index may use them as keys."""

    @property
    def never(self) -> bool:
        """Whether no value can match: everything is excluded."""
        return self.any and self.excludes

    @property
    def prefixes(self) -> frozenset[str]:
        """Return what matching values begin with, one of these each; empty when that is not known."""
        if self.any or self.excludes or self._quotes:
            return _NO_LITERALS
        found = self.literals.union(other.prefix for other in self._others)
        return _NO_LITERALS if "" in found else found

    def matches(self, value: str, asker: Asker) -> bool | None:
        """Say whether `value`, folded already where case does not matter, matches; None: it cannot be told.

        `` and `*` ask for all values: only a matcher of everything takes them.
        """
        if self.any:
            return not self.excludes
        if value in ("", "*"):  # RULE (all-values-asked)
            return False
        if self._quoted is not None and value[0] in self._quotes:
            return self._quoted.matches(value, asker)
        if value in self.literals:
            return not self.excludes  # RULE (excluded-value)
        unknown = False
        for other in self._others:
            found = other.matches(value, asker)
            if found:
                return not self.excludes
            unknown = unknown or found is None
        return None if unknown else self.excludes  # RULE (not-excluded-value)

    def matches_within(self, value: str, asker: Asker, scope: ElementScope) -> bool | None:
        """Say what `matches` says, where a value that `scope` lets in counts as the one asked for.

        Of several values any may be the one; what is excluded then is what none of them may be.
        """
        if isinstance(value, AnyOf):  # RULE (any-of-several)
            if self.any:
                return not self.excludes
            found = [self.matches_within(one, asker, scope) for one in value.each]
            return all_of(found) if self.excludes else any_of(found)  # RULE (none-of-several)
        if self._quoted is not None and value[:1] in self._quotes and value:
            return self._quoted.matches_within(value, asker, scope)
        if scope is ElementScope.SELF or self.any or not self._reaches(value, asker, scope):
            return self.matches(value, asker)
        return value in ("", "*") or not self.excludes  # RULE (scope-excludes)

    def _reaches(self, value: str, asker: Asker, scope: ElementScope) -> bool:
        if scope is ElementScope.SELF_OR_PREFIX:
            if any(literal.startswith(value) for literal in self.literals):  # RULE (prefix-scope)
                return True
        elif not self._children_by or value in ("", "*"):
            return False
        else:
            value = value.removesuffix(self._children_by)  # RULE (children-scope-separator)
            parents = (literal.rpartition(self._children_by) for literal in self.literals)
            if any(separator and parent == value for parent, separator, _ in parents):
                return True
        return any(other.reaches(value, asker, scope) for other in self._others)

    def may_begin(self, beginning: str) -> bool:
        """Say whether a value that begins so may match for somebody; in doubt it may."""
        if self.never:
            return False
        if self.any or self.excludes or self.dynamic or self._quotes:
            return True
        known = (other.prefix for other in self._others)
        return any(literal.startswith(beginning) for literal in self.literals) or any(
            prefix.startswith(beginning) or beginning.startswith(prefix) for prefix in known
        )

    def may_match(self, value: str) -> bool:
        """Say whether `value` may match for somebody; in doubt it may."""
        return self.excludes or self.dynamic or self.matches(value, NOBODY) is not False
