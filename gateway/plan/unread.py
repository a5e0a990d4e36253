"""A plan that the walk refuses, for the record: what was asked is told, also where nothing of it passes."""

from __future__ import annotations

from gateway.model.statement import PlanRequest
from gateway.plan.rendering import render
from gateway.wire.connect import ProtobufError, parse, pb


def render_plan(request: PlanRequest) -> str:
    """Return a plan as PySpark would print it; nothing of bytes that are none."""
    try:
        return render(parse(pb.Plan if request.kind == "execute" else pb.AnalyzePlanRequest, request.message))
    except ProtobufError:
        return ""
