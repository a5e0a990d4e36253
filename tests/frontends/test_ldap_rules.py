"""What entries of a directory say of accounts, as Active Directory, OpenLDAP and FreeIPA write it."""

from __future__ import annotations

import pytest

from gateway.frontends.ldap_rules import is_disabled, is_one_spelling

NOW = 1_767_225_600.0
"""The first day of 2026."""
FIRST = (1_767_225_600 + 11_644_473_600) * 10_000_000


@pytest.mark.parametrize(
    ("entry", "disabled"),
    [
        ({}, False),
        ({"userAccountControl": "512"}, False),
        ({"userAccountControl": "514"}, True),
        ({"userAccountControl": "66050"}, True),
        ({"userAccountControl": "x"}, False),
        ({"accountExpires": "0"}, False),
        ({"accountExpires": str(2**63 - 1)}, False),
        ({"accountExpires": str(FIRST)}, True),
        ({"accountExpires": str(FIRST + 1)}, False),
        ({"pwdAccountLockedTime": "000001010000Z"}, True),
        # Locked for a while, after wrong passwords: whoever has a ticket is not kept out by others.
        ({"pwdAccountLockedTime": "20260101000000Z"}, False),
        ({"nsAccountLock": "TRUE"}, True),
        ({"nsAccountLock": "false"}, False),
    ],
)
def test_an_account_is_disabled_as_its_directory_says(entry: dict[str, str], disabled: bool) -> None:
    assert is_disabled(lambda name: [entry[name]] if name in entry else [], NOW) is disabled


def test_names_that_a_directory_takes_for_others_are_not_typed() -> None:
    assert all(is_one_spelling(name) for name in ("bob", "BOB", "Jürgen", "bob smith"))
    assert not any(is_one_spelling(name) for name in ("\uff42ob", "\ufb01n", "bob  smith", "u\u0308"))
