"""Who may log in beside the users of the file, as the settings have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.errors import Faults
from gateway.frontends.authentication import fits
from gateway.frontends.jwt_logins import IssuerUnavailable, JwtLogins, JwtRules, TokenRefused, looks_like_jwt
from gateway.frontends.ldap_rules import LdapDirectory, LdapRefused, LdapRules, LdapUnavailable
from gateway.frontends.tokens import digest
from gateway.frontends.users import read_users
from gateway.model.principal import Principal
from gateway.settings.logins import JwtSettings, LdapSettings
from gateway.settings.models import Settings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginTrial:
    """What one way to log in says of a name and a secret."""

    way: str
    verdict: str
    """In words, for an operator: it says more than whoever logs in is told."""
    principal: Principal | None = None
    """Who would be let in."""


async def try_login(settings: Settings, user: str, secret: str) -> list[LoginTrial]:
    """Try a name with a password or token in every way of the settings, in the order in which a gateway does;
    nobody is logged in, and nothing is recorded. Raises Faults."""
    found = [_try_user_file(settings, user, secret)]
    in_file = found[0].verdict != _UNKNOWN
    if settings.logins.jwt is not None:
        found.append(
            await _try_token(JwtLogins(jwt_rules(settings.logins.jwt)), user, secret, in_file=in_file)
        )
    directory = make_directory(settings.logins.ldap)
    if directory is not None:
        found.append(await _try_directory(directory, user, secret, in_file=in_file))
    return found


_UNKNOWN = "does not know the user"


def _try_user_file(settings: Settings, user: str, secret: str) -> LoginTrial:
    way = f"the user file {settings.users.file}"
    found = read_users(settings.users.file).get(user)
    if found is None:
        return LoginTrial(way=way, verdict=_UNKNOWN)
    for token in found.tokens:
        if token.hash == digest(secret):
            if token.is_expired(datetime.now(UTC)):
                return LoginTrial(way=way, verdict=f"token {token.id} has expired")
            return LoginTrial(way=way, verdict=f"accepts token {token.id}", principal=found.principal)
    if not found.password_hash:
        return LoginTrial(way=way, verdict="has the user without a password, and does not know this token")
    if not fits(found.password_hash, secret):
        return LoginTrial(way=way, verdict="rejects the password")
    return LoginTrial(way=way, verdict="accepts the password", principal=found.principal)


async def _try_token(logins: JwtLogins, user: str, secret: str, *, in_file: bool) -> LoginTrial:
    way = f"tokens of {logins.rules.issuer}"
    if not looks_like_jwt(secret):
        return LoginTrial(way=way, verdict="skipped: not a JSON Web Token")
    try:
        principal = await logins.check(secret)
    except (TokenRefused, IssuerUnavailable) as fault:
        return LoginTrial(way=way, verdict=f"refused: {fault}")
    finally:
        logins.close()
    if principal.user != user:
        return LoginTrial(way=way, verdict=f"rejected: it is a token of `{principal.user}`")
    if in_file:
        return LoginTrial(way=way, verdict="rejected: the user is in the user file")
    return LoginTrial(way=way, verdict="accepts the login", principal=principal)


async def _try_directory(directory: LdapDirectory, user: str, secret: str, *, in_file: bool) -> LoginTrial:
    way = "the directory"
    if in_file:
        return LoginTrial(way=way, verdict="skipped: the user is in the user file")
    if looks_like_jwt(secret):
        return LoginTrial(way=way, verdict="skipped: this is a JSON Web Token")
    try:
        principal = await directory.check(user, secret)
    except LdapUnavailable as fault:
        return LoginTrial(way=way, verdict=f"not available: {fault}")
    except LdapRefused:
        return LoginTrial(way=way, verdict="rejected: no such user, more than one, or a wrong password")
    finally:
        directory.close()
    return LoginTrial(way=way, verdict="accepts the login", principal=principal)
