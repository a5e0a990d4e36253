"""This gateway among those that share its database."""

from __future__ import annotations

from gateway.app.rules import PolicyRegistry
from gateway.app.sparks import Sparks
from gateway.database.name_holds import NameHolds
from gateway.session.other_gateways import NamesForOthers


async def follow_others(dsn: str, gateway: str, sparks: Sparks, rules: PolicyRegistry) -> NameHolds:
    """Begin to hold names for other gateways, and to ask them to; before anything runs on a Spark."""
    keeper = NamesForOthers(sparks.find_locks, sparks.all_locks)
    names = NameHolds(dsn, gateway, keeper, rules.look_now)
    sparks.other_gateways = names
    await names.start()
    return names
