"""Each section of `listeners` is an endpoint, which is there when the settings have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.endpoints import ENDPOINTS
from gateway.settings.listeners import Listeners
from gateway.settings.loading import parse_settings

SPARK = "backend: {thrift: {host: spark}}\n"


def test_each_section_of_listeners_is_an_endpoint() -> None:
    assert {endpoint.name for endpoint in ENDPOINTS} == set(Listeners.model_fields)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (SPARK, ["thrift", "admin"]),
        ("backend: {embedded: {}}\nlisteners: {connect: {}}", ["thrift", "connect", "admin"]),
        ("backend: {connect: {host: spark}}\nlisteners: {connect: {}}", ["connect", "admin"]),
    ],
)
def test_which_endpoints_there_are_is_in_the_settings(text: str, names: list[str], tmp_path: Path) -> None:
    settings = parse_settings(text, "g.yaml", tmp_path)
    assert [endpoint.name for endpoint in ENDPOINTS if endpoint.listener(settings) is not None] == names
