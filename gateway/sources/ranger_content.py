"""What a Ranger Admin sends: read, checked for whose it is, joined with what was there, and converted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gateway.errors import Faults
from gateway.model.policy import Role, Service, ServiceDef, UserStore
from gateway.policy.json_documents import parse_object
from gateway.policy.json_writing import pieces
from gateway.policy.ranger import Converted, Converter, apply_deltas, apply_tag_deltas, roles_of, users_of
from gateway.sources.ranger_client import DownloadKind

NO_VERSION = -1
"""The version that a plugin tells when it has nothing."""
_VERSION_KEYS = {
    DownloadKind.ROLES: "roleVersion",
    DownloadKind.POLICIES: "policyVersion",
    DownloadKind.TAGS: "tagVersion",
    DownloadKind.USERS: "userStoreVersion",
    DownloadKind.SHARING: "gdsVersion",
}

_ATTRIBUTES = re.compile(rb"""(?:\b|\\[nrtf])(?:USER\b(?![}"])|UGA?\b)|_ATTR|user(?:Group)?Attributes""")
"""How scripts, macros and filters speak of attributes; a break of the line is a backslash and a letter here.

Rather too much than too little is found: without attributes that are missing, `!=` would hold.
"""

_SAYING = ("serviceDef", "policies", "tagPolicies", "securityZones")
"""Keys of a download of policies; one without any of them says that there is nothing."""

_DEEPEST = 2
"""Levels at which mappings may hold policies: tag policies, zones, a zone."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedService:
    """A service and what came with it, ready to be put in force."""

    service: Service
    roles: tuple[Role, ...] = ()
    users: UserStore | None = None
    warnings: tuple[str, ...] = ()
    versions: Mapping[DownloadKind, int] = field(default_factory=dict)
    """The Admin's own numbers, of each download that there is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copy:
    """One download, complete: deltas have been applied."""

    content: Mapping[str, Any] | None = None
    """None: the Admin has nothing of this kind."""
    version: int = NO_VERSION
    digest: bytes = b""
    """Of the answer that it came with, for knowing the same answer again."""
    attributes: bool = False
    """For policies and data sharing: whether any of it may ask for attributes of users or groups."""


Copies = Mapping[DownloadKind, Copy]


class DeltaRefused(Faults):
    """A delta does not fit what it is to change; the whole has to be downloaded."""


def where(service: str, kind: DownloadKind) -> str:
    """Return how messages name a download."""
    return f"{service} ({kind.value})"


def read_answer(kind: DownloadKind, content: bytes, own: Copy, service: str) -> Copy | None:
    """Return what the answer makes of our copy; None when it is the very answer that we have.

    Raises Faults for an answer that is not JSON or about something else, DeltaRefused.
    """
    digest = hashlib.sha256(content).digest()
    if digest == own.digest:
        return None
    download = parse_object(content, where(service, kind))
    check_name(kind, download, service)
    _share(own.content, download)
    if kind is DownloadKind.SHARING and version_of(kind, download, service) < 0:
        raise Faults([f"{where(service, kind)}: `{_VERSION_KEYS[kind]}` is missing"])
    whole = _with_deltas(kind, download, own, service)
    copy = copy_of(kind, whole, service, digest=digest, told=download)
    return replace(copy, attributes=copy.attributes or own.attributes)


def build_empty_sharing(service: str) -> Copy:
    """Return what stands for the data sharing of an Admin that has none; it has no version."""
    return Copy(content={"serviceName": service, _VERSION_KEYS[DownloadKind.SHARING]: NO_VERSION})


def copy_of(
    kind: DownloadKind,
    content: Mapping[str, Any],
    service: str,
    *,
    digest: bytes = b"",
    told: Mapping[str, Any] | None = None,
) -> Copy:
    """Return content as a copy; only `told`, the part that is new, is searched for attributes."""
    asks = kind in (DownloadKind.POLICIES, DownloadKind.SHARING) and any(
        _ATTRIBUTES.search(piece) for piece in pieces(content if told is None else told)
    )
    return Copy(content=content, version=version_of(kind, content, service), digest=digest, attributes=asks)


def _share(old: Mapping[str, Any] | None, new: dict[str, Any], depth: int = 0) -> None:
    """Have equal policies of both be the same objects: half the memory, and no need to convert them again."""
    for key, value in new.items():
        before = (old or {}).get(key)
        if key == "policies" and isinstance(value, list) and isinstance(before, list):
            known = {_id_of(entry): entry for entry in before}
            for i, entry in enumerate(value):
                same = known.get(_id_of(entry))
                if same is not None and same == entry:
                    value[i] = same
        elif isinstance(value, dict) and isinstance(before, dict) and depth < _DEEPEST:
            _share(before, value, depth + 1)


def _id_of(entry: object) -> int | None:
    """Return the id of a policy of a download, None when it has no proper one."""
    found = entry.get("id") if isinstance(entry, dict) else None
    return found if isinstance(found, int) else None


def check_name(kind: DownloadKind, download: Mapping[str, Any], service: str) -> None:
    """Raise Faults when a download is about another service; only policies must say whose they are."""
    told = download.get("serviceName")
    if told != service and (told is not None or kind is DownloadKind.POLICIES):
        raise Faults([f"{where(service, kind)}: the response is for service `{told}`"])


def version_of(kind: DownloadKind, content: Mapping[str, Any], service: str) -> int:
    """Return a download's version, −1 when it has none. Raises Faults."""
    version = content.get(_VERSION_KEYS[kind])
    if version is None:
        return NO_VERSION
    if not isinstance(version, int) or isinstance(version, bool):
        raise Faults([f"{where(service, kind)}: `{_VERSION_KEYS[kind]}` is not a whole number"])
    return version


def _with_deltas(kind: DownloadKind, download: dict[str, Any], own: Copy, service: str) -> Mapping[str, Any]:
    if kind not in (DownloadKind.POLICIES, DownloadKind.TAGS):
        return download
    apply = apply_deltas if kind is DownloadKind.POLICIES else apply_tag_deltas
    try:
        return apply(own.content or {}, download)
    except Faults as error:
        raise DeltaRefused([f"{where(service, kind)}: {fault}" for fault in error.faults]) from None


def _says_nothing(kind: DownloadKind, copy: Copy) -> bool:
    return kind is DownloadKind.SHARING and copy.version == NO_VERSION


class Conversion:
    """Turns downloads of one service into policies; what did not change is not converted again."""

    def __init__(
        self, name: str, definition: ServiceDef, definitions: Mapping[str, ServiceDef], *, adds_groups: bool
    ) -> None:
        self._name = name
        self._definition = definition
        self._adds_groups = adds_groups
        self._converter = Converter(definitions, tolerant=True)
        self._last: dict[DownloadKind, tuple[Mapping[str, Any], object]] = {}

    def empty(self, definition: ServiceDef | None = None) -> CachedService:
        """Return the service without anything: nothing is allowed."""
        return CachedService(service=Service(name=self._name, definition=definition or self._definition))

    def build_content(self, copies: Copies) -> CachedService:
        """Return what the copies mean together. Raises Faults with those of all of them."""
        said = {kind: copy for kind, copy in copies.items() if not _says_nothing(kind, copy)}
        contents = {kind: copy.content for kind, copy in said.items() if copy.content is not None}
        faults: list[str] = []

        def convert_content(kind: DownloadKind, convert: Callable[[Mapping[str, Any]], T]) -> T | None:
            content = contents.get(kind)
            if content is None:
                return None
            try:
                return convert(content)
            except Faults as error:
                faults.extend(error.faults)
                return None

        roles = convert_content(DownloadKind.ROLES, self._roles)
        users = convert_content(DownloadKind.USERS, self._users)
        found = convert_content(
            DownloadKind.POLICIES,
            lambda content: self._policies(
                content, contents.get(DownloadKind.TAGS), contents.get(DownloadKind.SHARING)
            ),
        )
        if faults:
            raise Faults(faults)
        return CachedService(
            service=self.empty().service if found is None else found.service,
            roles=roles or (),
            users=users,
            warnings=() if found is None else found.warnings,
            versions={kind: said[kind].version for kind in contents},
        )

    def _policies(
        self,
        content: Mapping[str, Any],
        tags: Mapping[str, Any] | None,
        sharing: Mapping[str, Any] | None,
    ) -> Converted:
        file = where(self._name, DownloadKind.POLICIES)
        if any(content.get(key) for key in _SAYING):
            if sharing is not None:
                content = {**content, "gdsInfo": sharing}
            converted = self._converter.service(content, tags=tags, file=file)
            self._definition = converted.service.definition
            return converted
        # What an Admin answers of a service that is switched off there: whose it is, and a version.
        told = f"{file}: the Ranger Admin sends neither a service definition nor policies: nothing is allowed"
        return Converted(service=self.empty().service, warnings=(told,))

    def _roles(self, content: Mapping[str, Any]) -> tuple[Role, ...]:
        file = where(self._name, DownloadKind.ROLES)
        return self._once(DownloadKind.ROLES, content, lambda: roles_of(content, file=file, tolerant=True))

    def _users(self, content: Mapping[str, Any]) -> UserStore:
        file = where(self._name, DownloadKind.USERS)
        return self._once(
            DownloadKind.USERS,
            content,
            lambda: users_of(content, file=file, adds_groups=self._adds_groups, tolerant=True),
        )

    def _once(self, kind: DownloadKind, content: Mapping[str, Any], convert: Callable[[], T]) -> T:
        last = self._last.get(kind)
        if last is not None and last[0] is content:
            return last[1]  # type: ignore[return-value]
        made = convert()
        self._last[kind] = (content, made)
        return made
