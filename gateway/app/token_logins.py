"""Logins by tokens of an issuer, as the settings have them."""

from __future__ import annotations

from gateway.frontends.jwt_logins import JwtLogins, JwtRules
from gateway.settings.connections import JwtSettings


def make_jwt_logins(settings: JwtSettings | None) -> JwtLogins | None:
    """Return what checks tokens; None where no issuer is named."""
    return JwtLogins(jwt_rules(settings)) if settings is not None else None


def jwt_rules(settings: JwtSettings) -> JwtRules:
    """Return what the settings ask of tokens."""
    return JwtRules(
        issuer=settings.issuer,
        audiences=settings.audiences,
        jwks_url=settings.jwks_url,
        algorithms=settings.algorithms,
        leeway_s=settings.leeway_s,
        max_keys_age_s=settings.max_keys_age_s,
        user_claim=tuple(settings.user_claim.split(".")),
        groups_claim=tuple(settings.groups_claim.split(".")),
        attribute_claims={name: tuple(path.split(".")) for name, path in settings.attribute_claims.items()},
        lower_case=settings.lower_case,
    )
