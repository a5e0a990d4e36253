"""Rules of what operators are told and what they may do: how each is taken out, and the tests that should
notice."""

from __future__ import annotations

from tests.removals.operations import Becomes, Condition, Deleted, Never, Uncalled
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
