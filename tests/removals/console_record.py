"""Rules of the console's record, lineage and requests: how each is taken out, and what should notice."""

from __future__ import annotations

from tests.removals.operations import Becomes, DropOperand, Element, Never
from tests.removals.removing import Removal

REQUESTS = "policy.test_access_requests"
OWNERS = "app.test_console_record"

REMOVALS = (
    Removal("csv-formula", "no cell of an export is a formula", Never(), "audit.test_record_pages"),
    Removal(
        "record-own",
        "whoever is no auditor sees his own events alone",
        Becomes("user"),
        "console.pages.test_record",
    ),
    Removal(
        "record-own-names",
        "nobody learns of tables behind a view by searching his own events",
        Never(),
        "console.pages.test_record",
    ),
    Removal(
        "record-text-oracle",
        "hidden literals are not found by searching for them",
        Never(),
        "console.pages.test_record",
    ),
    Removal(
        "lineage-sight",
        "of columns people see what policies let them know of",
        Becomes("None"),
        "console.pages.test_lineage",
    ),
    Removal(
        "lineage-expressions",
        "expressions of others' statements are for those who read texts",
        Becomes("list(edges)"),
        "console.pages.test_lineage",
    ),
    Removal(
        "hidden-results",
        "results of others' queries are not counted",
        Becomes("beside - known"),
        "lineage.test_neighbours",
    ),
    Removal("asked-names", "nobody asks for what a pattern matches", Never(), REQUESTS),
    Removal("grant-delegates-nothing", "who is granted access cannot grant it", Element(0, "True"), REQUESTS),
    Removal("request-not-by-asker", "nobody decides on a request of his own", Never(), REQUESTS),
    Removal(
        "end-takes-no-denial",
        "the end of a grant takes away nothing but the grant",
        DropOperand(1),
        "admin.ranger.test_access_requests",
    ),
    Removal("request-other-name", "nor under another name", Becomes("False"), REQUESTS),
    Removal("break-glass-administrators", "administrators alone confirm break-glass", Never(), REQUESTS),
    Removal("grant-open-only", "what was decided is not granted", Never(), REQUESTS),
    Removal("grant-not-expired", "nothing is granted behind the time that was asked for", Never(), REQUESTS),
    Removal("grant-no-longer", "a grant ends when was asked for at the latest", Never(), REQUESTS),
    Removal("grant-asker-there", "who has left is granted nothing", Never(), REQUESTS),
    Removal("grant-asker-name", "a user's name is no macro of policies", Never(), REQUESTS),
    Removal("owner-of-table", "owners grant on their own tables", Never(), OWNERS),
    Removal("owner-sees-all-rows", "no owner gives rows that are hidden from him", Never(), OWNERS),
    Removal("owner-has-access", "no owner gives access that he has not", Never(), OWNERS),
    Removal("owner-sees-values", "no owner gives values that are masked for him", Never(), OWNERS),
)
