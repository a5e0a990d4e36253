"""What lies below a resource and may be denied: of a path that is read, and of a database that is dropped."""

from __future__ import annotations

from gateway.policy.hierarchy import Entry
from gateway.policy.service import Question
from gateway.policy.settling import Said, said_by


def denied_below(question: Question, zone: str, bit: int, priority: int) -> Said | None:
    """Return a policy of at least `priority` that denies something which reading the path may reach."""
    for policy in question.service.filing.path_denials.reachable(question.values[-1]):
        if policy.priority < priority or policy.policy.zone != zone:
            continue
        said = said_by(question, None, (policy, False, False), ignore_below=True)
        if (said.deny | said.rest) & bit:
            return said
    return None


def may_be_denied_below(question: Question) -> bool:
    """Say whether some policy, on tags or on resources, denies anything in a resource to anybody."""
    service, levels, values = question.service, question.levels, question.values
    if any(
        _may_concern(entry, levels, values) for found in service.filing.denying.values() for entry in found
    ):
        return True
    tags = service.tag_filing
    return tags is not None and bool(tags.denying) and service.taggings.may_tag_in(levels, values)


def _may_concern(entry: Entry, levels: tuple[str, ...], values: tuple[str, ...]) -> bool:
    return entry.levels[: len(levels)] == levels and all(
        matcher.may_match(value) for matcher, value in zip(entry.matchers, values, strict=False)
    )
