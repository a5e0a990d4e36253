"""What `connections:` of the settings may hold: bounds on who connects, before anybody knows who it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.settings.section import Count, Seconds, Section


class ConnectionSettings(Section):
    """Bounds of each listener on connections, above all on those that nobody has logged in on. At a bound
    whoever has waited longest without asking anything makes room; where nobody has, whoever comes is sent
    away. docs/sessions.md tells how many descriptors all of them take."""

    connect: Count = 2000
    """Open connections of Spark Connect clients; those of `listeners.thrift` have a bound of their own."""
    before_login: Count = 256
    """Connections of one listener on which nobody has logged in. On `listeners.admin` that is every one."""
    before_login_per_address: Count = 64
    """Those of them that come from one address, when they have been there for a second. Clients behind a
    proxy have one address together. Who comes faster than that waits for the others to log in."""
    first_byte_s: Seconds = 5.0
    """Seconds from connecting to the first byte; `logins.handshake_timeout_s` is for all until the login."""
    reserve: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 256
    """Descriptors that no connection gets, for Spark, the record and files that are read again; a quarter of
    the process's limit at most."""
