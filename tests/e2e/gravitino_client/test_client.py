"""Gravitino's own client fills the double, and what it wrote is what the gateway reads.

So the double speaks as the client that its makers publish expects. `make gravitino-test` installs the client
into an environment of its own: it pins the versions of libraries that others use as well. Costs five seconds.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.rest import RestLogin
from gateway.model.metalakes import MetadataObject, MetalakePrivilege, Owner
from tests.catalog.gravitino_double import METALAKE, Gravitino

pytestmark = pytest.mark.gravitino
PROGRAM = Path(__file__).with_name("client.py")
PYTHON = PROGRAM.with_name(".venv") / "bin" / "python"


async def run(double: Gravitino, what: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        str(PYTHON), str(PROGRAM), double.url, METALAKE, what, stdout=-1, stderr=-1
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    return json.loads(out) if out else None


async def test_what_the_client_writes_is_what_the_gateway_reads() -> None:
    double = Gravitino()
    await double.start()
    try:
        await run(double, "fill")
        client = GravitinoMetalake(
            double.url, METALAKE, lambda: RestLogin(user="olga"), timeout_s=60, max_bytes=1024 * 1024
        )
        async with client:
            found = await client.load_everything(tags=True, privileges=True)
        told = await run(double, "look")
    finally:
        await double.stop()
    assert [(one.name, one.type, one.provider) for one in found.catalogs] == [
        ("odd", "RELATIONAL", "jdbc-nobody-knows"),
        ("raw", "FILESET", "hadoop"),
        ("shop", "RELATIONAL", "jdbc-postgresql"),
    ]
    shop = MetadataObject("CATALOG", ("shop",))
    (tag,) = found.tags
    assert (tag.name, tag.properties, tag.objects) == ("PII", {"level": "3"}, (shop,))
    (role,) = found.roles
    ((on, privileges),) = role.grants
    assert on == shop
    assert set(privileges) == {
        MetalakePrivilege("USE_CATALOG"),
        MetalakePrivilege("SELECT_TABLE", denied=True),
    }
    assert (found.users, found.groups) == ({"ann": ("reader",)}, {"staff": ("reader",)})
    assert found.owners[shop] == Owner(name="olga")
    assert told == {
        "catalogs": ["odd", "raw", "shop"],
        "tags": ["PII"],
        "roles": ["reader"],
        "users": [["ann", ["reader"]]],
        "groups": [["staff", ["reader"]]],
        "owner": ["olga", "USER"],
    }
