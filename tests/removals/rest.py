"""Rules of the served Iceberg REST catalog: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import (
    Always,
    Becomes,
    Condition,
    Deleted,
    DropElement,
    DropOperand,
    Never,
    Statement,
)
from tests.removals.removing import Removal

TABLES, CHANGES, PLANS = "rest.test_tables", "rest.test_changes", "rest.test_views_and_plans"
HANDLES, PREDICATES = "rest.test_handles", "rest.test_restricting"

REMOVALS = (
    # -- what is passed on
    Removal("rest-unknown-member", "members of bodies are known", Never(), PLANS),
    Removal("rest-unknown-parameter", "parameters are known", Never(), TABLES),
    Removal("rest-unknown-update", "updates of commits are known", Condition("False"), CHANGES),
    Removal("rest-other-catalog", "catalogs that are not served are not there", Never(), TABLES),
    Removal("rest-odd-name", "a name is one name", Never(), TABLES),
    Removal("rest-name-below-table", "no table is taken for a part of another", Never(), TABLES),
    # -- who may have a table
    Removal("rest-obliged-refused", "who has obligations does not get the files", Never(), TABLES),
    Removal("rest-hidden-columns", "columns that may not be selected oblige", DropOperand(1), TABLES),
    Removal("rest-former-columns", "columns of before count", Becomes("table"), TABLES),
    Removal("rest-own-restrictions", "what the catalog restricts counts", DropOperand(1), TABLES),
    Removal("rest-own-not-understood", "restrictions that are not understood refuse", Never(), TABLES),
    Removal("rest-limit", "a call counts as a statement", Deleted(), "rest.test_limits"),
    Removal(
        "rest-limit-together",
        "limits of all tables of a transaction hold",
        Becomes("[verdict]"),
        "rest.test_limits",
    ),
    Removal("rest-exists-visible", "what may not be known of is not there", Always(), TABLES),
    Removal("rest-list-namespaces", "namespaces are of who may know of them", Always(), TABLES),
    Removal("rest-list-tables", "tables are of who may know of them", Becomes("[True] * len(names)"), TABLES),
    Removal("rest-etag-user", "an ETag is of one user", DropElement(0), TABLES),
    Removal("rest-etag-policies", "an ETag is of the policies", DropElement(1), TABLES),
    # -- logins to files
    Removal("rest-logins-withheld", "not everybody has logins to files", DropOperand(0), TABLES),
    Removal("rest-signing", "nothing is signed", DropOperand(2), TABLES),
    Removal("rest-credentials-restricted", "who has to enforce has no logins", Never(), TABLES),
    Removal(
        "rest-credentials-overwrite",
        "logins are of who may overwrite",
        Statement("return True"),
        PLANS,
    ),
    Removal("rest-credentials-call", "logins are given by their own call to no others", Never(), PLANS),
    # -- what enforces
    Removal("rest-stricter", "what shows less is given where the operator allows it", Never(), PREDICATES),
    Removal("rest-denied-predicate", "a mask that denies conditions has no action", Never(), PREDICATES),
    Removal("rest-restrict-hidden", "hidden columns are NULL, or nothing is given", Never(), TABLES),
    Removal(
        "rest-null-compares",
        "NULL is neither equal nor unequal",
        Becomes("_Both(true, false)"),
        PREDICATES,
    ),
    Removal("rest-nan-greatest", "NaN is greater than numbers", Never(), PREDICATES),
    Removal("rest-null-in-list", "NOT IN with a NULL keeps nothing", Becomes("both"), PREDICATES),
    Removal("rest-like-within", "LIKE is served as a beginning alone", Never(), PREDICATES),
    # -- changes
    Removal("rest-writers", "snapshots are of writers", Always(), CHANGES),
    Removal("rest-commit-obliged", "nothing is committed to a table with obligations", Never(), CHANGES),
    Removal("rest-owner-of-created", "who creates a table owns it", Deleted(), CHANGES),
    Removal("rest-owner-changed", "nobody makes himself the owner", Never(), CHANGES),
    Removal("rest-given-definer", "nobody says who defines a view", Never(), PLANS),
    Removal("rest-view-definer", "who makes a view is its definer", Becomes("told"), PLANS),
    Removal("rest-replaced-definer", "who replaces a view is its definer", Deleted(), PLANS),
    Removal("rest-commit-bound", "a commit is of the table that was judged", Becomes("[]"), CHANGES),
    Removal("rest-unused-schema", "no schema is added that was not judged", Never(), CHANGES),
    Removal("rest-id-of-other-data", "an id stays with its data", Never(), CHANGES),
    Removal("rest-former-id", "a former id has its former name", Never(), CHANGES),
    Removal("rest-chosen-place", "a place of the client's choice takes its right", Always(), HANDLES),
    # -- handles
    Removal("rest-handle-signed", "nobody makes a handle", Never(), HANDLES),
    Removal("rest-handle-ends", "a handle ends", Never(), HANDLES),
    Removal("rest-plan-kind", "a task is no plan", DropElement(0), PLANS),
    Removal("rest-plan-of-user", "a plan is of one user", DropElement(1), PLANS),
    Removal("rest-plan-made-anew", "a plan ends with its table", DropElement(5), HANDLES),
    Removal("rest-plan-decided", "a plan is of what was decided", DropElement(6), HANDLES),
    Removal("rest-place-of-user", "a place is of who staged the table", DropElement(1), HANDLES),
    Removal("rest-place-of-table", "a place is of one table", DropElement(4), HANDLES),
)
