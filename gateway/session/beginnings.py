"""Bounds how long a session may take to begin: a Spark may take connections and never answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.errors import BackendUnavailable
from gateway.session.limits import SessionLimits


class LoginUnanswered(BackendUnavailable):
    """Spark did not open a session in the time that there is for it."""


GIVE_UP_S = 1.0
"""How long a client waits until what could not begin has been taken away in Spark."""


@asynccontextmanager
async def bounded_login(limits: SessionLimits) -> AsyncIterator[None]:
    """End what opens a session in Spark after `limits.login_s` seconds. Raises LoginUnanswered then."""
    deadline = asyncio.timeout(limits.login_s)
    try:
        async with deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        raise LoginUnanswered(
            f"Spark accepts connections, but has not opened the session within {limits.login_s:g} s "
            "(`backend.login_timeout_s`); it may be waiting for its metastore"
        ) from None


async def wait_a_moment(closing: asyncio.Task[None]) -> None:
    """Wait until what could not begin is closed in Spark, and not for long: Spark may not answer."""
    await asyncio.wait({closing}, timeout=GIVE_UP_S)
