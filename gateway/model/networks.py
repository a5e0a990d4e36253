"""Networks that addresses are in or not: of proxies and balancers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_within(address: str, networks: Iterable[Network]) -> bool:
    """Whether an address is in one of the networks; a text that is no address is in none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return any(parsed in network for network in networks)
