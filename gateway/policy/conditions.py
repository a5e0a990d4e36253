"""Conditions of policies and items, compiled: True, False, or None when it cannot be told.

The evaluators are Ranger's, known by the last part of their class names; docs/conditions.md has the table.
What Ranger skips with a line in its log (an unknown type, a class that is not there, a script that fails)
answers None here, and None counts against access.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Protocol

from gateway.model.catalog import namespaces_of
from gateway.model.context import TIME
from gateway.model.policy import Condition, ConditionDef
from gateway.policy.facts import Facts
from gateway.policy.schedule_json import schedule_of
from gateway.policy.schedules import compile_schedules
from gateway.policy.script import Untranslatable, parse

__all__ = ["Test", "Untranslatable", "compile_condition"]

_Answer = bool | None


class Test(Protocol):
    """One compiled condition."""

    @property
    def context_dependencies(self) -> frozenset[str]:
        """Fields of the AccessContext that the answer depends on."""

    def __call__(self, facts: Facts) -> _Answer:
        """Return whether it holds; None when that cannot be told."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    context_dependencies: frozenset[str]
    _answer: Callable[[Facts], _Answer]

    def __call__(self, facts: Facts) -> _Answer:
        return self._answer(facts)


def _test(answer: Callable[[Facts], _Answer], *context_dependencies: str) -> Test:
    return _Compiled(frozenset(context_dependencies), answer)


_HOLDS = _test(lambda _: True)
_NOBODY_KNOWS = _test(lambda _: None)


_Values = tuple[str, ...]
Options = Mapping[str, str]
SCRIPT_NAMES = frozenset({"_expression", "expression"})
"""Conditions that are scripts by their name: Ranger's server adds `_expression` to definitions by itself."""


def compile_condition(condition: Condition, definition: ConditionDef | None) -> Test:
    """Return the test that a condition means; an unknown type or evaluator answers None.

    Raises Untranslatable for a script that is not of our language.
    """
    if definition is None and condition.type != "_expression":
        return _NOBODY_KNOWS  # RULE (undefined-condition)
    evaluator = "" if definition is None else definition.evaluator.rpartition(".")[2]
    if not evaluator and condition.type in SCRIPT_NAMES:
        evaluator = "RangerScriptConditionEvaluator"
    make = _EVALUATORS.get(evaluator)
    # RULE (unknown-evaluator)
    return _NOBODY_KNOWS if make is None else make(condition.values, definition.options if definition else {})


# Addresses.

_ALL_WILD = re.compile(r"\*(?:\.\*)*\Z|\*(?::\*)*\Z")
_WILD_TAIL = re.compile(r"(?:\.\*)+\Z|(?::\*)+\Z")


def _ip(values: _Values, options: Options) -> Test:
    exact, prefixes = set[str](), list[str]()
    for value in values:
        tail = _WILD_TAIL.search(value)
        if _ALL_WILD.match(value):
            return _HOLDS
        if tail:
            prefixes.append(value[: tail.start() + 1].lower())  # RULE (address-prefix-dot)
        else:
            exact.add(value.lower())
    if not values:
        return _HOLDS

    def answer(facts: Facts) -> _Answer:
        address = facts.context.client_ip
        # Ranger's rule: who comes from nowhere passes.
        # RULE (address-unknown)
        return address is None or address.lower() in exact or address.lower().startswith(tuple(prefixes))

    return _test(answer, "client_ip")


# Time.

_RANGE = re.compile(
    r" *(\d{1,2})(?::(\d{1,2}))? *([aApP])\.?[mM]\.? *- *(\d{1,2})(?::(\d{1,2}))? *([aApP])\.?[mM]\.? *",
    re.ASCII,
)


def _minute_of_day(hour: str, minute: str | None, half: str) -> int:
    hours = int(hour)
    if hours == 12:
        hours = 0 if half in "aA" else 12
    elif half in "pP":
        hours += 12
    return hours * 60 + int(minute or 0)


def _time_of_day(values: _Values, options: Options) -> Test:
    if not values:
        return _HOLDS
    ranges = []
    for value in values:
        found = _RANGE.fullmatch(value)
        if found is None:
            return _NOBODY_KNOWS
        ranges.append((_minute_of_day(*found.group(1, 2, 3)), _minute_of_day(*found.group(4, 5, 6))))

    def answer(facts: Facts) -> _Answer:
        time = facts.context.time
        if time is None:
            return True
        utc = time.astimezone(UTC) if time.tzinfo is not None else time
        now = utc.hour * 60 + utc.minute
        return any(
            # RULE (hours-end, hours-midnight)
            start <= now <= end if start < end else start <= now or now <= end
            for start, end in ranges
        )

    return _test(answer, TIME)


def _validity(values: _Values, options: Options) -> Test:
    if not values:
        return _HOLDS
    schedules = []
    for value in values:
        try:
            schedules.append(schedule_of(value))
        except ValueError:
            return _NOBODY_KNOWS
    applies = compile_schedules(schedules)
    return _test(lambda facts: facts.context.time is None or applies(facts.context.time), TIME)


# The request.


def _action(values: _Values, options: Options) -> Test:
    if not values or "*" in values:
        return _HOLDS
    wanted = [value.lower() for value in values]
    exact = frozenset(value for value in wanted if not value.endswith("*"))
    prefixes = tuple(value.rstrip("*") for value in wanted if value.endswith("*"))

    def answer(facts: Facts) -> _Answer:
        action = facts.context.action.lower()
        return bool(action) and (action in exact or action.startswith(prefixes))  # RULE (no-action)

    return _test(answer, "action")


def _cluster(field: str, *, inside: bool) -> Callable[[_Values, Options], Test]:
    def make(values: _Values, options: Options) -> Test:
        if not values:
            return _HOLDS
        names = frozenset(values)

        def answer(facts: Facts) -> _Answer:
            name = facts.context.cluster if field == "cluster" else facts.context.cluster_type
            return (name in names) is inside  # RULE (clusters)

        return _test(answer, field)

    return make


def _context_attribute(*, inside: bool) -> Callable[[_Values, Options], Test]:
    def make(values: _Values, options: Options) -> Test:
        name, wanted = options.get("attributeName"), frozenset(values)
        if not name:
            return _NOBODY_KNOWS
        if not wanted:
            return _HOLDS

        def answer(facts: Facts) -> _Answer:
            held = _list_attribute_values(facts, name)
            return not held or wanted.isdisjoint(held) is not inside  # RULE (context-attribute-missing)

        return _test(answer, "attributes")

    return make


def _list_attribute_values(facts: Facts, name: str) -> _Values:
    return next((values for key, values in facts.context.attributes if key == name), ())


def _simple(values: _Values, options: Options) -> Test:
    name = options.get("CONTEXT_NAME")
    if not name:
        return _NOBODY_KNOWS
    if not values:
        return _HOLDS

    def answer(facts: Facts) -> _Answer:
        held = _list_attribute_values(facts, name)
        return any(_like(pattern, value) for pattern in values for value in held) if held else None

    return _test(answer, "attributes")


# Tags.


def _tags(holds: Callable[[frozenset[str], frozenset[str]], bool]) -> Callable[[_Values, Options], Test]:
    def make(values: _Values, options: Options) -> Test:
        wanted = frozenset(value.strip() for value in values)
        return _test(lambda facts: holds(wanted, frozenset(tag.type for tag in facts.tags)), "tags")

    return make


# Columns of one statement.


def _together(*, together: bool) -> Callable[[_Values, Options], Test]:
    def make(values: _Values, options: Options) -> Test:
        patterns = [_pattern(value.strip().lower().split(".")) for value in values]
        if not patterns:
            return _HOLDS
        if any("" in pattern for pattern in patterns):
            return _NOBODY_KNOWS

        def answer(facts: Facts) -> _Answer:
            columns = facts.context.accessed_together
            if columns is None:
                return not together
            met = 0
            if len(columns) > 1:
                met = sum(_names(pattern, column) for column in columns for pattern in patterns)
            return (met > 1) is together  # RULE (two-columns-together)

        return _test(answer, "accessed_together")

    return make


def _pattern(parts: list[str]) -> tuple[str, ...]:
    """Return the patterns of a database, which may be nested, a table and a column, or of the first of these;
    an empty one where that cannot be told."""
    if len(parts) <= 3:
        return tuple(parts)
    return "" if "" in parts else ".".join(parts[:-2]), *parts[-2:]


def _names(pattern: tuple[str, ...], column: str) -> bool:
    """Whether a pattern is of a column, or of one of its name in a namespace above its database. With dots in
    names, of all that a text may mean one suffices: what is told apart is not let pass."""
    parts = column.lower().split(".")
    return any(
        all(_like(one, two) for one, two in zip(pattern, (database, parts[at], last), strict=False))
        for at in range(1, len(parts) - 1)
        for last in (".".join(parts[at + 1 :]),)
        for database in namespaces_of(".".join(parts[:at]))
    )


def _like(pattern: str, text: str) -> bool:
    """Whether text matches a pattern of `*` and `?`, in time linear in each star."""
    p = t = 0
    star = mark = -1
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, mark = p, t
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", text[t]):
            p, t = p + 1, t + 1
        elif star >= 0:
            mark += 1
            p, t = star + 1, mark
        else:
            return False
    return all(rest == "*" for rest in pattern[p:])


# Scripts.


def _script(values: _Values, options: Options) -> Test:
    text = values[0].strip() if values else ""
    if not text:
        return _NOBODY_KNOWS
    script = parse(text)
    return _Compiled(script.context_dependencies, script.holds)


def _script_template(values: _Values, options: Options) -> Test:
    text = options.get("scriptTemplate", "").strip()
    if not text:
        return _NOBODY_KNOWS
    script = parse(text)
    if not values or values[0].strip().lower() not in ("no", "false"):  # RULE (templates-turned)
        return _Compiled(script.context_dependencies, script.holds)

    def answer(facts: Facts) -> _Answer:
        held = script.holds(facts)
        return None if held is None else not held

    return _Compiled(script.context_dependencies, answer)


_EVALUATORS: Mapping[str, Callable[[_Values, Options], Test]] = {
    "RangerIpMatcher": _ip,
    "RangerTimeOfDayMatcher": _time_of_day,
    "RangerActionMatcher": _action,
    "RangerAccessedFromClusterCondition": _cluster("cluster", inside=True),
    "RangerAccessedFromClusterTypeCondition": _cluster("cluster_type", inside=True),
    "RangerAccessedNotFromClusterCondition": _cluster("cluster", inside=False),
    "RangerAccessedNotFromClusterTypeCondition": _cluster("cluster_type", inside=False),
    "RangerContextAttributeValueInCondition": _context_attribute(inside=True),
    "RangerContextAttributeValueNotInCondition": _context_attribute(inside=False),
    "RangerSimpleMatcher": _simple,
    "RangerAnyOfExpectedTagsPresentConditionEvaluator": _tags(lambda wanted, held: bool(wanted & held)),
    "RangerNoneOfExpectedTagsPresentConditionEvaluator": _tags(lambda wanted, held: not wanted & held),
    "RangerTagsAllPresentConditionEvaluator": _tags(lambda wanted, held: wanted <= held),  # RULE (every-tag)
    "RangerHiveResourcesAccessedTogetherCondition": _together(together=True),
    "RangerHiveResourcesNotAccessedTogetherCondition": _together(together=False),
    "RangerScriptConditionEvaluator": _script,
    "RangerScriptTemplateConditionEvaluator": _script_template,
    "RangerValidityScheduleConditionEvaluator": _validity,
}


def is_known(definition: ConditionDef) -> bool:
    """Say whether conditions of this kind can be told at all; all others answer None."""
    return definition.evaluator.rpartition(".")[2] in _EVALUATORS or (
        not definition.evaluator and definition.name in SCRIPT_NAMES
    )
