"""`sluice policy`: why somebody may or may not (`explain`), and what new policies change (`diff`)."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gateway.app import exit_codes, logs
from gateway.app.accepted_tags import build_accepted_tags_path
from gateway.app.policy_diff import (
    load_recorded,
    load_side,
    load_sides,
    load_user_file,
    parts_beside,
    read_people,
)
from gateway.cli import audit
from gateway.cli.commands import default_config
from gateway.cli.policy_output import (
    ComparisonProgress,
    explanation_as_json,
    limits_as_json,
    report_as_json,
    show_explanation,
    show_report,
)
from gateway.cli.terminal import Terminal
from gateway.cli.users import principal_of
from gateway.errors import Faults
from gateway.model.context import AccessContext
from gateway.model.decision import Explanation
from gateway.model.files import SESSION_CATALOG
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import ANY_ACCESS, AccessRequest, Resource
from gateway.model.tags import Tag
from gateway.policy.diagnostics import hint
from gateway.policy.diff_reports import DiffReport, diff, diff_recorded
from gateway.policy.engine import Engine, engine_for
from gateway.policy.limits import limits_of, list_strictest
from gateway.policy.matching import fold
from gateway.policy.parts import says_anything
from gateway.policy.resource_names import (
    CATALOG,
    NotAResource,
    resource_of_service,
    service_of,
    service_of_catalog,
)
from gateway.settings import Settings, load_settings
from gateway.settings.models import LogSettings
from gateway.sources.accepted_tags import load_cached_list

SPECIAL_ACCESSES = ("_any", "_admin")
VISIBLE_IS_ENOUGH = {("use", "catalog"), ("use", "database"), ("show", "table")}
"""What statements want that are content with any access to something or below it, of what."""


def explain(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Explain one decision; the exit code is the decision."""
    logs.configure(LogSettings(level="warning"))
    settings = load_settings(arguments.config) if arguments.policies is None else Settings()
    known = load_user_file(settings) if arguments.policies is None else {}
    path = arguments.policies or arguments.config
    policies = load_side(path, known, None)
    if arguments.policies is not None:
        policies = _with_only_service(policies)
    principal = _principal(arguments, settings, known)
    service, resource = _resource(arguments, policies)
    if arguments.policies is None and not settings.metalakes:
        _require_catalog(resource, arguments.resource, settings)
    definition = policies.services[service].definition
    access = arguments.access.lower()
    accesses = {each.name.lower() for each in definition.access_types}
    # What the gateway asks for and the service knows under another name.
    aliases = {name.lower() for name in definition.access_aliases}
    if access not in {*accesses, *aliases, *SPECIAL_ACCESSES}:
        near = hint(access, (*accesses, *aliases, *SPECIAL_ACCESSES))
        raise Faults([f"service `{service}` has no access type `{arguments.access}`{near}"])
    request = AccessRequest(
        principal=principal,
        resource=resource,
        access=access,
        context=_context(arguments),
        service=service if resource.level("catalog") is None or arguments.service else None,
    )
    explanation = _explain(engine_for(policies), request)
    limits = list_strictest(limits_of(policies), principal, resource)
    if arguments.json:
        terminal.json({**explanation_as_json(explanation), "limits": limits_as_json(limits)})
    else:
        show_explanation(terminal, explanation, limits, limit=arguments.limit)
    return exit_codes.OK if explanation.decision.allowed else exit_codes.REFUSED


def _explain(engine: Engine, request: AccessRequest) -> Explanation:
    """Explain as the gateway asks: whoever has any access to a catalog, database or table, or to something in
    it, may USE it or see the table."""
    explanation = engine.explain(request)
    if not explanation.decision.allowed and (request.access, request.resource.kind) in VISIBLE_IS_ENOUGH:
        seen = engine.explain(replace(request, access=ANY_ACCESS))
        if seen.decision.allowed:
            return replace(seen, decision=replace(seen.decision, request=request))
    return explanation


def compare(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Compare two sets of policies: 0 when no decision changes, 1 when some do, 2 (`trouble`) on faults."""
    logs.configure(LogSettings(level="warning"))
    if arguments.replay:
        from gateway.cli import replay  # with the jobs' packages, which nobody else needs

        return replay.run(arguments, terminal)
    report = _report(arguments)
    if arguments.json:
        terminal.json(report_as_json(report))
    else:
        show_report(terminal, report)
    return exit_codes.DIFF_CHANGES if report.groups else exit_codes.OK


def _report(arguments: argparse.Namespace) -> DiffReport:
    by_record = arguments.since is not None or arguments.until is not None
    if by_record and (arguments.users or arguments.resources or arguments.resource):
        raise Faults(
            ["`--since` and `--until` take users and resources from the record; leave out files of them"]
        )
    settings = None
    if arguments.config or by_record:
        settings = load_settings(arguments.config or default_config())
    people = read_people(arguments.users) if arguments.users else {}
    if not people and settings is not None:
        people = load_user_file(settings)
    catalogs = settings.policies.catalogs if settings is not None else None
    beside = (
        parts_beside(settings, load_cached_list(build_accepted_tags_path(settings)))
        if settings is not None
        else ()
    )
    old, new = load_sides((arguments.old, arguments.new), people, catalogs, beside)
    with ComparisonProgress(sys.stderr) as progress:
        if settings is None or not by_record:
            return diff(
                old,
                new,
                people=list(people.values()) if arguments.users else (),
                resources=_resources(arguments),
                context=_context(arguments),
                progress=progress,
            )
        dsn, spool = audit.find_record(settings)
        since, until = audit.period(arguments.since, arguments.until)
        events = asyncio.run(load_recorded(dsn, spool, since=since, until=until, limit=arguments.limit))
        found = diff_recorded(old, new, events, people=people, progress=progress)
        if len(events) < arguments.limit:
            return found
        note = f"only the newest {arguments.limit} statements were looked at; --limit takes more"
        return found.with_note(note)


def _principal(arguments: argparse.Namespace, settings: Settings, known: dict[str, Principal]) -> Principal:
    groups = None if arguments.groups is None else _split_names(arguments.groups)
    attributes = [pair.partition("=") for pair in arguments.attribute]
    wrong = [
        f"`{name}` is not an attribute; write name=value" for name, equals, _ in attributes if not equals
    ]
    if wrong:
        raise Faults(wrong)
    if arguments.policies is not None:
        found = Principal(user=arguments.user, groups=frozenset(groups or ()))
    else:
        found = principal_of(settings.users.file, arguments.user, groups)
    own = {name for name, _, _ in attributes}
    kept = [(name, value) for name, value in found.attributes if name not in own]
    return Principal(
        user=found.user,
        groups=found.groups,
        roles=found.roles | frozenset(_split_names(arguments.roles or "")),
        attributes=tuple(sorted([*kept, *((name, value) for name, _, value in attributes)])),
    )


def _resource(arguments: argparse.Namespace, policies: PolicySet) -> tuple[str, Resource]:
    """Return the resource as the gateway asks for it, and the service that speaks for it."""
    name, text = arguments.service, arguments.resource
    if name is not None and name not in policies.services:
        near = hint(name, policies.services)
        raise Faults([f"service `{name}` does not exist{near}"])
    try:
        name = name or service_of(text, policies)
        catalogs = [c for c, service in policies.catalog_services.items() if service == name]
        found = resource_of_service(text, policies.services[name].definition, catalogs)
    except NotAResource as error:
        raise Faults([str(error)]) from None
    return name, Resource(found.elements, arguments.owner)


def _require_catalog(resource: Resource, text: str, settings: Settings) -> None:
    """Raise Faults for a resource of a catalog that there is not: a gateway never asks for it."""
    catalogs, catalog = settings.policies.catalogs, resource.level(CATALOG)
    if catalog is not None and fold(catalog) not in {fold(name) for name in catalogs}:
        level, colon, name = text.strip().rpartition(":")
        known = ", ".join(f"`{each}`" for each in catalogs)
        raise Faults(
            [
                f"`{catalog}` is not one of the catalogs ({known}); names begin with a catalog: "
                f"`{level}{colon}{SESSION_CATALOG}.{name}`"
            ]
        )


def _with_only_service(policies: PolicySet) -> PolicySet:
    """Return policies without settings, the only service that says anything speaking for Spark's own catalog:
    Ranger's files name a service as they like."""
    saying = {name: service for name, service in policies.services.items() if says_anything(service)}
    if len(saying) != 1 or service_of_catalog(SESSION_CATALOG, policies) in saying:
        return policies
    return replace(policies, services=saying, catalog_services={SESSION_CATALOG: next(iter(saying))})


def _context(arguments: argparse.Namespace) -> AccessContext:
    tags = getattr(arguments, "tag", None)
    return AccessContext(
        time=audit.moment(arguments.at) or datetime.now(UTC),
        client_ip=arguments.client_ip,
        tags=tuple(Tag(type=name) for name in tags) if tags else None,
    )


def _resources(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the resources of the command line and of the file, one on each line."""
    found: list[str] = list(arguments.resource)
    if arguments.resources is not None:
        lines = _text_of(arguments.resources).splitlines()
        found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not found:
            raise Faults([f"{arguments.resources}: contains no resource"])
    return found


def _text_of(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Faults([f"{path}: cannot be read: {error}"]) from None


def _split_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
