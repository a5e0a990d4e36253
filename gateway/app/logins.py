"""Who may log in beside the users of the file, as the settings have it."""

from __future__ import annotations

from gateway.errors import Faults
from gateway.frontends.jwt_logins import JwtLogins, JwtRules
from gateway.frontends.ldap_rules import LdapDirectory, LdapRules
from gateway.settings.logins import JwtSettings, LdapSettings


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


def make_directory(settings: LdapSettings | None) -> LdapDirectory | None:
    """Return what checks passwords at a directory; None where none is named. Raises Faults."""
    if settings is None:
        return None
    try:
        from gateway.frontends.ldap_logins import LdapLogins  # optional: the extra `ldap`
    except ImportError as error:
        raise Faults([f"`logins.ldap` needs the extra `ldap` (python-ldap): {error}"]) from None
    return LdapLogins(ldap_rules(settings))


def ldap_rules(settings: LdapSettings) -> LdapRules:
    """Return what the settings say of a directory. Raises Faults for a secret that cannot be read."""
    given = settings.model_dump(exclude={"bind_password"})
    secret = settings.bind_password
    return LdapRules(**given, bind_password=secret.reveal() if secret is not None else "")
