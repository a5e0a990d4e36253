"""Rules that say which user a principal of Kerberos is: Hadoop's, with its own examples."""

from __future__ import annotations

import pytest

from gateway.frontends.auth_to_local import NoSuchRule, map_principal, parse_rule

REALM = "CORP.EXAMPLE"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ("DEFAULT", "bob@CORP.EXAMPLE", "bob"),
        ("DEFAULT", "bob@OTHER", None),
        ("DEFAULT", "bob/admin@CORP.EXAMPLE", None),
        ("DEFAULT", "bob@corp.example", None),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "bob@OTHER", "bob"),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "bob@ANOTHER", None),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*/_other/", "bob@OTHER", "bob_other"),
        ("RULE:[2:$1@$0](spark@CORP.EXAMPLE)s/.*/etl/", "spark/h1.example@CORP.EXAMPLE", "etl"),
        ("RULE:[2:$1](admin)s/^/x_/", "admin/h@CORP.EXAMPLE", "x_admin"),
        ("RULE:[2:$2$1]", "a/b@CORP.EXAMPLE", "ba"),
        ("RULE:[1:$1]s/(a)(b)/$2$1/", "abab@R", "baab"),
        ("RULE:[1:$1]s/(a)(b)/$2$1/g", "abab@R", "baba"),
        ("RULE:[1:$1]/L", "BoB@R", "bob"),
        ("RULE:[1:$1](b.*)s/o/0//L DEFAULT", "BOB@CORP.EXAMPLE", "BOB"),
        # The first rule that fits decides, even where it gives nobody's name.
        ("RULE:[1:$1@$0] DEFAULT", "bob@CORP.EXAMPLE", None),
        ("RULE:[1:] DEFAULT", "bob@CORP.EXAMPLE", None),
        # Nobody's principals.
        ("DEFAULT", r"bob\@x@CORP.EXAMPLE", None),
        ("DEFAULT", "bob", None),
        ("DEFAULT", "b ob@CORP.EXAMPLE", None),
        ("DEFAULT", "bob@x@CORP.EXAMPLE", None),
        ("DEFAULT", "b" * 600 + "@CORP.EXAMPLE", None),
    ],
)
def test_a_principal_is_the_user_that_the_first_rule_says(
    rules: str, principal: str, user: str | None
) -> None:
    parsed = [parse_rule(one) for one in rules.split(" ")]
    assert map_principal(principal, parsed, REALM) == user


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:[0:$1]", "RULE:[1:$2]", "RULE:[1:$1](a", "RULE:[1:$1]((?=a))", "RULE:1:$1"]
)
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(NoSuchRule):
        parse_rule(rule)
