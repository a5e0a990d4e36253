"""What of the record is judged once more: each question once, with how often it was asked.

A statement that asked nothing of policies is not: its verdict is the same under any. What cannot be judged
has a reason instead; a reason is a fixed text, so that statements can be counted by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gateway.lineage.recorded import plan_of_record, read_dependencies
from gateway.model.catalog import Table, TableName
from gateway.model.context import AccessContext
from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal
from gateway.model.statement import EndpointName, PlanRequest, SessionContext, Statement

NAMES = (
    *("event_id", "time", "statement_id", "user_name", "groups", "roles", "client_address"),
    *("client_protocol", "verdict", "code", "plan_class", "statement", "statement_sha256", "body"),
)
"""Columns of a `decided` event that are read."""
BODY_KEYS = ("catalog", "namespace", "settings", "texts", "plan", "decisions", "lineage")
_BODY = ", ".join(f"'{key}', body -> '{key}'" for key in BODY_KEYS)
SELECT = ", ".join(f"jsonb_build_object({_BODY})::text AS body" if n == "body" else n for n in NAMES)
EVENTS = (
    "event_id string, time timestamp, statement_id string, user_name string, groups array<string>,"
    " roles array<string>, client_address string, client_protocol string, verdict string, code string,"
    " plan_class string, statement string, statement_sha256 binary, body string"
)
_REPORTED = (
    "catalog string, namespace array<string>, settings array<string>, texts array<string>, plan string,"
    " decisions array<struct<resource: string>>,"
    " lineage struct<tables: string, facts: string, plan: string, temp_views: map<string, string>,"
    " relations: map<string, string>>"
)

NOTHING_ASKED = "nothing asked"
"""Not a reason: policies were asked nothing, so no policy changes it."""
CALL = "it is a session call, not a statement"
ERASED = "its text was erased"
CUT = "its text was too long for the record, or had characters that cannot be stored"
ANALYSED = "the record has no plan of it: Spark only analyzed it"
REFUSED_PLAN = "the record has no plan of a refused DataFrame"
LARGE_PLAN = "its plan was too large for the record"
NO_TABLES = "the record does not contain the tables that it read"

_ASKED = (
    *("user_name", "groups", "roles", "endpoint", "text", "catalog", "namespace", "settings", "temp_views"),
    *("relations", "tables", "facts", "plan", "verdict", "code", "plan_class", "skip", "second", "address"),
)
"""Columns that must be equal for two statements to count as one question."""
_Row = Mapping[str, Any]


def questions(events: Any, *, was: bool, circumstances: bool) -> Any:
    """Return the questions of `decided` events, by `key`, with `statements`, `first_at`, `last_at`, and the
    last statement as an example.

    `was`: whether a statement is judged by the tables of its record. `circumstances`: whether policies go by
    when and from where something is asked.
    """
    from pyspark.sql import functions as f

    told = events.withColumn("told", f.from_json("body", _REPORTED))
    kept = f.col("told.lineage")
    has_plan = f.coalesce(
        f.array_contains(f.json_object_keys(f.get_json_object("body", "$.lineage")), "plan"), f.expr("false")
    )
    asks = f.coalesce(f.size("told.decisions"), f.lit(0)) > 0
    is_plan, refused = f.col("told.plan").isNotNull(), f.col("verdict") == "refused"
    # None, where it is rows of the client's, or a command that is no SQL.
    text = f.get("told.texts", f.lit(0))
    cut = f.sha2("statement", 256) != f.lower(f.hex("statement_sha256"))
    skip = (
        f.when(~refused & ~asks, NOTHING_ASKED)
        .when(f.col("told.catalog").isNull(), CALL)
        .when(f.col("statement").isNull(), ERASED)
        .when(cut, CUT)
        .when(f.col("told.plan") == "analyze", ANALYSED)
        .when(is_plan & refused, REFUSED_PLAN)
        .when(has_plan & kept["plan"].isNull(), LARGE_PLAN)
        .when(is_plan & (kept.isNull() | ~has_plan & text.isNull()), NO_TABLES)
    )
    if was:
        skip = skip.when(~refused & kept["tables"].isNull(), NO_TABLES)

    def keys(name: str) -> Any:
        return f.coalesce(f.array_sort(f.map_keys(kept[name])), f.array().cast("array<string>"))

    def sort_texts(column: Any) -> Any:
        return f.coalesce(f.array_sort(column), f.array().cast("array<string>"))

    second = f.unix_seconds("time") if circumstances else f.lit(None).cast("bigint")
    address = f.col("client_address") if circumstances else f.lit(None).cast("string")
    read = told.withColumn("skip", skip).select(
        "event_id",
        "time",
        "statement_id",
        "user_name",
        sort_texts(f.col("groups")).alias("groups"),
        sort_texts(f.col("roles")).alias("roles"),
        f.coalesce("client_protocol", f.lit("thrift")).alias("endpoint"),
        # A plan that is nothing but an SQL text is judged as that text, as it was.
        f.when(is_plan & ~has_plan, text).otherwise(f.col("statement")).alias("text"),
        f.col("told.catalog").alias("catalog"),
        f.coalesce("told.namespace", f.array(f.lit("default"))).alias("namespace"),
        sort_texts(f.col("told.settings")).alias("settings"),
        keys("temp_views").alias("temp_views"),
        keys("relations").alias("relations"),
        (kept["tables"] if was else f.lit(None).cast("string")).alias("tables"),
        (kept["facts"] if was else f.lit(None).cast("string")).alias("facts"),
        kept["plan"].alias("plan"),
        "verdict",
        f.coalesce("code", f.lit("")).alias("code"),
        # That of a plan is the message's, also where it is nothing but an SQL text, which is read by itself.
        f.when(is_plan, "").otherwise(f.coalesce("plan_class", f.lit(""))).alias("plan_class"),
        "skip",
        second.alias("second"),
        address.alias("address"),
    )
    whole = f.to_json(f.struct(*_ASKED), {"ignoreNullFields": "false"})
    return (
        read.dropDuplicates(["event_id"])
        .withColumn("key", f.sha2(whole, 256))
        .groupBy("key")
        .agg(
            f.count(f.lit(1)).alias("statements"),
            f.min("time").alias("first_at"),
            f.max("time").alias("last_at"),
            f.max_by("statement_id", "time").alias("example"),
            *(f.first(name).alias(name) for name in _ASKED),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A statement as it is judged."""

    statement: Statement
    context: AccessContext
    tables: dict[TableName, Table]
    """Tables in its record, by folded name; empty: it is judged by the present tables."""


def question_of(row: _Row, principals: Mapping[str, Principal]) -> Question | str:
    """Return what a row asks, or why it cannot be judged.

    Groups and roles are those of the record; attributes, which it does not hold, those that the user has now.
    """
    tables: dict[TableName, Table] = {}
    plan = None
    try:
        if row["tables"] is not None:
            tables = read_dependencies({"tables": row["tables"], "facts": row["facts"]})
        if row["plan"] is not None:
            plan = PlanRequest(kind="execute", message=plan_of_record(row["plan"]))
    except ValueError as error:
        return str(error)
    user = row["user_name"]
    known = principals.get(user)
    endpoint: EndpointName = "connect" if row["endpoint"] == "connect" else "thrift"
    second = row["second"]
    statement = Statement(
        text="" if plan is not None else row["text"],
        principal=Principal(
            user=user,
            groups=frozenset(row["groups"]),
            roles=frozenset(row["roles"]),
            attributes=known.attributes if known is not None else (),
        ),
        context=SessionContext(
            catalog=row["catalog"],
            namespace=tuple(row["namespace"]),
            temp_views=frozenset(row["temp_views"]),
            handles=frozenset(SparkHandle("relation", one) for one in row["relations"]),
            settings=frozenset(row["settings"]),
            endpoint=endpoint,
        ),
        plan=plan,
    )
    context = AccessContext(
        time=None if second is None else datetime.fromtimestamp(second, UTC),
        client_ip=row["address"] or None,
        client_type=endpoint,
        action="QUERY",
        request_data=row["text"],
    )
    return Question(statement=statement, context=context, tables=tables)


def with_catalogs(question: Question, catalogs: frozenset[tuple[str, int]]) -> Statement:
    """Return the statement in a session that was told of these catalogs that come and go."""
    statement = question.statement
    return (
        replace(statement, context=replace(statement.context, catalogs=catalogs)) if catalogs else statement
    )
