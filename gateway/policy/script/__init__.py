"""Scripts of policies: conditions and `${{…}}` in our own small expression language, parsed once.

There is no interpreter behind it, only the closures that `program` makes; docs/conditions.md has the
grammar. Where JavaScript would raise an error, or something is asked that is not known, the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from gateway.policy.facts import Facts
from gateway.policy.script.names import ScriptScope
from gateway.policy.script.program import Program
from gateway.policy.script.tokens import Untranslatable
from gateway.policy.script.values import CannotTell, Value

__all__ = ["CannotTell", "PolicyScript", "Untranslatable", "Value", "parse"]


@dataclass(frozen=True, slots=True)
class PolicyScript:
    """A parsed script."""

    facets: frozenset[str]
    """Fields of the AccessContext that it reads."""
    _run: Callable[[ScriptScope], Value] = field(repr=False)

    def value(self, facts: Facts) -> Value:
        """Return the value of the script; raise CannotTell, and nothing else."""
        return self._run(ScriptScope(facts))

    def holds(self, facts: Facts) -> bool | None:
        """Return the script as a condition: None when it has no answer.

        As in Ranger a boolean is the answer; anything else leaves it to what was assigned to `ctx.result`,
        and without an assignment the condition does not hold.
        """
        scope = ScriptScope(facts)
        try:
            value = self._run(scope)
        except CannotTell:
            return None
        return value if isinstance(value, bool) else scope.result


@lru_cache(maxsize=4096)
def parse(text: str) -> PolicyScript:
    """Parse a script; raise Untranslatable for what is not of our language."""
    parser = Program(text)
    run = parser.program()
    return PolicyScript(frozenset(parser.facets), run)
