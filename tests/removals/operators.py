"""Rules of what operators are told and what they may do, each with the text that stands there without it and
the tests that should notice."""

from __future__ import annotations

from tests.removing import Removal

REMOVALS = (
    Removal(
        "a catalog's service is asked for what people name in it",
        "policy.resource_names",
        "return speaking.get(fold(catalog), DEFAULT_SERVICE)",
        "return DEFAULT_SERVICE",
        "policy.test_resource_names",
    ),
    Removal(
        "a definition without catalogs has resources below one",
        "policy.resource_names",
        "if definition.resource(CATALOG) is None and",
        "if False and",
        "policy.test_resource_names",
    ),
    Removal(
        "a gateway that stops opens no session",
        "session.registry",
        "        self._lifecycle.require_running()\n",
        "",
        "session.test_service session.connect.test_sessions",
    ),
    Removal(
        "a gateway that stops runs no new statement",
        "session.service",
        "        self.lifecycle.require_running()\n",
        "",
        "session.test_service",
    ),
    Removal(
        "a gateway that stops runs no new plan",
        "session.connect.service",
        "        self.lifecycle.require_running()\n",
        "",
        "session.connect.test_sessions",
    ),
    Removal(
        "what a gateway cuts is not its client's doing",
        "session.lifecycle",
        "return STOPPING if self.cuts else otherwise",
        "return otherwise",
        "session.test_service session.connect.test_sessions",
    ),
    Removal(
        "a gateway that stops has clients of Spark Connect come again",
        "frontends.connect_status",
        "        case GatewayStopping():\n",
        "        case _ if False:\n",
        "frontends.test_connect_status",
    ),
    Removal(
        "logins are counted, not calls",
        "frontends.authentication",
        "if found is None or record_success:",
        "if True:",
        "frontends.test_authentication",
    ),
    Removal(
        "a client that leaves while a gateway waits for it went away by itself",
        "session.lifecycle",
        "return STOPPING if self.cuts else otherwise",
        "return STOPPING if self.stopping else otherwise",
        "session.test_service",
    ),
    Removal(
        "a gateway that stops waits for calls being answered",
        "session.open_sessions",
        "return max(sessions, sum(answering() for answering in self._answering))",
        "return sessions",
        "session.test_service",
    ),
)
