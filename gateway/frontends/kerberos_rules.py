"""Decides what a ticket of Kerberos is worth: for which of our principals it is, of whose realm, which user
its owner is, and how the rest of the connection is protected. Needs no libkrb5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gateway.frontends.auth_to_local import LocalRule, map_principal
from gateway.wire.sasl import MAX_WRAPPED_BYTES, QOP_BITS, Qop

ANONYMOUS = "WELLKNOWN/"


class KerberosRefused(Exception):
    """A ticket that proves nothing; the message is for whoever showed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosRules:
    """Whose tickets are taken, and who their owners are."""

    keytab: Path
    realm: str
    """Where principals without a rule are users."""
    realms: frozenset[str] = frozenset()
    """Others whose principals are mapped by rules."""
    rules: tuple[LocalRule, ...] = (LocalRule(components=0),)
    service: str = "hive"
    """First part of the gateway's own principal for the binary transport."""
    qop: tuple[Qop, ...] = ("auth",)
    """How the rest of a binary connection may be protected; the client chooses."""
    unlisted: bool = False
    """Whether users that are neither in the user file nor in the directory log in, of no group."""


def user_of_ticket(principal: str, target: str, service: str, rules: KerberosRules) -> str:
    """Return which user has shown a ticket. `target`: the principal that it is for; `service`: what the
    endpoint is called. Raises KerberosRefused."""
    if target.partition("/")[0] not in (service, rules.service):  # RULE (kerberos-target)
        raise KerberosRefused(f"the ticket is for `{target}`, which is not a principal of this endpoint")
    realm = principal.rpartition("@")[2]
    is_known = realm == rules.realm or realm in rules.realms
    if not is_known or principal.startswith(ANONYMOUS):  # RULE (kerberos-realm)
        raise KerberosRefused(f"principals of the realm `{realm}` may not log in")
    user = map_principal(principal, rules.rules, rules.realm)
    if user is None:
        raise KerberosRefused(f"no rule of `auth_to_local` maps `{principal}` to a user")
    return user


class QopChoice(NamedTuple):
    """How a client wants the rest of its connection protected."""

    qop: Qop
    max_bytes: int
    """The largest wrapped message that it takes."""


def write_offer(qop: Collection[Qop]) -> bytes:
    """Return what the server says of protections, before it is wrapped (RFC 4752, 3.1)."""
    return bytes([sum(QOP_BITS[one] for one in set(qop))]) + MAX_WRAPPED_BYTES.to_bytes(3, "big")


def read_choice(answer: bytes, offered: Collection[Qop], names: Collection[str]) -> QopChoice:
    """Return what the client chose. `names`: as whom it may act. Raises KerberosRefused."""
    chosen = next((one for one in offered if answer[:1] == bytes([QOP_BITS[one]])), None)
    if chosen is None or len(answer) < 4:  # RULE (kerberos-qop)
        raise KerberosRefused("the client wants another protection (QOP) than is offered")
    # As of PLAIN: who logs in as one and asks to be another would run as somebody that it did not ask for.
    if answer[4:].decode("utf-8", "replace") not in ("", *names):  # RULE (kerberos-acts-as)
        raise KerberosRefused("acting as another user is not allowed")
    return QopChoice(chosen, int.from_bytes(answer[1:4], "big"))
