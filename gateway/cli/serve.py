"""`sluice serve`: a gateway in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import structlog

from gateway.app import logs
from gateway.app.gateway import Gateway
from gateway.app.signals import until_signalled
from gateway.cli import exit_codes
from gateway.cli.terminal import Terminal
from gateway.settings import Settings, load_settings

log = structlog.get_logger(__name__)


def run(arguments: argparse.Namespace, _terminal: Terminal) -> int:
    """Serve until told to stop."""
    settings = load_settings(arguments.config)
    logs.configure(settings.logging)
    asyncio.run(until_signalled(_serve(settings, arguments.config)))
    log.info("gateway_stopped")
    return exit_codes.OK


async def _serve(settings: Settings, config: Path) -> None:
    log.info("gateway_starting")
    async with Gateway(settings, lambda line: log.info("starting", step=line), config=config) as gateway:
        where = gateway.addresses.endpoints
        hosts = {f"{name}_host": address.host for name, address in where.items()}
        ports = {f"{name}_port": address.port for name, address in where.items()}
        log.info("gateway_ready", **hosts, **ports)
        await gateway.run()
