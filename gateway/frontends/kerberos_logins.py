"""Logins by tickets of Kerberos: GSSAPI in SASL (RFC 4752), and SPNEGO over HTTP (RFC 4559).

The protocol is libkrb5's; what counts of a ticket stands in `kerberos_rules`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gssapi
from gssapi.raw.misc import GSSError

from gateway.frontends.kerberos_rules import (
    KerberosRefused,
    KerberosRules,
    read_choice,
    user_of_ticket,
    write_offer,
)
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginKind, LoginOutcome
from gateway.frontends.login_mechanisms import SimpleMechanism
from gateway.model.credentials import Credentials, Negotiation
from gateway.wire.gss_layer import GssLayer, explain_gss

MAX_ROUNDS = 4
"""Tokens of a client until it is known; Kerberos needs one."""
MAX_PIECE_BYTES = 64 * 1024
MIN_PIECE_BYTES = 1024
THREADS = 4
AWAY = "the gateway's own keys of Kerberos cannot be read now; try again later"
AskClient = Callable[[bytes], Awaitable[bytes]]


class KerberosLogins(SimpleMechanism):
    """Turns tickets into principals."""

    kinds: frozenset[LoginKind] = frozenset({"KERBEROS"})
    description = "Kerberos"

    def __init__(self, rules: KerberosRules, known: KnownUsers) -> None:
        self.rules = rules
        self._known = known
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kerberos")

    def report(self) -> str | None:
        """Say why no ticket can be taken now, or None."""
        try:
            self._acquire()
        except GSSError as fault:
            return f"the keytab `{self.rules.keytab}` cannot be used: {explain_gss(fault)}"
        return None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def check(self, shown: Credentials) -> LoginOutcome:
        """Say who has shown a ticket; what both ends agree on is written into what was shown."""
        if not isinstance(shown, Negotiation):
            return LoginOutcome(diagnosis="skipped")
        if (trouble := self.report()) is not None:
            return LoginOutcome(diagnosis=f"not available: {trouble}", reason=AWAY)
        principal = ""
        try:
            context = await self._establish(shown)
            principal = str(context.initiator_name)
            if context.mech != gssapi.MechType.kerberos:
                raise KerberosRefused("another mechanism than Kerberos")
            user = user_of_ticket(principal, str(context.target_name), shown.service, self.rules)
            if shown.ask is not None:
                await self._agree(context, shown, shown.ask, (principal, user))
        except KerberosRefused as fault:
            return LoginOutcome(
                diagnosis=f"rejected: {fault}", reason=str(fault), user=principal, counts=True
            )
        except GSSError as fault:
            why = f"Kerberos: {explain_gss(fault)}"
            return LoginOutcome(diagnosis=f"rejected: {why}", reason=why, user=principal, counts=True)
        return await self._known.find(user, unlisted=self.rules.unlisted)

    def _acquire(self) -> Any:
        # With a name it would take tickets for that host alone, and clients know us by several.
        return gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{self.rules.keytab}"})

    async def _step(self, context: Any, token: bytes) -> bytes:
        """Take a token. In a thread: the cache that finds replays is a file with a lock."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, context.step, token) or b""

    async def _establish(self, shown: Negotiation) -> Any:
        context: Any = gssapi.SecurityContext(creds=self._acquire(), usage="accept")
        # What is refused has an answer too, and would be raised only when something else is asked.
        context.__DEFER_STEP_ERRORS__ = False
        token = shown.token
        for _ in range(MAX_ROUNDS):
            reply = await self._step(context, token)
            if context.complete:
                shown.reply = reply
                return context
            if shown.ask is None:
                break
            token = await shown.ask(reply)
        raise KerberosRefused("Kerberos: more tokens than are taken here")

    async def _agree(self, context: Any, shown: Negotiation, ask: AskClient, names: tuple[str, str]) -> None:
        """Agree on how the rest is protected, as RFC 4752 has it. Raises KerberosRefused, GSSError."""
        if shown.reply and await ask(shown.reply):
            raise KerberosRefused("Kerberos: a token after the last one")
        shown.reply = b""
        offer = context.wrap(write_offer(self.rules.qop), encrypt=False).message
        answer = bytes(context.unwrap(await ask(offer)).message)
        chosen = read_choice(answer, self.rules.qop, names)
        if chosen.qop == "auth":
            return
        encrypts = chosen.qop == "auth-conf"
        needed = gssapi.RequirementFlag.confidentiality if encrypts else gssapi.RequirementFlag.integrity
        room = context.get_wrap_size_limit(min(chosen.max_bytes, MAX_PIECE_BYTES), encrypts)
        if not context.actual_flags & needed or room < MIN_PIECE_BYTES:
            raise KerberosRefused("the ticket does not allow for the protection (QOP) that was chosen")
        shown.layer = GssLayer(context, encrypts=encrypts, max_bytes=room)
