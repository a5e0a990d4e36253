"""Rules of `sql/`: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import (
    Add,
    AddWord,
    Always,
    Argument,
    Becomes,
    Calls,
    Condition,
    Deleted,
    DropArgument,
    DropElement,
    DropOperand,
    Literal,
    Named,
    Never,
    Operand,
    Statement,
    Uncalled,
)
from tests.removals.removing import Removal

REMOVALS = (
    Removal(
        "views-of-one-principal",
        "what one reader of a text may see of a table is not what another may",
        Becomes("field(default_factory=dict)"),
        "sql.test_evaluate",
    ),
    Removal(
        "views-of-one-context",
        "what may be seen of a table is decided anew in other circumstances",
        Condition("known is not None and known[0] is table"),
        "sql.test_evaluate",
    ),
    Removal(
        "restricted-source-like-database",
        "a source with the name of the target's database",
        Condition("not (others and source and first == source)"),
        "pipeline.test_restricting",
    ),
    Removal("restricted-every-column", "masked columns by a star", Never(), "pipeline.test_restricting"),
    Removal("restricted-code", "code is run for hidden rows", Never(), "pipeline.test_restricting"),
    Removal("restricted-merge-expressions", "MERGE reads elsewhere", Never(), "pipeline.test_restricting"),
    Removal(
        "restricted-source-columns",
        "columns of a source",
        Always(),
        "pipeline.test_restricting",
    ),
    Removal(
        "merge-evolving-raw",
        "MERGE that adds columns sees raw rows",
        Becomes("replace(required, effects=changed, restricts=True)"),
        "pipeline.test_restricting",
    ),
    Removal("merge-filter-columns", "a filter has names of its own", Never(), "pipeline.test_restricting"),
    Removal(
        "merge-filter-fields",
        "a field of the target is a column of a source",
        Becomes('"".join(f".{quote(part)}" for part in column.parts[1:])'),
        "pipeline.test_restricting",
    ),
    Removal("check-structs", "fields are stored by their names", Never(), "pipeline.test_row_checks"),
    Removal("merge-hidden-by-source", "hidden rows in no source", Never(), "pipeline.test_restricting"),
    Removal("merge-checked-actions", "rows that MERGE makes", Never(), "pipeline.test_row_checks"),
    Removal("check-needs-columns", "a default is not looked up", Never(), "pipeline.test_row_checks"),
    Removal("check-unset-columns", "nothing is asked of what stays", Never(), "pipeline.test_row_checks"),
    Removal("check-fields-set", "a field of a column is set", Never(), "pipeline.test_row_checks"),
    Removal("global-aggregate-row", "an aggregation has a row of nothing", Never(), "pipeline.test_metrics"),
    Removal(
        "no-star-in-metric-having",
        "in HAVING and ORDER BY over a metric view are no stars",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal(
        "drop-unseen-by-name",
        "removing what is not seen takes drop by name",
        Never(),
        "pipeline.test_removing_documented pipeline.test_pipeline",
    ),
    Removal(
        "star-of-outer-query",
        "a star may be of a relation around its query",
        Never(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "star-not-followed",
        "a star that column analysis does not follow means no fewer columns",
        Deleted(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "insert-replaces-rows",
        "a row that is added replaces none that is not seen",
        Becomes("[]"),
        "pipeline.test_removing_documented",
    ),
    Removal(
        "stream-into-files",
        "a stream into a table of files hides no row that is not seen",
        Becomes("False"),
        "pipeline.test_plans",
    ),
    Removal(
        "drop-masked-database-by-name",
        "dropping all of a database with masks in it takes drop by name",
        Never(),
        "pipeline.test_nested",
    ),
    Removal(
        "absent-may-appear", "what is not there may be there by now", Becomes("False"), "pipeline.test_past"
    ),
    Removal("capital-catalog", "a catalog in capitals is none to Spark", DropOperand(0), "sql.test_names"),
    Removal(
        "fold-foreign-table-names",
        "a table of another catalog is named as it is looked up",
        Always(),
        "sql.test_names",
    ),
    Removal(
        "policy-lambda-names",
        "a policy's lambda function names columns of its table alone",
        Always(),
        "pipeline.test_authors",
    ),
    # Metric views
    Removal(
        "measure-of-hidden-dimension",
        "a measure of a hidden dimension is refused",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal(
        "measures-of-multi-insert",
        "INSERTs that share a metric view have all their measures",
        DropElement(0),
        "pipeline.test_metrics",
    ),
    Removal(
        "metric-input-names-by-depth",
        "views within views name apart what measures are computed from",
        DropOperand(1),
        "pipeline.test_metrics",
    ),
    Removal("metric-view-aggregated", "a metric view is aggregated", Never(), "pipeline.test_metrics"),
    Removal("measure-aggregates", "a measure aggregates", Never(), "pipeline.test_metrics"),
    Removal(
        "measure-filter-distinct",
        "FILTER and DISTINCT of MEASURE, which Spark drops, are refused",
        DropOperand(0, 3),
        "pipeline.test_metrics",
    ),
    Removal("mask-on-measure", "a mask on a measure is not left out", Never(), "pipeline.test_metrics"),
    Removal("yaml-no-aliases", "YAML parsers read a definition alike", Never(), "sql.test_metric_views"),
    Removal("yaml-read-alike", "Spark reads a definition alike", Never(), "sql.test_metric_views"),
    # Places of the gateway's own
    Removal(
        "reserved-place", "no policy opens a place of the gateway's own", Never(), "pipeline.test_checkpoints"
    ),
    Removal(
        "star-in-view", "a star within a view is every column", DropOperand(1), "pipeline.test_hidden_columns"
    ),
    # The gateway's own statements
    Removal(
        "dataset-statement-whole",
        "a statement of the gateway's own is a whole text",
        Calls("match"),
        "sql.test_dataset_statements",
    ),
    Removal(
        "dataset-promote-privilege",
        "datasets are looked after by who may promote them",
        DropElement(0),
        "sql.test_dataset_statements",
    ),
    Removal(
        "dataset-statement-on-files",
        "the gateway's own statements are on tables of files",
        DropOperand(3),
        "sql.test_dataset_statements",
    ),
    # Which conditions go below a barrier
    Removal(
        "using-one-type", "columns that USING makes one are of one type", Uncalled(), "sql.test_leakproof"
    ),
    Removal(
        "equal-column-types-known",
        "the types of columns that are equal are known",
        DropOperand(0, 1),
        "sql.test_leakproof",
    ),
    Removal(
        "pushdown-past-varying-condition",
        "no condition goes below another one that varies by row",
        Becomes("True"),
        "sql.test_leakproof",
    ),
    Removal(
        "pushdown-past-varying-groups",
        "no condition goes below groups that vary by row",
        DropOperand(4),
        "sql.test_leakproof",
    ),
    Removal("varying-subquery", "a subquery that varies by row is seen", Never(), "sql.test_leakproof"),
    Removal("leakproof-steps", "columns are not followed for ever", Never(), "algebra.test_resolve"),
    Removal(
        "natural-join-columns",
        "which columns a natural join compares is not rested on",
        Always(),
        "sql.test_leakproof",
    ),
    # What names mean
    Removal(
        "full-join-either-column",
        "a column that FULL JOIN makes of two may be either",
        Never(),
        "algebra.test_resolve",
    ),
    Removal(
        "join-keys-first",
        "a semi join shows its keys first, as every join by columns of one name does",
        Never(),
        "algebra.test_resolve",
    ),
    Removal(
        "ambiguous-name",
        "of two columns of a name neither is meant",
        Condition("found"),
        "algebra.test_resolve",
    ),
    Removal(
        "open-name", "a column whose name is not known may have any", Becomes("False"), "algebra.test_resolve"
    ),
    Removal(
        "recursive-name-hides",
        "what may read itself does not mean another of its name",
        Never(),
        "algebra.test_resolve",
    ),
    Removal(
        "places-of-all-columns",
        "where columns are left out, places say nothing",
        DropOperand(0),
        "algebra.test_resolve",
    ),
    Removal(
        "alias-shows-plain-names",
        "an alias shows what plain names find, and nothing else",
        Always(),
        "algebra.test_resolve",
    ),
    Removal(
        "leakproof-decimal-copies",
        "numbers that Spark would round are not compared below",
        DropOperand(6),
        "sql.test_leakproof",
    ),
    Removal(
        "leakproof-timestamp-lists",
        "instants are not compared with lists of texts below",
        Never(),
        "sql.test_leakproof",
    ),
    # In which statements nothing can fail
    Removal("total-inner-query", "a query within shows nothing that fails", Deleted(), "sql.test_total"),
    Removal(
        "total-having-below-sort",
        "what is left out of groups stands above what is shown of them",
        Never(),
        "sql.test_total",
    ),
    Removal(
        "total-limit-barrier",
        "what a view hides by LIMIT or OFFSET has a barrier above",
        Always(),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "natural-join-all-columns",
        "a natural join means all columns",
        Deleted(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "qualifier-before-column",
        "a relation's name before a column's is not looked for as a column",
        Condition("True"),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "union-by-place", "a union by place means all columns", Deleted(), "pipeline.test_hidden_columns"
    ),
    Removal(
        "column-pattern-expression",
        "a pattern of columns may mean any of them",
        Deleted(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "alias-column-list",
        "an alias with a list of columns means all of them",
        Deleted(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "qualify-window-columns",
        "a window of QUALIFY looks at columns before it looks at what is shown",
        Never(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "either-within-expression",
        "a name within an expression above a select list may mean a column below it",
        Never(),
        "sql.test_analyse",
    ),
    Removal(
        "having-output-first",
        "a condition of groups looks at what is shown first",
        Becomes("below"),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "known-column-before-guessed",
        "of two columns of a name one that is known is meant",
        Becomes("list(found)"),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "unbarred-view-overflow",
        "a view without a barrier makes no sums that overflow",
        DropOperand(1),
        "pipeline.test_view_barriers",
    ),
    Removal(
        "unbarred-view-types",
        "a view without a barrier has the types that it says",
        DropOperand(3),
        "pipeline.test_view_barriers",
    ),
    Removal("scalar-subquery-one-row", "a subquery that is a value has one row", Always(), "sql.test_total"),
    Removal(
        "correlated-groups-overflow",
        "of groups for rows around a subquery, none may fail",
        Never(),
        "sql.test_total",
    ),
    Removal(
        "correlated-equality-types",
        "what a subquery has of the rows around it does not count for an equality of one type alone",
        Becomes("True"),
        "sql.test_total",
    ),
    Removal(
        "set-operation-one-type",
        "what a set operation compares is of one type",
        DropOperand(0),
        "sql.test_total",
    ),
    Removal(
        "compared-decimal-room",
        "numbers are compared where there is a decimal for both",
        Becomes("True"),
        "sql.test_total",
    ),
    Removal("sum-room", "sums have room", Becomes("True"), "sql.test_total"),
    Removal(
        "judged-column-types", "columns have the types that were judged", Never(), "pipeline.test_barriers"
    ),
    # What a statement may be made of
    Removal(
        "unlisted-node",
        "a node on no list is refused",
        DropOperand(1),
        "sql.test_classify pipeline.test_pipeline",
    ),
    Removal(
        "unlisted-expression",
        "an expression on no list is refused",
        Becomes("()"),
        "sql.test_classify pipeline.test_pipeline",
    ),
    Removal(
        "unknown-object-kind",
        "an object of an unknown kind is refused",
        Becomes("()"),
        "sql.test_classify pipeline.test_pipeline",
    ),
    Removal(
        "generated-column-text",
        "what a column is generated of is not a text that nobody read",
        Never(),
        "pipeline.test_minors",
    ),
    Removal(
        "function-names-judged",
        "functions are judged by their names",
        Becomes("None"),
        "sql.test_schema_text pipeline.test_plans",
    ),
    Removal(
        "function-schemas-read",
        "schemas that functions are given are read",
        Becomes("None"),
        "sql.test_schema_text",
    ),
    Removal(
        "parameter-places", "parameter markers have their places", Becomes("None"), "sql.test_parameters"
    ),
    Removal(
        "unread-command",
        "a command that was not read is refused",
        Never(),
        "sql.test_classify pipeline.test_pipeline",
    ),
    Removal(
        "table-functions-apart",
        "functions and table functions are registered apart",
        Never(),
        "plan.test_facts",
    ),
    Removal(
        "no-relation-changes",
        "change feeds show rows that filters hide",
        Add("'RelationChanges'"),
        "sql.test_nodes",
    ),
    Removal(
        "unknown-node-reason",
        "an unknown node has no reason to pass",
        Condition("node not in REFUSED_NODES"),
        "sql.test_nodes",
    ),
    Removal(
        "no-regex-columns",
        "columns by a regular expression are not known",
        Add("'UnresolvedRegex'"),
        "sql.test_nodes",
    ),
    Removal(
        "command-expressions-apart",
        "parts of commands are no parts of queries",
        DropOperand(4),
        "sql.test_nodes",
    ),
    Removal("no-java-functions", "functions that call Java", AddWord("reflect", nth=1), "sql.test_functions"),
    Removal(
        "no-doctype-functions",
        "functions that read what a DOCTYPE names",
        AddWord("xpath", nth=1),
        "sql.test_functions",
    ),
    Removal(
        "no-file-functions",
        "functions that tell of files",
        AddWord("input_file_name", nth=1),
        "sql.test_functions",
    ),
    Removal("unlisted-function", "functions on no list", DropArgument(1), "sql.test_functions"),
    Removal(
        "builtin-qualifier",
        "built-in functions have no qualifier of the user's",
        Always(),
        "sql.test_functions",
    ),
    # Schemas that come as text
    Removal(
        "schema-default-expressions", "defaults in schemas are expressions", Never(), "sql.test_schema_text"
    ),
    Removal("schema-classes", "classes in schemas", Never(), "sql.test_schema_text plan.test_walk"),
    Removal("schema-pickled-code", "pickled code in schemas", Never(), "sql.test_schema_text plan.test_walk"),
    Removal(
        "schema-unreadable-json",
        "a schema of JSON that cannot be read",
        Statement("return"),
        "sql.test_schema_text",
    ),
    Removal("schema-computed", "a schema that is computed", Never(), "sql.test_schema_text"),
    # Names
    Removal(
        "temp-view-one-part",
        "temporary views have names of one part",
        Statement(
            "if parts[-1].lower() in self.context.temp_views:\n    return TempViewName(parts[-1])\n..."
        ),
        "pipeline.test_pipeline",
    ),
    Removal("temp-view-any-case", "temporary views in any case", Uncalled(), "pipeline.test_plans"),
    Removal("reserved-catalogs", "reserved catalogs", DropOperand(0), "pipeline.test_plans"),
    Removal("global-temp-names", "global temporary views", Never(), "pipeline.test_pipeline"),
    Removal("path-as-table", "names that are paths", Never(), "pipeline.test_pipeline"),
    Removal("path-as-database", "databases that are paths", DropOperand(3), "pipeline.test_pipeline"),
    Removal(
        "version-as-nested-table",
        "versions of tables are no tables of a nested namespace",
        Never(),
        "pipeline.test_nested",
    ),
    Removal(
        "nested-namespace-created",
        "a nested namespace that is made has a table looked at again",
        Always(),
        "pipeline.test_nested",
    ),
    Removal("namespace-no-levels", "levels of a namespace that are none", DropOperand(0), "sql.test_names"),
    Removal("spark-catalog-flat", "Spark's own catalog has no nested databases", Never(), "sql.test_names"),
    Removal(
        "nested-name-suffixes",
        "names within a nested namespace are compared from every part on",
        Becomes("(3, 2)"),
        "pipeline.test_nested",
    ),
    Removal(
        "cascade-nested-namespaces",
        "CASCADE drops what lies in the namespaces within",
        Deleted(),
        "pipeline.test_nested",
    ),
    Removal(
        "backticks-doubled",
        "backticks within names are doubled",
        Uncalled(),
        "plan.test_identifiers sql.test_identity pipeline.test_pipeline",
    ),
    # What policies are asked
    Removal(
        "missing-privilege",
        "a privilege that is not granted is missing",
        DropOperand(0),
        "pipeline.test_pipeline",
    ),
    Removal(
        "cascade-denied-below",
        "CASCADE is denied by what is below",
        DropOperand(1),
        "pipeline.test_judge_services",
    ),
    Removal(
        "cascade-hidden-below",
        "CASCADE is a matter of what is hidden below",
        Becomes("False"),
        "pipeline.test_removing_documented",
    ),
    Removal(
        "cascade-hidden-columns",
        "CASCADE is a matter of columns that are hidden below",
        DropOperand(0),
        "pipeline.test_removing_documented",
    ),
    Removal("invisible-is-absent", "what is not visible does not exist", Never(), "pipeline.test_pipeline"),
    Removal(
        "visible-is-enough",
        "visible is what some access is granted to",
        DropOperand(5),
        "pipeline.test_pipeline",
    ),
    Removal("missing-column", "a column that is not granted is missing", Never(), "pipeline.test_pipeline"),
    Removal(
        "star-visible-setting",
        "a star shows visible columns by a setting only",
        DropOperand(0),
        "pipeline.test_pipeline",
    ),
    Removal(
        "show-only-not-compared", "what may only be shown is not compared", Never(), "pipeline.test_pipeline"
    ),
    Removal(
        "show-only-not-followed",
        "what may only be shown and cannot be followed",
        Never(),
        "pipeline.test_pipeline",
    ),
    Removal(
        "raw-command-masks",
        "raw commands and masks",
        DropOperand(0),
        "pipeline.test_pipeline pipeline.test_plans",
    ),
    Removal(
        "raw-command-filters",
        "raw commands and filters",
        DropOperand(1),
        "pipeline.test_pipeline pipeline.test_plans",
    ),
    Removal(
        "raw-command-hidden-columns",
        "raw commands and hidden columns",
        DropOperand(4),
        "pipeline.test_pipeline pipeline.test_plans",
    ),
    Removal(
        "raw-command-views",
        "raw commands and views of guarded tables",
        DropOperand(5),
        "pipeline.test_pipeline",
    ),
    Removal("described-columns", "descriptions list visible columns", DropOperand(1), "pipeline.test_plans"),
    Removal(
        "described-details",
        "descriptions of guarded tables have no details",
        Becomes("True"),
        "pipeline.test_pipeline pipeline.test_plans",
    ),
    Removal(
        "described-view-details",
        "descriptions of views of guarded tables have no details",
        DropOperand(1),
        "pipeline.test_pipeline",
    ),
    Removal("relation-options", "options on a relation", Never(), "pipeline.test_pipeline"),
    Removal(
        "copied-values",
        "what a format keeps again of masked columns is masked",
        Becomes("view"),
        "policy.test_copied_values",
    ),
    Removal(
        "keys-not-told",
        "a row that is added to a Hudi table may take the place of another",
        Never(),
        "policy.test_copied_values",
    ),
    Removal(
        "version-of-version",
        "a version that is named below its table has no other one behind it",
        Never(),
        "pipeline.test_versions_by_name",
    ),
    Removal(
        "maintain-by-name",
        "masks and filters do not hinder who may maintain a table by name, and hinder who has `all`",
        DropOperand(1),
        "pipeline.test_maintaining",
    ),
    Removal(
        "maintain-arguments",
        "who maintains a table gives no argument that names a column or a condition",
        Becomes("bool(row.maintain)"),
        "pipeline.test_maintaining",
    ),
    Removal(
        "function-full-name",
        "persistent functions are named in full",
        DropOperand(1, 4),
        "pipeline.test_metrics",
    ),
    Removal(
        "execute-persistent-function",
        "persistent functions want execute",
        Deleted(),
        "plan.test_facts pipeline.test_judge_services",
    ),
    Removal("execute-registered-function", "registered functions want execute", Deleted(), "plan.test_facts"),
    Removal("masks-of-shown-columns", "masks of columns that are shown", Never(), "pipeline.test_pipeline"),
    Removal("table-owner", "owners of tables", Uncalled(), "pipeline.test_judge_services"),
    Removal(
        "unknown-owner",
        "owners that are not known yet",
        Statement("return resource"),
        "pipeline.test_judge_services",
    ),
    # Guarded relations
    Removal("row-filter", "row filters", Always(), "pipeline.test_pipeline"),
    Removal("mask", "masks", Argument(0, "name"), "pipeline.test_pipeline"),
    Removal("judged-columns", "columns that were judged, one by one", Becomes("False"), "pipeline.test_past"),
    Removal(
        "unfollowed-version", "a version that cannot be followed is refused", Never(), "pipeline.test_past"
    ),
    Removal(
        "version-names-of-now",
        "policies speak of a version by the names of now",
        Never(),
        "pipeline.test_past",
    ),
    Removal(
        "version-conditions-above",
        "no condition goes below a version where it could ask for another column",
        DropOperand(1),
        "pipeline.test_past",
    ),
    Removal(
        "time-travel-words",
        "of words in a time that Spark computes only those of the list",
        Never(),
        "sql.test_versions",
    ),
    Removal(
        "version-mask-of-now",
        "what is masked under its present name is masked under the one of then",
        Deleted(),
        "pipeline.test_past",
    ),
    Removal(
        "version-hidden-of-now",
        "what is hidden under its present name is hidden under the one of then",
        Never(),
        "pipeline.test_past",
    ),
    Removal("hidden-columns", "hidden columns", Becomes("()"), "pipeline.test_pipeline"),
    Removal("filter-first", "filter first", Literal(""), "pipeline.test_pipeline"),
    Removal("filter-first-streams", "filter first in streams", Literal(""), "pipeline.test_plans"),
    Removal(
        "appearing-table",
        "a table that appears meanwhile",
        Becomes("f'SELECT NULL FROM {source}'"),
        "pipeline.test_plans pipeline.test_pipeline",
    ),
    Removal(
        "stored-text-hidden-columns",
        "a stored text has no columns that its definer may not select",
        Named("()"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "given-definer",
        "who defines a view is not for its text to say",
        Becomes("[*others]"),
        "pipeline.test_definers",
    ),
    Removal(
        "definer-of-stored-text",
        "a definer is recorded for the text as it is stored",
        Uncalled(nth=1),
        "pipeline.test_definers",
    ),
    Removal("view-bodies-guarded", "bodies of views are guarded", Never(), "pipeline.test_pipeline"),
    Removal(
        "view-columns-apart", "columns of views that cannot be told apart", Never(), "pipeline.test_pipeline"
    ),
    Removal(
        "view-end-comment", "comments at the end of views", Literal(") AS ", nth=2), "pipeline.test_pipeline"
    ),
    Removal("shadowed-table", "two tables of one name", Never(), "pipeline.test_pipeline"),
    Removal(
        "full-name-read", "tables that are read get their full names", Always(), "pipeline.test_pipeline"
    ),
    Removal("full-name-target", "targets get their full names", Never(), "pipeline.test_pipeline"),
    Removal("full-name-database", "databases get their full names", Becomes("()"), "pipeline.test_pipeline"),
    Removal(
        "unjudged-target",
        "a target that no row has judged",
        Never(),
        "sql.test_classify pipeline.test_pipeline",
    ),
    # Identities
    Removal("identity-column-first", "a column comes before the function", Never(), "sql.test_identity"),
    Removal("identity-may-be-column", "a word that may be a column", Never(), "sql.test_identity"),
    Removal("identity-may-be-field", "a word that may be a field", Becomes("True"), "sql.test_identity"),
    Removal(
        "identity-in-pieces",
        "an identity that is not in one piece",
        Statement("continue"),
        "sql.test_identity",
    ),
    # Parameter markers
    Removal("parameter-is-expression", "markers are expressions", Never(), "sql.test_parameters"),
    Removal("parameter-apart", "markers do not touch their neighbours", Never(), "sql.test_parameters"),
    Removal("parameter-in-stored-text", "markers in what is kept as text", Never(), "sql.test_parameters"),
    Removal(
        "create-table-options", "options of a table that is created", Deleted(), "pipeline.test_pipeline"
    ),
    # Texts of policies
    Removal(
        "policy-columns-of-table",
        "a policy's columns are those of its table",
        Never(),
        "pipeline.test_pipeline",
    ),
    Removal(
        "policy-subquery-columns", "a subquery's columns are its own", Always(), "pipeline.test_pipeline"
    ),
    Removal("policy-tables-known", "a policy's tables are known", Never(), "pipeline.test_pipeline"),
    # Commands
    Removal(
        "row-change-reads-raw", "changes of rows see raw rows", DropArgument(5), "pipeline.test_pipeline"
    ),
    Removal(
        "merge-every-action", "every action of MERGE is wanted", DropElement(0, 2), "pipeline.test_pipeline"
    ),
    Removal("insert-schema-evolution", "INSERT with schema evolution", Never(), "pipeline.test_pipeline"),
    Removal("overwrite-deletes", "INSERT OVERWRITE deletes", Deleted(), "pipeline.test_pipeline"),
    Removal(
        "overwrite-deletes-raw", "INSERT OVERWRITE deletes hidden rows", Deleted(), "pipeline.test_pipeline"
    ),
    Removal("replace-table-drops", "CREATE OR REPLACE TABLE drops", Never(), "pipeline.test_pipeline"),
    Removal("replace-view-drops", "CREATE OR REPLACE VIEW drops", Never(), "pipeline.test_pipeline"),
    Removal(
        "create-table-location",
        "the location of a table that is created",
        Statement("...\nlocation = None"),
        "pipeline.test_judge_services",
    ),
    Removal("database-location", "the location of a database", Never(), "pipeline.test_pipeline"),
    Removal("partition-location", "the location of a partition", Never(), "sql.test_path_commands"),
    Removal("directory-formats", "directories of classes", Never(), "sql.test_path_commands"),
    Removal("directory-privilege", "who writes to a directory", Becomes("()"), "sql.test_path_commands"),
    Removal("load-overwrites", "LOAD DATA OVERWRITE deletes", Deleted(), "sql.test_path_commands"),
    Removal("load-privilege", "who loads files", Becomes("()"), "sql.test_path_commands"),
    Removal("set-location-privilege", "who moves a table", Becomes("()"), "sql.test_path_commands"),
    Removal(
        "set-database-location-privilege", "who moves databases", Becomes("()"), "sql.test_path_commands"
    ),
    Removal("view-using-formats", "views USING other systems", Never(), "sql.test_path_commands"),
    Removal("view-using-options", "options of views USING", Deleted(), "sql.test_path_commands"),
    Removal("view-using-path", "the path of a view USING", Becomes("[]"), "sql.test_path_commands"),
    Removal("add-file-privilege", "who adds files", Becomes("()"), "sql.test_path_commands"),
    Removal("transform-kept", "what keeps a TRANSFORM", Never(), "sql.test_path_commands"),
    Removal("transform-privilege", "who runs programs", Becomes("()"), "sql.test_path_commands"),
    Removal("alter-serde", "a SerDe that is changed", Never(), "sql.test_path_commands"),
    Removal("relative-path", "a relative path", Never(), "sql.test_path_commands"),
    Removal("path-versions", "versions of files by their path", Never(), "sql.test_path_commands"),
    Removal("path-of-other-catalog", "a path in another catalog", Never(), "sql.test_path_commands"),
    Removal(
        "read-path-privilege",
        "who reads by paths",
        Becomes("Required()"),
        "sql.test_path_commands",
    ),
    Removal("property-families", "properties that formats read", Becomes("known"), "sql.test_path_commands"),
    Removal(
        "format-as-option",
        "an option that says no more than the format",
        Becomes('key.lower() != "format"'),
        "plan.test_catalog_calls",
    ),
    Removal("unread-options", "options that formats read", Becomes("known"), "sql.test_path_commands"),
    Removal(
        "explain-reading-function",
        "EXPLAIN shows what a temporary function reads",
        Deleted(),
        "pipeline.test_function_bodies",
    ),
    Removal("reading-function-described", "and so does DESCRIBE", Deleted(), "pipeline.test_function_bodies"),
    Removal("altered-properties", "properties of a table that is there", Deleted(), "pipeline.test_places"),
    Removal("code-function-privilege", "who calls Java methods", Always(), "sql.test_path_commands"),
    Removal("document-without-doctype", "XML with a DOCTYPE", Always(), "sql.test_path_commands"),
    Removal(
        "restricted-masked-rows", "rows with masked columns are removed", Never(), "pipeline.test_restricting"
    ),
    Removal("sketched-columns", "a plan shows hidden columns", Never(), "pipeline.test_places"),
    Removal("explain-statistics", "a plan shows statistics", Becomes("True"), "pipeline.test_places"),
    Removal("truncate-raw", "TRUNCATE deletes hidden rows", DropArgument(0), "pipeline.test_pipeline"),
    Removal(
        "rename-column-raw",
        "a column that is renamed leaves its policies",
        DropArgument(5, 6),
        "pipeline.test_pipeline",
    ),
    Removal(
        "create-like-reads", "CREATE TABLE LIKE shows columns", DropArgument(0), "pipeline.test_pipeline"
    ),
    Removal(
        "create-like-structure",
        "a table of another kind is not made like one with masks",
        DropOperand(3),
        "pipeline.test_objects",
    ),
    Removal(
        "procedures-database",
        "procedures are listed of a database that one may know",
        Never(),
        "pipeline.test_pipeline",
    ),
    Removal(
        "rename-within-database",
        "a table is renamed within its database",
        DropOperand(1),
        "pipeline.test_pipeline",
    ),
    Removal(
        "rename-wants-create", "a table's new name wants create", DropElement(0), "pipeline.test_pipeline"
    ),
    Removal(
        "global-view-shares",
        "a global temporary view is stored without masks",
        DropArgument(2),
        "pipeline.test_global_views",
    ),
    Removal("replace-global-view-drops", "replacing one drops one", Deleted(), "pipeline.test_global_views"),
    Removal(
        "global-view-on-temp-view",
        "a global temporary view rests on none of the session",
        Never(),
        "pipeline.test_global_views",
    ),
    Removal(
        "global-view-commands", "commands on global temporary views", Never(), "pipeline.test_global_views"
    ),
    Removal(
        "variable-of-strings",
        "what is given to a variable is known of the type STRING alone",
        Becomes("dict(given)"),
        "pipeline.test_own_names",
    ),
    Removal("variable-one-row", "of no row a variable is NULL", Never(), "pipeline.test_own_names"),
    Removal(
        "create-view-shares", "a persistent view serves everybody", DropArgument(5), "pipeline.test_pipeline"
    ),
    Removal(
        "alter-columns-changes-name",
        "a command on columns changes what the table's name means",
        Always(),
        "pipeline.test_names",
    ),
    Removal("alter-view-shares", "ALTER VIEW serves everybody", Uncalled(), "pipeline.test_pipeline"),
    Removal(
        "view-on-temp-view",
        "a persistent view does not rest on a temporary one",
        Deleted(),
        "pipeline.test_pipeline",
    ),
    Removal("cascade-every-table", "CASCADE drops every table", Deleted(), "pipeline.test_judge_services"),
    Removal("pinned-settings", "settings that shape reading are pinned", Never(), "pipeline.test_pipeline"),
    Removal("set-wants-grant", "settings want a grant", DropArgument(0), "pipeline.test_judge_services"),
    Removal("reset-all", "RESET of all settings", DropArgument(0), "pipeline.test_settings"),
    Removal(
        "settings-read-grant", "settings are read with a grant", DropArgument(0), "pipeline.test_settings"
    ),
    Removal("secret-settings", "secrets among settings", Never(), "pipeline.test_settings"),
    Removal("drop-builtin-function", "built-in functions are not dropped", Never(), "sql.test_classify"),
    Removal("use-unknown-catalog", "catalogs that are not configured", Never(), "pipeline.test_pipeline"),
    Removal(
        "list-database", "lists of a database want to know of it", DropElement(0), "pipeline.test_pipeline"
    ),
    Removal(
        "temp-view-details",
        "details of a temporary view",
        Statement("return Required()"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "describe-temp-view", "the description of a temporary view", DropArgument(2), "pipeline.test_pipeline"
    ),
    Removal(
        "properties-temp-view",
        "the properties of a temporary view",
        DropArgument(2),
        "pipeline.test_pipeline",
    ),
    Removal(
        "describe-column-values",
        "DESCRIBE EXTENDED of a column prints values",
        Never(),
        "pipeline.test_pipeline",
    ),
    Removal("table-details-raw", "details of a table are raw", DropArgument(0), "pipeline.test_pipeline"),
    Removal("explain-filters", "EXPLAIN prints filters", DropArgument(0), "pipeline.test_pipeline"),
    Removal("explain-temp-view", "EXPLAIN of a temporary view", Deleted(), "pipeline.test_plans"),
    Removal(
        "explain-laid-open", "EXPLAIN of what has texts in its plan", Deleted(), "pipeline.test_pipeline"
    ),
    Removal("clear-cache", "CLEAR CACHE is everybody's", DropElement(0), "pipeline.test_pipeline"),
    Removal("refresh-path", "REFRESH reads a path", DropElement(0), "pipeline.test_pipeline"),
    Removal(
        "explain-write-target",
        "EXPLAIN of a write shows its target",
        DropElement(0),
        "pipeline.test_pipeline",
    ),
    Removal(
        "explain-description",
        "of a table with masks nothing but its description is explained, without statistics",
        Becomes("tuple(pin.table for part in all_parts for pin in part.pins)"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "explain-described-columns",
        "a plan that describes a table has all of its columns",
        Condition("name in required.outlined"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "explain-described-formats",
        "a plan that describes a table has what its connector tells",
        DropOperand(6),
        "pipeline.test_objects",
    ),
    Removal(
        "notes-past-obligations",
        "who does not see all of a table does not say how it is written",
        Becomes("()"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "comment-alone",
        "a comment on a column comes with nothing else",
        Becomes("told"),
        "pipeline.test_pipeline",
    ),
    Removal(
        "comment-hidden-column",
        "a comment names no hidden column",
        Statement("return comment_on_table(scope)"),
        "pipeline.test_pipeline",
    ),
    Removal("raw-of-all-commands", "raw tables of all commands", DropArgument(0), "pipeline.test_pipeline"),
    # Where tables lie
    Removal(
        "foreign-providers",
        "providers that reach other systems",
        Never(),
        "pipeline.test_pipeline plan.test_commands",
    ),
    Removal(
        "unknown-options", "options that are not known", Never(), "pipeline.test_pipeline plan.test_commands"
    ),
    Removal("unknown-properties", "properties that are not known", Never(), "pipeline.test_pipeline"),
    Removal("unknown-table-clauses", "clauses of tables that are not known", Never(), "sql.test_classify"),
    Removal("serde-is-code", "SerDes are code", Never(), "pipeline.test_pipeline"),
    # Column analysis
    Removal(
        "usage-sees-columns", "column analysis sees the columns that Spark sees", Never(), "sql.test_analyse"
    ),
    Removal("pipe-union-input", "UNION has all of a pipe before it", Never(), "sql.test_analyse"),
    Removal(
        "pipe-aggregate-ordinal",
        "a number among the keys of AGGREGATE is one of all columns",
        Deleted(),
        "sql.test_analyse pipeline.test_hidden_columns",
    ),
    Removal(
        "pipe-order-ordinal",
        "a number in a pipe's ORDER BY is one of all columns",
        Never(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "table-statement-all-columns",
        "TABLE t means all columns",
        Uncalled(),
        "sql.test_analyse pipeline.test_hidden_columns",
    ),
    Removal(
        "alias-beside-unknown-columns",
        "an alias is not taken where a hidden column may be, beside a relation of unknown columns",
        Never(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "usage-second-opinion",
        "what sqlglot alone sees makes every column count as used",
        Never(),
        "sql.test_analyse",
    ),
    Removal(
        "usage-known-expression",
        "of an expression that is not known nobody says what it uses",
        Never(),
        "algebra.test_usage",
    ),
    Removal(
        "usage-known-relation",
        "of a relation that is not known nobody says what it uses",
        Deleted(),
        "algebra.test_usage",
    ),
    Removal(
        "usage-every-reference",
        "every reference of a tree is looked up",
        Never(),
        "algebra.test_usage",
    ),
    Removal(
        "field-of-fieldless",
        "what Spark takes for a field of a column without fields is no column",
        Deleted(),
        "algebra.test_usage",
    ),
    Removal(
        "fields-of-columns",
        "what is asked of the fields that a star shows is asked of their column",
        Deleted(),
        "sql.test_analyse",
    ),
    Removal(
        "list-keeps-relation-names",
        "a column that a select list passes on keeps the name of its relation",
        Becomes("frozenset()"),
        "sql.test_analyse",
    ),
    # Meaning
    Removal(
        "set-dependency-effect",
        "SET of what expressions depend on is an effect",
        DropArgument(4),
        "pipeline.test_settings",
    ),
    Removal(
        "cast-mixed-operands",
        "operands of several types are cast",
        Becomes("operands[0]"),
        "sql.test_meaning",
    ),
    Removal(
        "timestamp-literal-zone",
        "an instant written as a literal is in the session's zone",
        Never(),
        "sql.test_meaning",
    ),
    Removal(
        "date-of-timestamp-zone",
        "what a day of an instant is depends on the zone",
        DropOperand(1),
        "sql.test_meaning",
    ),
    Removal("sum-overflow-ansi", "sums overflow", Always(), "sql.test_meaning"),
    Removal("relative-time-words", "words that stand for an instant", Never(), "sql.test_meaning"),
    Removal(
        "meaning-size-bound",
        "an expression that is too large depends on all",
        Becomes("_NOTHING"),
        "sql.test_meaning",
    ),
    Removal(
        "output-name-no-column",
        "another name that a query gives is no column of a table",
        Never(),
        "sql.test_meaning",
    ),
    # Lineage
    Removal(
        "lineage-type-for-name",
        "a type is asked for where Spark's name hangs on it",
        Always(),
        "sql.test_lineage_names",
    ),
    Removal(
        "named-column-before-generated",
        "a column of the name comes before what Spark would call it",
        Never(),
        "sql.test_second_opinion",
    ),
    Removal(
        "lineage-unknown-names",
        "columns of unknown names are any column",
        Operand(3, "f'_c{i}'"),
        "sql.test_lineage_names",
    ),
    Removal(
        "lineage-struct-fields",
        "a struct that a query builds has its fields",
        Never(),
        "sql.test_lineage",
    ),
    Removal(
        "lineage-field-of-built-struct",
        "a field of a struct that a query builds is made of what it is made of alone",
        Becomes("value"),
        "sql.test_lineage",
    ),
    Removal(
        "lineage-sees-relations", "lineage knows every relation that Spark sees", Never(), "sql.test_lineage"
    ),
    Removal(
        "lineage-sees-columns", "lineage knows every column that Spark sees", Never(), "sql.test_lineage"
    ),
    Removal(
        "lineage-every-reference",
        "every reference of a tree is followed to where it comes from",
        Never(),
        "algebra.test_lineage",
    ),
    Removal(
        "lineage-known-relation",
        "lineage follows columns through no relation that it does not know",
        Never(),
        "algebra.test_lineage",
    ),
    Removal(
        "niladic-name-column",
        "what has the name of a function without brackets may be a column to sqlglot",
        Named("None"),
        "sql.test_second_opinion",
    ),
    Removal(
        "user-column-before-function",
        "a column that the text names is not the user",
        Never(),
        "sql.test_identity",
    ),
    # Functions
    Removal(
        "drop-function-privilege",
        "a function is dropped by who may drop it",
        DropArgument(0),
        "pipeline.test_judge_services",
    ),
    Removal(
        "unqualified-function",
        "a function without a database may be Spark's or the session's",
        Never(),
        "pipeline.test_judge_services",
    ),
    Removal("variable-plain-name", "variables have plain names", Never(), "pipeline.test_own_names"),
    Removal(
        "function-defaults-read", "defaults of parameters read no table", Never(), "pipeline.test_own_names"
    ),
    Removal("function-default-identity", "nor asks who the user is", Never(), "pipeline.test_own_names"),
    Removal(
        "function-body-functions", "and calls functions of Spark alone", Never(), "pipeline.test_own_names"
    ),
    Removal(
        "create-function-privilege", "functions are made by who may", Becomes("[]"), "pipeline.test_own_names"
    ),
    Removal(
        "replace-function-drops", "and replaced by who may drop them", Deleted(), "pipeline.test_own_names"
    ),
    Removal(
        "temporary-function-builtin",
        "no temporary function is called as one of Spark",
        Never(),
        "pipeline.test_own_names",
    ),
    Removal("xml-options", "options of XML functions read files", Never(), "pipeline.test_own_names"),
    Removal(
        "described-function-pinned",
        "the function that is described is the one that was judged",
        Becomes("Required(privileges=(wanted,))"),
        "pipeline.test_own_names",
    ),
    Removal(
        "analyze-every-table", "ANALYZE TABLES wants alter on all", DropArgument(0), "pipeline.test_own_names"
    ),
    Removal(
        "list-files-privilege",
        "files of others are listed with a grant",
        DropArgument(0),
        "pipeline.test_own_names",
    ),
    Removal("legacy-settings-listed", "settings of old that may be set", Never(), "pipeline.test_own_names"),
    Removal(
        "unplaced-call", "a call that is not written literally is refused", Never(), "pipeline.test_own_names"
    ),
)
