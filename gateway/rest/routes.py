"""The table of routes: all operations that are served, each with what answers it."""

from __future__ import annotations

from gateway.rest.judging import CallJudge
from gateway.rest.lists import Lists
from gateway.rest.restricting import Restricting
from gateway.rest.service import Handler, Route
from gateway.rest.tables import Tables
from gateway.rest.trust import Trust
from gateway.rest.upstream import Upstream

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"


def list_routes(
    upstream: Upstream, judge: CallJudge, trust: Trust, restricting: Restricting
) -> tuple[Route, ...]:
    """Return the routes of a service."""
    lists, tables = Lists(upstream, judge), Tables(upstream, judge, trust, restricting)
    found: tuple[tuple[str, str, str, Handler], ...] = (
        ("GET", "/v1/{prefix}/namespaces", "listNamespaces", lists.list_namespaces),
        ("GET", _NAMESPACE, "loadNamespaceMetadata", lists.load_namespace),
        ("HEAD", _NAMESPACE, "namespaceExists", lists.namespace_exists),
        ("GET", f"{_NAMESPACE}/tables", "listTables", lists.list_tables),
        ("GET", f"{_NAMESPACE}/views", "listViews", lists.list_views),
        ("GET", _TABLE, "loadTable", tables.load),
        ("HEAD", _TABLE, "tableExists", tables.exists),
    )
    return tuple(Route(method=m, path=p, name=n, handle=h) for m, p, n, h in found)
