"""What `logins:` of the settings may hold: who may log in, by what, and how often somebody may fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.model.networks import Network
from gateway.settings.section import Count, Name, Seconds, Secret, Section, require_safe_url

LoginWay = Literal["tokens", "users", "jwt", "ldap", "kerberos", "certificates", "proxies"]
LOGIN_WAYS: tuple[LoginWay, ...] = (
    "tokens",
    "users",
    "jwt",
    "ldap",
    "kerberos",
    "certificates",
    "proxies",
)
JwtAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Signatures by public keys; with a shared secret whoever checks could also sign."""
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$", max_length=100)]
_Claim = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200)]


class TokenExchangeSettings(Section):
    """Tokens that the issuer gives for those of users (RFC 8693): for catalogs, docs/logins.md tells how, and
    for Sparks with `identity: {by: exchanged}`."""

    token_url: Name
    """The issuer's address for tokens."""
    client_id: Name
    """As whom the gateway asks for them."""
    client_secret: Secret
    """Its secret."""
    catalogs: dict[Name, Name] = Field(default_factory=dict)
    """Catalog of type `iceberg` with `type: rest` → the audience of its tokens."""
    scope: str = ""
    """What is asked for, where the issuer wants that said."""

    @model_validator(mode="after")
    def _address_is_safe(self) -> TokenExchangeSettings:
        require_safe_url("token_url", self.token_url)
        return self


class JwtSettings(Section):
    """Logins by JSON Web Tokens of an OIDC provider: as bearer, as `token=` of Spark Connect, and in place
    of a password; docs/logins.md tells how. Users of the user file keep their names for themselves."""

    issuer: Name
    """`iss` of the tokens, to the letter; its discovery document is asked for the keys."""
    audiences: Annotated[tuple[Name, ...], Field(min_length=1)]
    """One of them has to be in `aud`."""
    jwks_url: str = ""
    """Where the keys are, without asking the discovery document."""
    algorithms: Annotated[tuple[JwtAlgorithm, ...], Field(min_length=1)] = ("RS256", "ES256")
    """Signatures that are taken."""
    user_claim: _Claim = "preferred_username"
    """Claim with the user's name; `a.b` for one within another."""
    groups_claim: _Claim = "groups"
    """Claim with a list of groups; Keycloak's roles are in `realm_access.roles`."""
    attribute_claims: dict[Name, _Claim] = Field(default_factory=dict)
    """Attribute of the user, for filters and conditions → claim."""
    lower_case: Annotated[bool, Field(strict=True)] = False
    """Whether names of users and groups are folded to lower case, as policies then have to write them."""
    leeway_s: Annotated[float, Field(ge=0, le=600)] = 30.0
    """Seconds by which clocks may differ."""
    max_keys_age_s: Seconds = 86_400.0
    """Seconds for which keys count while the issuer cannot be asked; then nobody logs in by a token."""
    gateway: Annotated[bool, Field(strict=True)] = False
    """Whether the issuer is another Sluice (`token_signing` there), which stands before this one: it is told
    how texts are read here, and each session of Spark Connect is kept for the gateway that opened it."""
    exchange: TokenExchangeSettings | None = None
    """Tokens for catalogs, in the users' names; without it catalogs are asked by the logins of `catalogs`."""

    @model_validator(mode="after")
    def _addresses_are_safe(self) -> JwtSettings:
        for name in ("issuer", "jwks_url"):
            if written := getattr(self, name):
                require_safe_url(name, written)
        return self


class LdapSettings(Section):
    """Logins by the passwords of an LDAP directory or Active Directory; docs/logins.md tells how. Needs the
    extra `ldap`. Users of the user file keep their names for themselves."""

    urls: Annotated[tuple[Annotated[str, Field(pattern=r"^ldaps?://[^\s/]+$")], ...], Field(min_length=1)]
    """Servers, such as `ldaps://ad.corp.example`; the next is asked where one cannot be reached."""
    start_tls: Annotated[bool, Field(strict=True)] = True
    """Whether connections to `ldap://` are encrypted before anything is said; without it passwords cross the
    network in the clear."""
    ca_file: Path | None = None
    """PEM file of the authorities that certificates are checked with; by default the system's."""
    bind_templates: tuple[Annotated[str, Field(pattern=r"\{user\}", max_length=500)], ...] = ()
    """Names to log in by, such as `uid={user},ou=people,dc=corp,dc=example` or `{user}@corp.example`. Without
    any, users are searched for."""
    bind_dn: str = ""
    """Who searches for users and groups."""
    bind_password: Secret | None = None
    """The password of `bind_dn`; read anew for each connection."""
    user_base: str = ""
    """Below which users are searched for."""
    user_filter: Annotated[str, Field(pattern=r"\{user\}", max_length=1000)] = "(uid={user})"
    """What finds one; Active Directory: `(sAMAccountName={user})`."""
    user_attribute: Name = "uid"
    """Attribute with the name that policies have; Active Directory: `sAMAccountName`."""
    groups: Literal["none", "member_of", "search", "nested", "in_chain"] = "search"
    """How groups are found: not at all, in the user's `memberOf`, by a search, by searches up through groups
    within groups, or by Active Directory's rule for these."""
    group_base: str = ""
    """Below which groups are searched for."""
    group_filter: Name = "(|(member={dn})(uniqueMember={dn})(memberUid={user}))"
    """What finds the groups of `{dn}` or `{user}`."""
    group_attribute: Name = "cn"
    """Attribute with a group's name."""
    attributes: dict[Name, Name] = Field(default_factory=dict)
    """Attribute of the user, for filters and conditions → attribute of his entry."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds until an answer must be there."""
    connections: Annotated[int, Field(strict=True, ge=1, le=64)] = 4
    """Logins at a time."""
    remember_s: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """Seconds for which a password that was right is not asked for again."""
    lower_case: Annotated[bool, Field(strict=True)] = True
    """Whether names of users and groups are folded to lower case, as policies then have to write them:
    directories compare without case."""

    @model_validator(mode="after")
    def _users_are_found(self) -> LdapSettings:
        if not self.bind_templates and not (self.user_base and self.bind_dn and self.bind_password):
            raise ValueError("without `bind_templates`, set `user_base`, `bind_dn` and `bind_password`")
        if self.groups in ("search", "nested", "in_chain") and not self.group_base:
            raise ValueError("set `group_base`, below which groups are searched, or `groups: none`")
        if self.groups == "member_of" and not self.user_base:
            raise ValueError("`groups: member_of` needs `user_base`, below which the user's entry is")
        if not self.user_base and not self.lower_case:
            raise ValueError("`lower_case: false` needs `user_base`: each spelling would be another user")
        return self


class KerberosSettings(Section):
    """Logins by tickets of Kerberos: GSSAPI on `listeners.thrift`, SPNEGO on `listeners.thrift_http`;
    docs/logins.md tells how. Needs the extra `kerberos`. Groups and attributes are those of the user file, or
    else of the directory."""

    keytab: Path
    """Keys of the gateway's own principals: `SERVICE/HOST@REALM` for binary connections, `HTTP/HOST@REALM`
    for HTTP, for each name of a host that clients use."""
    realm: Name
    """Whose principals are users."""
    realms: tuple[Name, ...] = ()
    """Other realms whose principals may log in where a rule says who they are."""
    auth_to_local: Annotated[tuple[Name, ...], Field(min_length=1)] = ("DEFAULT",)
    """Rules of Hadoop, `RULE:[COMPONENTS:FORMAT](REGEX)s/FROM/TO/g/L`, that say which user a principal is;
    the first that fits counts. `DEFAULT` takes those of one component of `realm`."""
    service: Name = "hive"
    """First part of the principal for binary connections."""
    qop: Annotated[tuple[Literal["auth", "auth-int", "auth-conf"], ...], Field(min_length=1)] = ("auth",)
    """Protections of binary connections that are offered: none after the login, against changes, or encrypted
    as well. Clients choose; some take the last and cannot do it, so offer what yours can do."""
    unlisted: Annotated[bool, Field(strict=True)] = False
    """Whether users that are neither in the user file nor in the directory log in, as members of no group."""


class CertificateRuleSettings(Section):
    """Which user a certificate is of."""

    part: Literal["subject", "common_name", "email", "upn", "uri"]
    """What is looked at: the subject as RFC 4514 writes it, its common name, or an alternative name."""
    fits: Name
    """Regular expression (RE2) for the whole of it."""
    user: Name = "$1"
    """The user; `$1` is what the first group of `fits` found."""
    lower_case: Annotated[bool, Field(strict=True)] = False
    """Whether the name is folded to lower case."""


class CertificateSettings(Section):
    """Logins by client certificates on listeners with `tls.client_ca`; docs/logins.md tells how. Groups and
    attributes are those of the user file, or else of the directory."""

    rules: Annotated[tuple[CertificateRuleSettings, ...], Field(min_length=1)]
    """The first that fits says who somebody is."""
    revocation_lists: tuple[Path, ...] = ()
    """Files with lists of revoked certificates, PEM or DER, read again when they change. Where there are any,
    a certificate needs one of its authority, which `client_ca` has, that is not out of date."""
    unlisted: Annotated[bool, Field(strict=True)] = False
    """As of `logins.kerberos`."""


class ProxyLoginSettings(Section):
    """Logins at an authenticating proxy or balancer before `listeners.thrift_http`, which names its users in
    a header; docs/logins.md tells how. Groups and attributes are those of the user file, or else of the
    directory."""

    addresses: Annotated[tuple[Network, ...], Field(min_length=1)]
    """Networks of the proxies; the header counts on no other connections."""
    secret: Secret
    """By which the proxies prove themselves, 32 characters or more."""
    user_header: _Header = "X-Forwarded-User"
    """Header with the user. The proxies have to remove it from what clients send."""
    secret_header: _Header = "X-Proxy-Secret"  # noqa: S105 - a header's name
    """Header with the secret."""
    lower_case: Annotated[bool, Field(strict=True)] = False
    """Whether the name is folded to lower case."""
    unlisted: Annotated[bool, Field(strict=True)] = False
    """As of `logins.kerberos`."""


class ImpersonationSettings(Section):
    """Who may act as other users, by `hive.server2.proxy.user` or `doAs`, as Hadoop's `hadoop.proxyuser` has
    it; the record has both names."""

    users: tuple[Name, ...] = ()
    """Logins of BI servers and proxies."""
    groups: tuple[Name, ...] = ()
    """Groups of such logins."""
    as_users: tuple[Name, ...] = ()
    """Users as whom they may act; `*` is everybody whom the user file or the directory has."""
    as_groups: tuple[Name, ...] = ()
    """Groups as whose members they may act."""
    addresses: tuple[Network, ...] = ()
    """Networks from where; without any, from anywhere."""

    @model_validator(mode="after")
    def _both_sides_are_named(self) -> ImpersonationSettings:
        if not (self.users or self.groups) or not (self.as_users or self.as_groups):
            raise ValueError("name who may act (`users`, `groups`), and as whom (`as_users`, `as_groups`)")
        return self


class LoginSettings(Section):
    """Limits of logins, counted per client address, and who logs in beside the users of the file."""

    order: Annotated[tuple[LoginWay, ...], Field(min_length=1)] = LOGIN_WAYS
    """Ways to log in, on every endpoint: tokens and passwords of the user file, and those with a section
    here. What is left out lets nobody in. The first that knows whose a password or token is decides."""
    failures: Count = 10
    """Failed logins from one address within `window_s` before further ones are refused unchecked."""
    user_failures: Count = 50
    """The same of one user from all addresses together; an address that he has logged in from within a day is
    not held up."""
    window_s: Seconds = 60.0
    """Seconds over which failures are counted."""
    share_failures: Annotated[bool, Field(strict=True)] = True
    """Whether gateways that share a database (`ledger.dsn`) count failures together."""
    handshake_timeout_s: Seconds = 15.0
    """Seconds from connecting to being logged in."""
    remember_s: Seconds = 86_400.0
    """Seconds for which the groups and attributes that somebody who is not in the user file had at his last
    login count for the views and policies that he made."""
    refresh_s: Seconds = 300.0
    """Seconds after which the directory is asked again for the groups and attributes of users with open
    sessions, and whether they may still log in."""
    grace_s: Seconds = 3600.0
    """Seconds for which open sessions go on while the directory cannot be asked; nobody opens another."""
    unconfirmed_s: Seconds = 86_400.0
    """Seconds after their last login for which sessions go on of users of whom nobody can be asked, such as
    those of `jwt`."""
    jwt: JwtSettings | None = None
    ldap: LdapSettings | None = None
    kerberos: KerberosSettings | None = None
    certificates: CertificateSettings | None = None
    proxies: ProxyLoginSettings | None = None
    impersonation: tuple[ImpersonationSettings, ...] = ()
    """Who may act as other users."""

    @model_validator(mode="after")
    def _order_is_whole(self) -> LoginSettings:
        if len(set(self.order)) < len(self.order):
            raise ValueError("`order` names a way twice")
        for name in ("jwt", "ldap", "kerberos", "certificates", "proxies"):
            if getattr(self, name) is not None and name not in self.order:
                raise ValueError(f"`{name}` has a section, and is not in `order`")
            if getattr(self, name) is None and name in self.order and "order" in self.model_fields_set:
                raise ValueError(f"`order` names `{name}`, which has no section")
        return self
