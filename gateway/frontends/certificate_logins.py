"""Logins by client certificates: rules say which user one is of. TLS has checked it before (mutual TLS)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.frontends.auth_to_local import compile_expression
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginKind, LoginOutcome
from gateway.frontends.login_mechanisms import SimpleMechanism
from gateway.frontends.revocations import RevocationLists
from gateway.model.credentials import ClientCertificate, Credentials, Password

CertificatePart = Literal["subject", "common_name", "email", "upn", "uri"]
UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
"""Microsoft's user principal name, in the alternative names."""
NOT_IN_TIME = "the certificate has expired, or is not valid yet"
_UTF8_STRING = 0x0C
_USER = re.compile(r"[^\s/\\]{1,200}")
UNREADABLE = (ValueError, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRule:
    """Which user certificates are of that have something in some part of theirs."""

    part: CertificatePart
    fits: Any
    """A compiled expression for all of it."""
    user: str
    """`\\1` is its first group."""
    lower: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRules:
    """The first rule that fits says who somebody is."""

    rules: tuple[CertificateRule, ...]
    unlisted: bool = False
    """Whether users that are neither in the user file nor in the directory log in, of no group."""


def make_rule(part: CertificatePart, fits: str, user: str, *, lower: bool = False) -> CertificateRule:
    """Return a rule; `$1` in `user` is the first group of `fits`. Raises ValueError."""
    compiled = compile_expression(fits)
    if any(int(number) > compiled.groups for number in re.findall(r"\$(\d)", user)):
        raise ValueError(f"`{user}` names a group that `{fits}` does not have")
    return CertificateRule(part=part, fits=compiled, user=re.sub(r"\$(\d)", r"\\\1", user), lower=lower)


class CertificateLogins(SimpleMechanism):
    """Turns client certificates into principals."""

    kinds: frozenset[LoginKind] = frozenset({"CERTIFICATE"})
    description = "client certificates"

    def __init__(
        self,
        rules: CertificateRules,
        known: KnownUsers,
        revoked: RevocationLists | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.rules = rules
        self._now = now
        self._known = known
        self._revoked = revoked

    def report(self) -> str | None:
        """Say which certificates cannot be taken now for lack of a list, or None."""
        return self._revoked.report() if self._revoked is not None else None

    def find_fault(self, der: bytes) -> str | None:
        """Return why nobody may show a certificate, whomever it is of; or None.

        TLS has looked at its time, once: connections last, and are resumed.
        """
        if not is_in_time(der, self._now()):  # RULE (certificate-in-time)
            return NOT_IN_TIME
        return self._revoked.find_fault(der) if self._revoked is not None else None

    def user_of(self, der: bytes) -> str | None:
        """Return which user a certificate is of; None where no rule says so."""
        return user_of_certificate(der, self.rules.rules)

    async def check(self, shown: Credentials) -> LoginOutcome:
        """Say whose certificate it is; the user name that the client gives beside it has to be the same."""
        if not isinstance(shown, ClientCertificate):
            return LoginOutcome(diagnosis="skipped")
        user = self.user_of(shown.der)
        if user is None:
            why = "no rule maps the certificate to a user"
            return LoginOutcome(diagnosis=f"rejected: {why}", reason=why, counts=True)
        if isinstance(shown.beside, Password) and shown.beside.user != user:  # RULE (certificate-and-name)
            why = "the certificate belongs to another user"
            return LoginOutcome(diagnosis=f"rejected: {why}", reason=why, user=user, counts=True)
        return await self._known.find(user, unlisted=self.rules.unlisted)


def is_in_time(der: bytes, now: datetime) -> bool:
    """Whether a certificate counts now."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    except UNREADABLE:
        return False


def user_of_certificate(der: bytes, rules: Sequence[CertificateRule]) -> str | None:
    """Return which user a certificate is of; None where no rule says so, or one that fits says several."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        for rule in rules:
            users: set[str] = {
                found.expand(rule.user)
                for value in _values(certificate, rule.part)
                if (found := rule.fits.fullmatch(value)) is not None
            }
            if users:
                user = users.pop()
                user = user.lower() if rule.lower else user
                if users or not _USER.fullmatch(user) or not user.isprintable():  # RULE (certificate-of-one)
                    return None
                return user
    except UNREADABLE:
        return None
    return None


def _values(certificate: x509.Certificate, part: CertificatePart) -> Iterator[str]:
    subject = certificate.subject
    if part == "subject":
        yield subject.rfc4514_string()
    elif part == "common_name":
        yield from (str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    else:
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return
        if part == "email":
            yield from names.get_values_for_type(x509.RFC822Name)
        elif part == "uri":
            yield from names.get_values_for_type(x509.UniformResourceIdentifier)
        else:
            others = names.get_values_for_type(x509.OtherName)
            yield from (_text(one.value) for one in others if one.type_id == UPN)


def _text(der: bytes) -> str:
    """Return the text of a short UTF8String. Raises ValueError."""
    if len(der) < 2 or der[0] != _UTF8_STRING or der[1] != len(der) - 2 or der[1] > 127:
        raise ValueError("a user principal name that is no text")
    return der[2:].decode("utf-8")
