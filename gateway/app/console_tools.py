"""What all pages of the console are made with."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.app.gateway_parts import GatewayParts
from gateway.app.ranger_admin import RangerAdmin
from gateway.console.texts import ShownTexts
from gateway.database.migrate import LazyPool
from gateway.model.principal import Principal
from gateway.session.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleTools:
    """Connections to the database, and texts as viewers may see them."""

    pool: LazyPool
    texts: ShownTexts
    recorder: Recorder
    public_url: str
    """Address by which browsers reach the console; empty where the settings have none."""
    admin: RangerAdmin | None = None
    """The API whose policies are changed and granted by; None where no policies are kept here."""


async def find_person(parts: GatewayParts, user: str) -> Principal | None:
    """Return who has a name: of the user file, of those who have logged in here, or of the directory."""
    known = parts.identities.principals.get(user)
    return known or (await parts.logins.known.find(user)).principal
