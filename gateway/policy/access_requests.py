"""Requests for access: what may be asked for, and the policies that a grant is made of.

A grant is nothing but policies that hold for a time, so the engine stays the only judge. One of break-glass
overrides denials, masks and row filters of others, which is why it takes a second administrator.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.model.policy import PolicyType
from gateway.model.principal import Principal, id_of

ALL_COLUMNS = "*"
MAX_DAYS = 366
MAX_BREAK_GLASS_HOURS = 24
MAX_COLUMNS = 200
MAX_ACCESSES = 20
MAX_REASON_CHARS = 2_000
MIN_REASON_CHARS = 5
MAX_OPEN = 50
"""Open requests of one person."""
PURPOSE = "purpose:"
"""Begins the label of policies that were granted for a purpose."""
_NAME = re.compile(r"[\w\-.$@#~+%&/: ]{1,200}")
"""Names that no policy takes for a pattern or a macro."""
_PURPOSE = re.compile(r"[\w\-]{1,60}")
_ACCESS = re.compile(r"[\w\-.]{1,60}")
UNMASKED = "MASK_NONE"
_RANGER_TIME = "%Y/%m/%d %H:%M:%S"


class RequestKind(enum.Enum):
    """What is asked for."""

    ACCESS = "access"
    """A right that is missing; what denies, masks and filters goes on doing so."""
    BREAK_GLASS = "break_glass"
    """Everything as it is, at once and for hours: whatever denies, masks and filters is overridden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedAccess:
    """What somebody asks for."""

    kind: RequestKind
    catalog: str
    database: str
    table: str
    columns: tuple[str, ...]
    """`*` alone: all of them, later ones too."""
    accesses: tuple[str, ...]
    until: datetime
    reason: str
    purpose: str = ""

    @property
    def name(self) -> str:
        return f"{self.catalog}.{self.database}.{self.table}"


def check_asked(asked: RequestedAccess, now: datetime) -> list[str]:
    """Return all that is wrong with a request, in the words of who asks; nothing when it may be kept."""
    faults = []
    for what, name in (("catalog", asked.catalog), ("database", asked.database), ("table", asked.table)):
        # RULE (asked-names): a pattern would be a grant on more than anybody has looked at.
        if not _NAME.fullmatch(name):
            faults.append(f"the {what} needs a name without wildcards, such as `sales`")
    if not asked.columns:
        faults.append("name columns, or `*` for all of the table")
    elif asked.columns != (ALL_COLUMNS,):
        faults += [
            f"`{column[:100]}` is no name of a column; `*` stands alone"
            for column in asked.columns[:MAX_COLUMNS]
            if not _NAME.fullmatch(column)
        ][:1]
    if len(asked.columns) > MAX_COLUMNS:
        faults.append(f"more than {MAX_COLUMNS} columns; ask for `*`, or twice")
    if not asked.accesses or len(asked.accesses) > MAX_ACCESSES:
        faults.append("name an access, such as `select`")
    unknown = [access for access in asked.accesses if not _ACCESS.fullmatch(access)]
    faults += [f"`{access[:100]}` is no access type" for access in unknown[:1]]
    reason = asked.reason.strip()
    if not MIN_REASON_CHARS <= len(reason) <= MAX_REASON_CHARS:
        faults.append(f"give a reason of {MIN_REASON_CHARS} to {MAX_REASON_CHARS:,} characters")
    if asked.purpose and not _PURPOSE.fullmatch(asked.purpose):
        faults.append("a purpose is one word of letters, digits, `_` and `-`")
    longest, words = (
        (timedelta(hours=MAX_BREAK_GLASS_HOURS), f"{MAX_BREAK_GLASS_HOURS} hours")
        if asked.kind is RequestKind.BREAK_GLASS
        else (timedelta(days=MAX_DAYS), f"{MAX_DAYS} days")
    )
    if asked.until.tzinfo is None:
        faults.append("the end needs a time zone")
    elif asked.until <= now:
        faults.append("the end is in the past")
    elif asked.until > now + longest:
        faults.append(f"the end is more than {words} away")
    return faults


def is_same_person(principal: Principal, user: str, identity: str) -> bool:
    """Whether somebody may be who has a name and an identity: directories have people with several names, and
    each has the person's id."""
    same_id = bool(principal.id) and principal.id == id_of(identity)  # RULE (request-other-name)
    return principal.user == user or principal.identity == identity or same_id


def who_decides(kind: RequestKind, *, is_asker: bool, is_administrator: bool) -> bool | None:
    """Return whether somebody may grant or refuse a request; None: if he may grant its policies himself."""
    if is_asker:  # RULE (request-not-by-asker)
        return False
    if is_administrator:
        return True
    if kind is RequestKind.BREAK_GLASS:  # RULE (break-glass-administrators)
        return False
    return None


def find_obstacle(
    asked: RequestedAccess, *, state: str, now: datetime, expires: datetime, asker: str, asker_is_there: bool
) -> str:
    """Return why a request cannot be granted until a time; empty when it can."""
    if state != "open":  # RULE (grant-open-only)
        return f"the request is not open any more: it is {state}"
    if asked.until <= now:  # RULE (grant-not-expired)
        return "the time that was asked for is over"
    if expires > asked.until:  # RULE (grant-no-longer)
        return "the grant would hold longer than was asked for"
    if expires <= now:
        return "the grant would end in the past"
    if not asker_is_there:  # RULE (grant-asker-there)
        return f"`{asker}` cannot log in any more, or is somebody else now"
    if "{" in asker or "*" in asker:  # RULE (grant-asker-name)
        return "policies would not take this user's name for a name"
    return ""


def build_grant(
    number: int,
    user: str,
    asked: RequestedAccess,
    *,
    service: Mapping[str, Any],
    levels: Sequence[str],
    maskable: bool,
    filterable: bool,
    begins: datetime,
    expires: datetime,
    granted_by: str,
) -> list[dict[str, Any]]:
    """Return the policies, as Ranger's JSON, that a grant is made of.

    `levels`: those of the service's definition; one without catalogs speaks for its catalog alone.
    `maskable`, `filterable`: whether it knows masks and row filters.
    """
    names = {
        "catalog": asked.catalog,
        "database": asked.database,
        "table": asked.table,
    }
    table = {
        level: {"values": [name], "isExcludes": False, "isRecursive": False}
        for level, name in names.items()
        if level in levels
    }
    columns = {
        **table,
        "column": {"values": list(asked.columns), "isExcludes": False, "isRecursive": False},
    }
    break_glass = asked.kind is RequestKind.BREAK_GLASS
    title = f"{'break-glass' if break_glass else 'access request'} {number} of {user}"
    labels = ["break-glass" if break_glass else "access-request"]
    if asked.purpose:
        labels.append(PURPOSE + asked.purpose)
    base = {
        "service": service["name"],
        "serviceType": service["type"],
        "description": f"Granted by {granted_by}. Reason: {asked.reason.strip()}",
        "isAuditEnabled": True,
        "isEnabled": True,
        "policyLabels": labels,
        "policyPriority": 1 if break_glass else 0,
        "validitySchedules": [
            {
                "startTime": begins.astimezone(UTC).strftime(_RANGER_TIME),
                "endTime": expires.astimezone(UTC).strftime(_RANGER_TIME),
                "timeZone": "UTC",
            }
        ],
    }
    who = {
        "users": [user],
        "groups": [],
        "roles": [],
        "conditions": [],
        "delegateAdmin": False,  # RULE (grant-delegates-nothing)
    }
    select = [{"type": "select", "isAllowed": True}]
    made: list[dict[str, Any]] = [
        {
            **base,
            "name": title,
            "policyType": int(PolicyType.ACCESS),
            "resources": columns,
            "policyItems": [
                {**who, "accesses": [{"type": one, "isAllowed": True} for one in asked.accesses]}
            ],
        }
    ]
    if break_glass and maskable:
        made.append(
            {
                **base,
                "name": f"{title}: values as they are",
                "policyType": int(PolicyType.MASK),
                "resources": columns,
                "dataMaskPolicyItems": [
                    {**who, "accesses": select, "dataMaskInfo": {"dataMaskType": UNMASKED}}
                ],
            }
        )
    if break_glass and filterable:
        made.append(
            {
                **base,
                "name": f"{title}: every row",
                "policyType": int(PolicyType.ROW_FILTER),
                "resources": table,
                "rowFilterPolicyItems": [{**who, "accesses": select, "rowFilterInfo": {"filterExpr": ""}}],
            }
        )
    return made


def gives_only(policy: Mapping[str, Any], user: str) -> bool:
    """Whether a stored policy does nothing but give something to one user, as a grant does: another one may
    have come into its place, guid and all."""
    takes = ("denyPolicyItems", "allowExceptions", "denyExceptions")
    if policy.get("isDenyAllElse") or any(policy.get(name) for name in takes):
        return False
    items = [
        item
        for name in ("policyItems", "dataMaskPolicyItems", "rowFilterPolicyItems")
        for item in policy.get(name) or ()
    ]
    return all(
        item.get("users") == [user]
        and not (item.get("groups") or item.get("roles"))
        and (item.get("dataMaskInfo") or {}).get("dataMaskType", UNMASKED) == UNMASKED
        and not (item.get("rowFilterInfo") or {}).get("filterExpr")
        for item in items
    )
