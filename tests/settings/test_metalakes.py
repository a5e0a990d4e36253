"""Parameters of a `gravitino` entry: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.settings.loading import parse_settings
from gateway.settings.metalakes import MetalakeSettings, metalake_settings


def read(parameters: str) -> MetalakeSettings:
    text = f"catalogs: [{{name: lake, catalog: {{type: gravitino, connection-params: {{{parameters}}}}}}}]"
    made = parse_settings(text, "gateway.yaml", Path("/"))
    return metalake_settings(made.catalogs[0].catalog.connection_params)


BASE = "uri: 'http://g:8090', metalake: prod"


def test_what_it_is_where_nothing_is_said() -> None:
    made = read(BASE)
    assert (made.uri, made.metalake, made.auth) == ("http://g:8090", "prod", "simple")
    assert (made.tags, made.owners, made.privileges, made.own_connectors) == (True, True, False, False)
    assert (made.poll_s, made.timeout_s, made.max_stale_s, made.max_bytes) == (30, 30, 86_400, 64 * 1024**2)
    assert made.enabled == frozenset()


def test_everything_said() -> None:
    made = read(
        "URI: 'http://g:8090', metalake: prod, auth: OAuth2, oauth2-server-uri: 'https://l', "
        "oauth2-token-path: /token, credential: {env: C}, scope: s, connectors: gravitino, iceberg: true, "
        "tags: false, owners: false, privileges: true, poll-s: 5, timeout-s: 2.5, max-stale-s: 60, "
        "max-bytes: 4096, set.PG.password: {env: P}, set.pg.url: 'jdbc:x'"
    )
    assert (made.auth, made.own_connectors, made.enabled) == ("oauth2", True, frozenset({"iceberg"}))
    assert (made.tags, made.owners, made.privileges) == (False, False, True)
    assert (made.poll_s, made.timeout_s, made.max_stale_s, made.max_bytes) == (5, 2.5, 60, 4096)
    assert set(made.set_parameters["pg"]) == {"password", "url"}
    assert "***" in str(made.set_parameters["pg"]["password"])


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("uri: 'http://g:8090'", "needs the parameter `metalake`"),
        ("metalake: x", "needs the parameter `uri`"),
        ("uri: 'g:8090', metalake: x", "`uri` must be an address"),
        ("uri: 'http://u:p@g', metalake: x", "contains a password"),
        (f"{BASE}, auth: kerberos", "`auth` must be none or simple or basic or oauth2"),
        (f"{BASE}, auth: basic, user: u", "`auth: basic` needs the parameter `password`"),
        (f"{BASE}, auth: oauth2", "needs the parameter `credential`"),
        (f"{BASE}, password: plain", "`password` is a secret"),
        (f"{BASE}, credential: 'a:b'", "`credential` is a secret"),
        (f"{BASE}, set.pg.password: plain", "`set.pg.password` is a secret"),
        (f"{BASE}, set.pg: x", "`set.CATALOG.PARAMETER`"),
        (f"{BASE}, iceberg: maybe", "`iceberg` must be true or false"),
        (f"{BASE}, connectors: other", "`connectors` must be native or gravitino"),
        (f"{BASE}, poll-s: 0", "`poll-s` must be a number from"),
        (f"{BASE}, max-stale-s: never", "`max-stale-s` must be a number from"),
        (f"{BASE}, pol-s: 5", "has no parameter `pol-s`"),
    ],
)
def test_faults_are_told_with_their_line(parameters: str, told: str) -> None:
    with pytest.raises(Faults) as raised:
        read(parameters)
    assert told in "; ".join(raised.value.faults)
    assert all(fault.startswith("gateway.yaml:1") for fault in raised.value.faults)
