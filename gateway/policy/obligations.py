"""Which item of a mask or row-filter policy holds for somebody, and what it comes to in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gateway.model.decision import ColumnMask, PolicyRef, RowFilter
from gateway.model.policy import FilterItem, MaskItem, PolicyType
from gateway.policy.combining import candidate_zones, wants_any
from gateway.policy.compiled import Applying, CompiledPolicy
from gateway.policy.facts import Facts
from gateway.policy.masks import mask_expression, null_of
from gateway.policy.matching import SCRIPT_START
from gateway.policy.service import OnTag, ResourceQuestion, TagQuestion
from gateway.policy.sqltext import bind, context_dependencies_of
from gateway.policy.subjects import Subject
from gateway.policy.tagging import NEARNESS
from gateway.policy.transformers import hive_masking

CUSTOM = "CUSTOM"
INDETERMINATE = "MASK_NULL"
"""Mask type that applies when it is indeterminate whether an item holds."""
NO_ROWS = "FALSE"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ObligationItem:
    """The item that settled a mask or a row filter."""

    policy: PolicyRef
    item: MaskItem | FilterItem
    facts: Facts
    """Facts that scripts and tokens in its text can read."""
    certain: bool = True
    """False: it could not be told whether the item holds; then the column is NULL, and no row is shown."""
    tag: str = ""
    index: int = 0
    """Place among the policy's items."""


@dataclass(frozen=True, slots=True)
class MatchedItem:
    """An item that holds, with what it was found by."""

    policy: CompiledPolicy
    item: MaskItem | FilterItem
    certain: bool
    asked: ResourceQuestion | TagQuestion


def find(question: ResourceQuestion, type_: PolicyType, *, any_access: bool = False) -> MatchedItem | None:
    """Return the item that holds for the question, in whichever of its zones one does.

    INVARIANT (nesting escapes nothing): what holds for a namespace holds for those in it. Where these have
    one of their own, neither is told from the other to be the stricter: the column is NULL, no row is shown.
    """
    if question.service.is_super(question.subject):  # RULE (super-users-unmasked)
        return None
    found = _find(question, type_, any_access=any_access)
    if not question.nested:
        return found
    for one in question.build_questions_above():
        further = _find(one, type_, any_access=any_access)
        question.note(one.context_dependencies)
        if further is None:
            continue
        if found is None:
            found = further
        elif (found.policy, found.item) != (further.policy, further.item):
            found = replace(found, certain=False)
        else:
            found = replace(found, certain=found.certain and further.certain)
    return found


def _find(question: ResourceQuestion, type_: PolicyType, *, any_access: bool) -> MatchedItem | None:
    for zone in candidate_zones(question, any_access=any_access):
        found = find_in(
            question,
            type_,
            question.on_tags(type_, zone, question.subject),
            question.find_applicable(question.service.policy_index.index(zone, type_), question.subject),
        )
        if found is not None:
            return found
    return _find_shared(question, type_, any_access=any_access)  # RULE (gds-obligations)


def _find_shared(question: ResourceQuestion, type_: PolicyType, *, any_access: bool) -> MatchedItem | None:
    """Return the mask or filter of what is shared with the subject: it holds where no policy has one."""
    sharing = question.service.sharing
    if sharing is None:
        return None
    found = sharing.obligation(question, type_, _list_wanted(question, type_), any_access=any_access)
    if found is None or not isinstance(found[1], (MaskItem, FilterItem)):
        return None
    return MatchedItem(found[0], found[1], found[2], question)


def _list_wanted(question: ResourceQuestion, type_: PolicyType) -> int:
    """Return the access types for which there are obligations of a kind, and that are asked for."""
    bits = question.service.mask_bits if type_ is PolicyType.MASK else question.service.filter_bits
    # RULE (mask-access-types)
    return bits if wants_any(question.access) else bits & question.service.bits.find_bit(question.access)


def find_in(
    question: ResourceQuestion,
    type_: PolicyType,
    on_tags: list[OnTag],
    applying: Iterable[Applying],
) -> MatchedItem | None:
    """Return the first item of the first policy, where a policy on a tag yields to a higher priority only."""
    bits = _list_wanted(question, type_)
    first: MatchedItem | None = None
    if on_tags:
        if len(on_tags) > 1:
            on_tags.sort(key=_nearest if type_ is PolicyType.MASK else _by_name)
        for tag, one in on_tags:
            first = _of(question, tag, one, bits)
            if first is not None:
                break
    for one in applying:
        # RULE (tag-mask-priority, tag-mask-override)
        if first is not None and first.policy.priority >= one[0].priority:
            break
        found = _of(question, question, one, bits)
        if found is not None:
            return found
    return first


def _nearest(one: OnTag) -> tuple[int, str, int, str, bool]:
    return NEARNESS[one[0].hit.match], *_by_name(one)


def _by_name(one: OnTag) -> tuple[str, int, str, bool]:
    """Sort by tag name; of two equal tags, the certain match comes first."""
    tag, (policy, *_) = one
    return policy.policy.name, policy.policy.id, tag.hit.tag.type, tag.hit.doubted


def _of(
    question: ResourceQuestion,
    asked: ResourceQuestion | TagQuestion,
    applying: Applying,
    bits: int,
) -> MatchedItem | None:
    policy, _, doubted = applying
    if policy.context_dependencies:
        question.note(policy.context_dependencies)
    found = policy.obligation(asked, bits, doubted=doubted)
    if found is None or not isinstance(found[0], (MaskItem, FilterItem)):
        return None
    return MatchedItem(policy, found[0], found[1], asked)


def obligation_item(found: MatchedItem) -> ObligationItem:
    """Return what was found with everything that is to be told of it."""
    items: Sequence[object] = [item.item for item in found.policy.obligations]
    return ObligationItem(
        policy=found.policy.ref,
        item=found.item,
        facts=found.asked.facts(),
        certain=found.certain,
        tag=found.asked.hit.tag.type if isinstance(found.asked, TagQuestion) else "",
        index=next((i for i, item in enumerate(items) if item is found.item), 0),
    )


def column_mask(
    found: MatchedItem | None, column: str, data_type: str, question: ResourceQuestion, masked_date: str
) -> ColumnMask | None:
    """Return what the column shows; None means the value itself."""
    if found is None:
        return None
    item = found.item
    if not isinstance(item, MaskItem):
        return None
    mask_type, expression = item.mask_type, None
    if not found.certain:
        mask_type, expression = INDETERMINATE, null_of(column)
    elif mask_type != CUSTOM and not item.transformer:
        transformer = _transformer(found, question)
        bare = question.context.bare_builtins
        expression = _plain_mask(mask_type, column, data_type, masked_date, transformer, bare)
    else:
        text, facts = item.text, found.asked.facts()
        _note_text(question, text)
        text = text if facts.is_determined(context_dependencies_of(text)) else ""
        expression = mask_expression(
            mask_type,
            column,
            data_type,
            custom=text,
            transformer=text,
            facts=facts,
            masked_date=masked_date,
            bare=question.context.bare_builtins,
        )
    if expression is None:
        return None
    return ColumnMask(
        column=column,
        mask_type=mask_type,
        expression=expression,
        policy=found.policy.ref,
        predicate=item.predicate,
        context_dependencies=question.context_dependencies,
        author=item.author if mask_type == CUSTOM or item.transformer else "",
    )


@lru_cache(maxsize=16_384)
def _plain_mask(
    mask_type: str, column: str, data_type: str, masked_date: str, transformer: str, bare: bool
) -> str | None:
    return mask_expression(
        mask_type, column, data_type, transformer=transformer, masked_date=masked_date, bare=bare
    )


def _transformer(found: MatchedItem, question: ResourceQuestion) -> str:
    """Return the call of Hive's functions that the service's definition has for the mask type."""
    tags = question.service.model.tags
    on_tag = isinstance(found.asked, TagQuestion) and tags is not None
    definition = tags.definition if on_tag and tags is not None else question.service.definition
    mask_type = getattr(found.item, "mask_type", "")
    text = next((mask.transformer for mask in definition.mask_types if mask.name == mask_type), "")
    return text if text and hive_masking(text) is not None else ""


def row_filter(
    found: MatchedItem | None, question: ResourceQuestion, memory: dict[tuple[str, Subject], str]
) -> RowFilter | None:
    """Return the predicate that rows must satisfy; None means every row.

    `memory` keeps texts that depend on nothing but the subject.
    """
    if found is None or not isinstance(found.item, FilterItem):
        return None
    text = found.item.filter_expression
    if not found.certain:
        return RowFilter(
            expression=NO_ROWS,
            policy=found.policy.ref,
            context_dependencies=question.context_dependencies,
            check=found.item.check,
        )
    if not text.strip():
        return None
    if SCRIPT_START in text:
        _note_text(question, text)
        facts = found.asked.facts()
        bound = bind(text, facts, {}) if facts.is_determined(context_dependencies_of(text)) else None
    else:
        key = (text, question.subject)
        bound = memory.get(key)
        if bound is None:
            subject = question.subject
            known = Facts(user=subject.user, groups=subject.own_groups, user_attributes=subject.attributes)
            bound = bind(text, known, {})
            if len(memory) >= _MAX_REMEMBERED:
                memory.clear()
            memory[key] = NO_ROWS if bound is None else bound
    # An attribute that the user does not have leaves no row, never all of them.
    expression = NO_ROWS if bound is None else bound
    return RowFilter(
        expression=expression,
        policy=found.policy.ref,
        context_dependencies=question.context_dependencies,
        author=found.item.author,
        check=found.item.check,
    )


_MAX_REMEMBERED = 4096


def _note_text(question: ResourceQuestion, text: str) -> None:
    if SCRIPT_START in text:
        question.note(context_dependencies_of(text))
