"""Rules of `pipeline/`: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import (
    Always,
    Argument,
    Becomes,
    Condition,
    Deleted,
    DropArgument,
    DropElement,
    DropOperand,
    Element,
    Named,
    Never,
    Operand,
    Operator,
    Statement,
    Uncalled,
)
from tests.removals.removing import Removal

REMOVALS = (
    Removal("restricted-merge", "MERGE of rows that are hidden", Becomes("()"), "pipeline.test_restricting"),
    Removal(
        "merge-total-condition",
        "ON that can fail",
        Becomes("True"),
        "pipeline.test_restricting",
    ),
    Removal("merge-types-of-now", "types that a MERGE rests on", Deleted(), "pipeline.test_restricting"),
    Removal("plan-restricted-merge", "mergeInto of hidden rows", Never(), "pipeline.test_restricting"),
    Removal("checked-insert", "rows that are inserted", Never(), "pipeline.test_row_checks"),
    Removal("checked-frame", "rows of a DataFrame that is written", Never(), "pipeline.test_row_checks"),
    Removal("check-made-table", "rows of a table that is made", Never(), "pipeline.test_row_checks"),
    Removal("check-other-writes", "other writes", Becomes("NO_CHECKS"), "pipeline.test_row_checks"),
    Removal("check-other-plan-writes", "other frames", Becomes("NO_CHECK"), "pipeline.test_row_checks"),
    Removal("check-values-as-read", "what is set is what Spark reads", Never(), "pipeline.test_row_checks"),
    Removal("filters-joined-check", "one filter of several", Becomes("False"), "pipeline.test_row_checks"),
    Removal("check-values-once", "what is set has one value", Never(), "pipeline.test_row_checks"),
    Removal(
        "plan-explained-sketched",
        "plans are explained where policies are left out",
        Becomes("[]"),
        "pipeline.test_explained",
    ),
    Removal(
        "global-view-own-text",
        "what is kept for others reads no global temporary view",
        Becomes("Names(bound, known.catalogs, known.sources, known.listed, global_views=True)"),
        "pipeline.test_global_views",
    ),
    Removal(
        "global-view-written-out",
        "Spark reads no global temporary view by itself",
        Deleted(),
        "pipeline.test_global_views",
    ),
    Removal(
        "global-view-readers-access",
        "nobody vouches for a global temporary view",
        Becomes("Table(name=name, kind=TableKind.VIEW, columns=columns, view=body)"),
        "pipeline.test_global_views",
    ),
    Removal("restricted-formats", "formats that change rows", Never(), "pipeline.test_restricting"),
    Removal("restricted-subqueries", "changes that read elsewhere", Never(), "pipeline.test_restricting"),
    Removal("restricted-masked-columns", "changes by masks", Becomes("name"), "pipeline.test_restricting"),
    Removal("restricted-metadata-columns", "changes by paths", Never(), "pipeline.test_restricting"),
    Removal("restricted-checks", "changes that constraints tell of", Never(), "pipeline.test_restricting"),
    Removal("restricted-windows", "rows made of hidden ones", Never(), "pipeline.test_restricting"),
    Removal("restricted-alias", "a filter of an alias's columns", Never(), "pipeline.test_restricting"),
    Removal("restricted-errors", "errors with filters", Becomes("False"), "pipeline.test_restricting"),
    Removal("restricted-rows", "changes of rows that are hidden", Becomes("()"), "pipeline.test_restricting"),
    Removal("path-of-a-table", "files of a table are its rows", Never(), "pipeline.test_places"),
    Removal("path-write-privileges", "who writes files of a table", Becomes("()"), "pipeline.test_places"),
    Removal("unknown-place", "a place that nobody knows", Never(), "pipeline.test_places"),
    Removal("view-over-path", "persistent views over files", Never(), "pipeline.test_places"),
    Removal("file-functions-own-text", "what tells where rows are", Becomes("True"), "pipeline.test_places"),
    Removal("guarded-file-functions", "the same over guarded tables", Never(), "pipeline.test_places"),
    Removal("transform-not-cached", "rows of a program are cached", Never(), "pipeline.test_places"),
    Removal(
        "together-names-of-now",
        "columns of a version are read together under their names of now",
        DropElement(1),
        "pipeline.test_past",
    ),
    Removal(
        "command-columns-of-now", "a command works on columns of this moment", Always(), "pipeline.test_past"
    ),
    Removal(
        "listed-view-written-out",
        "a view over what is read by a list of columns is written out",
        DropOperand(2),
        "pipeline.test_past",
    ),
    Removal(
        "view-columns-of-now",
        "what a view reads that Spark reads by its name has columns of this moment",
        Named("()"),
        "pipeline.test_past",
    ),
    Removal(
        "explained-columns-of-now",
        "what a plan is shown of has columns of this moment",
        Never(),
        "pipeline.test_past",
    ),
    Removal(
        "input-files-columns-of-now",
        "what paths are told of has columns of this moment",
        Deleted(),
        "pipeline.test_past",
    ),
    Removal(
        "version-read-columns-of-now", "so does what reads a version", DropElement(1), "pipeline.test_past"
    ),
    Removal(
        "policy-bare-builtins",
        "a policy calls functions by names that Spark has",
        Never(),
        "pipeline.test_minors",
    ),
    Removal(
        "pushdown-past-choosing-filter",
        "no condition goes below a filter that would choose other rows",
        Becomes("True"),
        "pipeline.test_leakproof",
    ),
    Removal(
        "refusal-plan-ids", "a refusal has what the plan names by an id", Uncalled(), "pipeline.test_plans"
    ),
    Removal(
        "clearance-plan-ids",
        "a clearance has what the plan names by an id",
        DropArgument(0),
        "pipeline.test_plans",
    ),
    # Views as barriers
    Removal(
        "barrier-for-readers",
        "a view is a barrier for whom it shows what he may not select",
        Never(),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "outer-author-kept-off",
        "the author of a view around one is kept off what that hides",
        Becomes("frozenset() if rights.around & lends_to else rights.around or authors"),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "asker-kept-off-inner-view",
        "who asks is kept off a view within one that is no barrier",
        Always(),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "outer-view-written-out",
        "a view around one with a barrier is written out",
        DropOperand(1),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "unbarred-view-total",
        "a view has no barrier only if nothing in its text can fail",
        DropOperand(1),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "inner-view-types",
        "what views read is asked for its types where they have no barrier",
        DropOperand(2),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "view-other-settings",
        "a view is not written out where the session means something else",
        DropOperand(0),
        "pipeline.test_view_barriers",
    ),
    # Where there is no barrier
    Removal(
        "fallible-filter-barrier", "a filter that can fail has a barrier", Deleted(), "pipeline.test_barriers"
    ),
    Removal(
        "inner-text-barriers",
        "a text within something has barriers",
        DropOperand(0),
        "pipeline.test_barriers",
    ),
    Removal(
        "unbarred-casts",
        "tables beside one without a barrier are cast",
        DropArgument(0),
        "pipeline.test_barriers",
    ),
    Removal(
        "same-name-no-casts",
        "tables that only their databases tell apart are not cast",
        DropOperand(0),
        "pipeline.test_barriers",
    ),
    Removal(
        "persisted-one-guard",
        "a session that persisted a frame has one guard for all plans",
        DropOperand(4),
        "pipeline.test_barriers",
    ),
    Removal(
        "dataframe-column-one-type",
        "a column that is asked for by its DataFrame has one type",
        Becomes("True"),
        "pipeline.test_barriers",
    ),
    # Plans that are made again
    Removal(
        "renewal-by-id",
        "a verdict on what is asked for by an id is for that id",
        DropOperand(0),
        "pipeline.test_renewed",
    ),
    Removal(
        "renewal-with-effects",
        "a verdict on a text that changes the session is for that text",
        DropOperand(1),
        "pipeline.test_renewed",
    ),
    Removal(
        "renewed-relation-ids",
        "the relation that a client gets back has the ids that it sent last",
        Deleted(),
        "pipeline.test_renewed",
    ),
    Removal("renewal-same-plan", "a verdict is for the same plan", DropOperand(1), "pipeline.test_renewed"),
    # Whole errors
    Removal(
        "whole-errors-unguarded",
        "an error is whole only where nothing is guarded",
        DropOperand(1),
        "pipeline.test_plain",
    ),
    Removal(
        "whole-errors-command",
        "an error of a command is whole only where its table may be seen",
        DropOperand(0),
        "pipeline.test_plain",
    ),
    Removal(
        "whole-errors-plan",
        "an error of a plan is whole only where its reads are not guarded",
        DropOperand(1),
        "pipeline.test_plain",
    ),
    Removal(
        "whole-errors-plan-texts",
        "an error of a plan is whole only where its texts' would be",
        DropOperand(0),
        "pipeline.test_plain",
    ),
    # Checkpoints of streams
    Removal(
        "checkpoint-root",
        "a checkpoint needs a place of the gateway's own",
        Never(),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "checkpoint-principal",
        "a checkpoint belongs to its principal",
        DropArgument(2),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "checkpoint-sources",
        "a checkpoint belongs to its sources",
        DropElement(1),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "checkpoint-source-policies",
        "a checkpoint belongs to the policies of its sources",
        DropElement(3),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "checkpoint-expression-policies",
        "a checkpoint belongs to the policies of what expressions read",
        Element(2, "[]"),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "checkpoint-target",
        "a checkpoint belongs to a table at its place",
        DropElement(2),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "checkpoint-period", "a checkpoint lasts over periods", Becomes("text"), "pipeline.test_checkpoints"
    ),
    Removal(
        "checkpoint-session-view",
        "a checkpoint belongs to no view of a session",
        Never(),
        "pipeline.test_checkpoints",
    ),
    # Texts
    Removal("text-privileges", "a text's wants are put to the policies", Deleted(), "pipeline.test_pipeline"),
    Removal("text-tables-visible", "a text's tables are visible", Deleted(), "pipeline.test_pipeline"),
    Removal("nested-commands", "commands within views and plans", Never(), "pipeline.test_plans"),
    Removal("dataframe-view-one-query", "a view on a DataFrame of one query", Never(), "pipeline.test_plans"),
    Removal("invoker-views", "views of the invoker", Never(), "pipeline.test_definers"),
    Removal(
        "definer-exists",
        "a definer has to be there",
        Statement("principal = judging.principal"),
        "pipeline.test_definers",
    ),
    Removal(
        "definer-name-reused",
        "a definer is not somebody who has the name now",
        Becomes("principals.get(user_of(definer))"),
        "pipeline.test_definers",
    ),
    Removal("definer-access", "a definer needs the access", DropElement(0), "pipeline.test_definers"),
    Removal(
        "no-definer-readers-access",
        "without a definer it is the readers' own access",
        Argument(1, "()"),
        "pipeline.test_definers",
    ),
    Removal(
        "definer-lack-closes",
        "what a definer lacks closes the view",
        Statement("continue"),
        "pipeline.test_definers",
    ),
    Removal(
        "definer-lack-own-view", "what the definer lacks of his own view", Deleted(), "pipeline.test_definers"
    ),
    Removal("definer-lends", "a definer lends what the definer sees", Deleted(), "pipeline.test_definers"),
    Removal(
        "definer-login-groups",
        "who was in other groups at login is somebody else",
        Condition("all((reader.user != definer.user for reader in rights.readers))"),
        "pipeline.test_definers",
    ),
    Removal("lent-not-told", "what is lent is not told", DropOperand(0), "pipeline.test_definers"),
    Removal(
        "view-texts-told",
        "texts of views are told to who may see what they read",
        DropOperand(1),
        "pipeline.test_definers",
    ),
    Removal("view-plans-told", "plans of views too", Becomes("(yield from ())"), "pipeline.test_definers"),
    Removal("view-plans-explained", "explained plans of views too", Deleted(), "pipeline.test_definers"),
    Removal("view-plan-texts-explained", "and of texts within plans", Deleted(), "pipeline.test_definers"),
    Removal(
        "lent-without-usage",
        "what is lent does not rest on column analysis",
        Deleted(),
        "pipeline.test_definers",
    ),
    Removal(
        "views-filters-joined",
        "rows pass the filters of all",
        Becomes("first.row_filter"),
        "pipeline.test_definers",
    ),
    Removal("views-two-masks", "two masks leave nothing", Never(), "pipeline.test_definers"),
    Removal(
        "closed-view-named",
        "closed views are named to who may know of them",
        Uncalled(),
        "pipeline.test_definers",
    ),
    Removal(
        "inner-views-shown",
        "views within are read by all whose access shows them",
        Element(0, "(self.judging.principal,)"),
        "pipeline.test_definers",
    ),
    Removal(
        "policy-subjects",
        "policies are bound to whom they are about",
        Argument(1, "judging.principal.user"),
        "pipeline.test_definers",
    ),
    Removal(
        "version-moving",
        "a version that moves on is read by names that never moved",
        DropOperand(1),
        "catalog.test_versions",
    ),
    Removal(
        "version-fields-swapped",
        "fields that changed places in a version are not taken for each other",
        DropOperand(3),
        "catalog.test_versions",
    ),
    Removal(
        "version-field-gone",
        "a name is not taken for another column's that is gone by now",
        DropOperand(1),
        "catalog.test_versions",
    ),
    Removal(
        "version-names-unknown",
        "a version is not read by the names of now where nobody tells which names there were",
        DropOperand(0),
        "catalog.test_versions",
    ),
    Removal(
        "hidden-name-in-text",
        "a name that could be a hidden column's means nothing else in a text",
        DropOperand(1),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "join-key-first-of-several",
        "of several columns the first is joined by",
        Statement("ours, theirs = left.find_columns((name,))[-1:], right.find_columns((name,))[-1:]"),
        "algebra.test_resolve",
    ),
    Removal("join-words", "columns to join by are names too", Deleted(), "pipeline.test_hidden_columns"),
    Removal(
        "join-column-first",
        "USING joins by the first of several columns",
        Argument(0, "_origins(found[-1:])"),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "hidden-name-or-variable",
        "a name that could be a hidden column's means no variable",
        Becomes("None"),
        "pipeline.test_hidden_columns",
    ),
    Removal("hidden-name-in-plan", "nor in a plan", Condition("guesses"), "pipeline.test_hidden_columns"),
    Removal(
        "followed-lambda-names",
        "names in lambda functions and of fields are followed as well",
        Always(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "hidden-names-untold",
        "which of the names are hidden is not told",
        Argument(0, "written & {'salary', 'user'}"),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "row-change-names",
        "names are followed to other columns of rows that are changed",
        Becomes("False"),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "row-change-lambda-names",
        "and those in their lambda functions",
        Never(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "unfollowed-pipe",
        "where a pipe is not followed its names are refused",
        DropOperand(1),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "hidden-name-in-view",
        "names within the text of a view",
        Becomes("False"),
        "pipeline.test_hidden_columns",
    ),
    Removal("guarded-plan-closed", "no plans over guarded tables", Never(), "pipeline.test_pipeline"),
    Removal(
        "policy-nested-names",
        "policies name tables in nested namespaces in full",
        Never(),
        "pipeline.test_nested",
    ),
    Removal("no-name-below-table", "no names below tables", Always(), "pipeline.test_nested"),
    Removal(
        "table-above-untold",
        "tables above are not told to who may not know of them",
        Never(),
        "pipeline.test_nested",
    ),
    Removal(
        "nested-namespace-held",
        "the name of a nested namespace is held as a table's",
        Uncalled(),
        "pipeline.test_nested",
    ),
    Removal(
        "guarded-metadata",
        "no metadata of guarded tables",
        Never(),
        "pipeline.test_pipeline pipeline.test_plans",
    ),
    Removal(
        "command-past-guard",
        "no commands past masks and filters",
        Operand(0, "None"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "view-statement",
        "the text of a view is told to who may see what it reads",
        Never(),
        "pipeline.test_definers",
    ),
    Removal(
        "kept-view-show-only",
        "no kept views over columns that may only be shown",
        DropOperand(0),
        "pipeline.test_pipeline",
    ),
    Removal("text-proof", "what was rewritten is proved", Always(), "pipeline.test_pipeline"),
    Removal(
        "text-unchanged-proof", "what was not rewritten is accounted for", Always(), "pipeline.test_pipeline"
    ),
    Removal(
        "connect-identity", "Spark Connect does not know the user", Becomes("False"), "pipeline.test_plans"
    ),
    Removal("view-depth", "how deep views may rest on views", Never(), "pipeline.test_pipeline"),
    Removal("view-texts-guarded", "guarded texts of views", Never(), "pipeline.test_pipeline"),
    # Texts of policies
    Removal("policy-fits-table", "policies fit their tables", Never(), "pipeline.test_pipeline"),
    Removal("policy-full-table-names", "policies name tables in full", Never(), "pipeline.test_pipeline"),
    Removal(
        "policy-full-function-names",
        "policies call functions by their full names",
        Becomes("False"),
        "pipeline.test_plans",
    ),
    Removal("policy-identities", "identities of policies", Deleted(), "pipeline.test_plans"),
    # Texts within plans
    Removal("plan-text-arguments", "arguments of texts within plans", Becomes("None"), "pipeline.test_plans"),
    Removal("plan-text-schemas", "schemas that are arguments", Deleted(), "pipeline.test_plans"),
    Removal(
        "argument-names-written",
        "names are written where markers stand",
        DropOperand(3),
        "pipeline.test_plans",
    ),
    # Plans
    Removal("plan-privileges", "a plan's wants are put to the policies", Deleted(), "pipeline.test_plans"),
    Removal("plan-tables-visible", "a plan's tables are visible", Deleted(), "pipeline.test_plans"),
    Removal("plan-texts-privileges", "a plan's texts ask for themselves", Deleted(), "pipeline.test_plans"),
    Removal(
        "plan-unknown-is-absent",
        "what may not be known of does not exist",
        Becomes("True"),
        "pipeline.test_plans",
    ),
    Removal(
        "analysis-visible-columns",
        "an analysis shows visible columns, an execution does not",
        Always(),
        "pipeline.test_plans",
    ),
    Removal(
        "guarded-plan-told", "plans and files of guarded tables are not told", Never(), "pipeline.test_plans"
    ),
    Removal(
        "guarded-plan-metadata", "metadata of guarded tables is not told", Never(), "pipeline.test_plans"
    ),
    Removal("temp-view-metadata", "metadata of temporary views is not told", Never(), "pipeline.test_plans"),
    Removal(
        "kept-plan-show-only",
        "no kept plans over columns that may only be shown",
        Becomes("None"),
        "pipeline.test_plans",
    ),
    Removal("plan-raw-rows", "raw rows are not shown by plans", Deleted(), "pipeline.test_plans"),
    Removal("plan-full-names", "names of commands are written in full", Deleted(), "pipeline.test_plans"),
    Removal("plan-identities", "identities in plans", Never(), "pipeline.test_plans"),
    Removal("answer-details", "details of answers", Never(), "pipeline.test_plans"),
    Removal("plan-proof", "a plan is proved", Never(), "pipeline.test_plans"),
    Removal("guarded-change-feed", "change feeds of guarded tables", DropOperand(2), "pipeline.test_plans"),
    Removal("guarded-view-stream", "streams of views over guarded tables", Never(), "pipeline.test_plans"),
    Removal(
        "guard-reads-itself", "what guards a read reads nothing else", Becomes("True"), "pipeline.test_plans"
    ),
    Removal(
        "guard-stand-ins",
        "what stands in for tables that are not there",
        Becomes("None"),
        "pipeline.test_plans",
    ),
    # What stands around a policy's text
    Removal(
        "proof-lost-scan",
        "the proof does not take a lost scan for a temporary view",
        DropOperand(0),
        "pipeline.test_pipeline",
    ),
    Removal(
        "policy-under-settings",
        "a policy's text means what it says under every setting",
        Never(),
        "pipeline.test_settings",
    ),
    Removal(
        "policy-unlisted-setting",
        "a setting on no list could change anything",
        Always(),
        "pipeline.test_settings",
    ),
    Removal(
        "policy-rows-of-branch",
        "a policy that reads tables is not believed where the session reads a branch of them",
        DropOperand(1),
        "pipeline.test_settings",
    ),
    Removal(
        "version-below-table",
        "only Iceberg's tables have versions below them, and none whose name a namespace has",
        Never(),
        "pipeline.test_versions_by_name",
    ),
    Removal(
        "standard-masks-meaning",
        "masks of the standard types mean the same everywhere",
        Never(),
        "pipeline.test_settings",
    ),
    # The names that a verdict rests on
    Removal(
        "rests-on-views", "a verdict rests on what views read", Becomes("self.names"), "pipeline.test_names"
    ),
    Removal(
        "rests-on-policy-tables", "a verdict rests on what policies read", Deleted(), "pipeline.test_names"
    ),
    Removal(
        "rests-on-privileges",
        "a verdict rests on what privileges are wanted on",
        Deleted(),
        "pipeline.test_names",
    ),
    Removal(
        "plan-rests-on-reads", "a verdict on a plan rests on its reads", Deleted(), "pipeline.test_names"
    ),
    Removal(
        "plan-effects-final", "a plan with effects cannot be withheld", Becomes("True"), "pipeline.test_names"
    ),
    Removal(
        "root-commands-final",
        "a plan that is a command in SQL cannot be withheld",
        Becomes("self.reading.command is not None"),
        "pipeline.test_plans",
    ),
    Removal("absent-table-created", "a table that is not there is made", Always(), "pipeline.test_names"),
    # Settings
    Removal(
        "reset-keeps-pinned",
        "a reset of the gateway's own leaves what is pinned",
        Never(),
        "pipeline.test_settings",
    ),
    Removal("reset-names-settings", "RESET is no RESET of all", Never(), "pipeline.test_settings"),
    # Kinds of objects
    Removal(
        "ungoverned-refused",
        "what is neither a table nor a view is refused",
        Never(),
        "pipeline.test_objects",
    ),
    # Authors of policies
    Removal(
        "author-may-select",
        "a text counts for no more than its author may select",
        DropOperand(1),
        "pipeline.test_authors",
    ),
    Removal(
        "author-nobody",
        "nor a text of an author who is nobody",
        Becomes("judging.principal"),
        "pipeline.test_authors",
    ),
    Removal(
        "guard-known-nodes",
        "what guards a read is of nothing that the reader does not know",
        Never(),
        "pipeline.test_plans",
    ),
    Removal("author-functions", "what functions in it read counts, too", Never(), "pipeline.test_authors"),
    Removal(
        "author-functions-in-views",
        "and what functions in views read",
        DropElement(0, 1),
        "pipeline.test_authors",
    ),
    Removal(
        "author-rests-on-functions",
        "a verdict rests on the bodies of functions",
        DropArgument(2),
        "pipeline.test_authors",
    ),
    Removal(
        "function-metric-view",
        "what a function reads by a metric view is asked for in each catalog",
        DropOperand(3),
        "pipeline.test_authors",
    ),
    Removal(
        "function-defaults",
        "what parameters are by default is part of a function's body",
        Never(),
        "pipeline.test_authors",
    ),
    Removal(
        "policy-metric-view",
        "a policy reads no metric view that another session finds other tables for",
        Named("None"),
        "pipeline.test_authors",
    ),
    # Metric views
    Removal(
        "metric-date-literals",
        "no date is told from a timestamp by its number",
        Condition("child.node == 'Literal'"),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-empty-relation",
        "who asks for columns and computes a measure is not given a relation without any",
        DropOperand(1),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-shape-rows",
        "what runs has the rows of a metric view",
        DropOperand(2),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-written-out",
        "a metric view is written out where somebody has an obligation",
        DropOperand(0, 1),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-inner-obligation",
        "and where what it reads carries one",
        DropOperand(0),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-one-meaning",
        "what a metric view reads means one thing in every session",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-author-columns",
        "who makes a metric view may select all columns that it could name",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal(
        "alter-metric-view",
        "ALTER VIEW … AS does not put SQL in the place of YAML",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-input-names",
        "columns that measures are computed from have names of the gateway's own",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal("plan-metric-input-names", "and in plans", Never(), "pipeline.test_metrics"),
    Removal(
        "metric-lambda-names",
        "a lambda function in SQL names none of them",
        DropOperand(0),
        "pipeline.test_metrics",
    ),
    Removal(
        "plan-metric-identifier",
        "IDENTIFIER(…) in a plan's text names none of them",
        DropOperand(1),
        "pipeline.test_metrics",
    ),
    # Columns that are not there
    Removal(
        "unmatched-column-closes",
        "a table that lacks a column of a policy is closed, by itself and within views",
        Never(),
        "pipeline.test_unmatched",
    ),
    Removal("closed-table-why", "commands on a closed table say why", Never(), "pipeline.test_unmatched"),
    Removal(
        "version-unmatched-columns",
        "a version is held against the columns that its table has now",
        DropOperand(0),
        "pipeline.test_unmatched",
    ),
    Removal(
        "unmatched-filter-why",
        "a filter over a column that is not there says which",
        Never(),
        "pipeline.test_unmatched",
    ),
    # Policies that cannot be loaded
    Removal(
        "broken-policy-closes",
        "a policy at fault closes what could be read of it",
        Argument(1, "ResourceValues(values=('none',))"),
        "policy.test_unusable",
    ),
    Removal(
        "broken-policy-closes-below",
        "a policy at fault closes what lies below what could be read of it",
        Operator("=="),
        "policy.test_unusable",
    ),
    Removal(
        "endless-text-not-waited",
        "a text that the parser never ends with holds nothing back",
        Always(),
        "app.test_rules",
    ),
    Removal(
        "endless-text-not-asked",
        "a text that the parser never ends with is not asked again",
        Deleted(),
        "app.test_rules",
    ),
    Removal(
        "author-by-name",
        "who has the name of an author is not he",
        Becomes("judging.snapshot.principals.get(told.rsplit(' ', 1)[-1])"),
        "pipeline.test_authors",
    ),
    Removal(
        "failing-case-decision",
        "a new text with a case that fails allows nothing new",
        Uncalled(),
        "policy.test_before",
    ),
    Removal(
        "failing-case-groups", "nor to whoever needs one access of several", Uncalled(), "policy.test_before"
    ),
    Removal("failing-case-visible", "nor shows what was not seen", DropOperand(1), "policy.test_before"),
    Removal("failing-case-listing", "nor lists it", Becomes("seen"), "policy.test_before"),
    Removal("failing-case-columns", "nor opens columns", DropOperand(1), "policy.test_before"),
    Removal("failing-case-masks", "masks of before hide on", Becomes("masks"), "policy.test_before"),
    Removal("failing-case-filters", "filters of before hide on", DropOperand(1), "policy.test_before"),
    Removal("failing-case-author", "a text of two has one author", Always(), "policy.test_before"),
    Removal(
        "failing-case-denials",
        "a case that fails holds no denial back",
        Becomes("replace(before, held=told, failing=loaded.failing)"),
        "policy.test_before",
    ),
    Removal(
        "failing-case-good",
        "what gave is remembered as it was before a case failed",
        DropArgument(4),
        "policy.test_before",
    ),
    Removal(
        "broken-role-denials",
        "a role at fault closes what it may deny",
        DropElement(0),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-role-members",
        "who is in a role that holds one at fault cannot be told",
        Never(),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-role-unnamed",
        "a role without a name may be any that is not defined",
        DropOperand(3),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-role-policies",
        "a policy that asks for roles is at fault with one of them",
        Becomes("False"),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-role-shares",
        "what is shared under filters is closed with a role at fault",
        Never(),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-users-denied", "who cannot be read is denied everything", Always(), "policy.test_broken_parts"
    ),
    Removal("closing-every-zone", "what closes in every zone does", Never(), "policy.test_broken_parts"),
    Removal(
        "broken-resource-tags",
        "a resource whose tags are at fault is closed",
        Argument(5, "False"),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-share",
        "a share at fault closes what is shared under filters",
        Never(),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-mask-hides",
        "a mask at fault hides all that it may be about",
        Never(),
        "policy.test_broken_parts",
    ),
    Removal(
        "broken-allowing-policy",
        "a policy at fault that only allows closes nothing",
        DropOperand(1, 2),
        "policy.test_unusable",
    ),
    Removal(
        "closing-without-denial",
        "where no denial means the same, all is hidden",
        Always(),
        "policy.test_unusable",
    ),
    Removal(
        "closing-hides",
        "what is closed is hidden from whom no denial holds for",
        DropElement(1),
        "policy.test_unusable pipeline.test_unmatched",
    ),
    Removal(
        "unmatched-all-but",
        "all but a misspelt column counts as a name that nothing has",
        DropOperand(2),
        "policy.test_unmatched",
    ),
    # Names
    Removal(
        "literal-names-written",
        "names given as literals are written out",
        DropOperand(0),
        "pipeline.test_pipeline",
    ),
    # What functions in SQL read, and whose things are
    Removal(
        "functions-read",
        "what functions of a text or a plan read is looked at again",
        DropOperand(1),
        "pipeline.test_functions",
    ),
    Removal(
        "policy-functions-read",
        "what functions of policies read is looked at once a period",
        Becomes("frozenset(TableName.of(parts) for parts in self.relations)"),
        "pipeline.test_functions",
    ),
    Removal(
        "policy-functions-of-session",
        "functions in policies mean the same in each session",
        Never(),
        "pipeline.test_functions",
    ),
    Removal("view-text-query", "the text of a view is a query", Becomes("False"), "pipeline.test_functions"),
    Removal(
        "policy-views-of-user",
        "views in policies mean the same for each user",
        Never(),
        "pipeline.test_functions",
    ),
    Removal(
        "policy-views-within",
        "what views in policies read is looked at, too",
        Becomes("tables_among(within, judging.snapshot.catalog)"),
        "pipeline.test_functions",
    ),
    Removal(
        "view-functions-move",
        "a view is not written out whose functions would read something else there",
        Never(),
        "pipeline.test_functions",
    ),
    Removal(
        "functions-no-tables",
        "a function is no table to be looked at",
        Always(),
        "pipeline.test_functions",
    ),
    Removal(
        "checkpoint-identity",
        "who has the name of another has nothing of his checkpoints",
        Becomes("judging.principal.user"),
        "pipeline.test_checkpoints",
    ),
    Removal(
        "policy-of-one-row",
        "a mask or filter that aggregates is at fault",
        Never(),
        "pipeline.test_policy_reading",
    ),
    Removal(
        "page-to-come",
        "who asks for a page before it is there is not told that there is none",
        Deleted(),
        "admin.test_listener",
    ),
    Removal(
        "denial-of-others",
        "no delegate takes back what others deny",
        Becomes("False"),
        "admin.ranger.test_obliging",
    ),
    Removal(
        "texts-in-force-anew",
        "who puts a text in force may select what it reads",
        Becomes("_ABOUT"),
        "admin.ranger.test_obliging",
    ),
    Removal(
        "policy-of-user",
        "a policy is of a user and not of his name",
        Becomes('{policy.get("createdBy"), policy.get("updatedBy")} == {principal.user}'),
        "admin.ranger.test_authors",
    ),
    Removal(
        "policy-beside-variables", "no word of a policy is a variable", Never(), "pipeline.test_own_names"
    ),
    Removal(
        "lived-on-variables",
        "variables that nobody knows close what has policies",
        Never(),
        "pipeline.test_own_names",
    ),
    Removal(
        "view-beside-variables",
        "no word of a view that is written out is a variable",
        Becomes("body"),
        "pipeline.test_own_names",
    ),
    Removal("immediate-text-known", "a text that is computed is not run", Never(), "pipeline.test_own_names"),
    Removal(
        "immediate-arguments-literal", "arguments of USING are literals", Never(), "pipeline.test_own_names"
    ),
    Removal(
        "immediate-arguments-once",
        "an argument of USING has one value",
        Becomes("None"),
        "pipeline.test_own_names",
    ),
    Removal(
        "view-texts-chars",
        "texts of views that are written out have a bound",
        Always(),
        "pipeline.test_view_barriers",
    ),
    Removal("immediate-markers", "markers stand where a value may", Never(), "pipeline.test_own_names"),
    Removal(
        "immediate-markers-apart", "no argument joins the text beside it", Never(), "pipeline.test_own_names"
    ),
    Removal(
        "immediate-into-query", "EXECUTE IMMEDIATE … INTO takes a query", Never(), "pipeline.test_own_names"
    ),
    Removal(
        "metric-view-functions",
        "metric views call functions by their whole names",
        Becomes("True"),
        "pipeline.test_metrics",
    ),
    Removal(
        "execute-short-function",
        "functions by short names want execute",
        Deleted(),
        "pipeline.test_own_names",
    ),
    Removal(
        "execute-plan-short-function",
        "functions by short names want execute in plans, too",
        Never(),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "short-function-absent",
        "a function that may not be called is not there",
        Never(),
        "pipeline.test_own_names",
    ),
    # Scripts
    Removal("script-known-parts", "a script has parts that are known", Never(), "pipeline.test_scripts"),
    Removal("script-part-alone", "a part is by itself what it is there", Never(), "pipeline.test_scripts"),
    Removal("for-columns-variables", "loops have variables", Becomes("()"), "pipeline.test_scripts"),
    Removal(
        "script-constant-variables",
        "constant strings are known",
        Deleted(),
        "pipeline.test_scripts",
    ),
    Removal(
        "script-variables-known",
        "no word of a policy is a variable of a script",
        Becomes("context.variables"),
        "pipeline.test_scripts",
    ),
    Removal("script-effects", "nothing in a script changes its names", Never(), "pipeline.test_scripts"),
    Removal("script-answers", "answers in scripts are not filtered", Never(), "pipeline.test_scripts"),
    Removal(
        "script-immediate-values", "texts that are run change variables", Never(), "pipeline.test_scripts"
    ),
    Removal(
        "script-immediate-declares",
        "a text of a script declares no variable of the session",
        Never(),
        "pipeline.test_scripts",
    ),
    Removal(
        "script-immediate-variables",
        "a text has variables of its own",
        Never(),
        "pipeline.test_scripts",
    ),
    Removal("script-names-stay", "a script reads nothing that it changes", Never(), "pipeline.test_scripts"),
    Removal("script-changes-once", "nothing is changed in a loop", Never(), "pipeline.test_scripts"),
    Removal("script-proof", "a script is proved", Becomes("True"), "pipeline.test_scripts"),
    Removal("script-errors", "errors in scripts tell no values", Becomes("True"), "pipeline.test_scripts"),
    Removal("script-session-variables", "variables that a script sets", Never(), "pipeline.test_scripts"),
    # Functions whose bodies read tables
    Removal(
        "temporary-function-guarded",
        "a temporary one is kept as its maker may read it",
        Becomes('Splice(span=place, text=kept, kind="body", parts=(kept,))'),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "function-of-session-called",
        "a body calls no function of the session",
        Becomes("[*reading.functions]"),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "temporary-function-calls",
        "and calls no function of a database",
        Deleted(),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "function-body-calls",
        "a body calls functions by their databases",
        Becomes("()"),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "function-body-context",
        "no name in a body is one of the caller's database",
        Deleted(),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "reading-function-cached-text",
        "what calls a function over tables is in no cache",
        Never(),
        "pipeline.test_function_bodies",
    ),
    Removal(
        "reading-function-cached", "nor does a DataFrame that does", Never(), "pipeline.test_function_bodies"
    ),
    Removal("plan-reading-function", "and its plan is not shown", Never(), "pipeline.test_function_bodies"),
    Removal(
        "metric-source-names",
        "the source of a metric view is stored with its whole name",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal("altered-options", "options of a table that is there", Deleted(), "pipeline.test_places"),
    Removal("function-maker-access", "who makes one may read", Never(), "pipeline.test_function_bodies"),
    Removal("function-of-session", "no session is kept", Never(), "pipeline.test_function_bodies"),
    Removal("function-hidden-columns", "no hidden columns", Never(), "pipeline.test_function_bodies"),
    Removal("function-whole-names", "names in bodies are whole", Never(), "pipeline.test_function_bodies"),
    Removal("function-body-proof", "a body is proved", Never(), "pipeline.test_function_bodies"),
    Removal("function-definer", "a function has a definer", Becomes("''"), "pipeline.test_function_bodies"),
    Removal(
        "function-body-identity",
        "a body that asks who the user is, is judged for who calls",
        Statement("reads = scans or bool(called)"),
        "pipeline.test_function_bodies",
    ),
    Removal("function-body-judged", "bodies are judged", Always(), "pipeline.test_function_bodies"),
    Removal("function-body-guarded", "policies hold", DropOperand(0), "pipeline.test_function_bodies"),
    Removal("function-lends", "conditions stay out", DropOperand(1), "pipeline.test_function_bodies"),
    Removal("function-barrier", "hidden rows stay hidden", Never(), "pipeline.test_function_bodies"),
    Removal("called-value-barrier", "so do other values", Never(), "pipeline.test_function_bodies"),
    Removal("called-rows-barrier", "no rows by columns", Never(), "pipeline.test_function_bodies"),
    Removal("called-body-place", "no body elsewhere", Never(), "pipeline.test_function_bodies"),
    Removal("called-body-explained", "no plan shows it", Becomes("()"), "pipeline.test_function_bodies"),
    Removal("unplaced-body-call", "calls are found", Never(), "pipeline.test_function_bodies"),
    Removal("call-argument-names", "no argument is another", Never(), "pipeline.test_function_bodies"),
    Removal(
        "plan-expression-functions",
        "functions in expressions of DataFrames are executed by who may, and their bodies judged",
        Becomes("prepared"),
        "pipeline.test_function_bodies",
    ),
    Removal("called-bodies-chars", "bodies are not without end", Never(), "pipeline.test_function_bodies"),
)
