"""The job `recommend` as the settings have it, and what a recommendation does to a pack."""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.app.policy_diff import read_people, settings_side
from gateway.app.rule_files import load_rules, read_rules
from gateway.app.tags import accepted_list
from gateway.errors import Faults
from gateway.jobs.recommending.frames import Peers
from gateway.jobs.recommending.job import PoliciesInForce, RecommendOptions
from gateway.model.principal import Principal
from gateway.policy.packs.editing import edited
from gateway.settings.models import Settings


def recommend_options(settings: Settings) -> RecommendOptions:
    """Return what the job is given."""
    chosen = settings.jobs.recommend

    async def rules(connection: Any) -> PoliciesInForce:
        people = _people(settings)
        accepted = await accepted_list(connection)
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


def _people(settings: Settings) -> dict[str, Principal]:
    return read_people(settings.users.file) if settings.users.file.exists() else {}


@dataclass(frozen=True, slots=True)
class Edited:
    """A pack with a change made."""

    file: Path
    text: str
    diff: str
    """Unified; empty where the pack is so already."""

    def write(self) -> None:
        """Put the new text in the file's place, as a whole or not at all."""
        beside = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        try:
            beside.write_text(self.text, encoding="utf-8")
            beside.chmod(self.file.stat().st_mode)
            beside.replace(self.file)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise Faults([f"{self.file}: cannot be written: {error.strerror}"]) from None


def edit_pack(
    settings: Settings, file: Path, edits: Sequence[Mapping[str, Any]], cases: Sequence[Mapping[str, Any]]
) -> Edited:
    """Return a pack of the settings with edits and cases, after all packs were loaded with it.

    Raises Faults when it is none of theirs, cannot be changed, or does not load then: also when a case fails,
    of whichever pack.
    """
    policies = settings.policies.model_copy(update={"ranger": ()})
    files = read_rules(policies)
    name = next((name for name in files.packs if Path(name).resolve() == file.resolve()), None)
    if name is None:
        known = ", ".join(f"`{each}`" for each in sorted(files.packs)) or "none"
        raise Faults([f"{file} is none of the packs of the settings' `policies.paths`: {known}"])
    before = files.packs[name]
    after = edited(before, name, edits, cases)
    load_rules(replace(files, packs={**files.packs, name: after}), policies, people=_people(settings))
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    told = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return Edited(file=file, text=after, diff=told)
