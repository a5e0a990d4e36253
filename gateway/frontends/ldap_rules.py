"""What is asked of an LDAP directory, for those who have no libldap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from gateway.model.principal import Principal


class LdapUnavailable(Exception):
    """The directory cannot be asked; the message is for the log."""


class LdapRefused(Exception):
    """The directory lets nobody in by what was shown: a wrong password, an account that is disabled or has
    expired, or a name that several have."""


class LdapUnknown(LdapRefused):
    """The directory has nobody of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapRules:
    """Where the directory is, and how users and groups are found in it."""

    urls: tuple[str, ...]
    """`ldaps://HOST` or `ldap://HOST`; the next is asked where one cannot be reached."""
    start_tls: bool = True
    """Whether a connection to `ldap://` is encrypted before anything is said."""
    ca_file: Path | None = None
    """Authorities of the directory's certificate; by default the system's."""
    bind_templates: tuple[str, ...] = ()
    """Names to bind by, such as `uid={user},ou=people,dc=example` or `{user}@corp.example`; with them nobody
    searches before the bind."""
    bind_dn: str = ""
    """Who searches for users, where there is no template, and for groups."""
    bind_password: Callable[[], str] = field(default=lambda: "", repr=False)
    """Read anew for each connection, so that a new one counts at once."""
    user_base: str = ""
    user_filter: str = "(uid={user})"
    user_attribute: str = "uid"
    """Holds the name that policies and the record have."""
    id_attributes: tuple[str, ...] = ("entryUUID", "objectGUID")
    """What tells a user from another one who had the name before."""
    groups: Literal["none", "member_of", "search", "nested", "in_chain"] = "search"
    group_base: str = ""
    group_filter: str = "(|(member={dn})(uniqueMember={dn})(memberUid={user}))"
    group_attribute: str = "cn"
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attribute of the user, for filters and conditions → attribute of the entry."""
    timeout_s: float = 5.0
    retry_s: float = 2.0
    """How long a directory that could not be asked is not asked again."""
    remember_s: float = 60.0
    """How long a password that was right is not asked for again."""
    lower_case: bool = True
    """Whether names of users and groups are folded: directories compare without case, and policies do not."""
    connections: int = 4


class LdapDirectory(Protocol):
    """Checks passwords at a directory."""

    rules: LdapRules

    async def check(self, user: str, password: str) -> Principal:
        """Return who it is. Raises LdapRefused, LdapUnavailable."""
        ...

    async def find(self, user: str) -> Principal:
        """Return a user whom somebody else has identified. Raises LdapUnknown where there is none,
        LdapRefused where he may not log in, and LdapUnavailable."""
        ...

    def report(self) -> str | None:
        """Say why nobody of the directory can log in, or None."""
        ...

    def close(self) -> None: ...
