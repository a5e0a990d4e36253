"""Conditions of policies and items, compiled: True, False, or None when it cannot be told."""

from __future__ import annotations

from typing import Protocol

from gateway.model.policy import Condition, ConditionDef
from gateway.policy.facts import Facts
from gateway.policy.script import Untranslatable

__all__ = ["Test", "Untranslatable", "compile_condition"]


class Test(Protocol):
    """One compiled condition."""

    @property
    def facets(self) -> frozenset[str]:
        """Fields of the AccessContext that the answer depends on."""

    def __call__(self, facts: Facts) -> bool | None:
        """Return whether it holds; None when that cannot be told."""


class Unknown:
    """A condition that nobody can tell."""

    facets: frozenset[str] = frozenset()

    def __call__(self, facts: Facts) -> bool | None:
        return None


def compile_condition(condition: Condition, definition: ConditionDef | None) -> Test:
    """Return the test that a condition means; an unknown type or evaluator answers None.

    Raises Untranslatable for a script that is not of our language.
    """
    return Unknown()
