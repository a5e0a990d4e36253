"""Rules of `plan/`: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import (
    Add,
    Always,
    Argument,
    Becomes,
    Calls,
    Condition,
    Deleted,
    DropArgument,
    DropElement,
    DropOperand,
    Element,
    Never,
    Statement,
)
from tests.removals.removing import Removal

REMOVALS = (
    Removal(
        "restricted-plan-code",
        "code on hidden rows",
        Condition("command is None or names_metadata(reading)"),
        "pipeline.test_restricting",
    ),
    Removal(
        "plan-reading-function-described",
        "the description of a temporary function",
        Deleted(),
        "plan.test_catalog_calls",
    ),
    Removal("plan-xml-options", "options of XML functions", Deleted(), "plan.test_walk"),
    Removal("restricted-plan-functions", "registered code", Never(), "pipeline.test_restricting"),
    Removal(
        "restricted-plan-expressions",
        "what is not known",
        Never(),
        "pipeline.test_restricting",
    ),
    Removal(
        "plan-merge-hidden-by-source",
        "hidden rows in no source",
        Never(),
        "pipeline.test_restricting",
    ),
    Removal(
        "plan-explain-modes",
        "statistics and code of plans are not shown",
        Becomes('case == "explain"'),
        "pipeline.test_explained",
    ),
    Removal("global-view-calls", "calls on global temporary views", Never(), "pipeline.test_global_views"),
    Removal(
        "schema-names-hidden",
        "`to` gives no column of NULL for one that is hidden",
        DropOperand(1),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "with-columns-lateral",
        "a later value of withColumns may use the name of an earlier one",
        Never(),
        "pipeline.test_hidden_columns",
    ),
    Removal(
        "star-of-plan",
        "what `df['*']` shows is not known where relations have no ids",
        Deleted(),
        "algebra.test_resolve",
    ),
    Removal(
        "total-known-relation", "relations that are not listed may fail", Deleted(), "plan.test_lowering"
    ),
    Removal(
        "set-operation-by-name",
        "columns that a union matches by name may be of other types",
        Never(),
        "plan.test_lowering",
    ),
    Removal(
        "dropped-column", "what is dropped is the column of that relation", Deleted(), "plan.test_analyse"
    ),
    Removal(
        "plan-query-names",
        "a DataFrame's column is not looked for by its name where there are queries within",
        Deleted(),
        "plan.test_lowering",
    ),
    Removal(
        "plan-text-as-sql",
        "conditions in a text within a plan are on what they are on in SQL",
        Never(),
        "plan.test_analyse",
    ),
    Removal(
        "join-column-known",
        "a column to join by that no side is known to have is not sure",
        Never(),
        "plan.test_analyse",
    ),
    Removal(
        "count-distinct-star-metric",
        "count(DISTINCT *) counts no hidden columns of a metric view",
        Never(),
        "pipeline.test_metrics",
    ),
    Removal("plan-id-column", "a column by the id of a relation is noted", Never(), "pipeline.test_renewed"),
    Removal(
        "plan-id-subquery",
        "a query within is by the id of a relation",
        Statement("walk.reading.within = True"),
        "pipeline.test_renewed",
    ),
    Removal(
        "forwarded-plan-ids", "what is forwarded has the ids that came", Deleted(), "pipeline.test_renewed"
    ),
    # One id or name for two DataFrames
    Removal("plan-id-once", "an id is one DataFrame's", Deleted(), "pipeline.test_twins"),
    Removal("text-name-once", "a name within a text is one DataFrame's", Deleted(), "pipeline.test_twins"),
    Removal(
        "bind-root-text",
        "names are bound for a text that is the root itself",
        Never(),
        "plan.test_references",
    ),
    Removal(
        "plan-id-missing",
        "nothing is found by an id that is not there",
        Condition("reference.common is not None"),
        "plan.test_references",
    ),
    # The table of fields
    Removal(
        "user-context-plugins",
        "plug-ins within a user's context",
        Element(0, "row(plain='user_id user_name extensions')"),
        "plan.test_classify",
    ),
    Removal(
        "jdbc-predicates",
        "predicates for other databases",
        DropArgument(0),
        "plan.test_walk plan.test_classify",
    ),
    Removal(
        "drop-columns-names",
        "names of columns beside expressions",
        Element(0, "row(walk='input columns', plain='column_names')"),
        "plan.test_walk plan.test_walk_places",
    ),
    Removal(
        "schema-fields",
        "schemas that are text",
        Element(0, "row(plain='data_type_string')"),
        "plan.test_walk",
    ),
    Removal(
        "column-metadata",
        "metadata of columns",
        Element(0, "row(walk='expr', plain='name metadata')"),
        "plan.test_walk",
    ),
    Removal(
        "pipeline-sql",
        "SQL that a pipeline runs later",
        DropElement(0),
        "plan.test_classify plan.test_walk_places",
    ),
    Removal("relation-without-kind", "a relation of no kind", Add("'Relation.rel_type'"), "plan.test_walk"),
    # The walk
    Removal(
        "unknown-fields",
        "fields that are not known",
        Never(),
        "plan.test_compressed plan.test_walk_places plan.test_walk",
    ),
    Removal("message-without-kind", "messages of no kind", Never(), "plan.test_walk plan.test_walk_places"),
    Removal("unknown-enum-numbers", "numbers that are not known", Never(), "plan.test_walk_places"),
    Removal("refused-fields", "fields that are refused", Deleted(), "plan.test_walk"),
    Removal("schemas-read", "schemas are read", Deleted(), "plan.test_walk_places"),
    Removal("plan-size", "plans that are too large", Never(), "plan.test_walk"),
    Removal("no-command-analysis", "commands are not analysed", Deleted(), "plan.test_walk"),
    Removal(
        "analysis-decompressed",
        "compressed plans of an analysis are opened",
        Deleted(),
        "plan.test_compressed",
    ),
    Removal(
        "field-without-row", "fields without a row", Becomes("Step(Op.NO_ORIGINS)"), "plan.test_classify"
    ),
    # What the walk reads
    Removal("commands-at-root", "commands that are all of a plan", Becomes("True"), "pipeline.test_plans"),
    Removal("table-options", "options of tables", Deleted(), "plan.test_walk"),
    Removal("source-formats", "sources other than files", Deleted(), "plan.test_walk"),
    Removal("sink-formats", "sinks other than files", Deleted(), "plan.test_walk"),
    Removal("file-options", "options of files", Deleted(), "plan.test_walk"),
    Removal("sink-options", "options of sinks", Deleted(), "plan.test_walk"),
    Removal("path-patterns", "paths of patterns", DropOperand(1), "plan.test_walk"),
    Removal("paths-in-options", "paths in options", DropElement(1), "plan.test_walk"),
    Removal("stream-checkpoint-paths", "checkpoints of streams", DropElement(1), "plan.test_walk"),
    Removal(
        "source-names-of-spark",
        "names of Spark's own sources are not registered",
        DropOperand(1),
        "plan.test_commands",
    ),
    Removal("reference-names", "names that references bind", Never(), "plan.test_walk"),
    Removal("lambda-variables", "variables without a lambda", Never(), "plan.test_walk"),
    Removal("column-regex", "columns by patterns mean all", Never(), "plan.test_walk"),
    Removal(
        "plan-schema-arguments", "schemas that functions of plans are given", Deleted(), "plan.test_walk"
    ),
    Removal("local-data-metadata", "metadata of rows that clients send", Deleted(), "plan.test_walk"),
    Removal("user-defined-types", "types that name classes", Deleted(), "plan.test_walk"),
    Removal("plan-change-feed", "change feeds are told apart", DropArgument(0), "plan.test_walk"),
    Removal("register-wants-create", "code that is registered", Never(), "plan.test_walk"),
    Removal("sql-command-two-forms", "a SQL command in two forms", Never(), "plan.test_walk"),
    Removal("sql-command-without-text", "a SQL command without text", Never(), "plan.test_walk"),
    Removal("ml-is-code", "machine learning is code", Never(), "plan.test_walk"),
    Removal("foreach-writer", "functions that are called for rows of a stream", Never(), "plan.test_walk"),
    Removal(
        "streaming-query-handle",
        "streaming queries are handles",
        Deleted(),
        "plan.test_walk plan.test_walk_places",
    ),
    Removal(
        "streaming-query-run", "a streaming query is known by its run, too", DropArgument(2), "plan.test_walk"
    ),
    Removal(
        "lazy-checkpoint",
        "a checkpoint that is computed later",
        Becomes("False"),
        "plan.test_walk pipeline.test_plans",
    ),
    Removal(
        "writer-properties",
        "properties of the second writer",
        Deleted(),
        "plan.test_walk_places plan.test_commands",
    ),
    # Names
    Removal("name-trailing-text", "text behind a table's name", Never(), "plan.test_identifiers"),
    Removal("name-number", "numbers are no names", DropOperand(1), "plan.test_identifiers"),
    Removal(
        "name-other-alphabets", "letters of other alphabets in names", DropOperand(4), "plan.test_identifiers"
    ),
    Removal("column-quote-dot", "a quoted part of a column ends at a dot", Never(), "plan.test_identifiers"),
    Removal("target-no-temp-view", "targets are never temporary views", Calls("table"), "plan.test_commands"),
    # Compressed plans
    Removal("decompressed-size", "how far a plan may open", Never(), "plan.test_compressed"),
    Removal("decompression-window", "how much memory opening takes", DropArgument(0), "plan.test_compressed"),
    Removal(
        "compressed-unknown-fields",
        "unknown fields around a compressed plan",
        Never(),
        "plan.test_compressed",
    ),
    Removal("unknown-codec", "codecs that are not known", Never(), "plan.test_compressed"),
    # Arguments of SQL texts
    Removal(
        "argument-struct-fields",
        "fields of structs within arguments",
        Condition("... or case == 'struct'"),
        "plan.test_arguments",
    ),
    Removal("argument-collations", "collations within arguments", Never(), "plan.test_arguments"),
    Removal("argument-functions", "functions within arguments", DropOperand(2), "plan.test_arguments"),
    Removal("argument-types", "types within arguments", DropElement(1), "plan.test_arguments"),
    # What a plan asks for
    Removal(
        "temp-view-read-options",
        "changes and options of temporary views",
        Never(),
        "pipeline.test_plans plan.test_facts",
    ),
    Removal("internal-functions", "internal functions that are not known", Never(), "plan.test_facts"),
    Removal(
        "internal-function-names", "internal functions by their names", DropOperand(4), "plan.test_facts"
    ),
    Removal(
        "plan-function-names",
        "functions of plans are judged by their names",
        Becomes("None"),
        "plan.test_facts pipeline.test_plans",
    ),
    Removal(
        "plan-short-functions",
        "a function is called by its whole name, also where the client leaves that out",
        Becomes("()"),
        "pipeline.test_function_bodies",
    ),
    Removal("foreign-handles", "handles of other sessions", Never(), "pipeline.test_plans"),
    Removal("unregistered-source", "sources that nobody registered", Never(), "plan.test_facts"),
    Removal(
        "reserved-function-names",
        "names of built-in functions are not registered",
        Never(),
        "pipeline.test_plans",
    ),
    Removal(
        "registered-over-temp-view", "names that would drop a temporary view", Never(), "pipeline.test_plans"
    ),
    Removal("urls-wanted", "addresses are wanted", DropElement(2), "pipeline.test_plans"),
    Removal("code-wanted", "code is wanted", DropElement(3), "pipeline.test_plans plan.test_facts"),
    Removal("metadata-column-flag", "metadata columns by their flag", DropOperand(0), "plan.test_facts"),
    # Commands
    Removal("insert-overwrite-delete", "an overwriting insert deletes", Deleted(), "plan.test_commands"),
    Removal(
        "insert-overwrite-raw", "an overwriting insert deletes hidden rows", Never(), "plan.test_commands"
    ),
    Removal("save-over-drops", "saving over a table drops it", Deleted(), "plan.test_commands"),
    Removal("save-append-inserts", "appending to a table inserts", Deleted(), "plan.test_commands"),
    Removal("writer-v2-raw", "the second writer deletes hidden rows", DropArgument(0), "plan.test_commands"),
    Removal("write-path", "the path of a write", DropElement(0), "plan.test_commands"),
    Removal("plan-merge-reads-raw", "MERGE sees raw rows", DropArgument(4), "plan.test_commands"),
    Removal("dataframe-global-view", "global temporary views of DataFrames", Never(), "plan.test_commands"),
    Removal(
        "dataframe-view-keeps", "views of DataFrames keep their plans", DropArgument(0), "plan.test_commands"
    ),
    Removal("memory-sink-name", "the memory sink is written in small letters", Never(), "plan.test_commands"),
    Removal("unknown-sink", "streaming sinks that are not known", Never(), "plan.test_commands"),
    Removal("running-query-plan", "the plan of a running query", Never(), "plan.test_commands"),
    Removal("unread-code-command", "a command that is code and was not read", Never(), "plan.test_commands"),
    Removal("registered-name-plain", "names that are registered are plain", Never(), "plan.test_commands"),
    # Calls of the catalog
    Removal(
        "catalog-call-alone", "a call of the catalog is a plan of its own", Never(), "plan.test_catalog_calls"
    ),
    Removal(
        "catalog-call-first",
        "the first rows of a call of the catalog",
        DropOperand(0),
        "pipeline.test_plans",
    ),
    Removal(
        "catalog-call-database", "a database beside a name is emptied", Never(), "plan.test_catalog_calls"
    ),
    Removal("table-exists", "whether a table exists is a secret", Always(), "plan.test_catalog_calls"),
    Removal(
        "created-table-shown",
        "a table that was made shows raw rows",
        DropArgument(0),
        "pipeline.test_plans plan.test_catalog_calls",
    ),
    Removal(
        "catalog-truncate-raw", "truncating deletes hidden rows", DropArgument(1), "plan.test_catalog_calls"
    ),
    Removal(
        "show-create-raw", "AS SERDE the text that makes a table is raw", Always(), "plan.test_catalog_calls"
    ),
    Removal(
        "catalog-drop-global-view",
        "dropping a global temporary view",
        DropArgument(0),
        "plan.test_catalog_calls",
    ),
    Removal("catalog-cascade", "dropping a database with all in it", Deleted(), "plan.test_catalog_calls"),
    Removal(
        "catalog-list-details", "locations and descriptions in lists", DropArgument(0), "pipeline.test_plans"
    ),
    Removal(
        "set-unknown-catalog",
        "catalogs that are not configured are not set",
        Never(),
        "plan.test_catalog_calls",
    ),
    # Guards and the proof
    Removal("guard-options", "options that lead to other data", Never(), "plan.test_guard"),
    Removal("guard-literals", "values that are no literals", DropOperand(3), "plan.test_guard"),
    Removal("guard-keeps-name", "a guarded read keeps its name alone", Becomes("''"), "plan.test_guard"),
    Removal("identity-names", "identities by any of their names", DropElement(1, 2), "plan.test_guard"),
    Removal("proof-tables", "proof: every named table was judged", DropElement(0), "plan.test_prove"),
    Removal("proof-change-feeds", "proof: every change feed was judged", DropElement(0), "plan.test_prove"),
    Removal("proof-texts", "proof: every SQL text was judged", DropElement(0), "plan.test_prove"),
    Removal("proof-expressions", "proof: every expression was judged", DropElement(0), "plan.test_prove"),
    Removal("foreach-target", "targets of streams that call functions", DropOperand(1), "plan.test_commands"),
    Removal(
        "proof-too-deep",
        "proof: what is written too deep is refused, and no error",
        Never(),
        "plan.test_prove",
    ),
    Removal(
        "proof-no-other-reads",
        "proof: nothing else that reads data, and no other code",
        Never(),
        "plan.test_prove",
    ),
    Removal("proof-sources", "proof: sources say what they said", Never(), "plan.test_prove"),
    Removal("proof-targets", "proof: targets of commands and catalog calls", Never(), "plan.test_prove"),
    Removal("proof-stream-targets", "proof: targets of streams", Never(), "plan.test_prove"),
    Removal("proof-view-names", "proof: names of views", DropElement(0), "plan.test_prove"),
    Removal("proof-unread", "proof: nothing that cannot be read", Never(), "plan.test_prove"),
    Removal("proof-older-text", "proof: no text in the older form", Becomes("None"), "plan.test_prove"),
    Removal("proof-unchanged", "proof: nothing else was changed", Never(), "plan.test_prove"),
    Removal(
        "proof-checkpoints",
        "proof: every checkpoint is where the gateway puts it",
        Always(),
        "plan.test_prove",
    ),
    # Checkpoints of streams
    Removal("checkpoint-one-location", "one location of a checkpoint", Never(), "pipeline.test_checkpoints"),
    Removal("checkpoint-source-order", "the order of sources", Deleted(), "pipeline.test_checkpoints"),
    Removal(
        "checkpoint-over-cached", "checkpoints over cached relations", Never(), "pipeline.test_checkpoints"
    ),
    # Older Sparks
    Removal("newer-than-spark", "what a Spark does not know is not sent to it", Never(), "plan.test_minors"),
    Removal(
        "function-newer-than-spark",
        "a function that a Spark does not have is somebody's",
        Never(),
        "plan.test_minors",
    ),
    # Column analysis
    Removal(
        "usage-passed-on",
        "column analysis follows what is only passed on",
        Argument(1, "set()"),
        "plan.test_analyse",
    ),
    # Lineage
    Removal(
        "plan-field-name",
        "a field is shown with its struct in the name of a column",
        Becomes("meaning[1][-1]"),
        "plan.test_lineage",
    ),
    Removal(
        "lineage-nested-bound",
        "queries within a plan that lineage walks are bounded",
        Never(),
        "plan.test_lineage",
    ),
)
