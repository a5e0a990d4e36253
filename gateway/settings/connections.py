"""What `connections:` of the settings may hold: bounds on who connects, before anybody knows who it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.settings.section import Count, Seconds, Section


class ConnectionSettings(Section):
    """Limits of each listener on connections, above all before a login. At a limit the oldest idle connection
    makes room; without one, the new connection is refused. docs/sessions.md says how many descriptors all of
    them take."""

    connect: Count = 2000
    """Open connections of Spark Connect clients; those of `listeners.thrift` have a limit of their own."""
    before_login: Count = 256
    """Connections of one listener without a login; on `listeners.admin`, all connections."""
    before_login_per_address: Count = 64
    """Those of them from one address that are older than a second. Clients behind a proxy share an address.
    Faster ones wait for the others to log in."""
    first_byte_s: Seconds = 5.0
    """Seconds from connecting to the first byte; `logins.handshake_timeout_s` is for all until the login."""
    reserve: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 256
    """Descriptors that no connection gets, for Spark, the record and reloads; a quarter of the process's
    limit at most."""
