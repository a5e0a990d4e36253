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
        where = gateway.addresses
        log.info(
            "gateway_ready",
            thrift_host=where.thrift_host,
            thrift_port=where.thrift_port,
            connect_host=where.connect_host,
            connect_port=where.connect_port,
            admin_host=where.admin_host,
            admin_port=where.admin_port,
        )
        await gateway.run()
