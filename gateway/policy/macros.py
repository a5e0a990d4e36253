"""Text with `${{…}}` in it: scripts parsed once, their results put in their places.

`expression` reads what stands between the braces, for values of resources here and for SQL in `sqltext`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gateway.policy.facts import Facts
from gateway.policy.script import PolicyScript, parse
from gateway.policy.script.names import ScriptScope
from gateway.policy.script.tokens import Untranslatable
from gateway.policy.script.values import AttributeValues, Indeterminate, ScriptValue, is_nothing, to_text

OPENING = "${{"
MAX_TEMPLATE = 16_384
"""Characters of one text with macros."""

MACRO = r"\$\{\{(?P<script>(?:[^\n$]|\$(?!\{\{))*?)\}\}"
"""One macro: on one line, up to the first `}}`, with no other macro inside."""

_MACRO = re.compile(MACRO)
_PATH = re.compile(r"\s*USER\.(?P<name>[A-Za-z_][\w-]*(?:[.-][\w-]+)*)\s*\Z")


def macros(text: str) -> Iterator[re.Match[str]]:
    """Yield the `${{…}}` of a text; group `script` is what stands between. One never spans lines."""
    return _MACRO.finditer(text)


def is_left_open(text: str) -> bool:
    """Whether a text holds a `${{` that no `}}` on its line closes."""
    return OPENING in _MACRO.sub("", text)


@lru_cache(maxsize=4096)
def expression(script: str) -> PolicyScript:
    """Parse what stands between `${{` and `}}`; raise Untranslatable.

    Names of attributes may hold dots and hyphens, as directories write them: `USER.cost-centre` is no
    subtraction. A dotted name is looked up as it stands first.
    """
    found = _PATH.match(script)
    if found and ("-" in found["name"] or "." in found["name"]):
        return _attribute(found["name"], script)
    return parse(script)


def _attribute(name: str, script: str) -> PolicyScript:
    otherwise = None if "-" in name else parse(script)

    def run(scope: ScriptScope) -> ScriptValue:
        values = scope.facts.user_attributes.get(name, ())
        if values:
            return values[0] if len(values) == 1 else AttributeValues(values)
        return otherwise.value(scope.facts) if otherwise is not None else None

    return PolicyScript(frozenset(), run)


@dataclass(frozen=True, slots=True)
class Template:
    """A text whose `${{…}}` are parsed."""

    parts: tuple[str | PolicyScript, ...]
    context_dependencies: frozenset[str]
    """Fields of the AccessContext that the text depends on."""

    def render(self, facts: Facts) -> str | None:
        """Return the text with every result in its place (null as nothing); None when one cannot be told."""
        try:
            return "".join(
                [part if isinstance(part, str) else _expand_macro(part, facts) for part in self.parts]
            )
        except Indeterminate:
            return None


def _expand_macro(script: PolicyScript, facts: Facts) -> str:
    value = script.value(facts)
    return "" if is_nothing(value) else to_text(value)


def compile_template(text: str) -> Template:
    """Parse a text; raise Untranslatable for a `${{…}}` that is not of our language or is not closed."""
    if OPENING not in text:
        return Template((text,), frozenset())
    if len(text) > MAX_TEMPLATE:
        raise Untranslatable(f"a text with macros is longer than {MAX_TEMPLATE} characters")
    if is_left_open(text):
        raise Untranslatable(f"`{OPENING}` is not closed in `{text[:60]}`")
    parts: list[str | PolicyScript] = []
    position = 0
    for found in macros(text):
        parts += [text[position : found.start()], expression(found["script"])]
        position = found.end()
    parts.append(text[position:])
    context_dependencies = frozenset[str]().union(
        *(part.context_dependencies for part in parts if isinstance(part, PolicyScript))
    )
    return Template(tuple(part for part in parts if part != ""), context_dependencies)
