"""Where the demo's console puts what somebody grants: a service of the gateway's own admin API. Its policies
are added to those of the packs."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from gateway.backends.spark_thrift_options import write_basic
from gateway.demo.tour import ENGINEER
from gateway.errors import BackendUnavailable
from gateway.frontends.users import set_user

SERVICE = "grants"
PLUGIN = "sluice-plugin"
"""Whom the gateway downloads the policies as."""
LOGIN_FILE = "sluice-plugin.password"
READY_S = 60.0
"""Seconds until the gateway has to judge by the service."""


def find_port(wanted: int) -> int:
    """Return a port of the admin listener, which settings have to name: a free one for 0."""
    if wanted:
        return wanted
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def prepare_login(directory: Path, users: Path, known: Mapping[str, object]) -> None:
    """Make the login of the download, unless an earlier start made it."""
    file = directory / LOGIN_FILE
    if PLUGIN not in known or not file.exists():
        password = secrets.token_urlsafe(24)
        file.touch(mode=0o600)
        file.write_text(password)
        set_user(users, PLUGIN, password=password, groups=[])


def list_sources(port: int) -> list[dict[str, Any]]:
    """Return the setting `policies.ranger`."""
    return [
        {
            "service": SERVICE,
            "adds_to": "spark",
            "urls": [f"http://127.0.0.1:{port}"],
            "user": PLUGIN,
            "password": {"file": LOGIN_FILE},
            "cache": "policies",
            "poll_s": 1.0,
            "tags_poll_s": None,
            "users_poll_s": None,
            "data_sharing_poll_s": None,
        }
    ]


async def make_service(port: int) -> None:
    """Make the service unless an earlier start did, and return when the gateway judges by it. Raises
    BackendUnavailable."""
    base = f"http://127.0.0.1:{port}"
    login = {"Authorization": write_basic(ENGINEER.name, ENGINEER.password)}
    deadline = time.monotonic() + READY_S
    async with aiohttp.ClientSession(headers=login) as http:
        services = f"{base}/service/public/v2/api/service"
        async with http.get(f"{services}/name/{SERVICE}") as found:
            is_there = found.status == 200
        if not is_there:
            async with http.post(services, json={"name": SERVICE, "type": "spark"}) as made:
                if made.status != 200:
                    raise BackendUnavailable(f"the admin API made no service: {await made.text()}")
        while True:
            async with http.get(f"{base}/readyz") as ready:
                if ready.status == 200:
                    return
                told = await ready.text()
            if time.monotonic() > deadline:
                raise BackendUnavailable(f"the gateway does not get ready: {told}")
            await asyncio.sleep(0.2)
