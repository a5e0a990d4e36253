"""The job `recommend` as the settings have it, and what a recommendation does to a pack of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.app.accepted_tags import build_accepted_tags_path
from gateway.app.policy_diff import combine_policies, load_user_file, parts_beside, settings_side
from gateway.app.rule_files import load_rules, read_rules
from gateway.app.tag_propagation import load_accepted_list
from gateway.errors import Faults
from gateway.jobs.recommending.applying import Edited, build_edited_pack, require_as_thought_of
from gateway.jobs.recommending.frames import Peers
from gateway.jobs.recommending.job import PoliciesInForce, RecommendOptions
from gateway.model.policy import PolicySet
from gateway.policy.packs.editing import apply_edits
from gateway.settings.models import Settings
from gateway.sources.accepted_tags import load_cached_list


def recommend_options(settings: Settings) -> RecommendOptions:
    """Return what the job is given."""
    chosen = settings.jobs.recommend

    async def rules(connection: Any) -> PoliciesInForce:
        people = load_user_file(settings)
        accepted = await load_accepted_list(connection)
        return PoliciesInForce(
            policies=await asyncio.to_thread(settings_side, settings, people, accepted), people=people
        )

    return RecommendOptions(
        rules=rules,
        unused_days=chosen.unused_days,
        named_tables=chosen.named_tables,
        peers=Peers(
            members=chosen.members,
            tables=chosen.tables,
            distance=chosen.distance,
            peer_share=chosen.peer_share,
        ),
        most=chosen.most,
        most_asked=chosen.most_asked,
    )


def edit_pack(
    settings: Settings, file: Path, edits: Sequence[Mapping[str, Any]], cases: Sequence[Mapping[str, Any]]
) -> Edited:
    """Return a pack of the settings with edits and cases, after all packs were loaded with it.

    Raises Faults when it is none of theirs, cannot be changed, or does not load then: also when a case fails,
    of whichever pack. So it does when a policy that is changed, or removed, or speaks of what is denied, is
    another than when the change was thought of, and when somebody could do more than before, or less where
    nothing was to be taken: the people are others, or other policies.
    """
    policies = settings.policies.model_copy(update={"ranger": ()})
    files = read_rules(policies)
    name = next((name for name in files.packs if Path(name).resolve() == file.resolve()), None)
    if name is None:
        known = ", ".join(f"`{each}`" for each in sorted(files.packs)) or "none"
        raise Faults([f"{file} is not one of the packs in `policies.paths` of the settings: {known}"])
    before = files.packs[name]
    after = apply_edits(before, name, edits, cases)
    people = load_user_file(settings)
    beside = parts_beside(settings, load_cached_list(build_accepted_tags_path(settings)))

    def load(text: str) -> PolicySet:
        read = replace(files, packs={**files.packs, name: text})
        return combine_policies(load_rules(read, policies, people=people).part, beside, policies.catalogs)

    require_as_thought_of(load(before), lambda: load(after), name, edits, people)
    return build_edited_pack(file, name, before, after)
