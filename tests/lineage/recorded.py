"""Statements as the record has them, without a gateway: cleared, with the tables of `tests/lineage_world`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.lineage.recorded import LineageInput
from gateway.model.audit import AuditEvent
from gateway.model.catalog import Column, Table, TableKind, TableName, ViewBody
from gateway.model.decision import ColumnMask, Decision, PolicyRef, RowFilter
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.statement import (
    Cleared,
    Client,
    CreateTempView,
    PlanRequest,
    ScanRecord,
    SessionContext,
    Statement,
)
from gateway.session import audit_records
from gateway.session.audit_records import Stamp
from tests.audit.samples import fresh_id, now

POLICY = PolicyRef(id=7, name="masks", version=1)
PRINCIPAL = Principal(user="bob")


def name_of(table: str) -> TableName:
    return TableName("spark_catalog", "lab", table)


def table(name: str, columns: str, view: str = "") -> Table:
    """`x y` → a table with these columns, or a view of a text."""
    found = tuple(Column(name=column, type="string") for column in columns.split())
    body = None
    if view:
        body = ViewBody(text=view, catalog="spark_catalog", database="lab", output=tuple(columns.split()))
    kind = TableKind.VIEW if view else TableKind.TABLE
    return Table(name=name_of(name), kind=kind, columns=found, view=body)


def scan(name: str, *masked: str) -> ScanRecord:
    masks = (ColumnMask(column=c, mask_type="MASK_NULL", expression="NULL", policy=POLICY) for c in masked)
    rows = RowFilter(expression="true", policy=POLICY)
    return ScanRecord(table=name_of(name), access="select", columns=None, obligations=(rows, *masks))


def cleared(text: str, *tables: Table, scans: tuple[ScanRecord, ...] = (), **more: Any) -> Cleared:
    """A verdict as `judge` makes them; `makes` is the name of a temporary view that it makes, `plan` the
    bytes of a plan that the text renders."""
    makes = more.pop("makes", None)
    plan = more.pop("plan", None)
    resource = Resource.table("spark_catalog", "lab", "raw")
    request = AccessRequest(principal=PRINCIPAL, resource=resource, access="select")
    return Cleared(
        statement=Statement(
            text=text,
            principal=PRINCIPAL,
            context=SessionContext(namespace=("lab",)),
            plan=None if plan is None else PlanRequest(kind="execute", message=plan),
        ),
        forwarded=text,
        plan_class=more.pop("plan_class", "Project"),
        decisions=(Decision(request=request, allowed=True, policy=POLICY),),
        scans=scans,
        snapshot_version="policies=1 catalog=1",
        tables=tables,
        effects=() if makes is None else (CreateTempView(makes),),
        **more,
    )


def decided(
    verdict: Cleared,
    *,
    gateway: str = "g",
    views: Mapping[str, str] | None = None,
    relations: Mapping[str, str] | None = None,
    input_: LineageInput | None = None,
) -> AuditEvent:
    """The record of a verdict, with what lineage is made of."""
    return audit_records.build_decided(
        Stamp(fresh_id(), now(), gateway),
        verdict,
        client=Client(protocol="thrift"),
        duration_us=1000,
        session="s-1",
        lineage=(input_ or LineageInput())(verdict, views or {}, relations or {}),
    )
