"""The table of routes: all operations that are served, each with what answers it."""

from __future__ import annotations

from gateway.rest.changes import Changes
from gateway.rest.handles import SignedHandles
from gateway.rest.judging import CallJudge
from gateway.rest.lists import Lists
from gateway.rest.planning import Planning
from gateway.rest.restricting import Restricting
from gateway.rest.service import AnswerRestCall, RestRoute
from gateway.rest.tables import ServedTables
from gateway.rest.trust import Trust
from gateway.rest.upstream import CatalogRelay
from gateway.rest.views import ServedViews

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"


def list_routes(
    upstream: CatalogRelay,
    judge: CallJudge,
    trust: Trust,
    restricting: Restricting,
    handles: SignedHandles,
) -> tuple[RestRoute, ...]:
    """Return the routes of a service."""
    changes = Changes(upstream, judge, trust, handles)
    views = ServedViews(upstream, judge, changes)
    lists, tables = Lists(upstream, judge), ServedTables(upstream, judge, trust, restricting)
    planning = Planning(upstream, judge, tables, handles)
    found: tuple[tuple[str, str, str, AnswerRestCall], ...] = (
        ("GET", "/v1/{prefix}/namespaces", "listNamespaces", lists.list_namespaces),
        ("POST", "/v1/{prefix}/namespaces", "createNamespace", changes.create_namespace),
        ("GET", _NAMESPACE, "loadNamespaceMetadata", lists.load_namespace),
        ("HEAD", _NAMESPACE, "namespaceExists", lists.namespace_exists),
        ("DELETE", _NAMESPACE, "dropNamespace", changes.drop_namespace),
        ("POST", f"{_NAMESPACE}/properties", "updateNamespaceProperties", changes.update_namespace),
        ("GET", f"{_NAMESPACE}/tables", "listTables", lists.list_tables),
        ("GET", f"{_NAMESPACE}/views", "listViews", lists.list_views),
        ("GET", _TABLE, "loadTable", tables.load),
        ("HEAD", _TABLE, "tableExists", tables.exists),
        ("POST", f"{_NAMESPACE}/tables", "createTable", changes.create_table),
        ("POST", f"{_NAMESPACE}/register", "registerTable", changes.register_table),
        ("POST", _TABLE, "updateTable", changes.commit_table),
        ("DELETE", _TABLE, "dropTable", changes.drop_table),
        ("POST", "/v1/{prefix}/tables/rename", "renameTable", changes.rename_table),
        ("GET", f"{_TABLE}/credentials", "loadCredentials", planning.load_credentials),
        ("POST", f"{_TABLE}/plan", "planTableScan", planning.plan),
        ("GET", f"{_TABLE}/plan/{{plan}}", "fetchPlanningResult", planning.fetch_plan),
        ("DELETE", f"{_TABLE}/plan/{{plan}}", "cancelPlanning", planning.cancel_plan),
        ("POST", f"{_TABLE}/tasks", "fetchScanTasks", planning.fetch_tasks),
        ("POST", f"{_TABLE}/metrics", "reportMetrics", planning.report_metrics),
        ("POST", f"{_NAMESPACE}/views", "createView", views.create),
        ("GET", _VIEW, "loadView", views.load),
        ("HEAD", _VIEW, "viewExists", views.exists),
        ("POST", _VIEW, "replaceView", views.replace),
        ("DELETE", _VIEW, "dropView", views.drop),
        ("POST", "/v1/{prefix}/views/rename", "renameView", changes.rename_view),
        ("POST", "/v1/{prefix}/transactions/commit", "commitTransaction", changes.commit_transaction),
    )
    return tuple(RestRoute(method=m, path=p, name=n, handle=h) for m, p, n, h in found)
