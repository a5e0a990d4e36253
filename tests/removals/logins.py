"""Rules of logins, and of who somebody is while a session lives: how each is taken out, and the tests
that should notice."""

from __future__ import annotations

from tests.removals.operations import Always, Becomes, Condition, Deleted, Never
from tests.removals.removing import Removal

REMOVALS = (
    Removal(
        "names-of-the-file",
        "a name of the user file is nobody else's",
        Always(),
        "frontends.test_login_chain frontends.test_jwt_logins",
    ),
    Removal(
        "kerberos-target",
        "a ticket is for the endpoint, not for another service of the host",
        Never(),
        "frontends.test_kerberos_rules",
    ),
    Removal(
        "kerberos-realm",
        "principals of other realms are nobody here, whatever rules make of them",
        Never(),
        "frontends.test_kerberos_rules",
    ),
    Removal(
        "kerberos-qop",
        "a client gets no other protection than is offered",
        Never(),
        "frontends.test_kerberos_rules",
    ),
    Removal(
        "kerberos-acts-as",
        "who has a ticket acts as nobody else",
        Never(),
        "frontends.test_kerberos_rules",
    ),
    Removal(
        "certificate-and-name",
        "who shows a certificate is who it says, whatever name he gives beside it",
        Never(),
        "frontends.test_certificate_logins",
    ),
    Removal(
        "certificate-and-login",
        "a certificate and another login are of the same user",
        Never(),
        "frontends.test_certificate_logins",
    ),
    Removal(
        "certificate-of-one",
        "a certificate that says several users is of none",
        Never(),
        "frontends.test_certificate_logins",
    ),
    Removal(
        "acts-as-allowed",
        "nobody acts as another user whom no rule allows",
        Always(),
        "frontends.test_impersonation",
    ),
    Removal(
        "acts-as-once",
        "who acts as another user does not act as a third",
        Condition("self._impersonation is not None and is_plain"),
        "frontends.test_impersonation",
    ),
    Removal(
        "known-by-one-name",
        "a directory does not give a name of the user file to somebody else",
        Always(),
        "frontends.test_impersonation",
    ),
    Removal("logins-counted", "logins are counted, not calls", Always(), "frontends.test_authentication"),
    Removal(
        "renewed-judges-again",
        "what a session made under other groups is judged again",
        Deleted(),
        "session.test_renewed",
    ),
    Removal(
        "views-of-renewed",
        "a view is judged for its user as he is now",
        Becomes("view.made.statement"),
        "session.test_renewed",
    ),
    Removal(
        "relations-of-renewed",
        "what a relation was computed from is judged for its user as he is now",
        Becomes("judged.statement"),
        "session.test_renewed",
    ),
    Removal(
        "session-of-identity",
        "somebody else of the same name has no session of the first",
        Becomes("principal.user in (session.principal.user, session.client.real_user)"),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "connect-session-of-identity",
        "nor one of Spark Connect",
        Never(),
        "session.connect.test_sessions",
    ),
    Removal(
        "directory-away-no-session",
        "nobody of a directory that is away opens a session",
        Never(),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "grace-ends",
        "a directory that stays away ends sessions",
        Never(),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "disabled-sessions-end",
        "sessions end of who is disabled",
        Deleted(),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "revoked-token-ends",
        "what was opened by a token ends with it",
        Becomes("False"),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "unreadable-file-ends-nothing",
        "a user file that cannot be read ends no session",
        Always(),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "acts-as-still-allowed",
        "who acts as a user stops when no rule allows it any more",
        Becomes("False"),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "disabled-is-not-unlisted",
        "who is disabled is not one whom the directory does not know",
        Deleted(),
        "frontends.test_identity_refresh",
    ),
    Removal(
        "directory-disabled",
        "who is disabled, or has expired, does not log in",
        Becomes("False"),
        "frontends.test_ldap_rules",
    ),
    Removal(
        "purpose-of-acting",
        "a token is for what it is for, whoever its owner acts as",
        Becomes("found.principal"),
        "frontends.test_impersonation",
    ),
    Removal(
        "token-for-endpoint",
        "a token is refused elsewhere",
        Never(),
        "frontends.test_authentication",
    ),
    Removal(
        "no-grace-without-session",
        "a directory that is away lets nobody in to REST",
        Never(),
        "frontends.test_login_chain",
    ),
    Removal(
        "cookie-of-confined-token",
        "no cookie stands for a token that is for something",
        Becomes("not token.is_expired(datetime.fromtimestamp(now, UTC))"),
        "frontends.test_authentication",
    ),
    Removal(
        "user-locked",
        "guesses of many addresses lock their user",
        Deleted(),
        "frontends.test_login_chain",
    ),
    Removal(
        "guesses-by-network",
        "who has a network of IPv6 has one address",
        Becomes("address"),
        "frontends.test_login_chain",
    ),
    Removal(
        "certificate-revoked",
        "a certificate that was revoked logs nobody in",
        Becomes("None"),
        "frontends.test_revocations",
    ),
    Removal(
        "revocation-list-missing",
        "without a list of its authority a certificate logs nobody in",
        Never(),
        "frontends.test_revocations",
    ),
    Removal(
        "revocation-list-late",
        "a list that is out of date says nothing",
        Becomes("True"),
        "frontends.test_revocations",
    ),
    Removal(
        "revocation-list-signed",
        "a list is its authority's",
        Always(),
        "frontends.test_revocations",
    ),
    Removal(
        "proxy-address",
        "headers of a proxy count on its connections",
        Condition("rule is None"),
        "frontends.test_proxy_logins",
    ),
    Removal(
        "proxy-secret",
        "a proxy proves itself",
        Never(),
        "frontends.test_proxy_logins",
    ),
    Removal(
        "proxy-two-logins",
        "a request with two logins is refused",
        Never(),
        "frontends.test_proxy_logins",
    ),
    Removal(
        "cookie-of-what-was-shown",
        "a cookie is worth the token that was shown for it",
        Becomes("user.password_hash"),
        "frontends.test_thrift_http",
    ),
    Removal(
        "guesses-while-away",
        "while a directory is away a guess at what counts is one",
        Becomes("outcome"),
        "frontends.test_login_chain",
    ),
    Removal(
        "tokens-to-no-directory",
        "a token in the place of a password is sent to no directory",
        Becomes("parts == 2 and secret.startswith('eyJ')"),
        "frontends.test_login_chain",
    ),
    Removal(
        "token-in-place-of-name",
        "a token in the place of a name is not recorded",
        Becomes("user"),
        "frontends.test_authentication",
    ),
    Removal(
        "user-locked-by-any-spelling",
        "each spelling of a name is a guess at the same user",
        Becomes("self._find(_USER + user.casefold()[:256])"),
        "frontends.test_login_chain",
    ),
    Removal(
        "do-as-any-case",
        "who asks to act as another in any case does not run as himself",
        Becomes("request.query.getall('doAs', [])"),
        "frontends.test_thrift_http",
    ),
)
