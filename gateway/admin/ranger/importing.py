"""Exports of policies and roles as files, and what an import of such a file means here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.admin.ranger.json_fields import Object, read
from gateway.admin.ranger.shapes import POLICY, ROLE
from gateway.admin.ranger.validation import Failure, unreadable

MAX_POLICIES = 200_000
WRONG_FILE, WRONG_MAP = 9050, 9051


def file_name(what: str, now: dt.datetime) -> str:
    """Return the attachment's name: `Ranger_Policies_20260131_100000.json`."""
    return f"Ranger_{what}_{now:%Y%m%d_%H%M%S}.json"


def exported(
    items: Sequence[Mapping[str, Any]], *, name: str, host: str, user: str, now: dt.datetime, version: str
) -> Object:
    """Return the content of an export; `name` is `policies` or `roles`."""
    return {
        "metaDataInfo": {
            "Host name": host,
            "Exported by": user,
            "Export time": f"{now:%b %d, %Y, %I:%M:%S %p}",
            "Sluice version": version,
        },
        name: [dict(item) for item in items],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Where policies of an import go: service → service and zone → zone; empty: as the file says."""

    services: Mapping[str, str]
    zones: Mapping[str, str]

    @property
    def elsewhere(self) -> bool:
        """Whether the import names where things go, so that only what is named goes anywhere."""
        return bool(self.services)


def mapping(document: object, what: str) -> tuple[dict[str, str], list[Failure]]:
    """Return a `servicesMapJson` or `zoneMapJson` file's content, and what is wrong with it."""
    if document is None:
        return {}, []
    if not isinstance(document, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) and (v or what == "zoneMapJson")
        for k, v in document.items()
    ):
        return {}, [Failure(WRONG_MAP, f"`{what}` must hold names by names", what)]
    return dict(document), []


def policies_of(document: object) -> tuple[list[Object], list[Failure]]:
    """Return the policies of an export with defaults filled in, and every fault of its types."""
    return _items(document, "policies", POLICY)


def roles_of(document: object) -> tuple[list[Object], list[Failure]]:
    """Return the roles of an export with defaults filled in, and every fault of its types."""
    return _items(document, "roles", ROLE)


def _items(document: object, name: str, shape: Any) -> tuple[list[Object], list[Failure]]:
    listed = document.get(name) if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        return [], [Failure(WRONG_FILE, f"the file holds no list of {name}", name)]
    if len(listed) > MAX_POLICIES:
        return [], [Failure(WRONG_FILE, f"the file holds more than {MAX_POLICIES} {name}", name)]
    items: list[Object] = []
    faults: list[str] = []
    for i, one in enumerate(listed):
        item, found = read(shape, one)
        items.append(item)
        label = one.get("name") if isinstance(one, Mapping) else None
        faults += [f"{name}[{i}]{f' (`{label}`)' if label else ''}: {fault}" for fault in found]
    return items, unreadable(faults)


def placed(policies: Iterable[Mapping[str, Any]], mapped: Mapped) -> list[Object]:
    """Return the policies where they go, without ids and what else belongs to where they come from.

    With a map of services, policies of services that it does not name stay out.
    """
    found = []
    for policy in policies:
        service, zone = policy.get("service") or "", policy.get("zoneName") or ""
        if mapped.elsewhere and service not in mapped.services:
            continue
        found.append(
            {
                **policy,
                "id": None,
                "guid": None,
                "version": None,
                "serviceType": None,
                "service": mapped.services.get(service, service),
                "zoneName": mapped.zones.get(zone, zone),
            }
        )
    return found


def limited(
    policies: Iterable[Mapping[str, Any]], *, service_types: Mapping[str, str], wanted: Sequence[str]
) -> list[Object]:
    """Return the policies whose service is of a wanted type; no wanted types: all."""
    return [
        dict(policy)
        for policy in policies
        if not wanted or service_types.get(policy.get("service") or "") in wanted
    ]


def located(failures: Iterable[Failure], index: int, name: str | None) -> list[Failure]:
    """Return the failures of one policy of a file with their place in it."""
    where = f"policies[{index}]" + (f" (`{name}`)" if name else "")
    return [Failure(f.code, f"{where}: {f.reason}", f.field, f.subfield, f.type) for f in failures]
