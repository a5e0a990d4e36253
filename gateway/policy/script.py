"""The expression language of script conditions and `${{…}}`: parsed once, never handed to an interpreter."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.policy.facts import Facts


class Untranslatable(Exception):
    """A script is not of our language; the message names the part that is not."""


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed script."""

    facets: frozenset[str]
    """Fields of the AccessContext that it reads."""

    def evaluate(self, facts: Facts) -> object:
        """Return the value: None, a boolean, a number, text, a list; raise nothing."""
        return None


def parse(text: str) -> Script:
    """Parse a script; raise Untranslatable."""
    return Script(frozenset())
