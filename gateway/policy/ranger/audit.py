"""What a service's configuration in Ranger says of super users and of auditing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gateway.model.policy import AuditFilter, AuditRules
from gateway.policy.diagnostics import Diagnostics, Path
from gateway.policy.json_shapes import Reader
from gateway.policy.ranger.policies import read_values

FILTERS = "ranger.plugin.audit.filters"
_MODES = ("audit-default", "audit-all", "audit-none")
_RESULTS = ("DENIED", "ALLOWED", "NOT_DETERMINED")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)


class Configuration:
    """`serviceConfig` of one service of a type, and the lists beside it that Ranger's own test files use."""

    def __init__(self, data: Mapping[str, Any], type_: str, reader: Reader, path: Path) -> None:
        self._data = data
        self._type = type_
        self._reader = reader
        self._path = path
        self._config = reader.scalars(data, "serviceConfig", path)

    def names(self, suffix: str, beside: str) -> frozenset[str]:
        """Return the names in `ranger.plugin.<suffix>`, which commas separate, and in the list `beside`."""
        found = set(self._reader.names(self._data, beside, self._path))
        for prefix in ("ranger.plugin.", f"ranger.plugin.{self._type}."):
            found |= {name.strip() for name in self._config.get(prefix + suffix, "").split(",")}
        return frozenset(found - {""})

    def audit_rules(self) -> AuditRules:
        mode = self._reader.text(self._data, "auditMode", self._path).strip().lower() or _MODES[0]
        if mode not in _MODES:
            self._reader.warn(
                (*self._path, "auditMode"), f"unknown audit mode `{mode}`: taken as {_MODES[0]}"
            )
            mode = _MODES[0]
        return AuditRules(
            mode=mode,
            filters=self._filters(),
            excluded_users=self.names("audit.exclude.users", "auditExcludedUsers"),
            excluded_groups=self.names("audit.exclude.groups", "auditExcludedGroups"),
            excluded_roles=self.names("audit.exclude.roles", "auditExcludedRoles"),
        )

    def _filters(self) -> tuple[AuditFilter, ...]:
        """Return the filters; a text that cannot be read filters nothing, with a warning, as in Ranger."""
        text = self._config.get(FILTERS, "").strip()
        if not text:
            return ()
        where = (*self._path, "serviceConfig", FILTERS)
        try:
            entries = json.loads(_QUOTED.sub(_requoted, text))
        except (ValueError, RecursionError):
            self._reader.warn(where, "the audit filters are not JSON: there are none")
            return ()
        # Of findings of its own: what is wrong with auditing must not keep policies from being taken.
        reader = Reader(Diagnostics())
        found = [
            _filter(entry, reader)
            for entry, _ in reader.entries({"filters": entries}, "filters", ())
            if entry.get("isAudited") is not None  # without it, it decides nothing, in Ranger too
        ]
        for text in (*reader.findings.texts(), *reader.findings.warnings):
            self._reader.warn(where, f"audit filters: {text}")
        if reader.findings.fault_count:
            self._reader.warn(where, "the audit filters cannot be read: there are none")
            return ()
        return tuple(found)


def _filter(entry: Mapping[str, Any], reader: Reader) -> AuditFilter:
    result = reader.text(entry, "accessResult", ()).upper()
    if result and result not in _RESULTS:
        reader.warn((), f"unknown access result `{result}`")
    resources = reader.field(entry, "resources", ())
    return AuditFilter(
        audited=reader.flag(entry, "isAudited", (), default=True),
        result=result,
        resources={level: read_values(written, reader, (level,)) for level, written in resources.items()},
        accesses=frozenset(name.lower() for name in reader.names(entry, "accessTypes", ())),
        actions=reader.names(entry, "actions", ()),
        users=reader.names(entry, "users", ()),
        groups=reader.names(entry, "groups", ()),
        roles=reader.names(entry, "roles", ()),
    )


def _requoted(found: re.Match[str]) -> str:
    """Return a text in single quotes as JSON wants it; one in double quotes as it is."""
    inner = found[1]
    if inner is None:
        return found[0]
    return '"' + inner.replace("\\'", "'").replace('"', '\\"') + '"'
