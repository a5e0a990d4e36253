"""Writes docs/statements.md from the tables of `gateway/sql` and the statements of tests/cases/totality.yaml.

`python -m tests.e2e.statements.page`; a test holds the page to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gateway.model.meaning_settings import HARMLESS_BY_EFFECT
from gateway.model.reading_settings import READING_SETTINGS, SETTABLE_LEGACY
from gateway.sql.classify import REFUSED_COMMANDS
from gateway.sql.expressions import REFUSED_EXPRESSIONS
from gateway.sql.functions import REFUSED_FUNCTIONS
from gateway.sql.nodes import REFUSED_NODES
from tests.e2e.statements.collection import HERE, TOTALITY

PAGE = Path(__file__).parents[3] / "docs" / "statements.md"
PREFACE = """\
# Statements

What clients write passes as they write it: queries, DataFrames, writes, definitions, commands, through
either endpoint. This page has what needs a word, and what is refused whoever asks, with the reason.

Generated from the tables in `gateway/sql` by `python -m tests.e2e.statements.page`. `python -m
tests.e2e.statements` runs a collection of statements through a gateway and straight at Spark and prints
what differs.

## Session variables

`DECLARE`, `SET VARIABLE` and `DROP TEMPORARY VARIABLE` pass, and variables are values wherever Spark takes
one. A query that gives a value is judged like any other; when it would give other rows, because policies or
what it reads changed, the variable is dropped before the next statement.

Names of variables are plain (`x`, `session.x`). Spark takes a name for a variable where nothing else has
it, so no policy of a table that you read, and no text of a view that is written out for you, may have the
word: the statement is refused, and says which variable to drop.

A session of Spark Connect whose gateway was started anew has variables that nobody knows. Tables with
policies are refused in it; begin a new session.

## EXECUTE IMMEDIATE and IDENTIFIER

The text of `EXECUTE IMMEDIATE`, and the name in `IDENTIFIER(…)`, is a string, strings with `||` or `concat`
between them, or a variable that was declared with a string, or set to one since. The statement is judged,
recorded and sent with that written out. Arguments of `USING` are literals, variables, and what Spark's
functions compute of these, but for those that give another value each time (`rand()`), which Spark refuses
too; strings, and variables whose string is known, are names as well, as in
`EXECUTE IMMEDIATE 'SELECT * FROM IDENTIFIER(:t)' USING 'sales.orders' AS t`. `INTO` takes variables. Any
other text or name is not known before it runs, and is refused.

## Global temporary views

`CREATE [OR REPLACE] GLOBAL TEMPORARY VIEW` wants `create` (and `drop`, to replace) on the table
`spark_catalog.global_temp.NAME`, reading one `select`, and `DROP VIEW` (`catalog.dropGlobalTempView`)
`drop`. Spark has no place for who defined one, so it lends nothing: whoever reads it needs `select` on
what it reads too, and has his own masks and filters. It is read by the text that Spark has of it, written
out in its place, under the reader's settings. It reads no temporary view, and no persistent view or
function reads it. One that was made of a DataFrame has no text, and is refused.

## SQL functions

`CREATE [OR REPLACE] FUNCTION … RETURN` wants `create` on the udf (and `drop`, to replace), a call
`execute`, and `DROP FUNCTION` `drop`. A temporary function is the udf `system.session.NAME` and has a name
that is none of Spark's. A body calls Spark's own functions and those of databases, which are judged with it;
that of a temporary function, and what a parameter is by default, Spark's own only: a default is put in at the
call, where Spark looks for a function in the database that the caller uses. No body reads a temporary
view or calls a temporary function: Spark looks these up whenever it is called, and takes the name of one that
is gone for that of a table, or of another function, which nobody has judged. `current_user()` in a body is
whoever calls, at either endpoint.
Functions of databases are called by any name that Spark finds them by; who may not execute
one is told that there is none. Who may replace a function that a policy calls changes what the policy says.

What a body reads is judged as the text of a view is: whoever makes the function has to have `select` on it,
and is its definer, which the gateway records at the end of the function's comment; tables are stored with
their whole names. A call needs that the definer may read all of it now, and has the masks and filters of
whoever calls. Where one of these stands in it, and where its definer's access lends something, the body is
written out in the place of the call, under the settings of the session, which have to be Spark's own. Then a
call is refused in UPDATE, DELETE and MERGE, in EXPLAIN, in expressions of DataFrames, and where Spark has no
subqueries: in ON, and in queries with GROUP BY unless it is grouped by or aggregated. A column that is
computed of a call may need an alias. A table function that lends rows is called with constants. A function
that was made past the gateway has no definer: an operator vouches for what it reads.

A temporary function that reads tables has the masks and filters of who made it in its body. It ends, with
what came of it, when policies would have it read otherwise; its plan and its text are not shown. One whose
row filters read other tables is made again, by itself, when these are looked at again.

Spark keeps the body of a function in each session that has called it, with or without a gateway: there the
old one runs after `CREATE OR REPLACE FUNCTION`, and after dropping and creating it, too. Where either body
reads tables, such a call is refused; a new session has the new one. For all open sessions to have another
body at once, in a mask above all, give the function another name.

Functions of classes and jars are code, and are refused.
"""

SCRIPTS = """
## Scripts

`BEGIN … END` passes with declarations, IF, CASE, loops, FOR, handlers and cursors, since Spark 4.1. Every
statement, query and condition in it is judged before any of it runs, and Spark gets the script with each of
them as it is forwarded by itself. The record has the script as one statement, with all that it reads. What it
was judged by is held until it has ended.

So a script has nothing in it that is not known before it runs. Refused, with the line, are:

* statements that change what names behind them mean: USE, SET of a setting, temporary views and functions,
  DROP TEMPORARY VARIABLE;
* a statement that makes, changes or drops what another one names, and any such statement in a loop or
  handler: send CREATE by itself before the script;
* texts of EXECUTE IMMEDIATE and names in `IDENTIFIER(…)` but strings, and variables that are declared with a
  string and nowhere given another value;
* SHOW and DESCRIBE, whose answers are filtered, EXPLAIN, CACHE TABLE, and parameter markers but in cursors.

A variable of a script, or the column of a FOR loop, is no word of a policy of a table that the script reads.
"""

FILES = """
## Files by their path

``SELECT … FROM parquet.`/path` `` (also orc, avro, csv, json, text and delta), a temporary view `USING`
one of them with a `path`, `LOCATION`, `SET LOCATION`, `INSERT OVERWRITE DIRECTORY … USING`, `LOAD DATA`,
`ADD FILE` and a DataFrame's `load` and `save` want `read` or `write` on the url. A path is written in
full: relative ones, `..`, wildcards and versions (`@v1`) are refused. Where a relative one begins is for each
statement of Spark's another place: the database's, the table's, or where its process was started.
Persistent views read none.

Files of a table are the table. Where a path is at, in or around the location of a table of Spark's
session catalog, one also needs `select` on all of it, without masks and row filters, and to write there
`insert` and `delete`. Percent-encoding, case, schemes of the same store and links of local directories
are looked through; what could be the same counts as the same; paths into `/proc` are refused. Locations
are those of the last 30 seconds, and of now where a statement through this gateway changed names of the
database. Files of the gateway, and the warehouses of the catalogs in its settings, are not read by path.
Not seen are partitions that lie elsewhere than their table. A temporary view over files is judged when it
is made: files of a table that comes there later are read through it.

`input_file_name()` and its likes answer over tables of which one may see everything, and over files.

## Programs

`SELECT TRANSFORM … USING`, `MAP` and `REDUCE` want `create` and `execute` on the udf
`system.session.transform`: the program runs on the executors, with their rights. It gets masked values of
the rows that a filter leaves.

## Under masks and filters

`UPDATE` and `DELETE` with `WHERE`, and `MERGE`, change those rows of Delta and Iceberg tables that the user
sees, if their conditions and what they set use no masked column, subquery, window, lambda function, metadata
column (`_file`) or function that is not Spark's own: they are asked of no hidden row. The table of `UPDATE`
and `DELETE` takes no alias that is a word of its filter, and none has a CHECK constraint on a masked column.
A row with a masked column is not deleted, since what the mask hides would go with it. `MERGE` takes hidden
rows for not there ([policies.md](policies.md#rows-that-one-does-not-see)): not `WITH SCHEMA EVOLUTION`, not
into a branch, not behind `WITH`, and not where the row filter reads other tables. Where its `ON` can fail on
no row Spark joins by it; where it can, and in `mergeInto`, each row is compared with each: compare columns of
one type by `=`. Rows may be changed so that the user no longer sees them, as in Ranger, unless the row filter
has [`check`](policies.md#rows-that-one-could-not-read-back). Other formats and statements are refused.

`CREATE TABLE … LIKE` a table of files or a view has the columns of one that has masks and row filters, as
DESCRIBE shows them, if none is hidden, and no rows; it takes no `LOCATION` then. Tables of other kinds, which
would bring an address or a password with their options, are refused.

A view is written out with what policies leave of its tables wherever a statement reads it. That may come to
2,000,000 characters: read a view once, in a `WITH`, where the statement is refused for more.

`EXPLAIN`, `EXPLAIN EXTENDED` and `EXPLAIN FORMATTED` show the plan with NULL for masked columns and
without the filter, so that it has no values of policies; so does `explain()` of a DataFrame. It names the
directory of the table. Refused are plans with statistics (`COST`), which count hidden rows, or with code
(`CODEGEN`): to write that, Spark reads the side of a join that it broadcasts, and the code tells whether its
keys are unique, those of hidden rows too. So are plans over temporary views, over views with obligations and
over tables with hidden columns, and, whoever asks, of UNCACHE TABLE and CREATE FUNCTION, which have texts of
views and functions in them. Of commands on such a table DESCRIBE, SHOW COLUMNS, SHOW
TBLPROPERTIES and SHOW CREATE TABLE are explained where its format is one of Spark's own: others stand in
the plan as their connectors write them, with properties and addresses. CACHE TABLE is not, since its plan is
of all rows.

`COMMENT ON TABLE`, comments on columns that one may see, and properties that are notes want `alter` alone:
nothing of a table's rows depends on them. `SHOW TBLPROPERTIES` with one key tells of a property that is not
shown what Spark tells of one that is not there, and `DESCRIBE EXTENDED` of a column has no statistics.
`ANALYZE TABLE` counts hidden rows for everybody's plans, and is refused.

## Properties and options

A table of parquet, orc, avro, csv, json, text or Delta takes any property that none of these formats, and
no catalog or store, reads (`team.lead`); so do views and databases of Spark's own catalog. Of other formats,
and where CREATE TABLE names none, it takes those on a list and `meta.…`, `tag.…`, `user.…`. Options are on a
list; tables of parquet and orc take plain words that neither reads besides. Functions on XML take options as
`map('rowTag', …)`, but for the one that names a file.
"""

SETTINGS = """
## Settings

A policy on `setting` says who may set what; tables with masks or filters that could mean something else under
a setting are refused until it is reset. `SET` and `SET -v` list the values of settings that the user may set,
or that are no secret; `RESET` gives back Spark's own.

Everybody may set these where the pack `rules/policies/platform.yaml` is in force; masks and filters mean the
same under them:

| what they change | settings |
|---|---|
"""
_DEPENDS = "masks and filters that depend on it refuse their tables"
MORE_SETTINGS = {
    f"implicit casts, and what fails or overflows: {_DEPENDS}": "spark.sql.ansi.enabled",
    f"what day and hour an instant is: {_DEPENDS}": "spark.sql.session.timeZone",
    "how clients get and show rows": """
        spark.sql.execution.arrow.* spark.sql.execution.pandas.* spark.sql.repl.eagerEval.*
    """,
}
OF_TOOLS = (
    ("dbt", "spark.sql.ansi.enabled spark.sql.sources.partitionOverwriteMode", "in the pack"),
    (
        "drivers of Hive, in DBeaver, Tableau, Power BI and Superset",
        "hive.* mapreduce.* tez.*",
        "those in the pack; others by a policy. They come as `set:hiveconf:…` or SET",
    ),
    (
        "PySpark and pandas on Spark",
        "spark.sql.execution.arrow.* spark.sql.execution.pandas.* spark.sql.ansi.enabled pandas_on_spark.*",
        "in the pack; everybody may set `pandas_on_spark.*`, which Spark ignores",
    ),
    (
        "Iceberg",
        "spark.sql.iceberg.vectorization.enabled spark.sql.iceberg.planning.preserve-data-grouping",
        "in the pack",
    ),
    (
        "Iceberg",
        "spark.sql.iceberg.handle-timestamp-without-timezone",
        "by a policy: it changes types",
    ),
    (
        "Iceberg",
        "spark.wap.id spark.wap.branch",
        "by a policy: under a branch a session reads other rows; if policies read tables, it is refused",
    ),
    (
        "Delta",
        "spark.databricks.delta.*",
        "by a policy: with `schema.autoMerge.enabled` INSERT and MERGE add columns, which else wants `alter`",
    ),
)
OTHERS = """
A policy can let users set others. Tables with masks or filters are refused while one is set.

Nobody sets what shapes how statements are read: what is judged and what Spark runs would be two readings of
one text, and texts of policies and views, which are written into it, would be read otherwise than they were
meant. A session has these values, whatever Spark's configuration says; to set one that it has is no change:

| setting | value | with another one |
|---|---|---|
"""
OTHERWISE = {
    "spark.sql.ansi.doubleQuotedIdentifiers": """
        `"x"` in a policy or view is a column, and no string
    """,
    "spark.sql.ansi.enforceReservedKeywords": "names that tables and policies have are no names any more",
    "spark.sql.ansi.relationPrecedence": "joins and commas bind otherwise",
    "spark.sql.caseSensitive": """
        `SSN` and `ssn` are two columns, and a mask is on one of them
    """,
    "spark.sql.join.asofJoin.enabled": "words of a join are aliases, or aliases words of a join",
    "spark.sql.legacy.allowSessionVariableInPersistedView": """
        a word in a view means a variable of whoever reads it
    """,
    "spark.sql.legacy.allowTempViewCreationWithMultipleNameparts": "`db.t` may be a temporary view",
    "spark.sql.legacy.bangEqualsNot": "`!` stands for `NOT` in other places, too",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": """
        `'a''b'` is `ab` and not `a'b`
    """,
    "spark.sql.legacy.ctePrecedencePolicy": "a name is that of another WITH, and so perhaps of a table",
    "spark.sql.legacy.duplicateBetweenInput": "`BETWEEN` evaluates its operand twice",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "`1e3` has another type",
    "spark.sql.legacy.identifierClause": "`IDENTIFIER` takes other names, in other places",
    "spark.sql.legacy.interval.enabled": "intervals have another type",
    "spark.sql.legacy.keepPartitionSpecAsStringLiteral": "another partition is meant",
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "parameters are values alone, and put in later",
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral": "another partition is meant",
    "spark.sql.legacy.parseQueryWithoutEof": "what follows the first statement is not read at all",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "`HAVING` chooses rows, and not groups",
    "spark.sql.legacy.setopsPrecedence.enabled": "`UNION` and `INTERSECT` bind otherwise",
    "spark.sql.operatorPipeSyntaxEnabled": "`|>` is refused",
    "spark.sql.parser.escapedStringLiterals": "a backslash in a string is a sign like others",
    "spark.sql.parser.quotedRegexColumnNames": """
        a name in backticks means every column that it matches, hidden ones too
    """,
    "spark.sql.parser.singleCharacterPipeOperator.enabled": "`|` is no pipe",
    "spark.sql.path.enabled": "see SET PATH below",
    "spark.sql.runSQLOnFiles": "files are not read by their path",
    "spark.sql.timeTravel.atSyntax.enabled": "`t@v1` is a name",
    "spark.sql.timestampType": "`TIMESTAMP` in a mask has another type than its column",
    "spark.sql.variable.substitute": """
        `${x}` is put in before Spark reads the text, which is another one then than was judged
    """,
}
"""Setting → what a text means where it has another value."""
NAMES = """
Nor does anybody set `spark.sql.optimizer.excludedRules`: rules that it leaves out keep masked values where
they are.

`SET PATH`, off in Spark 4.3 unless its configuration says otherwise, is off in every session. A path says in
which databases a name without one is looked up, and in what order: session functions may come before Spark's
own, so that `mask` or `upper` in a policy means whatever the session has registered, and a table that a view
names by one word is another one. Masks, filters and the texts of views would have to be written into
statements with the whole name of each function in them, which no Spark before 4.2 takes. Write the names of
databases instead.
"""

FIGURES = """
## Where Sluice differs from Spark

The collection has 1,271 statements, 507 of them queries. This is how many of them have the rows, names,
types or error that they have at Spark 4.3, and how many of those that Spark runs are refused:

| who | endpoint | statements the same | queries the same | refused, of those that Spark runs |
|---|---|---|---|---|
| may do everything | HiveServer2 | 98.6 % (of 1,267) | 99.6 % | 9 of 1,042 |
| may do everything | Spark Connect | 98.6 % | 99.6 % | 14 of 2,239, with Spark's examples |
| has a mask and a row filter on `people` | HiveServer2 | 96.1 % | 98.6 % | 21 of 1,045 |
| has a mask and a row filter on `people` | Spark Connect | 96.1 % | 98.6 % | 21 of 1,047 |

Both endpoints refuse the same statements. 9 of the 21 are refused whoever asks, and 12 because policies hold
on `people`; of these the two that describe a column pass since. `python -m tests.e2e.statements` prints each
that differs, for either user and endpoint. With the 1,288 examples that Spark has of its functions 98.5 % of
2,559 are the same over Spark Connect: 20 examples differ, of which 10 need `escapedStringLiterals`, 4 read
descriptors or schemas of files, and 6 are other for each run or user.

Of another collection, the 18,401 statements of Spark 4.2's own tests that need no classes of theirs, each in
its file's order, 168 are judged otherwise than Spark 4.2 answers them (99.1 % the same), of the 14,259
queries 47 (99.7 %), for who may do everything. Compared is whether a statement passes, or has Spark's
condition of an error, with Spark's parser and no Spark that runs it; 123 are refused that Spark runs: 42 `SET
PATH`, 14 settings that shape how statements are read, 15 calls of functions that such a statement would have
made or that came with classes, 6 `${…}`, 6 functions over temporary views, and others up to five at a time.
A quarter of these files, but for those of Python functions and TPC-DS, was run over Spark Connect
through a gateway beside Spark itself: of 3,123 statements 97.9 % are the same, of their queries 99.4 %,
and 10 of 2,389 that Spark runs are refused. Some 20 of the 67 that differ do so because both sides made
databases of one name. Three are scripts with a handler for a name that does not exist, which the gateway
reports before the script runs, and four are queries after a setting that was refused.
All were run on 1 December 2026, before literals that are no strings had Spark's error in EXECUTE
IMMEDIATE.

"""


def page() -> str:
    """Return the page as Markdown."""
    return PREFACE + SCRIPTS + FILES + "".join((*_settings(), *_differences(), *_refused()))


def _settings() -> Iterator[str]:
    yield SETTINGS
    for what, keys in {**HARMLESS_BY_EFFECT, **MORE_SETTINGS}.items():
        yield f"| {what} | {_codes(keys)} |\n"
    yield "\nTools set:\n\n| tool | settings | may be set |\n|---|---|---|\n"
    for tool, keys, how in OF_TOOLS:
        yield f"| {tool} | {_codes(keys)} | {how} |\n"
    yield OTHERS
    for key, value in sorted(READING_SETTINGS.items()):
        yield f"| `{key}` | `{value}` | {_cell(OTHERWISE[key])} |\n"
    yield NAMES
    yield "\nBelow `spark.sql.legacy.` a policy can let users set these, and no others:\n\n"
    yield "| what they change | settings |\n|---|---|\n"
    for what, keys in SETTABLE_LEGACY.items():
        yield f"| {what} | {_codes(' '.join(sorted(keys.split())))} |\n"


def _refused() -> Iterator[str]:
    cases: Mapping[str, list[Any]] = yaml.safe_load(TOTALITY.read_text(encoding="utf-8"))
    yield "\n## Refused whoever asks\n\n| for example | why |\n|---|---|\n"
    reasons = {*REFUSED_COMMANDS.values(), *REFUSED_NODES.values(), *REFUSED_EXPRESSIONS.values()}
    for case in cases["refused"]:
        why = next((reason for reason in sorted(reasons) if case["why"] in reason), case["why"])
        if not why.startswith("["):
            yield f"| `{_cell(case['sql'])}` | {_cell(why)} |\n"
    by_reason: dict[str, list[str]] = {}
    for name, why in REFUSED_FUNCTIONS.items():
        by_reason.setdefault(why, []).append(name)
    yield "\n| functions | why |\n|---|---|\n"
    for why, names in sorted(by_reason.items()):
        yield f"| {' '.join(f'`{name}`' for name in sorted(names))} | {_cell(why)} |\n"


def _codes(keys: str) -> str:
    return " ".join(f"`{key}`" for key in keys.split())


def _differences() -> Iterator[str]:
    yield FIGURES
    yield "Of the collection, for somebody who may do everything:\n\n"
    yield from _list_differences("known")
    yield "\nAnd refused to who has a mask and a row filter on `people`:\n\n"
    yield from _list_differences("obliged")


def _list_differences(file: str) -> Iterator[str]:
    reasons: Mapping[str, list[str]] = yaml.safe_load((HERE / f"{file}.yaml").read_text(encoding="utf-8"))
    yield "| why | statements |\n|---|---|\n"
    for why, statements in reasons.items():
        yield f"| {why} | {'<br>'.join(f'`{_cell(one)}`' for one in statements)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
