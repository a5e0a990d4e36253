"""What Ranger's JSON objects hold, as data: `read(POLICY, body)` gives it with its defaults, and faults."""

from __future__ import annotations

from gateway.admin.ranger.json_fields import (
    ANY,
    DATE,
    FLAG,
    NAME,
    OFF,
    ON,
    TEXT,
    TEXT_MAP,
    TEXTS,
    WHOLE,
    ZERO,
    JsonField,
    Object,
    fill_default,
    list_of,
    map_of,
    object_of,
    read,
    show,
)

__all__ = ["Object", "read", "show"]

KINDS = ("users", "groups", "roles")
"""The kinds of principals in items and roles, list by list."""
ITEM_LISTS = ("policyItems", "denyPolicyItems", "allowExceptions", "denyExceptions")
ALL_ITEM_LISTS = (*ITEM_LISTS, "dataMaskPolicyItems", "rowFilterPolicyItems")

BASE: dict[str, JsonField] = {
    "id": WHOLE,
    "guid": TEXT,
    "isEnabled": ON,
    "createdBy": TEXT,
    "updatedBy": TEXT,
    "createTime": DATE,
    "updateTime": DATE,
    "version": WHOLE,
}

_WHOLE_TEXTS = list_of(TEXT)
"""Texts of which no validation asks whether one is missing."""
_CONDITION = object_of({"type": TEXT, "values": _WHOLE_TEXTS})
_ACCESS = object_of({"type": TEXT, "isAllowed": ON})
_VALUES = object_of({"values": TEXTS, "isExcludes": OFF, "isRecursive": OFF})
RESOURCES = map_of(_VALUES)
_ITEM: dict[str, JsonField] = {
    "accesses": list_of(_ACCESS),
    "users": TEXTS,
    "groups": TEXTS,
    "roles": TEXTS,
    "conditions": list_of(_CONDITION),
    "delegateAdmin": OFF,
}
_MASK_INFO = object_of({"dataMaskType": TEXT, "conditionExpr": TEXT, "valueExpr": TEXT})
_MASK_ITEM = object_of({**_ITEM, "dataMaskInfo": _MASK_INFO})
_FILTER_ITEM = object_of({**_ITEM, "rowFilterInfo": object_of({"filterExpr": TEXT})})
SCHEDULE = object_of(
    {
        "startTime": TEXT,
        "endTime": TEXT,
        "timeZone": TEXT,
        "recurrences": list_of(
            object_of(
                {
                    "schedule": object_of(
                        dict.fromkeys(("minute", "hour", "dayOfMonth", "dayOfWeek", "month", "year"), TEXT)
                    ),
                    "interval": object_of({"days": ZERO, "hours": ZERO, "minutes": ZERO}),
                }
            )
        ),
    }
)
POLICY = object_of(
    {
        **BASE,
        "service": TEXT,
        "serviceType": TEXT,
        "name": TEXT,
        "policyType": ZERO,
        "policyPriority": ZERO,
        "description": TEXT,
        "resourceSignature": TEXT,
        "isAuditEnabled": ON,
        "resources": RESOURCES,
        "additionalResources": list_of(RESOURCES),
        "conditions": list_of(_CONDITION),
        "policyItems": list_of(object_of(_ITEM)),
        "denyPolicyItems": list_of(object_of(_ITEM)),
        "allowExceptions": list_of(object_of(_ITEM)),
        "denyExceptions": list_of(object_of(_ITEM)),
        "dataMaskPolicyItems": list_of(_MASK_ITEM),
        "rowFilterPolicyItems": list_of(_FILTER_ITEM),
        "options": map_of(ANY),
        "validitySchedules": list_of(SCHEDULE),
        "policyLabels": _WHOLE_TEXTS,
        "zoneName": NAME,
        "isDenyAllElse": OFF,
    }
)
SERVICE = object_of(
    {
        **BASE,
        "name": TEXT,
        "displayName": TEXT,
        "type": TEXT,
        "description": TEXT,
        "tagService": TEXT,
        "configs": map_of(TEXT, drop_null=True),
        "policyVersion": WHOLE,
        "policyUpdateTime": DATE,
        "tagVersion": WHOLE,
        "tagUpdateTime": DATE,
    }
)
_NAMED: dict[str, JsonField] = {"itemId": WHOLE, "name": TEXT, "label": TEXT, "description": TEXT}
_ACCESS_DEF = list_of(object_of({**_NAMED, "impliedGrants": TEXTS, "category": TEXT}, rest=True))
_RESOURCE_DEF = list_of(
    object_of(
        {
            **_NAMED,
            "type": TEXT,
            "level": WHOLE,
            "parent": TEXT,
            "mandatory": FLAG,
            "lookupSupported": FLAG,
            "recursiveSupported": FLAG,
            "excludesSupported": FLAG,
            "matcher": TEXT,
            "matcherOptions": TEXT_MAP,
            "validationRegEx": TEXT,
            "validationMessage": TEXT,
            "uiHint": TEXT,
            "accessTypeRestrictions": TEXTS,
            "isValidLeaf": FLAG,
        },
        rest=True,
    )
)
SERVICE_DEF = object_of(
    {
        **BASE,
        "name": TEXT,
        "displayName": TEXT,
        "implClass": TEXT,
        "label": TEXT,
        "description": TEXT,
        "options": TEXT_MAP,
        "configs": list_of(
            object_of(
                {**_NAMED, "type": TEXT, "subType": TEXT, "mandatory": OFF, "defaultValue": TEXT}, rest=True
            )
        ),
        "resources": _RESOURCE_DEF,
        "accessTypes": _ACCESS_DEF,
        "markerAccessTypes": _ACCESS_DEF,
        "policyConditions": list_of(
            object_of({**_NAMED, "evaluator": TEXT, "evaluatorOptions": TEXT_MAP}, rest=True)
        ),
        "contextEnrichers": list_of(
            object_of(
                {"itemId": WHOLE, "name": TEXT, "enricher": TEXT, "enricherOptions": TEXT_MAP}, rest=True
            )
        ),
        "enums": list_of(
            object_of({"itemId": WHOLE, "name": TEXT, "elements": list_of(ANY), "defaultIndex": WHOLE})
        ),
        "dataMaskDef": object_of(
            {
                "maskTypes": list_of(
                    object_of({**_NAMED, "transformer": TEXT, "dataMaskOptions": TEXT_MAP}, rest=True)
                ),
                "accessTypes": _ACCESS_DEF,
                "resources": _RESOURCE_DEF,
            }
        ),
        "rowFilterDef": object_of({"accessTypes": _ACCESS_DEF, "resources": _RESOURCE_DEF}),
    },
    rest=True,
)
_MEMBER = list_of(object_of({"name": TEXT, "isAdmin": OFF}))
ROLE = object_of(
    {
        **BASE,
        "name": TEXT,
        "description": TEXT,
        "options": map_of(ANY),
        "users": _MEMBER,
        "groups": _MEMBER,
        "roles": _MEMBER,
        "createdByUser": TEXT,
    }
)
_STAMPS: dict[str, JsonField] = {
    n: BASE[n] for n in ("id", "createdBy", "updatedBy", "createTime", "updateTime")
}
ZONE = object_of(
    {
        **BASE,
        "name": TEXT,
        "description": TEXT,
        "services": map_of(
            object_of({"resources": list_of(map_of(TEXTS)), "resourcesBaseInfo": list_of(object_of(_STAMPS))})
        ),
        "tagServices": TEXTS,
        **dict.fromkeys((
                "adminUsers", "adminUserGroups", "adminRoles", "auditUsers", "auditUserGroups", "auditRoles",
            ), TEXTS),
    }
)  # fmt: skip
PRINCIPALS = list_of(object_of({"type": TEXT, "name": TEXT}))
ZONE_SERVICES_V2 = map_of(object_of({"resources": list_of(object_of({**_STAMPS, "resource": RESOURCES}))}))
ZONE_V2 = object_of(
    {
        **BASE,
        "name": TEXT,
        "description": TEXT,
        "services": ZONE_SERVICES_V2,
        "tagServices": TEXTS,
        "admins": PRINCIPALS,
        "auditors": PRINCIPALS,
    }
)
ZONE_CHANGE = object_of(
    {
        "name": TEXT,
        "description": TEXT,
        "resourcesToUpdate": ZONE_SERVICES_V2,
        "resourcesToRemove": ZONE_SERVICES_V2,
        "tagServicesToAdd": TEXTS,
        "tagServicesToRemove": TEXTS,
        "adminsToAdd": PRINCIPALS,
        "adminsToRemove": PRINCIPALS,
        "auditorsToAdd": PRINCIPALS,
        "auditorsToRemove": PRINCIPALS,
    }
)
GRANT_REVOKE = object_of(
    {
        "grantor": TEXT,
        "grantorGroups": TEXTS,
        "resource": TEXT_MAP,
        "users": TEXTS,
        "groups": TEXTS,
        "roles": TEXTS,
        "accessTypes": TEXTS,
        "delegateAdmin": OFF,
        "enableAudit": ON,
        "replaceExistingPermissions": OFF,
        "isRecursive": OFF,
        "ownerUser": TEXT,
        "zoneName": NAME,
        "clientIPAddress": TEXT,
        "clusterName": TEXT,
    }
)
GRANT_REVOKE_ROLE = object_of(
    {
        "grantor": TEXT,
        "grantorGroups": TEXTS,
        "targetRoles": TEXTS,
        "users": TEXTS,
        "groups": TEXTS,
        "roles": TEXTS,
        "grantOption": OFF,
    }
)
MEMBERS_CHANGE = object_of({"users": TEXTS, "groups": TEXTS, "isAdmin": OFF})
SERVICE_RESOURCE = object_of(
    {
        **BASE,
        "serviceName": TEXT,
        "resourceElements": RESOURCES,
        "ownerUser": TEXT,
        "resourceSignature": TEXT,
        "additionalInfo": map_of(ANY),
    }
)
TAG_DEF = object_of(
    {**BASE, "name": TEXT, "source": TEXT, "attributeDefs": list_of(object_of({"name": TEXT, "type": TEXT}))}
)
TAG = object_of(
    {
        **BASE,
        "type": TEXT,
        "owner": ZERO,
        "attributes": TEXT_MAP,
        "options": map_of(ANY),
        "validityPeriods": list_of(SCHEDULE),
    }
)
SERVICE_TAGS = object_of(
    {
        "op": TEXT,
        "serviceName": TEXT,
        "tagDefinitions": map_of(TAG_DEF, drop_null=True),
        "tags": map_of(TAG, drop_null=True),
        "serviceResources": list_of(SERVICE_RESOURCE),
        "resourceToTagIds": map_of(list_of(WHOLE), drop_null=True),
    }
)
USER = object_of(
    {
        **_STAMPS,
        **dict.fromkeys((
                "name", "firstName", "lastName", "emailAddress", "password", "description", "otherAttributes",
                "syncSource", "credStoreId",
            ), TEXT),
        "groupIdList": list_of(WHOLE),
        "groupNameList": TEXTS,
        "userRoleList": TEXTS,
        "status": fill_default(WHOLE, 1),
        "isVisible": fill_default(WHOLE, 1),
        "userSource": ZERO,
    }
)  # fmt: skip
GROUP = object_of(
    {
        **_STAMPS,
        **dict.fromkeys(("name", "description", "otherAttributes", "syncSource", "credStoreId"), TEXT),
        "groupType": fill_default(WHOLE, 1),
        "groupSource": ZERO,
        "isVisible": fill_default(WHOLE, 1),
    }
)
GROUP_USER = object_of({**_STAMPS, "name": TEXT, "parentGroupId": WHOLE, "userId": WHOLE})
