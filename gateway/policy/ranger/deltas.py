"""Downloads that hold only what changed, applied to what was downloaded before, as a plugin of Ranger's does.

All of it works on Ranger's own JSON. Nothing is changed in place, and what no delta speaks of stays the same
object, so that a `Converter` knows it again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from gateway.errors import Faults
from gateway.policy.diagnostics import Diagnostics, Path
from gateway.policy.json_shapes import Reader, whole

CREATE, UPDATE, DELETE = 0, 1, 2
_TAG = "tag"


def apply_deltas(raw_policies: Mapping[str, Any], download: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ServicePolicies after a download: the download, or the old one with its deltas applied.

    A download with both policies and deltas is nonsense; one with neither means that there are no policies.
    Raises Faults for nonsense, and for a kind of change that only a full download can bring.
    """
    findings = Diagnostics()
    reader = Reader(findings)
    if not isinstance(download, Mapping):
        raise Faults(["the download must be an object (`{…}`)"])
    zones = reader.field(download, "securityZones", ())
    full, changed = (
        _has(download, key, reader, ())
        + sum(_has(info, key, reader, ("securityZones", name)) for name, info in zones.items())
        for key in ("policies", "policyDeltas")
    )
    if full and changed:
        findings.add((), "a download must contain either policies or policy deltas, not both")
    findings.raise_any()
    if not changed:
        return {"policies": [], **{key: value for key, value in download.items() if value is not None}}
    found = _Application(raw_policies, download, reader).result()
    findings.raise_any()
    return found


def _has(data: object, key: str, reader: Reader, path: Path) -> bool:
    return bool(reader.read_list(reader.read_mapping(data, path), key, path))


class _Application:
    """The application of one download's deltas."""

    def __init__(self, old: Mapping[str, Any], download: Mapping[str, Any], reader: Reader) -> None:
        self._old = old
        self._download = download
        self._reader = reader
        definition = download.get("serviceDef") or old.get("serviceDef")
        name = definition.get("name") if isinstance(definition, Mapping) else None
        self._type = name if isinstance(name, str) else ""

    def result(self) -> dict[str, Any]:
        old, download, reader = self._old, self._download, self._reader
        theirs, own = old.get("serviceName"), download.get("serviceName")
        if theirs is not None and own is not None and theirs != own:
            reader.fault(("serviceName",), f"these are deltas of service `{own}`, not of `{theirs}`")
        found = {key: value for key, value in download.items() if value is not None and key != "policyDeltas"}
        if "serviceDef" not in found and "serviceDef" in old:
            found["serviceDef"] = old["serviceDef"]
        self._later(download.get("policyVersion"), ("policyVersion",), same=True)
        deltas = self._deltas(download, ())
        found["policies"] = self._apply_deltas(
            reader.read_list(old, "policies", ()), [d for d in deltas if not d.of_tags]
        )
        self._tag_policies(found, [delta for delta in deltas if delta.of_tags])
        self._zones(found)
        return found

    def _tag_policies(self, found: dict[str, Any], deltas: list[_Delta]) -> None:
        """The tag service is as the download says, its policies are the old ones with the changes applied."""
        info = self._reader.field(self._download, "tagPolicies", ())
        if not info:
            if deltas:
                self._reader.fault(("policyDeltas",), "tag policies change, but `tagPolicies` is missing")
            return
        old = self._reader.field(self._old, "tagPolicies", ())
        given = self._reader.read_list(info, "policies", ("tagPolicies",))
        if given:
            path: Path = ("tagPolicies", "policies")
            self._reader.fault(path, "a download must contain either policies or policy deltas, not both")
        policies = self._apply_deltas(self._reader.read_list(old, "policies", ("tagPolicies",)), deltas)
        header = {key: value for key, value in info.items() if value is not None}
        if "serviceDef" not in header and "serviceDef" in old:
            header["serviceDef"] = old["serviceDef"]
        found["tagPolicies"] = {**header, "policies": policies}

    def _zones(self, found: dict[str, Any]) -> None:
        zones = self._reader.field(self._download, "securityZones", ())
        old_zones = self._reader.field(self._old, "securityZones", ())
        if not zones:
            found.pop("securityZones", None)
            return
        new: dict[str, Any] = {}
        for name, info in zones.items():
            path: Path = ("securityZones", name)
            old = self._reader.read_mapping(old_zones.get(name), path)
            policies = self._reader.read_list(old, "policies", path)
            deltas = self._deltas(info, path)
            header = {k: v for k, v in info.items() if v is not None and k != "policyDeltas"}
            new[name] = {**header, "policies": self._apply_deltas(policies, deltas)}
        found["securityZones"] = new

    def _deltas(self, data: Mapping[str, Any], path: Path) -> list[_Delta]:
        found = []
        for entry, where in self._reader.entries(data, "policyDeltas", path):
            delta = self._delta(entry, where)
            if delta is not None:
                found.append(delta)
        return found

    def _delta(self, entry: Mapping[str, Any], path: Path) -> _Delta | None:
        reader = self._reader
        change = reader.number(entry, "changeType", path, -1)
        if change not in (CREATE, UPDATE, DELETE):
            reader.fault((*path, "changeType"), f"change type {change} needs a full download")
            return None
        policy = entry.get("policy")
        if not isinstance(policy, Mapping):
            reader.fault((*path, "policy"), "a delta must contain its policy, or for a deletion its identity")
            return None
        ident = whole(policy.get("id"))
        if ident is None:
            reader.fault((*path, "policy", "id"), "`id` must be a whole number")
            return None
        type_ = reader.text(policy, "serviceType", (*path, "policy")) or self._type
        if type_ not in (self._type, _TAG):
            reader.fault(
                (*path, "policy"), f"policy {ident} is of service type `{type_}`, not `{self._type}`"
            )
            return None
        of_tags = type_ == _TAG and type_ != self._type
        if not of_tags:  # the tag service counts its changes by itself
            self._later(entry.get("policiesVersion"), (*path, "policiesVersion"))
        return _Delta(ident, None if change == DELETE else policy, of_tags)

    def _later(self, told: object, path: Path, *, same: bool = False) -> None:
        """Note a fault when a version that is told is none after the one that the changes are applied to.

        Gaps are right: of several changes of a policy only the last is told.
        """
        own = whole(self._old.get("policyVersion"))
        if told is None:
            return
        version = whole(told)
        if version is None:
            self._reader.fault(path, f"`{path[-1]}` must be a whole number")
        elif own is not None and version < own + (not same):
            self._reader.fault(path, f"version {version} does not continue version {own}")

    def _apply_deltas(self, policies: list[Any], deltas: list[_Delta]) -> list[Any]:
        """Return the policies with the changes applied, by id; the last change of a policy counts."""
        if not deltas:
            return policies
        changes = {delta.id: delta.policy for delta in deltas}
        try:
            kept = [policy for policy in policies if policy["id"] not in changes]
            _place(kept, [policy for policy in changes.values() if policy is not None])
        except (TypeError, KeyError):
            self._reader.fault((), "the policies to update have ids that are not numbers")
            return policies
        return kept


def _place(policies: list[Any], new: list[Any]) -> None:
    """Put new policies in among those that are there, by id.

    The list is in order, as Ranger and we leave it, unless this is the first change of one from elsewhere:
    sorting 100,000 policies would keep every other thread waiting.
    """
    numbers = [policy["id"] for policy in policies]
    if numbers != sorted(numbers):
        policies += new
        policies.sort(key=itemgetter("id"))
        return
    for policy in new:
        at = bisect_right(numbers, policy["id"])
        numbers.insert(at, policy["id"])
        policies.insert(at, policy)


class _Delta:
    """One change: the policy as it is now, or None when it is gone."""

    __slots__ = ("id", "of_tags", "policy")

    def __init__(self, ident: int, policy: Mapping[str, Any] | None, of_tags: bool) -> None:
        self.id = ident
        self.policy = policy
        self.of_tags = of_tags


def apply_tag_deltas(raw_tags: Mapping[str, Any], download: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ServiceTags after a download that may be a delta; raises Faults for nonsense.

    In a delta a definition without a name, a tag without a type and a resource without a signature are gone.
    """
    if not isinstance(download, Mapping):
        raise Faults(["the download must be an object (`{…}`)"])
    findings = Diagnostics()
    reader = Reader(findings)
    if not reader.flag(download, "isDelta", (), default=False):
        findings.raise_any()
        return dict(download)
    theirs, own = raw_tags.get("serviceName"), download.get("serviceName")
    if theirs is not None and own is not None and theirs != own:
        reader.fault(("serviceName",), f"these are tags of service `{own}`, not of `{theirs}`")
    if raw_tags.get("isDelta"):
        reader.fault((), "tag deltas need a full set of tags to apply to, not other deltas")
    found = {key: value for key, value in download.items() if value is not None}
    found["isDelta"] = False
    found["op"] = raw_tags.get("op") or "add_or_update"
    found["tagDefinitions"] = _merge_objects(raw_tags, download, "tagDefinitions", "name", reader)
    found["tags"] = _merge_objects(raw_tags, download, "tags", "type", reader)
    gone = _merge_resources(raw_tags, download, found, reader)
    links = {**reader.field(raw_tags, "resourceToTagIds", ())}
    links.update(reader.field(download, "resourceToTagIds", ()))
    found["resourceToTagIds"] = {key: value for key, value in links.items() if whole(key) not in gone}
    findings.raise_any()
    return found


def _merge_objects(
    old: Mapping[str, Any], download: Mapping[str, Any], key: str, mark: str, reader: Reader
) -> dict[str, Any]:
    """Return id → object with the changes applied; one whose `mark` is empty is gone."""
    found = dict(reader.field(old, key, ()))
    for ident, entry in reader.field(download, key, ()).items():
        if reader.read_mapping(entry, (key, ident)).get(mark):
            found[ident] = entry
        else:
            found.pop(ident, None)
    return found


def _merge_resources(
    old: Mapping[str, Any], download: Mapping[str, Any], found: dict[str, Any], reader: Reader
) -> set[int]:
    """Put the resources in place and return the ids of those that are gone."""
    changes: dict[int, Mapping[str, Any] | None] = {}
    for entry, where in reader.entries(download, "serviceResources", ()):
        ident = whole(entry.get("id"))
        if ident is None:
            reader.fault((*where, "id"), "`id` must be a whole number")
        else:
            changes[ident] = entry if entry.get("resourceSignature") else None
    kept = [
        entry
        for entry in reader.read_list(old, "serviceResources", ())
        if not isinstance(entry, Mapping) or whole(entry.get("id")) not in changes
    ]
    found["serviceResources"] = kept + [entry for entry in changes.values() if entry is not None]
    return {ident for ident, entry in changes.items() if entry is None}
