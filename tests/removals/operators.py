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
)
