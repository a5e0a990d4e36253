"""The circumstances of an access: when, from where, by what means. Conditions and schedules ask for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gateway.model.tags import Tag

TIME = "time"
"""The facet that changes by itself; a verdict that depends on it holds for the second it was made in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessContext:
    """What is known of an access beside who wants what. What is not known is None or empty."""

    time: datetime | None = None
    """The instant of the access, with its time zone."""
    client_ip: str | None = None
    remote_ip: str | None = None
    """The peer's own address, where a proxy forwarded another one as `client_ip`."""
    forwarded: tuple[str, ...] = ()
    client_type: str = ""
    bare_builtins: bool = False
    """Whether Spark has bare names alone for its built-in functions (`spark_minors.QUALIFIED_BUILTINS`). The
    same for as long as a gateway runs, so that what is kept of decisions does not ask for it."""
    period: int = 0
    """The span of time, as a number, in which tables that policies read are looked at once."""
    action: str = ""
    """The operation, such as `QUERY`; Ranger's `action`."""
    request_data: str = ""
    session_id: str = ""
    cluster: str = ""
    cluster_type: str = ""
    accessed_together: frozenset[str] | None = None
    """Every column of the statement as `database.table.column`, lower case."""
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further named values, as Ranger's request context holds them."""
    tags: tuple[Tag, ...] | None = None
    """Tags that came with the request; None: those of the resource are looked up."""
    roles: frozenset[str] | None = None
    """Roles that came with the request and replace the computed ones; None: computed."""

    def values(self, context_dependencies: Iterable[str]) -> tuple[object, ...]:
        """Return the values of these fields, for telling whether two contexts differ in them.

        `time` counts by the second: schedules and time conditions know nothing finer.
        """
        return tuple(
            int(self.time.timestamp()) if name == TIME and self.time is not None else getattr(self, name)
            for name in context_dependencies
        )


NO_CONTEXT = AccessContext()
