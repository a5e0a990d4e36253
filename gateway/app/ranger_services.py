"""Ranger services as the settings name them, made ready to be asked."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection, Iterable, Mapping

from gateway.app.collector_tuning import uncollected
from gateway.errors import Faults
from gateway.model.policy import ServiceDef
from gateway.policy.engine import DEFAULT_SERVICE
from gateway.policy.parts import Part
from gateway.settings.models import RangerAdminSettings
from gateway.sources.cache import Cache
from gateway.sources.ranger_client import MAX_PLUGIN_ID, AdminOptions, DownloadKind, RangerClient, tls_context
from gateway.sources.ranger_content import CachedService
from gateway.sources.ranger_service import Offer, RangerService, ServiceOptions

UNKNOWN = "spark"
"""The definition that stands for a service's own until that has been loaded."""


def make_client(settings: RangerAdminSettings) -> RangerClient:
    """Return the client of a service. Raises Faults when a certificate cannot be used."""
    identity = settings.plugin_id or f"{settings.app}@{socket.gethostname()}-{settings.service}"
    logs_in = settings.user is not None or settings.certificate is not None
    password = settings.password
    return RangerClient(
        AdminOptions(
            urls=settings.urls,
            service=settings.service,
            plugin_id=identity[:MAX_PLUGIN_ID],
            user=settings.user,
            password=None if password is None else password.reveal,
            secure=logs_in if settings.secure is None else settings.secure,
            tls=tls_of(settings),
            cluster=settings.cluster,
            connect_timeout_s=settings.connect_timeout_s,
            read_timeout_s=settings.read_timeout_s,
            total_timeout_s=settings.download_timeout_s,
            max_bytes=settings.max_bytes,
        )
    )


def make_service(
    settings: RangerAdminSettings,
    client: RangerClient,
    offer: Offer,
    definitions: Mapping[str, ServiceDef],
    *,
    read_only: bool = False,
) -> RangerService:
    """Return a service that has not been started; `read_only`: its cache is left alone."""
    cache = None
    if settings.cache is not None:
        cache = Cache(settings.cache, settings.app, settings.service, read_only=read_only)
    return RangerService(
        ServiceOptions(
            name=settings.service,
            definition=definitions[UNKNOWN],
            policies_s=settings.poll_s,
            tags_s=settings.tags_poll_s,
            users_s=settings.users_poll_s,
            sharing_s=settings.data_sharing_poll_s,
            max_stale_s=settings.max_stale_s,
            deltas=settings.deltas,
            groups_from_users=settings.groups_from_user_store,
        ),
        client,
        offer,
        cache=cache,
        definitions=definitions,
        quiet=uncollected,
    )


def part_of(held: CachedService, settings: RangerAdminSettings) -> Part:
    """Return what a service holds as one source among others."""
    name = settings.service
    written = "_".join(name.split())
    versions = {written: "none"}
    for kind, version in held.versions.items():
        versions[written if kind is DownloadKind.POLICIES else f"{written}.{kind.value}"] = str(version)
    return Part(
        name=f"the Ranger service `{name}`",
        services={name: held.service},
        roles=held.roles,
        users=held.users,
        warnings=held.warnings,
        versions=versions,
        adds_to={} if settings.adds_to is None else {name: settings.adds_to},
        realm=" ".join(sorted(url.rstrip("/") for url in settings.urls)),
    )


def list_used_services(speaking: Collection[str], entries: Iterable[RangerAdminSettings]) -> list[str]:
    """Return the services that speak for some catalog, or add to one that does. One speaks for what lies in
    no catalog, files above all."""
    used = {*speaking, DEFAULT_SERVICE}
    return [entry.service for entry in entries if (entry.adds_to or entry.service) in used]


def tls_of(settings: RangerAdminSettings) -> ssl.SSLContext | None:
    """Return the TLS context of a service's client, None for the usual one. Raises Faults."""
    if settings.ca_file is None and settings.certificate is None:
        return None
    if not any(url.startswith("https:") for url in settings.urls):
        raise Faults([f"the Ranger service `{settings.service}` has certificates, but no `https` address"])
    return tls_context(
        ca_file=None if settings.ca_file is None else str(settings.ca_file),
        certificate=None if settings.certificate is None else str(settings.certificate),
        key=None if settings.key is None else str(settings.key),
    )
