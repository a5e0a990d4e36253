"""Which policies one viewer may see, and which of them whole."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.console.routes import Viewer
from gateway.model.context import AccessContext
from gateway.model.policy import Policy, PolicySet
from gateway.policy.covering import administers, knows_resources
from gateway.policy.describing import names_subject
from gateway.policy.directory import PolicyDirectory, PolicyKey
from gateway.policy.engine import engine_for
from gateway.policy.subjects import Subject

_MAX_LISTS = 100
"""Lists of policies that a page is merged of; a cursor has a place in each."""


class PolicySight:
    """Which policies one viewer may see."""

    def __init__(self, viewer: Viewer, policies: PolicySet, context: AccessContext) -> None:
        self.viewer = viewer
        self.sees_all = viewer.is_administrator or viewer.is_auditor
        self.subject: Subject = engine_for(policies).subject_of(viewer.principal)
        self._policies = policies
        self._context = context

    def list_within(self, directory: PolicyDirectory) -> Sequence[Sequence[PolicyKey]] | None:
        """Return lists that have all that the viewer may see, None where that is all there is."""
        if self.sees_all:
            return None
        lists = [*directory.list_lists_about(self.subject), *directory.list_lists_delegated(self.subject)]
        return lists if len(lists) <= _MAX_LISTS else [sorted(set().union(*lists))]

    def may_see(self, policy: Policy) -> bool:
        if self.sees_all:
            return True
        # RULE (console-owner-names): what owners are given is of owners, and tells others of their tables.
        if any(names_subject(item, self.subject, as_owner=False) for item in policy.allow):
            return True
        named = policy.deny_all_else or any(names_subject(item, self.subject) for item in policy.items)
        # What is denied to everybody, or masked for them, has names that not everybody may know.
        # RULE (console-policy-names)
        if named and knows_resources(self._policies, self.viewer.principal, policy, self._context):
            return True
        return self.sees_whole(policy)

    def may_list(self, policy: Policy) -> bool:
        """Whether a policy is one of a list for the viewer: what the gateway itself closes is for those who
        watch it."""
        return self.sees_all or (self.may_see(policy) and not policy.is_closing)

    def is_own(self, kind: str, name: str) -> bool:
        """Whether a user, group or role is the viewer or one of theirs."""
        own = {"user": {self.subject.user}, "group": self.subject.groups, "role": self.subject.roles}
        return name in own[kind]

    def sees_whole(self, policy: Policy) -> bool:
        return self.sees_all or administers(self._policies, self.viewer.principal, policy, self._context)
