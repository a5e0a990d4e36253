"""Opens the server of an entry of type `gravitino`."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.app.revealing import parameters_of
from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.rest import RestLogin
from gateway.settings.catalogs import CatalogEntry
from gateway.settings.metalakes import metalake_settings


def open_metalake(entry: CatalogEntry) -> GravitinoMetalake:
    """Return the metalake of an entry of type `gravitino`, to be opened. Raises Faults."""
    settings = metalake_settings(entry.catalog.connection_params)

    def login() -> RestLogin:
        return _metalake_login(settings.auth, parameters_of(entry))

    login()  # a secret that is missing is told before anybody is asked
    return GravitinoMetalake(
        settings.uri,
        settings.metalake,
        login,
        timeout_s=settings.timeout_s,
        max_bytes=settings.max_bytes,
    )


def _metalake_login(auth: str, given: Mapping[str, str]) -> RestLogin:
    match auth:
        case "none":
            return RestLogin()
        case "simple":
            # Gravitino's simple login: a user by name, whose password is not looked at.
            return RestLogin(user=given.get("user", "sluice"), password="dummy")  # noqa: S106
        case "basic":
            return RestLogin(user=given.get("user", ""), password=given.get("password", ""))
        case _:
            url, path = given.get("oauth2-server-uri", ""), given.get("oauth2-token-path", "")
            return RestLogin(
                token_url=f"{url.rstrip('/')}/{path.lstrip('/')}" if path else url,
                credential=given.get("credential", ""),
                scope=given.get("scope", ""),
            )
