"""Governed data sharing as Ranger's JSON (`ServiceGdsInfo`); reading it gives the same back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.model.policy import Condition, Membership, Project, Service, SharedResource, Sharing
from gateway.policy.ranger.sharing import SERVICE
from gateway.policy.ranger.writing import (
    kept,
    write_definition,
    write_policy,
    write_resources,
    write_schedule,
)


def write_sharing(sharing: Sharing, service: str) -> dict[str, Any]:
    """Return a ServiceGdsInfo for a service; what is not in force is not there."""
    own = Service(name=SERVICE, definition=sharing.definition)
    return {
        "serviceName": service,
        "gdsVersion": sharing.version,
        "gdsServiceDef": write_definition(sharing.definition),
        "dataShares": [
            kept({"id": share.id, "name": share.name, "zoneName": share.zone})
            | {"conditionExpr": _script(share.conditions), "defaultAccessTypes": sorted(share.accesses)}
            for share in sharing.shares
        ],
        "resources": [
            _resource(resource, share.id, own) for share in sharing.shares for resource in share.resources
        ],
        "datasets": [_holder(dataset, own) for dataset in sharing.datasets],
        "projects": [_holder(project, own) for project in sharing.projects],
        "dshids": [
            {"dataShareId": one.id, "datasetId": dataset.id} | _in_force(one)
            for dataset in sharing.datasets
            for one in dataset.shares
        ],
        "dips": [
            {"projectId": one.id, "datasetId": dataset.id} | _in_force(one)
            for dataset in sharing.datasets
            for one in dataset.projects
        ],
    }


def _script(conditions: Iterable[Condition]) -> str:
    return next((condition.values[0] for condition in conditions), "")


def _in_force(one: Membership) -> dict[str, Any]:
    return {"status": "ACTIVE"} | _period(one)


def _period(one: Membership | Project) -> dict[str, Any]:
    return {"validitySchedule": write_schedule(one.schedules[0])} if one.schedules else {}


def _holder(holder: Project, own: Service) -> dict[str, Any]:
    policies = [write_policy(policy, own) for policy in holder.policies]
    return {"id": holder.id, "name": holder.name, "policies": policies} | _period(holder)


def _resource(resource: SharedResource, share: int, own: Service) -> dict[str, Any]:
    sub = resource.sub_level
    masks = []
    for mask in resource.masks:
        written = write_policy(mask, own)
        info = written["dataMaskPolicyItems"][0]["dataMaskInfo"]
        masks.append({"values": list(mask.resources[sub].values), "maskInfo": info})
    rows = None
    if resource.rows is not None:
        rows = write_policy(resource.rows, own)["rowFilterPolicyItems"][0]["rowFilterInfo"]
    below = {level: values for level, values in resource.resources.items() if level not in resource.above}
    return kept(
        {
            "id": resource.id,
            "name": resource.name,
            "dataShareId": share,
            "resource": write_resources(resource.above),
            "subResourceType": sub,
            "subResource": write_resources(below).get(sub),
            "subResourceMasks": masks,
            "rowFilter": rows,
            "conditionExpr": _script(resource.conditions),
        }
    ) | {"accessTypes": sorted(resource.accesses)}
