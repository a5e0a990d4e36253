"""Rules of what operators are told and what they may do: how each is taken out, and the tests that should
notice."""

from __future__ import annotations

from tests.removals.operations import Always, Becomes, Condition, Deleted, Never, Uncalled
from tests.removals.removing import Removal

REMOVALS = (
    Removal(
        "catalog-service-names",
        "a catalog's service is asked for what people name in it",
        Becomes("DEFAULT_SERVICE"),
        "policy.test_resource_names",
    ),
    Removal(
        "definition-without-catalogs",
        "a definition without catalogs has resources below one",
        Never(),
        "policy.test_resource_names",
    ),
    Removal(
        "stopping-no-session",
        "a gateway that stops opens no session",
        Deleted(),
        "session.test_service session.connect.test_sessions",
    ),
    Removal(
        "removed-while-logging-in",
        "nobody is logged in who was removed while that was recorded",
        Becomes("outcome"),
        "frontends.test_authentication",
    ),
    Removal(
        "ended-while-opened",
        "no session comes to be of a user whose sessions were ended while it was opened",
        Never(),
        "session.test_service",
    ),
    Removal(
        "stopping-no-statement",
        "a gateway that stops runs no new statement",
        Deleted(),
        "session.test_service",
    ),
    Removal(
        "stopping-no-plan",
        "a gateway that stops runs no new plan",
        Deleted(),
        "session.connect.test_sessions",
    ),
    Removal(
        "stopping-cut",
        "what a gateway cuts is not its client's doing",
        Never(),
        "session.test_service session.connect.test_sessions",
    ),
    Removal(
        "stopping-connect-status",
        "a gateway that stops has clients of Spark Connect come again",
        Never(),
        "frontends.test_connect_status",
    ),
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
        "stopping-client-left",
        "a client that leaves while a gateway waits for it went away by itself",
        Condition("self.stopping"),
        "session.test_service",
    ),
    Removal(
        "stopping-waits-answers",
        "a gateway that stops waits for calls being answered",
        Uncalled(),
        "session.test_service",
    ),
)
