"""Rules of `session/` and of what it keeps: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import (
    Always,
    Argument,
    Becomes,
    Condition,
    Deleted,
    DropArgument,
    DropOperand,
    Never,
    Operand,
    Statement,
)
from tests.removals.removing import Removal

LIMITS, BUDGETS = "policy.packs.test_limits", "session.test_budgets"
PLANS = "session.connect.test_limits_of_plans"

REMOVALS = (
    Removal(
        "others-hold-names",
        "a change waits until all other gateways hold its names",
        Always(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "one-change-at-a-time",
        "of several changes of the same names one is made at a time",
        Deleted(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "cut-off-forgets",
        "a gateway that is cut off from the others goes by nothing old",
        Deleted(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "missed-notifications",
        "what was said while nobody listened is made up for",
        Deleted(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "payload-bounded",
        "a notification is no longer than PostgreSQL takes",
        Always(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "paused-reads-hidden",
        "reads of before a pause are not shown",
        Deleted(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "paused-forgets",
        "after a pause nothing counts that was known before",
        Deleted(),
        "database.test_name_holds_alone",
    ),
    Removal(
        "paused-not-forwarded",
        "who was paused while he waited for names looks again",
        Never(),
        "session.test_other_gateways",
    ),
    Removal(
        "elsewhere-secret",
        "a handle is asked about by who has its secret",
        Becomes("True"),
        "session.test_elsewhere",
    ),
    Removal(
        "elsewhere-own-session",
        "nobody closes another principal's session through another gateway",
        Never(),
        "session.test_elsewhere",
    ),
    Removal("limits-of-before", "limits of before hold where cases fail", Becomes("policies.limits"), LIMITS),
    Removal("limit-of-user", "limits speak of users, groups and roles", Always(), LIMITS),
    Removal("limit-of-who-acts", "limits that name who acts as others", Never(), LIMITS),
    Removal("limit-counts-once", "a statement that waits counts once", DropOperand(1), BUDGETS),
    Removal("limit-of-period", "budgets of hours and days", Never(), BUDGETS),
    Removal("limit-of-conditions", "conditions on columns", Always(), BUDGETS),
    Removal("limit-of-rate", "token buckets", Deleted(), BUDGETS),
    Removal(
        "limit-rows-not-negative",
        "no row more than a limit allows, whatever another call asks for",
        Deleted(),
        BUDGETS,
    ),
    Removal(
        "limit-of-reattached",
        "no more for who reads on through another gateway",
        Never(),
        "session.connect.test_limits_of_plans",
    ),
    Removal("limit-of-rows", "no row more than a limit allows", Deleted(), BUDGETS),
    Removal(
        "limit-of-responses",
        "no message that passes a limit",
        Never(),
        "session.connect.test_limits_of_plans",
    ),
    Removal("row-check-told", "why a row may not be written", Never(), "session.test_redact"),
    Removal("path-of-a-process", "links of each process", Never(), "files.test_places"),
    Removal("path-of-reserved-place", "paths to the gateway's own files", Never(), "files.test_taken"),
    Removal("places-of-now", "tables lie where they lay", Condition("kept is not None"), "files.test_taken"),
    Removal(
        "changed-by-others",
        "a session looks again at what somebody else changed",
        Never(),
        "session.test_changed_tables",
    ),
    Removal(
        "absent-stays-old",
        "what is no table now stays as old as it is",
        Always(),
        "session.test_changed_tables",
    ),
    Removal(
        "plan-view-renewed",
        "a view whose plan has tables in it that are others is made again",
        DropOperand(1),
        "session.test_changed_tables",
    ),
    Removal(
        "text-view-renewed",
        "what a view of a text reads is looked at",
        Deleted(),
        "session.test_changed_tables",
    ),
    Removal(
        "cloned-known-tables",
        "a clone of a session knows what that knew",
        Deleted(),
        "session.test_changed_tables",
    ),
    Removal(
        "lived-on-knows-nothing",
        "of a session that lived on nobody knows what it knows",
        Never(),
        "session.test_changed_tables",
    ),
    Removal(
        "unread-known-table",
        "a session may know a table that no statement of it has read",
        Argument(1, "KnownTable(table, changed.generation)"),
        "session.test_changed_tables",
    ),
    Removal(
        "delete-files-before",
        "files that a statement may delete are looked for by others",
        Never(),
        "session.test_changed_tables",
    ),
    # Errors and descriptions under obligations
    Removal(
        "parameter-values-untold",
        "a parameter that may be a value is not told",
        Becomes("True"),
        "session.test_conditions",
    ),
    Removal(
        "raised-parameters-untold",
        "parameters of what a user may raise are not told",
        DropOperand(3),
        "session.test_conditions",
    ),
    Removal(
        "many-literals-untold",
        "of the literals of a long statement none is told",
        Always(),
        "session.test_conditions",
    ),
    Removal("cause-condition", "the condition of a cause says why", Never(), "session.test_conditions"),
    Removal(
        "cause-class-untold", "the class of a cause may be a user's text", Always(), "session.test_conditions"
    ),
    Removal(
        "task-error-late",
        "an error of a task does not come before rows",
        Becomes("True"),
        "session.test_conditions",
    ),
    Removal(
        "late-conditions",
        "what LIKE says of a row's pattern, and a metastore of partitions, does not come before rows",
        Never(),
        "session.test_conditions",
    ),
    Removal(
        "lost-files-again",
        "what failed for files that are gone is run again",
        Becomes("False"),
        "session.test_lost_files",
    ),
    Removal(
        "lost-files-reads-only", "what writes is not run again", DropOperand(0, 1), "session.test_lost_files"
    ),
    Removal("lost-files-once", "it is run again once", DropOperand(1), "session.test_lost_files"),
    Removal(
        "lost-files-relayed",
        "rows that were shown are not computed again",
        DropOperand(3),
        "session.test_lost_files",
    ),
    Removal(
        "lost-files-schema",
        "rows of other columns than were told are not shown",
        Operand(6, "False"),
        "session.test_lost_files",
    ),
    Removal(
        "lost-files-connect-rows",
        "after a row of Spark Connect nothing is run again",
        DropOperand(2),
        "session.connect.test_lost_files",
    ),
    Removal(
        "lost-files-connect-once",
        "over Spark Connect it is run again once",
        DropOperand(1),
        "session.connect.test_lost_files",
    ),
    Removal(
        "lost-files-connect-reads",
        "what writes is not run again over Spark Connect",
        DropOperand(2, 3),
        "session.connect.test_lost_files",
    ),
    Removal(
        "lost-files-connect-policies",
        "what is run again over Spark Connect is judged by the policies of now",
        Always(),
        "session.connect.test_lost_files",
    ),
    Removal(
        "argument-parameters-untold",
        "words of a statement do not tell what a function was called with",
        DropOperand(0),
        "session.test_conditions",
    ),
    Removal(
        "description-end",
        "what follows the details of a description is not them",
        Never(),
        "session.test_answers",
    ),
    Removal(
        "view-text-lines",
        "lines of a view's text are no lines about it",
        Statement("told.clear()"),
        "session.test_answers",
    ),
    Removal(
        "described-tree-columns",
        "columns that may not be seen are not in the tree",
        DropOperand(3),
        "session.test_answers",
    ),
    Removal(
        "harmless-details",
        "what is not harmless of a description goes",
        DropOperand(1),
        "session.test_answers",
    ),
    Removal(
        "harmless-json-keys",
        "keys that are not harmless are not in a description as JSON",
        Always(),
        "session.test_answers",
    ),
    Removal(
        "harmless-properties",
        "properties that are not harmless are not shown",
        DropOperand(1),
        "session.test_answers",
    ),
    Removal(
        "raised-sentences-unnamed",
        "a sentence that a user may have chosen names no condition",
        DropOperand(0),
        "session.test_redact",
    ),
    Removal(
        "statement-strings",
        "a comment of several lines may hold what is behind it",
        Condition("False"),
        "session.test_answers",
    ),
    Removal(
        "statement-columns",
        "the statement of a table has columns that may be seen alone",
        DropOperand(3),
        "session.test_answers",
    ),
    Removal(
        "statement-partitions",
        "the statement of a table names no partitions by what is hidden",
        DropOperand(1),
        "session.test_answers",
    ),
    Removal(
        "statement-properties",
        "the statement of a table has properties of the list alone",
        DropOperand(1),
        "session.test_answers",
    ),
    Removal(
        "own-changes-apart",
        "own changes do not hide those of others",
        Becomes("0"),
        "session.test_changed_tables",
    ),
    Removal(
        "refused-operations-count",
        "what is refused in the background counts to the session's operations",
        Deleted(),
        "session.test_service",
    ),
    Removal(
        "forgotten-is-changed",
        "what is forgotten counts as changed",
        Deleted(),
        "session.test_changed_tables",
    ),
    Removal(
        "ended-below-many-statements",
        "a grant that ended ends what too many statements made of it",
        Becomes("()"),
        "session.connect.test_names",
    ),
    Removal(
        "result-of-its-time",
        "a result ends with the grant that it was judged by",
        Becomes("False"),
        "session.test_open_results",
    ),
    Removal(
        "links-below-many-statements",
        "links are looked for below what too many statements made",
        DropOperand(1),
        "session.test_datasets",
    ),
    Removal(
        "view-made-of-files",
        "a view has the files of the views and relations that it was made of",
        Becomes("cleared.names"),
        "session.test_datasets",
    ),
    Removal(
        "global-view-listed",
        "who may know of a global temporary view",
        Becomes("True"),
        "session.test_answers",
    ),
    Removal(
        "variable-known-before", "a variable is known before it is there", Deleted(), "session.test_own_names"
    ),
    Removal(
        "values-of-variables",
        "what came of the value of a variable ends with it",
        Never(),
        "session.test_own_names",
    ),
    Removal(
        "variables-judged-again", "values of variables are judged again", Never(), "session.test_own_names"
    ),
    Removal(
        "temporary-function-text",
        "the list of functions has the text of a temporary one",
        Becomes("row"),
        "session.connect.test_answers",
    ),
    Removal(
        "temporary-function-remarks",
        "GetFunctions has the text of a temporary function",
        Never(),
        "session.test_metadata",
    ),
    Removal(
        "functions-judged-again",
        "bodies of temporary functions are judged again",
        Never(),
        "session.test_own_names",
    ),
    Removal("function-body-noted", "where they read tables", Never(), "session.test_own_names"),
    Removal(
        "function-made-uncertain",
        "a function that may have a body that reads tables leaves no session open",
        Becomes("False"),
        "session.test_own_names",
    ),
    Removal(
        "function-tables-held",
        "tables that temporary functions read are held while these are called",
        Becomes("cleared.names.union(*views)"),
        "session.test_locks",
    ),
    Removal(
        "function-tables-moved",
        "temporary functions are judged again when what they read has changed since",
        Becomes("bool(cleared.temp_views_read)"),
        "session.test_own_names",
    ),
    Removal(
        "policy-tables-of-writes",
        "what policies of a write read is looked at for each",
        Becomes("False"),
        "session.test_barriers",
    ),
    Removal(
        "function-tables-looked-at",
        "what a temporary function reads is looked at",
        Never(),
        "session.test_changed_tables",
    ),
    Removal(
        "variables-marked",
        "a session of Spark Connect says that it has variables",
        Deleted(),
        "session.test_own_names",
    ),
    Removal(
        "dropped-function-unknown",
        "a dropped function is not called by its name",
        Never(),
        "session.test_own_names",
    ),
    Removal(
        "function-of-view-dropped",
        "a function that a view calls is not dropped",
        Never(),
        "session.test_own_names",
    ),
    Removal(
        "view-beside-variables-of-now",
        "a view is made again beside the variables of then",
        DropArgument(0),
        "session.test_own_names",
    ),
    Removal(
        "names-by-string", "names that strings give are names, too", Becomes("text"), "session.test_own_names"
    ),
    Removal(
        "script-names-until-end",
        "a script looks up names until it ends",
        Never(),
        "session.test_functions",
    ),
    Removal("replaced-function", "no session runs the old body", Never(), "session.test_functions"),
    Removal(
        "kept-functions-same",
        "what came of an old body ends",
        Condition("isinstance(verdict, Refused)"),
        "session.test_functions",
    ),
    Removal(
        "changed-functions-forgotten",
        "a function that was replaced is looked up again",
        Becomes("{name.fold() for name in names}"),
        "catalog.test_functions",
    ),
)
