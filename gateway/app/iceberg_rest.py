"""Puts the served Iceberg REST catalog together."""

from __future__ import annotations

from collections.abc import Callable

from gateway.app.gateway_parts import GatewayParts
from gateway.app.metalake_restrictions import JoinedRestrictions
from gateway.app.rest_catalogs import is_rest
from gateway.app.restrictions import CatalogRestrictions
from gateway.database.fleet_keys import FleetKey
from gateway.errors import Faults
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.http_calls import HttpCallLimits, HttpCallServer
from gateway.reader.port import ReaderPort
from gateway.rest.answers import RestReply
from gateway.rest.described import DescribedCatalog
from gateway.rest.handles import HandleKey, SignedHandles
from gateway.rest.judging import CallJudge
from gateway.rest.requests import RestFault
from gateway.rest.restricting import Restricting
from gateway.rest.routes import list_routes
from gateway.rest.service import RestService, reply_fault
from gateway.rest.trust import NamedIdentities, Trust
from gateway.rest.upstream import CatalogRelay, OpensCatalogs
from gateway.session.dependencies import Dependencies
from gateway.session.verdicts import VerdictInputs, Verdicts
from gateway.settings.listeners import IcebergRestListener, TrustedIdentities
from gateway.settings.models import Settings

PROTOCOL = "iceberg_rest"
_KINDS = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    413: "BadRequestException",
}


def make_iceberg_rest(
    parts: GatewayParts, listener: IcebergRestListener, door: ConnectionLimiter
) -> HttpCallServer:
    """Return the listener, to be started. Raises Faults for a catalog that cannot be served."""
    restrictions = parts.dependencies.restrictions
    if isinstance(restrictions, JoinedRestrictions):
        restrictions = restrictions.asked
    if not isinstance(restrictions, CatalogRestrictions):
        raise Faults(["`listeners.iceberg_rest` needs a catalog of type `iceberg` that is a REST catalog"])
    require_rest_catalogs(parts.settings, listener)
    counter = parts.dependencies.metrics.rest_calls
    service = make_service(
        parts.dependencies,
        parts.reader,
        restrictions,
        listener,
        FleetKey(parts.dsn, PROTOCOL).read,
        counted=lambda name, status: counter.labels(name, str(status)).inc(),
    )
    return HttpCallServer(
        PROTOCOL,
        service.answer,
        explain,
        parts.authenticator(),
        door=door,
        limits=HttpCallLimits(
            request_timeout_s=listener.request_timeout_s,
            idle_timeout_s=listener.idle_timeout_s,
            max_body_bytes=listener.request_bytes,
        ),
    )


def make_service(
    dependencies: Dependencies,
    reader: ReaderPort,
    catalogs: OpensCatalogs,
    listener: IcebergRestListener,
    key: HandleKey,
    *,
    counted: Callable[[str, int], None] = lambda name, status: None,
) -> RestService:
    """Return what answers requests by the policies that hold for statements on the main Spark. `key`: which
    the gateways of a fleet have alike."""
    given = VerdictInputs(
        judge=dependencies.judge,
        policies=dependencies.policies,
        catalog=DescribedCatalog(dependencies.catalog),
        metrics=dependencies.metrics,
        limits=dependencies.limits,
        clock=dependencies.clock,
        now=dependencies.now,
        places=dependencies.places,
    )
    trust = read_trust(listener)
    judge = CallJudge(dependencies, Verdicts(given))
    routes = list_routes(
        CatalogRelay(catalogs),
        judge,
        trust,
        Restricting(reader, stricter=trust.stricter),
        SignedHandles(key),
    )
    return RestService(
        listener.catalogs,
        routes,
        timeout_s=listener.call_timeout_s,
        at_once=listener.calls,
        of_one=listener.calls_per_user,
        counted=counted,
        record_fault=judge.record_fault,
    )


def read_trust(listener: IcebergRestListener) -> Trust:
    """Return what the settings say of identities."""
    return Trust(
        enforcing=_read_identities(listener.enforcing),
        writers=_read_identities(listener.writers),
        stricter=listener.stricter,
        nulls_denied_columns=listener.null_denied_columns,
        credentials=listener.credentials,
    )


def _read_identities(told: TrustedIdentities) -> NamedIdentities:
    return NamedIdentities(users=frozenset(told.users), groups=frozenset(told.groups))


def require_rest_catalogs(settings: Settings, listener: IcebergRestListener) -> None:
    """Raise Faults for a catalog that is served and is no REST catalog."""
    for entry in settings.catalogs:
        if entry.name in listener.catalogs and not is_rest(entry.catalog.connection_params):
            raise Faults(
                [f"`listeners.iceberg_rest.catalogs`: `{entry.name}` is no REST catalog (`type: rest`)"]
            )


def explain(status: int, words: str) -> RestReply:
    """Return a fault of HTTP, or of a login, in the form that Iceberg's clients read."""
    return reply_fault(RestFault(status, _KINDS.get(status, "RESTException"), words))
