"""Settings that change without a restart: read again at SIGHUP, and of what needs a restart it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog
from pydantic import BaseModel

from gateway.app import logs
from gateway.app.certificates import Certificates
from gateway.app.left_spools import load_worker_settings
from gateway.app.probes import read_connection_limits
from gateway.errors import Faults
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.guessing import FailedLogins, LoginLimits
from gateway.session.routing.fleet import Fleet
from gateway.settings.models import Settings

_log = structlog.get_logger(__name__)

OF_SCHEDULES = ("schedule", "poll_s", "niceness", "share")
"""Settings of jobs that a gateway goes by, and not they."""
OF_LOGINS = ("failures", "user_failures", "window_s", "handshake_timeout_s")
"""Settings of logins that listeners take up; issuers and directories are what they were at the start."""


class Reloading:
    """What of a running gateway takes up other settings."""

    def __init__(self, settings: Settings, config: Path | None, certificates: Certificates) -> None:
        """`config`: the file that is read again."""
        self.certificates = certificates
        self.connection_limiters: dict[str, ConnectionLimiter] = {}
        """By listener."""
        self.guesses = FailedLogins(login_limits(settings))
        """Of all endpoints together."""
        self.fleet: Fleet | None = None
        """The Sparks, where there are several."""
        self.worker = 1
        """Which of the gateway's workers this is, where it has several."""
        self._in_force = settings
        self._config = config

    async def reload(self) -> None:
        """Read the settings again and put in force what can be; files at fault change nothing."""
        if self._config is not None:
            try:
                new = await asyncio.to_thread(load_worker_settings, self._config, self.worker)
            except Faults as error:
                _log.error("settings_not_reloaded", faults=list(error.faults))
            else:
                self._take(new)
        await asyncio.to_thread(self.certificates.look, asked=True)

    def _take(self, new: Settings) -> None:
        old = self._in_force
        now = merge_reloaded(old, new)
        self._in_force = now
        if now.logging != old.logging:
            logs.configure(now.logging)
        self.guesses.limits = login_limits(now)
        for name, backend in now.all_backends.items():
            # What was drained by command stays so while the settings say nothing new.
            if self.fleet is not None and backend.drain != old.all_backends[name].drain:
                self.fleet.set_drained(name, on=backend.drain)
        for name, door in self.connection_limiters.items():
            door.set_limits(read_connection_limits(now, name))
            tls = getattr(now.listeners, name).tls
            if tls is not None:
                self.certificates.set_certificate_files(name, tls)
        needs_restart = list_differing_keys(now, new)
        tell = _log.warning if needs_restart else _log.info
        tell("settings_reloaded", changed=list_differing_keys(old, now), needs_restart=needs_restart)


def merge_reloaded(old: Settings, new: Settings) -> Settings:
    """Return the old settings with what can be had of the new ones without a restart: logging, limits of
    failed logins and of connections, which Sparks are drained, where certificates are; and of jobs what these
    read by themselves."""
    listeners = {}
    for name in ("thrift", "thrift_http", "connect", "iceberg_rest", "admin"):
        was, will = getattr(old.listeners, name), getattr(new.listeners, name)
        if was is None or will is None:
            continue
        update = {}
        # With TLS or without is another listener.
        if was.tls is not None and will.tls is not None:
            update["tls"] = was.tls.model_copy(
                update={"certificate": will.tls.certificate, "key": will.tls.key}
            )
        if name in ("thrift", "thrift_http", "iceberg_rest"):
            update["connections"] = will.connections
        listeners[name] = was.model_copy(update=update)
    return old.model_copy(
        update={
            "logging": new.logging,
            "logins": old.logins.model_copy(update={name: getattr(new.logins, name) for name in OF_LOGINS}),
            "connections": new.connections,
            "backend": old.backend.model_copy(update={"drain": new.backend.drain}),
            "backends": {
                name: was.model_copy(update={"drain": new.backends.get(name, was).drain})
                for name, was in old.backends.items()
            },
            # Jobs are processes that read the settings anew; when they start is the gateway's matter.
            "jobs": new.jobs.model_copy(update={name: getattr(old.jobs, name) for name in OF_SCHEDULES}),
            "listeners": old.listeners.model_copy(update=listeners),
        }
    )


def login_limits(settings: Settings) -> LoginLimits:
    """Return the limits of failed logins."""
    logins = settings.logins
    return LoginLimits(failures=logins.failures, user_failures=logins.user_failures, window_s=logins.window_s)


def list_differing_keys(one: Settings, other: Settings) -> list[str]:
    """Return the keys, as `sessions.total`, whose values differ; no value is told."""
    return sorted(set(_list_differing(one, other, "")))


def _list_differing(one: object, other: object, at: str) -> Iterator[str]:
    if one == other:
        return
    if isinstance(one, BaseModel) and type(one) is type(other):
        for name in type(one).model_fields:
            key = f"{at}.{name}" if at else name
            yield from _list_differing(getattr(one, name), getattr(other, name), key)
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in {*one, *other}:
            yield from _list_differing(one.get(name), other.get(name), f"{at}.{name}")
    else:
        yield at
