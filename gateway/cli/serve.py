"""`sluice serve`: a gateway in the foreground, until SIGTERM or Ctrl-C; SIGHUP has files read again."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from gateway.app import exit_codes, logs
from gateway.app.event_loop import make_event_loop
from gateway.app.handed_connections import HandedConnections, WorkerPlace
from gateway.app.left_spools import load_worker_settings
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
    _run(
        _supervise(settings, arguments.config)
        if settings.workers > 1
        else _serve(_Serving(settings, arguments.config))
    )
    log.info("gateway_stopped")
    return exit_codes.OK


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=make_event_loop) as runner:
        runner.run(work)


async def _supervise(settings: Settings, config: Path) -> None:
    from gateway.app.supervisor import Supervisor  # only of gateways with workers

    log.info("gateway_starting")
    supervisor = Supervisor(settings, config)
    await until_signalled(supervisor.serve(), drain=supervisor.drain, reload=supervisor.reload)


async def _serve(serving: _Serving) -> None:
    await until_signalled(serving.serve(), drain=serving.drain, reload=serving.reload)


def serve_worker(config: Path, place: WorkerPlace) -> None:
    """Serve as one of a gateway's workers until told to stop."""
    settings = load_worker_settings(config, place.number)
    logs.configure(settings.logging)
    _run(_serve_worker(settings, config, place))


async def _serve_worker(settings: Settings, config: Path, place: WorkerPlace) -> None:
    await _serve(_Serving(settings, config, HandedConnections(place)))


class _Serving:
    """One run of the command."""

    def __init__(self, settings: Settings, config: Path, handed: HandedConnections | None = None) -> None:
        """`handed`: where connections come from, of a worker."""
        self._handed = handed
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
                if self._handed is None:
                    log.info("gateway_ready", **hosts, **ports)
                else:
                    self._handed.mark_ready()
                if self._reload_when_ready:
                    await gateway.reload()
                await gateway.run()
        finally:
            if probes is not None:
                await probes.admin.close()

    async def _probes(self) -> Probes | None:
        try:
            return await start_probes(self._settings, Metrics(), self._handed)
        except (Faults, OSError) as error:
            if self._handed is not None:
                # The supervisor has found nothing wrong: it is no listener of a worker's own.
                raise Faults([f"connections cannot be taken from the supervisor: {error}"]) from None
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
