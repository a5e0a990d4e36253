"""One instant of everything that a verdict depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Policies and catalog at one instant; its versions stand in every audit event."""

    policies: PolicySet
    catalog: CatalogSnapshot
    context: AccessContext = NO_CONTEXT
    """When and from where the statement came."""
    principals: Mapping[str, Principal] = field(default_factory=dict)
    """Everybody who may log in, with groups and attributes as they are now: who a view's definer is."""
    anew: frozenset[TableName] | None = None
    """Tables that were described for this very statement; None: the catalog counts as it is."""

    @property
    def version(self) -> str:
        """Versions joined, e.g. `policies=3 files=5be2c1d09f3a dev_hive=17 dev_hive.roles=4 catalog=17`.

        `policies` and `catalog` count changes within one process; what stands between them is the sources'
        own and tells the same policies apart from others across processes and restarts.
        """
        origins = "".join(f"{source}={told} " for source, told in self.policies.origins.items())
        return f"policies={self.policies.version} {origins}catalog={self.catalog.version}"
