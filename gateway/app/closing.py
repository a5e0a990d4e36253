"""The job `closure` as the settings have it: tags of columns by the policies, and rules of propagation."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from gateway.app.policy_diff import read_people, settings_side
from gateway.app.propagation_rules import propagation_rules
from gateway.app.tags import accepted_list
from gateway.jobs.closure import ClosureOptions, ClosureRules
from gateway.settings.models import Settings


def closure_options(settings: Settings) -> ClosureOptions:
    """Return what the job is given."""

    async def rules(connection: Any) -> ClosureRules:
        people = read_people(settings.users.file) if settings.users.file.exists() else {}
        accepted = await accepted_list(connection)
        policies = await asyncio.to_thread(settings_side, settings, people, accepted)
        told = repr([sorted(policies.origins.items()), accepted.number])
        return ClosureRules(
            policies=policies,
            propagation=propagation_rules(settings.tag_propagation),
            basis=hashlib.sha256(told.encode()).hexdigest(),
        )

    return ClosureOptions(
        rules=rules, depth=settings.jobs.closure.depth, findings=settings.jobs.closure.findings
    )
