"""`sluice serve`: a gateway in the foreground, until SIGTERM or Ctrl-C; SIGHUP has files read again."""

from __future__ import annotations

import argparse
import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from gateway.app import exit_codes, logs
from gateway.app.probes import Probes, start_probes
from gateway.app.signals import until_signalled
from gateway.cli.terminal import Terminal
from gateway.errors import Faults
from gateway.session.metrics import Metrics
from gateway.settings import Settings, load_settings

if TYPE_CHECKING:
    from gateway.app.gateway import Gateway

log = structlog.get_logger(__name__)


def run(arguments: argparse.Namespace, _terminal: Terminal) -> int:
    """Serve until told to stop."""
    settings = load_settings(arguments.config)
    logs.configure(settings.logging)
    serving = _Serving(settings, arguments.config)
    asyncio.run(until_signalled(serving.serve(), drain=serving.drain, reload=serving.reload))
    log.info("gateway_stopped")
    return exit_codes.OK


class _Serving:
    """One run of the command."""

    def __init__(self, settings: Settings, config: Path) -> None:
        self._settings = settings
        self._config = config
        self._ready: Gateway | None = None
        self._reload_when_ready = False

    async def serve(self) -> None:
        log.info("gateway_starting")
        probes = await self._probes()
        try:
            # In a thread, and after the listener for probes: it takes a second or two.
            module = await asyncio.to_thread(import_module, "gateway.app.gateway")
            gateway: Gateway = module.Gateway(
                self._settings,
                lambda line: log.info("starting", step=line),
                config=self._config,
                probes=probes,
            )
            async with gateway:
                self._ready = gateway
                where = gateway.addresses.endpoints
                hosts = {f"{name}_host": address.host for name, address in where.items()}
                ports = {f"{name}_port": address.port for name, address in where.items()}
                log.info("gateway_ready", **hosts, **ports)
                if self._reload_when_ready:
                    await gateway.reload()
                await gateway.run()
        finally:
            if probes is not None:
                await probes.admin.close()

    async def _probes(self) -> Probes | None:
        try:
            return await start_probes(self._settings, Metrics())
        except (Faults, OSError):
            return None  # what is wrong with it is told with all that is wrong

    async def drain(self) -> None:
        if self._ready is not None:
            await self._ready.drain()

    async def reload(self) -> None:
        if self._ready is None:
            self._reload_when_ready = True
            log.info("reload_postponed", why="the gateway is starting")
        else:
            await self._ready.reload()
