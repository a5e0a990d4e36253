"""What Great Expectations finds in a shop, twice in a row; runs where `great-expectations` is installed.

`client.py REMOTE SHOP SCRATCH`: where Spark Connect is, which database to read and which to write. What is
validated are DataFrames of PySpark's.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from tests.e2e.programs.steps import Steps, tell

os.environ["GX_ANALYTICS_ENABLED"] = "false"

EXPECTATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "columns": (
        "ExpectTableColumnsToMatchOrderedList",
        {"column_list": ["id", "name", "email", "region", "joined", "spent"]},
    ),
    "columns in any order": (
        "ExpectTableColumnsToMatchSet",
        {"column_set": ["id", "email"], "exact_match": False},
    ),
    "count of columns": ("ExpectTableColumnCountToEqual", {"value": 6}),
    "rows": ("ExpectTableRowCountToBeBetween", {"min_value": 1, "max_value": 5}),
    "rows exactly": ("ExpectTableRowCountToEqual", {"value": 6}),
    "a column is there": ("ExpectColumnToExist", {"column": "email"}),
    "not null": ("ExpectColumnValuesToNotBeNull", {"column": "email"}),
    "null": ("ExpectColumnValuesToBeNull", {"column": "email"}),
    "unique": ("ExpectColumnValuesToBeUnique", {"column": "id"}),
    "unique regions": ("ExpectColumnValuesToBeUnique", {"column": "region"}),
    "unique together": ("ExpectCompoundColumnsToBeUnique", {"column_list": ["region", "joined"]}),
    "in a set": ("ExpectColumnValuesToBeInSet", {"column": "region", "value_set": ["EMEA", "AMER"]}),
    "not in a set": ("ExpectColumnValuesToNotBeInSet", {"column": "region", "value_set": ["APAC"]}),
    "distinct in a set": (
        "ExpectColumnDistinctValuesToBeInSet",
        {"column": "region", "value_set": ["EMEA", "AMER"]},
    ),
    "distinct contain": (
        "ExpectColumnDistinctValuesToContainSet",
        {"column": "region", "value_set": ["EMEA"]},
    ),
    "distinct equal": (
        "ExpectColumnDistinctValuesToEqualSet",
        {"column": "region", "value_set": ["EMEA", "AMER"]},
    ),
    "count of distinct": (
        "ExpectColumnUniqueValueCountToBeBetween",
        {"column": "email", "min_value": 1, "max_value": 4},
    ),
    "share of distinct": (
        "ExpectColumnProportionOfUniqueValuesToBeBetween",
        {"column": "region", "min_value": 0.9},
    ),
    "most common": ("ExpectColumnMostCommonValueToBeInSet", {"column": "region", "value_set": ["EMEA"]}),
    "like": ("ExpectColumnValuesToMatchRegex", {"column": "email", "regex": r"^[a-z]+@"}),
    "not like": ("ExpectColumnValuesToNotMatchRegex", {"column": "email", "regex": r"@x\."}),
    "lengths": ("ExpectColumnValueLengthsToBeBetween", {"column": "name", "min_value": 3}),
    "lengths of masks": ("ExpectColumnValueLengthsToEqual", {"column": "email", "value": 13}),
    "between": ("ExpectColumnValuesToBeBetween", {"column": "spent", "min_value": 0, "max_value": 1000}),
    "type": ("ExpectColumnValuesToBeOfType", {"column": "id", "type_": "IntegerType"}),
    "types": (
        "ExpectColumnValuesToBeInTypeList",
        {"column": "spent", "type_list": ["DecimalType", "DoubleType"]},
    ),
    "mean": ("ExpectColumnMeanToBeBetween", {"column": "id", "min_value": 3, "max_value": 4}),
    "median": ("ExpectColumnMedianToBeBetween", {"column": "id", "min_value": 3, "max_value": 4}),
    "sum": ("ExpectColumnSumToBeBetween", {"column": "id", "min_value": 21, "max_value": 21}),
    "least": ("ExpectColumnMinToBeBetween", {"column": "id", "min_value": 1, "max_value": 1}),
    "most": ("ExpectColumnMaxToBeBetween", {"column": "joined", "min_value": "2024-01-01"}),
    "deviation": ("ExpectColumnStdevToBeBetween", {"column": "id", "min_value": 1, "max_value": 2}),
    "quantiles": (
        "ExpectColumnQuantileValuesToBeBetween",
        {"column": "id", "quantile_ranges": {"quantiles": [0.25, 0.5], "value_ranges": [[1, 2], [3, 4]]}},
    ),
    "scores": (
        "ExpectColumnValueZScoresToBeLessThan",
        {"column": "id", "threshold": 1, "double_sided": True},
    ),
    "a pair": ("ExpectColumnPairValuesToBeEqual", {"column_A": "name", "column_B": "email"}),
    "a larger one": ("ExpectColumnPairValuesAToBeGreaterThanB", {"column_A": "spent", "column_B": "id"}),
    "unique in a row": ("ExpectSelectColumnValuesToBeUniqueWithinRecord", {"column_list": ["name", "email"]}),
    "by SQL": (
        "UnexpectedRowsExpectation",
        {"unexpected_rows_query": "SELECT * FROM {batch} WHERE spent IS NULL"},
    ),
    "on a condition": (
        "ExpectColumnValuesToNotBeNull",
        {"column": "spent", "row_condition": 'region == "EMEA"', "condition_parser": "spark"},
    ),
    "no such column": ("ExpectColumnValuesToNotBeNull", {"column": "nothing"}),
}
"""Name of a step → the expectation and its arguments; some are met and some are not, whoever asks."""


def told(result: Any) -> Any:
    """Return what an expectation found, without what belongs to the run."""
    found = result.to_json_dict()
    exception = found.get("exception_info") or {}
    raised = [
        one.get("exception_message")
        for one in ([exception] if "raised_exception" in exception else exception.values())
    ]
    return {"success": found["success"], "result": found["result"], "raised": raised}


def steps(spark: Any, shop: str, scratch: str) -> Steps:
    import great_expectations as gx
    from great_expectations import expectations

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("shop", persist=False).add_dataframe_asset("customer")
    whole = asset.add_batch_definition_whole_dataframe("whole")
    shown = {"dataframe": spark.table(f"{shop}.customer").orderBy("id")}

    def expect(name: str, given: dict[str, Any]) -> Any:
        expectation = getattr(expectations, name)(**given)
        return told(whole.get_batch(shown).validate(expectation, result_format="COMPLETE"))

    suite = gx.ExpectationSuite(
        name="all",
        expectations=[getattr(expectations, name)(**given) for name, given in EXPECTATIONS.values()],
    )

    def checked() -> Any:
        validation = gx.ValidationDefinition(name="all", data=whole, suite=suite)
        checkpoint = gx.Checkpoint(name="all", validation_definitions=[validation])
        run = checkpoint.run(batch_parameters=shown)
        return [run.success, run.describe_dict()["statistics"]]

    def written() -> Any:
        """Validate what it writes, as a pipeline does."""
        shown["dataframe"].select("id", "email").write.mode("overwrite").saveAsTable(f"{scratch}.checked")
        batch = whole.get_batch({"dataframe": spark.table(f"{scratch}.checked")})
        return told(batch.validate(expectations.ExpectColumnValuesToNotBeNull(column="email")))

    return {
        "columns of a batch": lambda: sorted(whole.get_batch(shown).columns()),
        "head": lambda: (
            whole.get_batch(shown).head(3).to_dict()
            if hasattr(whole.get_batch(shown).head(3), "to_dict")
            else str(whole.get_batch(shown).head(3))
        ),
        **{name: partial(expect, *one) for name, one in EXPECTATIONS.items()},
        "a checkpoint": checked,
        "written": written,
    }


def main(remote: str, shop: str, scratch: str) -> None:
    os.environ["SPARK_REMOTE"] = remote  # Great Expectations asks for a session by itself
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    tell(steps(spark, shop, scratch), times=2)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
