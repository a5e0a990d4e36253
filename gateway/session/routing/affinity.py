"""Port to the store that knows on which Spark each session of Spark Connect is, for all gateways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.model.sparks import BoundSession, ConnectKey


class Affinity(Protocol):
    """INVARIANT (one Spark for a session): who binds first has bound it for all. A session is bound before
    anything of it is forwarded, and moves only while no gateway has seen it on a Spark.

    Everything raises BackendUnavailable while the store is away: better no new session than one whose other
    half is on another Spark.
    """

    async def find(self, key: ConnectKey) -> BoundSession | None: ...

    async def bind(self, key: ConnectKey, backend: str) -> BoundSession:
        """Bind a session that is not bound; return what it is bound to by now, by whomever."""
        ...

    async def confirm(self, key: ConnectKey, backend: str) -> bool:
        """Note that the session is on this Spark; False when it was moved meanwhile."""
        ...

    async def give_up(self, key: ConnectKey, backend: str) -> bool:
        """Unbind a session that could not be opened there; False when somebody else has opened it."""
        ...

    async def forget(self, key: ConnectKey) -> None:
        """Unbind a session that its client has released."""
        ...

    async def touch(self, keys: Sequence[ConnectKey]) -> None:
        """Note that sessions are still there, and forget those of which nobody has said so for long."""
        ...
