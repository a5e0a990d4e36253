"""What a session knows of its variables, by the effects of statements on them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from gateway.model.statement import (
    DeclareVariables,
    DropVariable,
    SessionContext,
    SessionEffect,
    SetVariables,
)


def before_forwarding(context: SessionContext, effect: SessionEffect) -> SessionContext:
    """Return the context with the names that may exist from now on, and without values that may change.

    INVARIANT (a policy's text means what it says): a variable that is there and not here could be what a word
    of a policy means.
    """
    if isinstance(effect, DeclareVariables | SetVariables):
        context = _without_values(context, effect.names)
    if isinstance(effect, DeclareVariables):
        # RULE (variable-known-before)
        context = replace(
            context,
            variables=context.variables | effect.names,
            string_variables=context.string_variables - effect.names,
        )
    return context


def after_success(
    context: SessionContext, effect: DeclareVariables | SetVariables | DropVariable
) -> SessionContext:
    """Return the context as a statement has made it that Spark has FINISHED."""
    if isinstance(effect, DropVariable):
        context = _without_values(context, {effect.name})
        left = {effect.name}
        return replace(
            context, variables=context.variables - left, string_variables=context.string_variables - left
        )
    if isinstance(effect, DeclareVariables) and effect.of_strings:
        context = replace(context, string_variables=context.string_variables | effect.names)
    if effect.text is None:
        return context
    texts = frozenset((name, effect.text) for name in effect.names)
    return replace(context, known_values=context.known_values | texts)


def _without_values(context: SessionContext, names: AbstractSet[str]) -> SessionContext:
    known = frozenset(one for one in context.known_values if one[0] not in names)
    return replace(context, known_values=known)
