"""Checks passwords at an LDAP directory, Active Directory among them, and asks it for groups and attributes.

Calls of libldap block, so they run in threads of their own. What a directory says in a referral is not
followed: a password would go to whoever it names.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import ldap
import ldap.dn
import structlog
from ldap.controls import SimplePagedResultsControl
from ldap.dn import escape_dn_chars
from ldap.filter import escape_filter_chars

from gateway.errors import Faults
from gateway.frontends.ldap_rules import (
    ACCOUNT_STATE,
    LdapRefused,
    LdapRules,
    LdapUnavailable,
    LdapUnknown,
    LdapUnusable,
    is_disabled,
    is_one_spelling,
)
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

MAX_GROUPS = 5000
"""Groups of one user, nested ones too; somebody in more does not log in."""
MAX_LEVELS = 16
"""How far groups are climbed."""
MAX_USER_CHARS = 256
MAX_PASSWORD_CHARS = 4096
PAGE = 500
"""Entries of one page; Active Directory gives 1,000 at most."""
ANY = "(objectClass=*)"
IN_CHAIN = "1.2.840.113556.1.4.1941"
"""Active Directory's matching rule for members of groups within groups."""

OF_THE_USER = (
    ldap.INVALID_CREDENTIALS,
    ldap.INAPPROPRIATE_AUTH,  # an entry without a password
    ldap.UNWILLING_TO_PERFORM,
    ldap.CONSTRAINT_VIOLATION,  # 389 Directory Server, of who has failed too often
    ldap.INSUFFICIENT_ACCESS,
    ldap.NO_SUCH_OBJECT,
    ldap.INVALID_DN_SYNTAX,
    ldap.REFERRAL,
)
"""What a directory says of a user, while others can log in."""

LdapEntry = Mapping[str, Sequence[bytes]]


class _LdapFound(NamedTuple):
    dn: str
    entry: LdapEntry


class LdapLogins:
    """Turns names and passwords into principals of one directory."""

    def __init__(
        self,
        rules: LdapRules,
        *,
        connect: Callable[[LdapRules], Any] | None = None,
    ) -> None:
        self.rules = rules
        self._connect = connect or open_connection
        self._threads = ThreadPoolExecutor(rules.connections, thread_name_prefix="ldap")
        self._service: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Connections on which `bind_dn` is bound."""
        self._fault = ""
        self._away_until = float("-inf")

    def report(self) -> str | None:
        """Say why nobody of the directory can log in, as seen by the last who tried; None where he could."""
        return f"the LDAP directory cannot be reached: {self._fault}" if self._fault else None

    async def check(self, user: str, password: str) -> Principal:
        """Return who it is. Raises LdapRefused, LdapUnavailable."""
        # A bind without a password succeeds, as nobody's (RFC 4513, 5.1.2).
        if not password or len(password) > MAX_PASSWORD_CHARS or "\0" in password:
            raise LdapRefused
        return await self._run(user, self._check, user, password)

    async def find(self, user: str) -> Principal:
        """Return a user whom somebody else has identified. Raises LdapRefused, LdapUnavailable."""
        return await self._run(user, self._find, user)

    async def _run(self, user: str, look: Callable[..., Principal], *arguments: str) -> Principal:
        if not user or len(user) > MAX_USER_CHARS or not user.isprintable() or user != user.strip():
            raise LdapRefused
        loop = asyncio.get_running_loop()
        if time.monotonic() < self._away_until:
            # Whoever waits for a directory that does not answer keeps others waiting.
            raise LdapUnavailable(self._fault)
        try:
            principal = await loop.run_in_executor(self._threads, look, *arguments)
        except LdapUnavailable as fault:
            self._fault = str(fault)
            self._away_until = time.monotonic() + self.rules.retry_s
            _log.warning("ldap_unavailable", reason=str(fault))
            raise
        self._fault = ""
        return principal

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:
                _unbind(self._service.get_nowait())

    # -- in a thread -------------------------------------------------------------------------------------

    def _check(self, user: str, password: str) -> Principal:
        rules = self.rules
        with _faults():
            if rules.bind_templates:
                bound, connection = self._bind_by_template(user, password)
                try:
                    found = self._bind_entry(connection, user, bound, password)
                    return self._principal(connection, user, found)
                except OF_THE_USER:
                    raise LdapUnusable("the directory does not show the user his entry and groups") from None
                finally:
                    _unbind(connection)
            with self._searching() as service:
                found = self._entry(service, user)
                self._require_password(found.dn, password)
                return self._principal(service, user, found)

    def _find(self, user: str) -> Principal:
        with _faults(), self._searching() as service:
            return self._principal(service, user, self._entry(service, user))

    def _bind_by_template(self, user: str, password: str) -> tuple[str, Any]:
        for template in self.rules.bind_templates:
            # In a DN a name is escaped as RFC 4514 says; as `user@domain` it is no DN.
            escaped = escape_dn_chars(user) if "=" in template else user
            if "=" not in template and not _is_account(user):
                continue
            name = template.replace("{user}", escaped)
            connection = self._connect(self.rules)
            try:
                connection.simple_bind_s(name, password)
            except OF_THE_USER:
                _unbind(connection)
            except BaseException:
                _unbind(connection)
                raise
            else:
                return name, connection
        raise LdapRefused

    def _require_password(self, dn: str, password: str) -> None:
        connection = self._connect(self.rules)
        try:
            connection.simple_bind_s(dn, password)
        except OF_THE_USER:
            raise LdapRefused from None
        finally:
            _unbind(connection)

    @contextlib.contextmanager
    def _searching(self) -> Iterator[Any]:
        """Give a connection on which the service is bound; one that broke is not given again."""
        connection = self._service_connection()
        try:
            yield connection
        except (ldap.LDAPError, LdapUnavailable):
            _unbind(connection)
            raise
        except BaseException:
            self._service.put(connection)
            raise
        else:
            self._service.put(connection)

    def _service_connection(self) -> Any:
        while True:
            try:
                connection = self._service.get_nowait()
            except queue.Empty:
                break
            try:
                connection.whoami_s()
            except ldap.LDAPError:
                _unbind(connection)  # the directory, or what stands between, has cut it
            else:
                return connection
        connection = self._connect(self.rules)
        try:
            connection.simple_bind_s(self.rules.bind_dn, self.rules.bind_password())
        except Faults as fault:
            _unbind(connection)
            raise LdapUnavailable("; ".join(fault.faults)) from None
        except ldap.INVALID_CREDENTIALS:
            _unbind(connection)
            raise LdapUnavailable("the password of `bind_dn` is wrong") from None
        except BaseException:
            _unbind(connection)
            raise
        return connection

    def _bind_entry(self, connection: Any, user: str, bound: str, password: str) -> _LdapFound:
        """Return the entry of whoever is bound: the very one, where it was bound by its DN; else one of the
        name that has the same password, since `user@domain` may be somebody else's address."""
        if not self.rules.user_base:
            if not is_one_spelling(user):
                raise LdapRefused
            return _LdapFound(bound, {})
        if "=" not in bound:
            found = self._entry(connection, user)
            self._require_password(found.dn, password)
            return found
        return self._read_entry(connection, bound, self._wanted)

    def _read_entry(self, connection: Any, dn: str, wanted: Sequence[str]) -> _LdapFound:
        """Return the entry of a DN. Raises LdapUnusable where it is not shown."""
        for found in _search(connection, dn, ANY, wanted, self.rules.timeout_s, ldap.SCOPE_BASE):
            return found
        raise LdapUnusable("the directory does not show the user's entry")

    @property
    def _wanted(self) -> list[str]:
        rules = self.rules
        wanted = [rules.user_attribute, *rules.id_attributes, *rules.attributes.values(), "memberOf"]
        return [*wanted, "primaryGroupID", "objectSid", *ACCOUNT_STATE]

    def _entry(self, connection: Any, user: str) -> _LdapFound:
        rules = self.rules
        written = rules.user_filter.replace("{user}", escape_filter_chars(user))
        found = list(_search(connection, rules.user_base, written, self._wanted, rules.timeout_s))
        if not found:
            raise LdapUnknown
        if len(found) > 1:
            raise LdapRefused  # a name that means several does not say who it is
        return found[0]

    def _principal(self, connection: Any, user: str, found: _LdapFound) -> Principal:
        rules = self.rules
        if is_disabled(partial(_texts, found.entry), time.time()):
            # A directory refuses his password, as a rule; not everybody shows one.
            raise LdapRefused
        fold = str.lower if rules.lower_case else str
        names = _texts(found.entry, rules.user_attribute) or [user]
        name = next((one for one in names if one.lower() == user.lower()), names[0])
        groups = {fold(group) for group in self._groups(connection, name, found)}
        attributes = {
            (attribute, value)
            for attribute, source in rules.attributes.items()
            for value in _texts(found.entry, source)
        }
        ids = [_id_text(value) for one in rules.id_attributes for value in _values(found.entry, one)]
        return Principal(
            user=fold(name),
            id=ids[0] if ids else "",
            groups=frozenset(groups),
            attributes=tuple(sorted(attributes)),
        )

    # -- groups ------------------------------------------------------------------------------------------

    def _groups(self, connection: Any, user: str, found: _LdapFound) -> Iterable[str]:
        rules = self.rules
        match rules.groups:
            case "none":
                return ()
            case "member_of":
                return [_first_value(dn) for dn in self._member_of(connection, found)]
            case "in_chain":
                # Only Active Directory has the rule; others find nobody by it.
                dn = escape_filter_chars(found.dn)
                direct = list(self._find_groups(connection, f"(member:{IN_CHAIN}:={dn})"))
            case _:
                direct = list(self._find_groups(connection, self._filter(found.dn, user)))
        direct += self._primary_group(connection, found)
        if rules.groups == "nested":
            direct = self._climb(connection, direct)
        return [name for group in direct for name in _texts(group.entry, rules.group_attribute)]

    def _filter(self, dn: str, user: str) -> str:
        written = self.rules.group_filter.replace("{dn}", escape_filter_chars(dn))
        return written.replace("{user}", escape_filter_chars(user))

    def _find_groups(self, connection: Any, written: str) -> Iterator[_LdapFound]:
        rules = self.rules
        wanted = [rules.group_attribute]
        yield from _search(connection, rules.group_base, written, wanted, rules.timeout_s)

    def _climb(self, connection: Any, groups: list[_LdapFound]) -> list[_LdapFound]:
        """Return groups with those that they are members of, and so on; a circle ends by itself."""
        seen = {group.dn.lower(): group for group in groups}
        level = list(seen.values())
        for _ in range(MAX_LEVELS):
            above = []
            for group in level:
                for one in self._find_groups(connection, f"(member={escape_filter_chars(group.dn)})"):
                    if one.dn.lower() not in seen:
                        seen[one.dn.lower()] = one
                        above.append(one)
                        _bind(len(seen))
            if not above:
                return list(seen.values())
            level = above
        raise LdapUnusable(f"groups are nested more than {MAX_LEVELS} levels deep")

    def _primary_group(self, connection: Any, found: _LdapFound) -> list[_LdapFound]:
        """Return Active Directory's primary group, which lists no members: its SID is the user's with another
        last part."""
        numbers, sids = _texts(found.entry, "primaryGroupID"), _values(found.entry, "objectSid")
        if not numbers or not sids or not numbers[0].isdecimal():
            return []
        sid = sids[0][:-4] + int(numbers[0]).to_bytes(4, "little")
        escaped = "".join(f"\\{byte:02x}" for byte in sid)
        return list(self._find_groups(connection, f"(objectSid={escaped})"))

    def _member_of(self, connection: Any, found: _LdapFound) -> list[str]:
        """Return the values of `memberOf`, of which Active Directory gives so many at a time."""
        values = list(_texts(found.entry, "memberOf"))
        ranged = next((name for name in found.entry if name.lower().startswith("memberof;range=")), None)
        while ranged is not None:
            values += _texts(found.entry, ranged)
            _bind(len(values))
            if ranged.endswith("*"):
                break
            wanted = [f"memberOf;range={len(values)}-*"]
            found = self._read_entry(connection, found.dn, wanted)
            ranged = next((name for name in found.entry if name.lower().startswith("memberof;range=")), None)
        _bind(len(values))
        return values


def open_connection(rules: LdapRules) -> Any:
    """Return a connection to the first server that answers, encrypted but where the settings say otherwise.

    libldap connects when something is asked. Raises LDAPError.
    """
    connection = ldap.initialize(" ".join(rules.urls))
    connection.protocol_version = ldap.VERSION3
    connection.set_option(ldap.OPT_REFERRALS, 0)
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, rules.timeout_s)
    connection.set_option(ldap.OPT_TIMEOUT, rules.timeout_s)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    if rules.ca_file is not None:
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, str(rules.ca_file))
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    if rules.start_tls and all(url.startswith("ldap://") for url in rules.urls):
        try:
            connection.start_tls_s()
        except BaseException:
            _unbind(connection)
            raise
    return connection


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Say what the directory could not do as LdapUnavailable."""
    try:
        yield
    except ldap.LDAPError as error:
        told = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        words = [str(told[key]) for key in ("desc", "info") if told.get(key)]
        raise LdapUnavailable(": ".join(words) or type(error).__name__) from None


def _search(
    connection: Any,
    base: str,
    written: str,
    wanted: Sequence[str],
    timeout_s: float,
    scope: int = ldap.SCOPE_SUBTREE,
) -> Iterator[_LdapFound]:
    """Yield what a search finds, by pages; references to other directories are left out."""
    page = SimplePagedResultsControl(criticality=True, size=PAGE, cookie="")
    count = 0
    while True:
        number = connection.search_ext(base, scope, written, list(wanted), serverctrls=[page])
        _, entries, _, controls = connection.result3(number, timeout=timeout_s)
        for dn, entry in entries:
            if dn is not None:
                count += 1
                _bind(count)
                yield _LdapFound(dn, entry)
        cookies = [one.cookie for one in controls if one.controlType == SimplePagedResultsControl.controlType]
        if not cookies or not cookies[0]:
            return
        page.cookie = cookies[0]


def _bind(count: int) -> None:
    if count > MAX_GROUPS:
        raise LdapUnusable(f"the user has more than {MAX_GROUPS} groups")


def _unbind(connection: Any) -> None:
    with contextlib.suppress(ldap.LDAPError):
        connection.unbind_s()


def _values(entry: LdapEntry, name: str) -> Sequence[bytes]:
    """Return the values of an attribute, whose name counts without case."""
    return next((values for key, values in entry.items() if key.lower() == name.lower()), ())


def _texts(entry: LdapEntry, name: str) -> list[str]:
    return [value.decode("utf-8", "replace") for value in _values(entry, name)]


def _id_text(value: bytes) -> str:
    """Return an id as it is written, or in hexadecimal where it is not written in characters."""
    return value.decode("ascii") if value.isascii() and value.decode("ascii").isprintable() else value.hex()


def _first_value(dn: str) -> str:
    """Return what stands in a DN's first part: the common name of a group."""
    return str(ldap.dn.str2dn(dn)[0][0][1])


def _is_account(user: str) -> bool:
    """Whether a name means itself in `{user}@domain` and in `DOMAIN\\{user}`."""
    return not any(sign in user for sign in '@\\/"[]:;|=,+*?<>')
