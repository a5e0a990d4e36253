"""What a ticket is worth; real ones are tried in tests/e2e/logins."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.frontends.auth_to_local import parse_rule
from gateway.frontends.kerberos_rules import (
    KerberosRefused,
    KerberosRules,
    read_choice,
    user_of_ticket,
    write_offer,
)
from gateway.wire.sasl import Qop

ANYBODY = parse_rule("RULE:[1:$1]"), parse_rule("RULE:[2:$1]")
RULES = KerberosRules(
    keytab=Path("x.keytab"), realm="CORP.EXAMPLE", realms=frozenset({"PARTNER"}), rules=ANYBODY
)


@pytest.mark.parametrize(
    ("target", "service"),
    [
        ("hive/gw.example@CORP.EXAMPLE", "hive"),
        ("hive/gw.example@CORP.EXAMPLE", "HTTP"),
        ("HTTP/gw.example@CORP.EXAMPLE", "HTTP"),
    ],
)
def test_a_ticket_for_the_endpoint_says_who_somebody_is(target: str, service: str) -> None:
    for principal in ("bob@CORP.EXAMPLE", "bob@PARTNER", "bob/h.example@PARTNER"):
        assert user_of_ticket(principal, target, service, RULES) == "bob"


@pytest.mark.parametrize(
    ("principal", "target", "why"),
    [
        # A keytab may hold keys of other services of the host.
        ("bob@CORP.EXAMPLE", "hdfs/gw.example@CORP.EXAMPLE", "not a principal of this endpoint"),
        ("bob@CORP.EXAMPLE", "HTTP/gw.example@CORP.EXAMPLE", "not a principal of this endpoint"),
        ("bob@CORP.EXAMPLE", "hiveX/gw.example@CORP.EXAMPLE", "not a principal of this endpoint"),
        # Rules without `$0` would make these bob.
        ("bob@OTHER", "hive/gw.example@CORP.EXAMPLE", "realm `OTHER`"),
        ("bob@corp.example", "hive/gw.example@CORP.EXAMPLE", "realm `corp.example`"),
        ("WELLKNOWN/ANONYMOUS@CORP.EXAMPLE", "hive/gw.example@CORP.EXAMPLE", "may not log in"),
        ("a/b/c@CORP.EXAMPLE", "hive/gw.example@CORP.EXAMPLE", "no rule"),
    ],
)
def test_other_tickets_say_nothing(principal: str, target: str, why: str) -> None:
    with pytest.raises(KerberosRefused, match=why):
        user_of_ticket(principal, target, "hive", RULES)


@pytest.mark.parametrize(
    ("answer", "qop"),
    [
        (b"\x01\x00\x00\x00", "auth"),
        (b"\x02\x01\x00\x00bob@CORP.EXAMPLE", "auth-int"),
        (b"\x04\x01\x00\x00bob", "auth-conf"),
    ],
)
def test_a_client_chooses_what_is_offered(answer: bytes, qop: Qop) -> None:
    names = ("bob@CORP.EXAMPLE", "bob")
    assert read_choice(answer, ("auth", "auth-int", "auth-conf"), names).qop == qop
    assert read_choice(answer, (qop,), names).max_bytes == int.from_bytes(answer[1:4], "big")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\x01\x00\x00\x00", "QOP"),  # less than is offered
        (b"\x06\x01\x00\x00", "QOP"),  # two at once
        (b"\x00\x01\x00\x00", "QOP"),
        (b"\x04\x01\x00", "QOP"),
        (b"", "QOP"),
        (b"\x04\x01\x00\x00alice", "acting as another user"),
        (b"\x04\x01\x00\x00bob@OTHER", "acting as another user"),
        (b"\x04\x01\x00\x00\xff", "acting as another user"),
    ],
)
def test_a_client_that_chooses_less_or_somebody_else_is_refused(answer: bytes, why: str) -> None:
    with pytest.raises(KerberosRefused, match=why):
        read_choice(answer, ("auth-int", "auth-conf"), ("bob@CORP.EXAMPLE", "bob"))


def test_an_offer_is_bits_and_the_largest_message() -> None:
    assert write_offer(("auth", "auth-conf", "auth")) == b"\x05\xff\xff\xff"
