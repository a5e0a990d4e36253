"""Addresses of Sparks that are told: none of them is the gateway's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.discovering import leave_out_own
from gateway.settings.loading import parse_settings

POOL = """
listeners: {{thrift: {{port: 10009}}, connect: {{port: {connect}}}}}
backends:
  main: {{thrift: {{host: main}}}}
  pool: {{connect: {{host: pool, port: 15002}}, discover: {{dns: pool}}}}
"""


@pytest.mark.parametrize(
    ("connect", "left"),
    [(15002, {"192.0.2.7", "2001:db8::7"}), (15009, {"192.0.2.7", "2001:db8::7", "127.0.0.1", "localhost"})],
)
async def test_a_gateway_is_no_spark_of_its_own(tmp_path: Path, connect: int, left: set[str]) -> None:
    settings = parse_settings(POOL.format(connect=connect), "gateway.yaml", tmp_path)
    told = frozenset({"192.0.2.7", "2001:db8::7", "127.0.0.1", "localhost"})
    assert await leave_out_own(told, settings, settings.backends["pool"]) == left
