"""The chain of ways to log in, in the settings' order: for endpoints, and for `sluice check --login`.

What somebody shows is of one kind, and only mechanisms of that kind see it: no token is ever sent to a
directory as a password. The first that knows whose it is decides. `login_mechanisms` has them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, assert_never

from gateway.frontends.tokens import looks_like_token
from gateway.frontends.users import Users
from gateway.model.bounded import BoundedDict
from gateway.model.credentials import (
    Bearer,
    ClientCertificate,
    Cookie,
    Credentials,
    Negotiation,
    Password,
    ProxiedUser,
    UnreadableLogin,
)
from gateway.model.principal import Principal

MAX_REMEMBERED = 10_000
WRONG = "invalid user name or password"
WRONG_TOKEN = "the token is unknown or was revoked"  # noqa: S105 - a message
RESERVED = "a user with the same name is in the user file"

LoginSource = Literal["directory", "claims", "nowhere"]
"""Who is asked again for the groups of somebody who is not in the user file: the directory, an issuer's next
token, or nobody, for those who are allowed to have none."""
LoginKind = Literal["PLAIN", "TOKEN", "JWT", "COOKIE", "KERBEROS", "CERTIFICATE", "PROXY", "UNKNOWN"]
"""What is shown, as the record calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOutcome:
    """What a mechanism makes of credentials. Without a principal and a reason it does not know whose they
    are, and the next mechanism is asked."""

    diagnosis: str
    """In words, for an operator: it says more than whoever logs in is told."""
    principal: Principal | None = None
    reason: str = ""
    """Why nobody is let in, for whoever logs in."""
    user: str = ""
    """Who would have been let in, where that is known, for the record."""
    counts: bool = False
    """Whether it counts as a guess."""
    of_file: bool = False
    """Whether the user is one of the user file, and nobody without it."""
    source: LoginSource = "directory"
    """Where the groups of a user who is not of the file come from."""
    is_away: bool = False
    """Whether nobody could be asked; somebody who was let in a while ago is let in to what he has open."""
    is_remembered: bool = False
    """Whether nobody was asked, since that was done a moment ago."""
    endpoints: frozenset[str] = frozenset()
    """Where a token may be shown; everywhere where there is none."""

    @property
    def decides(self) -> bool:
        """Whether no other mechanism is asked."""
        return self.principal is not None or bool(self.reason)


class LoginMechanism(Protocol):
    """One way to log in."""

    @property
    def kinds(self) -> frozenset[LoginKind]:
        """What it takes."""
        ...

    @property
    def description(self) -> str:
        """What an operator knows it by."""
        ...

    @property
    def remember_s(self) -> float:
        """How long a password that was right is not checked again: pools open many connections at once."""
        ...

    def stamp(self, user: str) -> str:
        """Return what a remembered password rests on: it counts while this is the same."""
        ...

    async def check(self, shown: Credentials) -> LoginOutcome:
        """Say whose credentials these are, or why they are nobody's."""
        ...

    def report(self) -> str | None:
        """Say why nobody can log in by it now, or None."""
        ...

    def close(self) -> None: ...


class CertificateReader(Protocol):
    """Says what client certificates are worth before anything else is looked at."""

    def user_of(self, der: bytes) -> str | None:
        """Return which user a certificate is of; None where no rule says so."""
        ...

    def find_fault(self, der: bytes) -> str | None:
        """Return why nobody may show it, or None."""
        ...


class LoginTrial(NamedTuple):
    """A mechanism, and what it makes of credentials."""

    mechanism: LoginMechanism
    outcome: LoginOutcome


AskMechanism = Callable[[LoginMechanism], Awaitable[LoginOutcome]]


class RememberedLogins:
    """Passwords that were right a moment ago, by mechanism."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, grace_s: float = 0.0) -> None:
        """`grace_s`: for how long they count while nobody can be asked."""
        self._clock = clock
        self._grace_s = grace_s
        # The key in memory does not help anybody to guess: it is one of this process.
        self._secret = os.urandom(32)
        self._known: BoundedDict[bytes, tuple[LoginOutcome, float]] = BoundedDict(MAX_REMEMBERED)
        self._users: BoundedDict[bytes, float] = BoundedDict(MAX_REMEMBERED)
        """Who has logged in by some password, and when."""

    def find(
        self, mechanism: LoginMechanism, shown: Password, *, in_grace: bool = False
    ) -> LoginOutcome | None:
        """Return what the mechanism said of a password; None where that is too long ago, or rests on
        something that has changed since. `in_grace`: it cannot be asked."""
        known = self._known.get(self._key(mechanism, shown.user, shown.password))
        most_s = self._grace_s if in_grace else mechanism.remember_s
        if known is None or self._clock() - known[1] >= most_s:
            return None
        return replace(known[0], is_remembered=True, is_away=in_grace)

    def has_another(self, mechanism: LoginMechanism, shown: Password) -> bool:
        """Whether a password is a guess at one that counts while nobody can be asked."""
        at = self._users.get(self._key(mechanism, shown.user), float("-inf"))
        return self._clock() - at < self._grace_s

    def note(self, mechanism: LoginMechanism, shown: Password, outcome: LoginOutcome) -> None:
        """Remember that a password was right."""
        now, user = self._clock(), self._key(mechanism, shown.user)
        key = self._key(mechanism, shown.user, shown.password)
        self._known[key], self._users[user] = (outcome, now), now

    def _key(self, mechanism: LoginMechanism, user: str, *password: str) -> bytes:
        parts = (mechanism.description, mechanism.stamp(user), user, *password)
        return hmac.digest(self._secret, repr(parts).encode("utf-8", "surrogatepass"), hashlib.sha256)


class LoginChain:
    """All mechanisms, in order. One chain serves all endpoints."""

    def __init__(
        self,
        users: Callable[[], Users],
        mechanisms: Iterable[LoginMechanism],
        *,
        certificates: CertificateReader | None = None,
        grace_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`users`: the user file's, whose names are nobody else's. `grace_s`: as of RememberedLogins."""
        self._certificates = certificates
        self.users = users
        self.mechanisms = tuple(mechanisms)
        self.remembered = RememberedLogins(clock, grace_s=grace_s)
        self._kinds = frozenset[LoginKind]().union(*(one.kinds for one in self.mechanisms))

    @property
    def kinds(self) -> frozenset[LoginKind]:
        """What somebody takes."""
        return self._kinds

    def narrow(self, shown: Credentials) -> tuple[Credentials, str]:
        """Return what is to be looked at of a certificate and what is shown beside it, and who it has to turn
        out to be; empty: anybody.

        A certificate that is of nobody here proves a machine, not a user. One that is somebody's stands for
        the password, and anything else has to be of the same user.
        """
        if not isinstance(shown, ClientCertificate):
            return shown, ""
        user = self._certificates.user_of(shown.der) if self._certificates is not None else None
        if user is None:
            return shown.beside or shown, ""
        if shown.beside is None or isinstance(shown.beside, Password):
            return shown, ""
        return shown.beside, user

    def find_fault(self, shown: Credentials) -> str | None:
        """Return why what is shown, or the certificate among it, is refused whoever it is of; or None."""
        if isinstance(shown, UnreadableLogin):  # RULE (unreadable-login-refused)
            return shown.reason
        if not isinstance(shown, ClientCertificate) or self._certificates is None:
            return None
        return self._certificates.find_fault(shown.der)

    def kind_of(self, shown: Credentials) -> LoginKind:
        """Return what is shown: a token may stand in the place of a password, for tools that ask for nothing
        else."""
        match shown:
            case Cookie():
                return "COOKIE"
            case Negotiation():
                return "KERBEROS"
            case ClientCertificate():
                return "CERTIFICATE"
            case ProxiedUser():
                return "PROXY"
            case UnreadableLogin(kind=kind):
                return kind
            case Password(_, secret) | Bearer(secret):
                if looks_like_jwt(secret):
                    return "JWT"
                return "TOKEN" if isinstance(shown, Bearer) or looks_like_token(secret) else "PLAIN"
            case _:
                assert_never(shown)

    async def decide(
        self, shown: Credentials, ask: AskMechanism | None = None
    ) -> tuple[LoginOutcome, list[LoginTrial]]:
        """Return what comes of credentials, and what each mechanism makes of them. `ask` stands between; by
        default mechanisms are just asked."""
        kind = self.kind_of(shown)
        decided: LoginOutcome | None = None
        trials = []
        for one in self.mechanisms:
            if kind not in one.kinds:
                trouble = f"; {told}" if (told := one.report()) is not None else ""
                outcome = LoginOutcome(diagnosis=f"skipped: not {_NAMES[min(one.kinds)]}{trouble}")
            elif decided is not None:
                outcome = LoginOutcome(diagnosis="skipped: another one has decided")
            else:
                outcome = await (ask(one) if ask is not None else one.check(shown))
                outcome = self.reserve(outcome, kind)
                decided = outcome if outcome.decides else None
            trials.append(LoginTrial(one, outcome))
        if decided is None:
            decided = LoginOutcome(diagnosis="nobody knows it", reason=_UNKNOWN[kind], counts=True)
        return decided, trials

    def reserve(self, outcome: LoginOutcome, kind: LoginKind) -> LoginOutcome:
        """Refuse whom another mechanism than the user file lets in by a name of the file, and whom the file
        has let in and has no longer."""
        who = outcome.principal
        if who is None or (who.user in self.users()) == outcome.of_file:  # RULE (names-of-the-file)
            return outcome
        told = f"`{who.user}` is not in the user file any more" if outcome.of_file else RESERVED
        reason = WRONG if outcome.of_file or kind == "PLAIN" else RESERVED
        return LoginOutcome(diagnosis=f"rejected: {told}", reason=reason, user=who.user, counts=True)

    def report(self) -> str | None:
        """Say by which mechanisms nobody can log in now, or None."""
        return "; ".join(filter(None, (one.report() for one in self.mechanisms))) or None

    def close(self) -> None:
        """Let go of what mechanisms hold."""
        for one in self.mechanisms:
            one.close()


_NAMES: dict[LoginKind, str] = {
    "PLAIN": "a password",
    "TOKEN": "a token of the user file",
    "JWT": "a JSON Web Token",
    "COOKIE": "a cookie",
    "KERBEROS": "a Kerberos ticket",
    "CERTIFICATE": "a client certificate",
    "PROXY": "a proxy's user",
}
_UNKNOWN: dict[LoginKind, str] = {
    "PLAIN": WRONG,
    "TOKEN": WRONG_TOKEN,
    "JWT": WRONG_TOKEN,
    "COOKIE": WRONG,
    "KERBEROS": "Kerberos is not enabled",
    "CERTIFICATE": "logins by client certificates are not enabled",
    "PROXY": "logins by proxies are not enabled",
    "UNKNOWN": WRONG,
}


def looks_like_jwt(secret: str) -> bool:
    """Whether a secret is written as a JSON Web Token: three parts with dots between them, or the five of an
    encrypted one, of which the first is a JSON object."""
    head, parts = secret.partition(".")[0][:64], secret.count(".")
    try:
        found = base64.b64decode(head + "=" * (-len(head) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return False
    return parts in (2, 4) and found.lstrip().startswith(b"{")  # RULE (tokens-to-no-directory)
