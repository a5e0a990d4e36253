"""Takes one rule after the other out of the policy engine, and tells which case notices.

Run as `python -m tests.policy.removals`: for each entry of REMOVALS one module is changed, the package is
imported with it, and the cases of the named files run until one fails that held before.
A rule whose removal no case notices is not held by the cases. Prints JSON: name → what noticed it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gateway.errors import Faults
from tests.policy.ranger.cases import Case, differences, worlds
from tests.removals.operations import (
    Add,
    Always,
    Argument,
    Becomes,
    Calls,
    Condition,
    Deleted,
    DropArgument,
    DropElement,
    DropOperand,
    Element,
    Literal,
    Never,
    Operand,
    Operator,
    Statement,
    Uncalled,
)
from tests.removals.removing import TURNS, Removal, all_changed, importers, modules_of, tell, without_each
from tests.shares import todays

PACKAGE = "gateway.policy"

REMOVALS = (
    Removal("implied-grants", "§1.2 implied grants", DropOperand(0), "model"),
    Removal(
        "implied-one-level",
        "§1.2 implied grants go one level only",
        Statement(
            "...\n"
            "one = dict(self._granted)\n"
            "for name, bits in one.items():\n"
            "    for other, bit in self._bit.items():\n"
            "        if bits & bit:\n"
            "            self._granted[name] |= one[other]\n"
        ),
        "model",
    ),
    Removal("marker-access-types", "§1.2 marker access types", DropElement(0), "model"),
    Removal("deny-switched-off", "§1.2 denials and exceptions switched off", DropOperand(1), "model"),
    Removal(
        "access-not-allowed", "§1.3 an access that is not allowed", Never(), "worked_examples evaluation"
    ),
    Removal("disabled-policies", "§1.3 disabled policies", Never(), "worked_examples"),
    Removal("additional-resources", "§1.3 additional resources", DropElement(1), "worked_examples"),
    Removal("self-and-descendants", "§2.2 self and all descendants", Never(), "matching"),
    Removal(
        "descendant-not-self",
        "§2.2 a descendant is not the resource itself",
        Always(),
        "evaluation worked_examples",
    ),
    Removal("everything-excluded", "§2.3 everything excluded", Never(), "matching"),
    Removal("excluded-value", "§2.3 excludes", Becomes("True"), "matching worked_examples"),
    Removal(
        "not-excluded-value", "§2.3 what is not excluded", Operand(1, "False"), "matching worked_examples"
    ),
    Removal("fold-values", "§2.3 case does not count", Never(), "matching"),
    Removal("case-sensitive-values", "§2.3 case counts where the definition says so", Never(), "matching"),
    Removal("all-values-asked", "§2.3 a request for all values", Never(), "matching"),
    Removal(
        "star-without-wildcards",
        "§2.3 without wildcards a star is a letter",
        DropOperand(2),
        "worked_examples matching",
    ),
    Removal(
        "glob-question-mark",
        "§2.3 a question mark is one character",
        Literal(".?", nth=1),
        "matching worked_examples",
    ),
    Removal("glob-star-question", "§2.3 a star before a question mark is lost", Never(), "matching"),
    Removal("glob-star", "§2.3 a star is any run of characters", Never(), "matching worked_examples"),
    Removal("glob-letters", "§2.3 letters are themselves", Argument(0, "character"), "matching"),
    Removal("path-end-separator", "§2.4 a separator at the end", Literal(""), "matching"),
    Removal(
        "path-end-not-recursive", "§2.4 a separator at the end, and no recursion", DropOperand(0), "matching"
    ),
    Removal(
        "level-scopes",
        "§2.2 scopes of single levels",
        Operand(0, "matcher.matches(value, asker)"),
        "matching",
    ),
    Removal("children-scope-paths", "§2.2 the scope of children is for paths", DropOperand(2), "matching"),
    Removal(
        "children-scope-separator",
        "§2.2 the scope of children ignores a separator at the end",
        Uncalled(),
        "matching",
    ),
    Removal("scope-excludes", "§2.2 scopes and what is excluded", Becomes("True"), "matching"),
    Removal("prefix-scope", "§2.2 the scope of prefixes", Never(), "matching"),
    Removal("prefix-glob", "§2.2 prefixes and wildcards", Never(), "matching"),
    Removal(
        "prefix-past-star", "§2.2 a prefix goes on behind what follows a star", Element(1, "free"), "matching"
    ),
    Removal(
        "child-below-wildcard",
        "§2.2 a child of a tree with wildcards may lie below it",
        Becomes("pattern.fullmatch(value) is not None"),
        "matching",
    ),
    Removal("tag-scopes", "§2.2 scopes and tags", DropArgument(4), "matching"),
    Removal(
        "recursion-by-segment",
        "§2.4 recursion goes by segment",
        Becomes("pattern.match(value) is not None"),
        "matching",
    ),
    Removal("recursion", "§2.4 recursion", Becomes("False"), "matching"),
    Removal("token-literal", "§2.5 substituted text is literal", Element(1, "True"), "matching"),
    Removal("user-token", "§2.5 the user's token", Becomes("'{USER}'"), "matching worked_examples"),
    Removal("owner-token", "§2.5 the owner's token needs an owner", Literal(""), "tokens"),
    Removal("access-types-any-case", "§2.6 access types of policies in any case", Uncalled(), "matching"),
    Removal("super-users", "§3.2 super users", DropOperand(0), "evaluation"),
    Removal("super-groups", "§3.2 super groups", DropOperand(3), "evaluation"),
    Removal("super-users-unmasked", "§3.2 no mask for super users", Never(), "evaluation worked_examples"),
    Removal(
        "several-zones", "§3.2 several zones leave it to none", DropOperand(1), "evaluation worked_examples"
    ),
    Removal(
        "zone-reaches-below",
        "§3.2 a zone holds for what is below its resources",
        DropElement(0),
        "evaluation worked_examples",
    ),
    Removal("above-zone", "§3.2 above a zone is no zone", Becomes("False"), "evaluation"),
    Removal("zone-tag-policies", "§3.2 tag policies of a zone", Never(), "tags"),
    Removal("zone-without-tag-service", "§3.2 zones without the tag service", Always(), "tags"),
    Removal("deny-items", "§3.3 deny items", Never(), "evaluation"),
    Removal("deny-exceptions", "§3.3 exceptions of denials", Never(), "evaluation"),
    Removal("allow-exceptions", "§3.3 exceptions of allowances", Never(), "evaluation"),
    Removal(
        "denial-first-in-policy",
        "§3.3 within a policy denial comes first",
        Statement("deny &= ~allow"),
        "evaluation",
    ),
    Removal("deny-all-else", "§3.3 deny all else", Never(), "evaluation"),
    Removal("policy-schedules", "§3.3 schedules", Never(), "schedules"),
    Removal("policy-conditions", "§3.3 conditions of policies", Becomes("()"), "evaluation"),
    Removal("item-conditions", "§3.3 conditions of items", Argument(3, "()"), "evaluation"),
    Removal("denial-below", "§3.3 a denial below the resource", Never(), "evaluation worked_examples"),
    Removal("current-user", "§3.3 the current user", DropOperand(0), "evaluation"),
    Removal("owner-item", "§3.3 the owner", Becomes("False"), "evaluation"),
    Removal("delegated-admin", "§3.3 delegated administration", Always(), "model"),
    Removal(
        "admin-no-access", "§3.3 administering is no access", Operand(2, "... | bits.all"), "model evaluation"
    ),
    Removal("overrides-first", "§3.4 overrides are asked first", Becomes("0"), "order obligations"),
    Removal("denying-first", "§3.4 policies that deny are asked first", Always(), "order"),
    Removal("score-open-levels", "§3.4 open levels", Literal(0), "order"),
    Removal("score-stars", "§3.4 stars", Literal(5), "order"),
    Removal("score-question-marks", "§3.4 question marks", Literal(0), "order"),
    Removal("score-excludes", "§3.4 excluding values", Literal(0), "order"),
    Removal("score-tokens", "§3.4 values with tokens", Literal(0), "order"),
    Removal("score-everybody", "§3.4 everybody", Never(), "order"),
    Removal("score-principals", "§3.4 how many principals", Operand(1, "1"), "order"),
    Removal("score-access-types", "§3.4 how many access types", Becomes("0"), "order"),
    Removal("score-conditions", "§3.4 how many conditions", DropOperand(1), "order"),
    Removal("order-by-name", "§3.4 then by name", Becomes("''"), "order"),
    Removal("item-order", "§3.4 items by their order", Becomes("list(range(len(items)))"), "order"),
    Removal("priority", "§3.5 priority", Becomes("0"), "evaluation tags"),
    Removal(
        "denial-over-allowance",
        "§3.5 denial over allowance",
        Condition("... and granting is None"),
        "evaluation",
    ),
    Removal(
        "tag-policies-first",
        "§3.5 policies on tags are asked first",
        Statement("known, found = found, []\n...\nfound += known"),
        "tags",
    ),
    Removal(
        "any-access-one",
        "§3.6 one access type suffices for any",
        Condition("... and len(granted) == len(answers)"),
        "evaluation worked_examples",
    ),
    Removal("groups-and", "§3.6 groups are joined by and", Becomes("(...)[:1]"), "evaluation"),
    Removal(
        "group-denied",
        "§3.6 a group that is denied",
        Statement(
            "if any(a.allowed for a in answers):\n    return min(answers, key=_place)\nreturn NOBODY_ALLOWS"
        ),
        "evaluation worked_examples",
    ),
    Removal("first-mask-item", "§3.7 the first item of a mask", Becomes("reversed(...)"), "worked_examples"),
    Removal(
        "tag-mask-priority",
        "§3.7 a mask by tag against one by resource",
        Operator(">", nth=2),
        "worked_examples tags",
    ),
    Removal(
        "tag-mask-override", "§3.7 an override against a mask by tag", DropOperand(3), "worked_examples tags"
    ),
    Removal(
        "mask-access-types", "§3.7 masks are for some access types", Always(), "worked_examples obligations"
    ),
    Removal("absent-filter", "§3.7 an absent filter is none", Never(), "obligations"),
    Removal("schedule-end", "§3.8 the end is inclusive", Operator(">=", nth=2), "schedules"),
    Removal("schedule-start", "§3.8 the start is inclusive", Operator("<=", nth=2), "schedules"),
    Removal("interval-end", "§3.8 the interval is inclusive", Operator("<", nth=1), "schedules"),
    Removal("recurrence-zone", "§3.8 recurrences in the schedule's zone", Becomes("UTC"), "schedules"),
    Removal("any-schedule", "§3.8 any of several schedules", Calls("all"), "schedules"),
    Removal("week-sunday", "§3.8 weeks begin with Sunday", Operand(6, "day.isoweekday()"), "schedules"),
    Removal(
        "day-of-month-or-week", "§3.8 a day of the month or of the week", Operator("and", nth=2), "schedules"
    ),
    Removal("recurrences", "§3.8 recurrences", Always(), "schedules"),
    Removal("schedule-zone", "§3.8 zones of time", Argument(1, "UTC"), "schedules worked_examples"),
    Removal(
        "unknown-evaluator",
        "§3.9 an unknown evaluator counts against access",
        Operand(0, "_HOLDS"),
        "evaluation conditions",
    ),
    Removal(
        "undefined-condition",
        "§3.9 an undefined condition counts against access",
        Becomes("_HOLDS"),
        "evaluation",
    ),
    Removal("doubtful-denial", "§3.9 a denial whose condition cannot be told", DropOperand(1), "evaluation"),
    Removal(
        "doubtful-exception", "§3.9 an exception whose condition cannot be told", DropOperand(1), "evaluation"
    ),
    Removal("doubtful-policy", "§3.9 a policy whose condition cannot be told", DropOperand(1), "evaluation"),
    Removal("doubtful-mask", "§3.9 a mask whose condition cannot be told", DropOperand(1), "evaluation"),
    Removal(
        "all-conditions",
        "§3.9 all conditions of a list",
        Condition("... and True not in answers"),
        "evaluation",
    ),
    Removal(
        "address-prefix-dot",
        "§3.9 prefixes of addresses end at a dot",
        DropOperand(1),
        "conditions worked_examples",
    ),
    Removal(
        "address-unknown",
        "§3.9 who comes from nowhere",
        Becomes("address is not None and (...)"),
        "conditions",
    ),
    Removal("hours-end", "§3.9 hours end inclusively", Operator("<", nth=1), "conditions"),
    Removal("hours-midnight", "§3.9 hours over midnight", Operator("and", nth=4), "conditions"),
    Removal(
        "no-action",
        "§3.9 no action",
        Becomes("not action or (...)"),
        "conditions",
    ),
    Removal("clusters", "§3.9 clusters", DropOperand(0), "conditions"),
    Removal(
        "context-attribute-missing",
        "§3.9 attributes of the context that are missing",
        Becomes("bool(held) and (...)"),
        "conditions",
    ),
    Removal(
        "every-tag", "§3.9 every tag", Argument(0, "lambda wanted, held: bool(wanted & held)"), "conditions"
    ),
    Removal("two-columns-together", "§3.9 two columns together", Literal(0), "conditions"),
    Removal("templates-turned", "§3.9 templates turned round", DropElement(0, 1), "conditions"),
    Removal("failing-script", "§3.10 a script that fails", Becomes("False"), "scripts"),
    Removal(
        "unreadable-date",
        "§3.10 a date that cannot be read has passed",
        Becomes("date is not None and (...)"),
        "tags",
    ),
    Removal("strictly-after", "§3.10 after is strictly after", Operator(">=", nth=2), "scripts"),
    Removal("strictly-before", "§3.10 before is strictly before", Operator("<="), "scripts"),
    Removal("values-literal", "§3.10 values become literals", Becomes("f\"'{text}'\""), "texts"),
    Removal("empty-list", "§3.10 an empty list matches nothing", Literal("region"), "texts"),
    Removal("tags-reach-down", "§3.11 tags reach down", DropElement(1), "tags"),
    Removal("tags-below-any-access", "§3.11 tags below and any access", Never(), "tags"),
    Removal("tag-periods", "§3.11 periods of tags", Always(), "tags"),
    Removal("tag-case", "§3.11 the case of tags", Always(), "tags"),
    Removal("audit-flag", "§3.12 flags of policies", Never(), "audit"),
    Removal("audit-mode", "§3.12 the mode", Never(), "audit"),
    Removal("audit-excluded-users", "§3.12 excluded users", DropOperand(0), "audit"),
    Removal("none-of-several", "§2.3 what is excluded none of several values may be", Never(), "matching"),
    Removal("any-of-several", "§2.3 of several values any may match", Never(), "matching"),
    Removal("zones-of-several", "§3.2 zones of several values", Argument(3, "False"), "matching"),
    Removal("audit-filter-tag", "§3.12 filters of tags need a tag", Becomes("question.hits()"), "audit"),
    Removal("audit-tags-first", "§3.12 filters of tags come before the service's", Never(), "audit"),
    Removal(
        "audit-settled",
        "§3.12 exclusions and the mode settle what a filter of tags speaks of",
        Becomes("None"),
        "audit",
    ),
    Removal(
        "audit-nowhere",
        "§3.12 what no policy can speak of is audited by rules alone",
        DropArgument(0),
        "audit",
    ),
    Removal("audit-denied", "§3.12 what no policy allows is denied", DropOperand(1), "audit"),
    Removal("token-escape", "§2.5 an escape before anything else stays", Always(), "tokens"),
    Removal(
        "token-nested",
        "§2.5 nothing begins a token within another",
        Condition("... or character == start != end"),
        "tokens",
    ),
    Removal(
        "token-unknown",
        "§2.5 a token that nobody knows stays as it is written",
        Becomes("f'{{{name}}}'"),
        "tokens",
    ),
    Removal(
        "token-marks-equal", "§2.5 marks that cannot be told apart mark nothing", DropOperand(0), "tokens"
    ),
    Removal("interval-range", "§3.8 intervals out of range", Never(), "schedules"),
    Removal("unknown-grants-nobody", "§2.6 what nobody knows is granted to nobody", Never(), "model"),
    Removal("audit-filters-first", "§3.12 filters come first", Becomes("()"), "audit"),
    Removal("quoted-case", "§2.3 quoted values keep their case", Always(), "matching"),
    Removal("path-separator", "§2.4 other separators", Becomes("'/'"), "matching"),
    Removal("gds-grants", "GDS shares grant", DropElement(1), "sharing"),
    Removal("gds-priority", "GDS below all policies", Becomes("2"), "sharing"),
    Removal("gds-obligations", "GDS masks and filters of shares", Becomes("None"), "sharing"),
    Removal("gds-active", "GDS only what is active", Never(), "sharing"),
    Removal("gds-own-access-types", "GDS access types of a resource", Becomes("False"), "sharing"),
    Removal("gds-empty-access-types", "GDS an empty list of access types", DropOperand(1), "sharing"),
    Removal("gds-access-limit", "GDS access types limit what datasets grant", DropOperand(1), "sharing"),
    Removal("gds-policy-of-dataset", "GDS a policy is of its dataset", Becomes("entries"), "sharing"),
    Removal("gds-sub-resources", "GDS sub-resources", Never(), "sharing"),
    Removal(
        "gds-filter-whole-table",
        "GDS filters are for the whole table",
        Element(2, "resource.resources"),
        "sharing",
    ),
    Removal("gds-projects", "GDS projects", Deleted(), "sharing"),
    Removal("gds-unmasked-share", "GDS one share without a mask lifts it", Never(), "sharing"),
    Removal("gds-unfiltered-share", "GDS one share without a filter lifts them", Never(), "sharing"),
    Removal("gds-several-filters", "GDS several filters", Condition("texts"), "sharing"),
    Removal("gds-no-grant-no-mask", "GDS who has nothing of it has no masks of it", Never(), "sharing"),
    Removal("gds-order", "GDS order of shares", Add("reverse=True"), "sharing"),
    Removal("gds-periods", "GDS periods", Becomes("[True for _ in periods]"), "sharing"),
    Removal("gds-doubt-no-rows", "GDS what cannot be told shows no rows", Always(), "sharing"),
    Removal("gds-share-conditions", "GDS conditions of shares", DropElement(0), "sharing"),
    Removal("gds-resource-conditions", "GDS conditions of resources", DropElement(1), "sharing"),
    Removal("gds-zones", "GDS zones of shares", Argument(0, "''"), "sharing"),
    Removal("gds-audit", "GDS records", DropOperand(0), "sharing"),
    Removal("gds-markers", "GDS marker access types are computed", DropOperand(1), "sharing"),
    Removal("roles-in-roles", "§4 roles in roles", Becomes("[]"), "roles"),
    Removal("roles-of-groups", "§4 roles of groups", Deleted(), "roles worked_examples"),
    Removal("roles-of-everybody", "§4 roles of everybody", Argument(2, "own"), "roles worked_examples"),
    Removal("roles-of-request", "§4 roles of the request replace the others", DropOperand(0), "roles"),
)


Evaluate = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


def failing(files: str) -> Iterator[str]:
    """Yield the ids of the cases that fail, in the order of the files that are named."""
    ranger = importlib.import_module(f"{PACKAGE}.ranger")
    load, evaluate = ranger.load, ranger.evaluate
    for file in files.split():
        for world in worlds():
            if world.file != f"{file}.yaml":
                continue
            try:
                policies = load(world.download)
            except Faults:
                yield from (case.id for case in world.cases())
                continue
            yield from (case.id for case in world.cases() if not holds(case, policies, evaluate))


def holds(case: Case, policies: Any, evaluate: Evaluate) -> bool:
    try:
        answer = evaluate(policies, case.request)
    except Exception:  # noqa: BLE001  # a rule taken out may leave any error behind
        return False
    if "keeps" in case.expect:
        from tests.policy.ranger.test_cases import kept

        try:
            return bool(kept(answer["rowFilter"]) == case.expect["keeps"])
        except Exception:  # noqa: BLE001  # SQLite refuses what an attack made of the filter
            return False
    return not differences(case, answer)


def main() -> None:
    files = " ".join(dict.fromkeys(file for removal in REMOVALS for file in removal.files.split()))
    broken = set(failing(files))
    tell(
        without_each(
            all_changed(todays(REMOVALS, TURNS)),
            lambda module: importers({module}, modules_of(PACKAGE)),
            lambda files: next((case for case in failing(files) if case not in broken), None),
        )
    )


if __name__ == "__main__":
    main()
