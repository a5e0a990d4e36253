"""DataFrames without a Spark: pyspark's own client builds the plans, with a session that cannot be asked."""

from __future__ import annotations

from typing import Any

from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.tvf import TableValuedFunction

from gateway.wire.connect import pb

Frame = Any
"""A DataFrame; pyspark's own types are those of a session that is there."""


class _Client:
    """The part of a SparkConnectClient that building plans needs."""

    def _set_relation_in_plan(self, plan: Any, relation: Any) -> None:
        plan.root.CopyFrom(relation)


class _Session:
    session_id = "00000000-0000-0000-0000-000000000000"

    def __init__(self) -> None:
        self.client = self._client = _Client()

    def table(self, name: str) -> Frame:
        return table(name)

    def sql(self, text: str) -> Frame:
        return sql(text)

    @property
    def tvf(self) -> Any:
        return TableValuedFunction(SESSION)


SESSION: Any = _Session()


def table(name: str, **options: str) -> Frame:
    """Return `spark.table(name)`."""
    return DataFrame(plans.Read(name, options), SESSION)


def sql(text: str, *, views: dict[str, Frame] | None = None, **arguments: Any) -> Frame:
    """Return `spark.sql(text)` as a relation; `views` are DataFrames that it names, `arguments` Columns."""
    references = [plans.SubqueryAlias(frame._plan, name) for name, frame in sorted((views or {}).items())]
    return DataFrame(plans.SQL(text, None, arguments or None, references), SESSION)


def made(plan: Any) -> Frame:
    """Return the DataFrame of one of the client's plan nodes."""
    return DataFrame(plan, SESSION)


def message(frame: Frame) -> Any:
    """Return the `spark.connect.Plan` of a DataFrame."""
    return frame._plan.to_proto(SESSION.client)


def command(plan: Any) -> Any:
    """Return the `spark.connect.Plan` of one of the client's commands."""
    return pb.Plan(command=plan.command(SESSION.client))
