"""The keys by which the gateway signs who its users are, and where others find the public halves.

They are there from the first moment on: what stands before a Spark asks for them when the gateway asks it
whether it is ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from gateway.backends.token_signing import TokenSigner
from gateway.settings.backends import TokenSigningSettings

WELL_KNOWN = "/.well-known"


def make_signer(settings: TokenSigningSettings) -> TokenSigner:
    """Return what signs by the keys of the settings. Raises Faults."""
    return TokenSigner(
        settings.issuer,
        lambda: [one.reveal() for one in settings.keys],
        lifetime_s=settings.lifetime_s,
    )


def make_key_application(settings: TokenSigningSettings) -> Callable[[], web.Application]:
    """Return what makes the pages of public keys, as OpenID Connect has them. Raises Faults."""
    signer = make_signer(settings)

    async def keys(_request: web.Request) -> web.Response:
        return _answer(signer.list_public_keys())

    async def configuration(_request: web.Request) -> web.Response:
        address = f"{settings.issuer.rstrip('/')}{WELL_KNOWN}/jwks.json"
        return _answer({"issuer": settings.issuer, "jwks_uri": address})

    def make() -> web.Application:
        app = web.Application(client_max_size=1024)
        app.router.add_get("/jwks.json", keys)
        app.router.add_get("/openid-configuration", configuration)
        return app

    return make


def _answer(document: Any) -> web.Response:
    return web.json_response(document, headers={"Cache-Control": "max-age=60"})
