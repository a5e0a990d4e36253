"""Loads the two sets of rules that are compared, and the record; `policy/diff_reports.py` compares them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gateway.app.accepted_tags import build_accepted_part, build_accepted_tags_path
from gateway.app.metalakes import load_cached_metalakes
from gateway.app.ranger_services import list_used_services
from gateway.app.rule_files import load_rules, read_rules
from gateway.audit.search import EventQuery, search
from gateway.errors import Faults
from gateway.frontends.users import read_users
from gateway.model.audit import AuditEvent
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.policy.documents import parse_document
from gateway.policy.packs.files import load_people
from gateway.policy.parts import Part, build_closing_part, combine
from gateway.settings.loading import load_settings
from gateway.settings.models import PolicySettings, Settings
from gateway.sources.accepted_tags import AcceptedList, load_cached_list


def load_side(
    path: Path,
    people: Mapping[str, Principal],
    catalogs: Mapping[str, str] | None,
    accepted: AcceptedList | None = None,
    beside: Sequence[Part] = (),
) -> PolicySet:
    """Return the policies of settings, of a pack, of Ranger's JSON, or of a directory of these.

    Where `path` is no settings file, `catalogs` says which service speaks for which catalog, and `beside`
    what else is in force, as `parts_beside` has it. A Ranger Admin that settings name is not asked; what its
    cache holds counts, and of accepted tags `accepted`, or else what the gateway has read. Blocks, in a
    thread without an event loop. Raises Faults.
    """
    if _is_settings(path):
        settings = load_settings(path)
        return settings_side(
            settings,
            people,
            load_cached_list(build_accepted_tags_path(settings)) if accepted is None else accepted,
        )
    policies = PolicySettings(paths=(path,))
    rules = load_rules(read_rules(policies), policies, people=people)
    spoken_for = policies.catalogs
    if catalogs is not None:
        spoken_for = {
            catalog: service for catalog, service in catalogs.items() if service in rules.part.services
        }
    return combine_policies(rules.part, beside, spoken_for)


def load_sides(
    paths: tuple[Path, Path],
    people: Mapping[str, Principal],
    catalogs: Mapping[str, str] | None,
    beside: Sequence[Part] = (),
) -> tuple[PolicySet, PolicySet]:
    """Return the policies of both, as `load_side`. Raises Faults with those of both at once."""
    sides: list[PolicySet] = []
    faults: list[str] = []
    for path in paths:
        try:
            sides.append(load_side(path, people, catalogs, beside=beside))
        except Faults as error:
            faults += error.faults
    if faults:
        raise Faults(faults)
    return sides[0], sides[1]


def settings_side(
    settings: Settings, people: Mapping[str, Principal], accepted: AcceptedList | None
) -> PolicySet:
    """Return the policies of settings, those of Ranger Admins from their caches and of metalakes from theirs,
    with accepted tags where they are given. Blocks, in a thread without an event loop. Raises Faults."""
    policies = settings.policies
    kept_in = {entry.service: entry.cache for entry in policies.ranger}
    caches = [cache for cache in kept_in.values() if cache is not None and cache.is_dir()]
    if faults := [
        f"service `{service}` comes from a Ranger Admin, and its `cache` is still empty: a gateway without "
        "a download denies access to everything that the service covers"
        for service in sorted(list_used_services(policies.catalogs.values(), policies.ranger))
        if kept_in[service] not in caches
    ]:
        raise Faults(faults)
    adds_to = {entry.service: entry.adds_to for entry in policies.ranger if entry.adds_to is not None}
    paths = (*policies.paths, *caches)
    policies = policies.model_copy(update={"paths": paths, "ranger": ()})
    rules = load_rules(read_rules(policies), policies, people=people)
    return combine_policies(
        replace(rules.part, adds_to=adds_to), parts_beside(settings, accepted), policies.catalogs
    )


def combine_policies(part: Part, beside: Sequence[Part], catalogs: Mapping[str, str]) -> PolicySet:
    """Return the policies of a part with what is in force beside it, as far as it has their services: a
    gateway takes no metalake of another. Raises Faults."""
    services = part.services.keys()

    def fits(one: Part) -> bool:
        return services >= {*one.catalogs.values(), *(policy.service for policy in one.policies)}

    return combine([part, *filter(fits, beside)], 1, catalogs)


def parts_beside(settings: Settings, accepted: AcceptedList | None) -> Sequence[Part]:
    """Return what is in force beside the policies themselves: sources of files that are closed, accepted tags
    where they are given, and metalakes by the files of their gateway. Blocks, in a thread without an event
    loop."""
    parts = [build_closing_part(settings.file_sources())]
    parts += [build_accepted_part(accepted)] if accepted is not None else []
    if settings.metalakes:
        parts += asyncio.run(load_cached_metalakes(settings))[1]
    return parts


def _is_settings(path: Path) -> bool:
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        data = parse_document(path.read_bytes(), str(path)).data
    except (OSError, Faults):
        return False  # told when it is loaded
    if not isinstance(data, dict):
        return False
    sections = data.keys() & Settings.model_fields.keys()
    return isinstance(data.get("policies"), dict) or bool(sections - {"policies"})


def read_people(path: Path) -> dict[str, Principal]:
    """Return the people of a user file, or of the section `people` of any pack; raises Faults."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Faults([f"{path}: cannot be read: {error}"]) from None
    data = parse_document(text, str(path)).data
    if isinstance(data, dict) and "users" in data and "people" not in data:
        return {name: user.principal for name, user in read_users(path).items()}
    return load_people(text, str(path))


def load_user_file(settings: Settings) -> dict[str, Principal]:
    """Return the people of the user file, none without one. Raises Faults."""
    return read_people(settings.users.file) if settings.users.file.exists() else {}


async def load_recorded(
    dsn: str | None, spool: Path | None, *, since: datetime | None, until: datetime | None, limit: int
) -> list[AuditEvent]:
    """Return the decided statements of a period, the newest `limit` of them."""
    found = await search(dsn, EventQuery(since=since, until=until, limit=limit), spool=spool)
    return [one.event for one in found if one.event.kind == "decided"]
