"""Which policies a column has to do with: those on it, those on its tags, those whose texts name it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.model.context import AccessContext
from gateway.model.policy import Policy, PolicySet
from gateway.model.resource import Resource
from gateway.model.tags import Tag
from gateway.policy.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A policy that a column has to do with."""

    policy: Policy
    tag: str = ""
    """By which tag it speaks of the column; empty: it names the column, or what it lies in."""
    text: str = ""
    """The mask or filter of a policy on something else, or on its table, that names the column."""


def concerns(policies: PolicySet, engine: Engine, column: Resource, context: AccessContext) -> list[Concern]:
    """Return the policies that a change or the loss of a column would touch; those with texts last."""
    on = [Concern(policy=policy, tag=tag) for policy, tag in _on(engine, column, context)]
    return [*on, *_texts(policies, column)]


def by_tag(engine: Engine, column: Resource, tag: str, context: AccessContext) -> list[Policy]:
    """Return the policies that would speak of a column if it had one more tag."""
    own = engine.tags(column, context)
    if any(one.type == tag for one in own):
        return []
    tagged = replace(context, tags=(*own, Tag(type=tag)))
    return [policy for policy, by in _on(engine, column, tagged) if by == tag]


def _on(engine: Engine, column: Resource, context: AccessContext) -> Iterator[tuple[Policy, str]]:
    """Yield each policy on a column, and the row filters of its table."""
    seen = set[tuple[int, str]]()
    for resource in (column, Resource(column.elements[:-1], column.owner)):
        for policy, tag in engine.policies_on(resource, context):
            # Of those on the table only filters concern its columns, and they do all of them.
            if (resource is column or policy.filters) and (id(policy), tag) not in seen:
                seen.add((id(policy), tag))
                yield policy, tag


def _texts(policies: PolicySet, column: Resource) -> Iterator[Concern]:
    """Yield the masks and filters that name the column: by its name alone on its own table, with its
    table's name elsewhere."""
    *_, (_, table), (_, name) = column.elements
    words = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])", re.IGNORECASE)
    of_table = re.compile(rf"(?<![\w$]){re.escape(table)}(?![\w$])", re.IGNORECASE)
    for policy in policies.policies():
        texts = [item.filter_expression for item in policy.filters]
        texts += [item.text for item in policy.masks]
        named = policy.resources.get("table")
        own = named is not None and any(value.lower() in (table.lower(), "*") for value in named.values)
        for text in dict.fromkeys(texts):
            if words.search(text) and (own or of_table.search(text)):
                yield Concern(policy=policy, text=text)
