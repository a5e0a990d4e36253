"""What is asked of an LDAP directory, for those who have no libldap."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from gateway.model.principal import Principal

FLAGS, DISABLED = "userAccountControl", 2
"""Where Active Directory says that an account is disabled."""
EXPIRES = "accountExpires"
"""Until when an account of Active Directory counts, in tenths of microseconds since 1601; 0 is for ever."""
SINCE_1601_S = 11_644_473_600
LOCKED, LOCKED_FOR_GOOD = "pwdAccountLockedTime", "000001010000Z"
"""Where OpenLDAP's password policy says that an administrator has locked an account."""
LOCK = "nsAccountLock"
"""The same of 389 Directory Server and FreeIPA."""
ACCOUNT_STATE = (FLAGS, EXPIRES, LOCKED, LOCK)


class LdapUnavailable(Exception):
    """The directory cannot be asked; the message is for the log."""


class LdapRefused(Exception):
    """The directory lets nobody in by what was shown: a wrong password, an account that is disabled or has
    expired, or a name that several have."""


class LdapUnusable(LdapRefused):
    """The password was right, or none was asked for, and the user's entry or groups cannot be taken; the
    message is for who logs in. The directory is there for others."""


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


def is_disabled(values: Callable[[str], Sequence[str]], now: float) -> bool:
    """Whether the directory says that an account is disabled, has expired, or was locked by somebody."""
    numbers = {name: [int(one) for one in values(name) if one.isdecimal()] for name in (FLAGS, EXPIRES)}
    has_expired = any(0 < one <= (now + SINCE_1601_S) * 1e7 for one in numbers[EXPIRES])
    is_locked = LOCKED_FOR_GOOD in values(LOCKED) or any(one.lower() == "true" for one in values(LOCK))
    # RULE (directory-disabled)
    return any(one & DISABLED for one in numbers[FLAGS]) or has_expired or is_locked


def is_one_spelling(user: str) -> bool:
    """Whether a directory takes a name for no other that is written otherwise, apart from case (RFC 4518):
    what nobody reads from an entry is the user's name as he typed it."""
    return unicodedata.normalize("NFKC", user) == user and "  " not in user
