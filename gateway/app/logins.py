"""Who may log in, and by what, as the settings have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.errors import Faults
from gateway.frontends.auth_to_local import NoSuchRule, parse_rule
from gateway.frontends.certificate_logins import CertificateLogins, CertificateRules, make_rule
from gateway.frontends.identities import Identities
from gateway.frontends.identity_refresh import IdentityBounds, IdentityRefresh
from gateway.frontends.impersonation import Impersonation, ImpersonationRule
from gateway.frontends.jwt_logins import JwtLogins, JwtRules
from gateway.frontends.kerberos_rules import KerberosRules
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.ldap_rules import LdapDirectory, LdapRules
from gateway.frontends.login_chain import LoginChain, LoginMechanism, LoginTrial
from gateway.frontends.login_mechanisms import DirectoryLogins, IssuerLogins, PasswordLogins, TokenLogins
from gateway.frontends.proxy_logins import ProxyLogins, ProxyRule
from gateway.frontends.revocations import RevocationLists
from gateway.frontends.users import Users, read_users
from gateway.model.credentials import Password
from gateway.model.principal import GATEWAY_ATTRIBUTE
from gateway.session.open_sessions import OpenSessions
from gateway.settings.logins import (
    CertificateSettings,
    JwtSettings,
    KerberosSettings,
    LdapSettings,
    LoginWay,
    ProxyLoginSettings,
)
from gateway.settings.models import Settings


def jwt_rules(settings: JwtSettings) -> JwtRules:
    """Return what the settings ask of tokens."""
    attributes = {name: tuple(path.split(".")) for name, path in settings.attribute_claims.items()}
    if settings.gateway:
        attributes[GATEWAY_ATTRIBUTE] = (GATEWAY_ATTRIBUTE,)
    else:
        attributes.pop(GATEWAY_ATTRIBUTE, None)  # RULE (gateway-claim-of-gateways)
    return JwtRules(
        issuer=settings.issuer,
        audiences=settings.audiences,
        jwks_url=settings.jwks_url,
        algorithms=settings.algorithms,
        leeway_s=settings.leeway_s,
        max_keys_age_s=settings.max_keys_age_s,
        user_claim=tuple(settings.user_claim.split(".")),
        groups_claim=tuple(settings.groups_claim.split(".")),
        attribute_claims=attributes,
        lower_case=settings.lower_case,
    )


def make_directory(settings: LdapSettings) -> LdapDirectory:
    """Return what checks passwords at a directory. Raises Faults."""
    try:
        from gateway.frontends.ldap_logins import LdapLogins  # optional: the extra `ldap`
    except ImportError as error:
        raise Faults([f"`logins.ldap` needs the extra `ldap` (python-ldap): {error}"]) from None
    return LdapLogins(ldap_rules(settings))


def ldap_rules(settings: LdapSettings) -> LdapRules:
    """Return what the settings say of a directory. Raises Faults for a secret that cannot be read."""
    given = settings.model_dump(exclude={"bind_password"})
    secret = settings.bind_password
    if secret is None:
        return LdapRules(**given)
    secret.reveal()
    return LdapRules(**given, bind_password=secret.reveal)


def make_kerberos(settings: KerberosSettings, known: KnownUsers) -> LoginMechanism:
    """Return what takes tickets of Kerberos. Raises Faults."""
    try:
        from gateway.frontends.kerberos_logins import KerberosLogins  # optional: the extra `kerberos`
    except ImportError as error:
        raise Faults([f"`logins.kerberos` needs the extra `kerberos` (gssapi): {error}"]) from None
    try:
        rules = tuple(parse_rule(one) for one in settings.auth_to_local)
    except NoSuchRule as fault:
        raise Faults([f"`logins.kerberos.auth_to_local`: {fault}"]) from None
    made = KerberosLogins(
        KerberosRules(
            keytab=settings.keytab,
            realm=settings.realm,
            realms=frozenset(settings.realms),
            rules=rules,
            service=settings.service,
            qop=settings.qop,
            unlisted=settings.unlisted,
        ),
        known,
    )
    if (trouble := made.report()) is not None:
        raise Faults([f"`logins.kerberos`: {trouble}"])
    return made


def make_certificates(settings: CertificateSettings, known: KnownUsers, whole: Settings) -> CertificateLogins:
    """Return what takes client certificates. Raises Faults."""
    try:
        rules = tuple(make_rule(one.part, one.fits, one.user, lower=one.lower_case) for one in settings.rules)
    except ValueError as fault:
        raise Faults([f"`logins.certificates.rules`: {fault}"]) from None
    listeners = (getattr(whole.listeners, name) for name in type(whole.listeners).model_fields)
    tls = [one.tls for one in listeners if one is not None and one.tls is not None]
    authorities = [one.client_ca for one in tls if one.client_ca is not None]
    revoked = RevocationLists(settings.revocation_lists, authorities)
    return CertificateLogins(CertificateRules(rules=rules, unlisted=settings.unlisted), known, revoked)


def make_proxy_rule(settings: ProxyLoginSettings) -> ProxyRule:
    """Return which proxies say who somebody is. Raises Faults for a secret that can be guessed."""
    if len(settings.secret.reveal()) < MIN_SECRET_CHARS:
        raise Faults([f"`logins.proxies.secret`: at least {MIN_SECRET_CHARS} characters are needed"])
    return ProxyRule(
        addresses=settings.addresses,
        user_header=settings.user_header,
        secret_header=settings.secret_header,
        secret=settings.secret.reveal,
        lower=settings.lower_case,
        unlisted=settings.unlisted,
    )


MIN_SECRET_CHARS = 32
"""Of what proxies prove themselves by."""


@dataclass(frozen=True, slots=True)
class Logins:
    """All ways to log in, and who is found by name alone."""

    chain: LoginChain
    known: KnownUsers
    directory: LdapDirectory | None
    proxies: ProxyRule | None


def make_logins(settings: Settings, users: Callable[[], Users]) -> Logins:
    """Return the ways to log in, in the settings' order. Raises Faults."""
    logins = settings.logins
    passwords = PasswordLogins(users, name=f"the user file {settings.users.file}", alone=logins.ldap is None)
    found: dict[LoginWay, LoginMechanism] = {"tokens": TokenLogins(users), "users": passwords}
    directory, searched, certificates, proxies = None, None, None, None
    if logins.ldap is not None:
        directory = make_directory(logins.ldap)
        found["ldap"] = DirectoryLogins(users, directory)
        if logins.ldap.bind_dn and logins.ldap.user_base:  # others find nobody by name alone
            searched = directory
    known = KnownUsers(users, searched, grace_s=logins.grace_s)
    if logins.jwt is not None:
        found["jwt"] = IssuerLogins(JwtLogins(jwt_rules(logins.jwt)))
    if logins.kerberos is not None:
        found["kerberos"] = make_kerberos(logins.kerberos, known)
    if logins.certificates is not None:
        found["certificates"] = certificates = make_certificates(logins.certificates, known, settings)
    if logins.proxies is not None:
        proxies = make_proxy_rule(logins.proxies)
        found["proxies"] = ProxyLogins(proxies, known)
    return Logins(
        LoginChain(
            users,
            [found[one] for one in logins.order if one in found],
            certificates=certificates,
            grace_s=logins.grace_s,
        ),
        known,
        directory,
        proxies,
    )


def make_impersonation(
    settings: Settings, known: KnownUsers, identities: Identities | None = None
) -> Impersonation | None:
    """Return who may act as whom; None where nobody may."""
    rules = [
        ImpersonationRule(
            users=frozenset(one.users),
            groups=frozenset(one.groups),
            as_users=frozenset(one.as_users),
            as_groups=frozenset(one.as_groups),
            addresses=one.addresses,
        )
        for one in settings.logins.impersonation
    ]
    return Impersonation(rules, known, identities) if rules else None


def make_identity_refresh(
    settings: Settings,
    users: Callable[[], Users],
    identities: Identities,
    logins: Logins,
    sessions: OpenSessions,
) -> IdentityRefresh:
    """Return what keeps open sessions up to date with their users."""
    bounds = IdentityBounds(
        refresh_s=settings.logins.refresh_s,
        grace_s=settings.logins.grace_s,
        unconfirmed_s=settings.logins.unconfirmed_s,
        ends_removed=settings.users.end_sessions,
    )
    return IdentityRefresh(
        users,
        identities,
        logins.known,
        sessions,
        directory=logins.directory,
        impersonation=make_impersonation(settings, logins.known),
        bounds=bounds,
    )


async def try_login(settings: Settings, user: str, secret: str) -> list[LoginTrial]:
    """Try a name with a password or token in every way of the settings, as a gateway does; nobody is logged
    in, and nothing is recorded. Raises Faults."""
    users = read_users(settings.users.file)
    chain = make_logins(settings, lambda: users).chain
    try:
        _, trials = await chain.decide(Password(user, secret))
    finally:
        chain.close()
    return trials
