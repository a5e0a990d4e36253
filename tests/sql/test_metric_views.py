"""The YAML of metric views: what is read as Spark reads it, and what is refused because it might not be."""

from __future__ import annotations

import pytest

from gateway.sql.metric_views import MAX_YAML_CHARS, UnreadMetrics, metric_view, query_of, read_metrics

VIEW = """
version: 0.1
source: lab.pay
filter: id > 0  # of all
dimensions:
  - name: region
    expr: upper(region)
measures:
  - {name: The Total, expr: 'sum(pay)'}
"""
TOLD = {"metric_view.from.type": "ASSET", "metric_view.from.name": "lab.pay", "metric_view.where": "id > 0"}
NAMES = ("region", "The Total")


def test_a_definition_is_a_query_over_its_source() -> None:
    view = metric_view(VIEW, ("r", "t"), TOLD)
    assert view.text == (
        "SELECT (upper(region)\n) AS `r`, (sum(pay)\n) AS `t` FROM lab.pay WHERE (id > 0\n) GROUP BY 1"
    )
    assert view.metrics is not None
    assert query_of(view.metrics, (("i", "`pay`"),)) == (
        "SELECT (upper(region)\n) AS `r`, (`pay`\n) AS `i` FROM lab.pay WHERE (id > 0\n)"
    )
    assert view.output == ("r", "t")


@pytest.mark.parametrize("source", ["SELECT * FROM lab.pay -- all", "lab . pay", "lab.päy", "TABLE lab.pay"])
def test_a_source_that_is_no_plain_name_is_a_query(source: str) -> None:
    view = metric_view(VIEW.replace("lab.pay", source), NAMES, {})
    assert view.metrics is not None
    assert view.metrics.source == f"({source}\n)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (VIEW + "joins: []\n", "unknown key `joins`"),
        (VIEW.replace("    expr:", "    format: x\n    expr:"), "has keys other"),
        (VIEW.replace("version: 0.1", "version: 1.1"), "version"),
        (VIEW.replace("version: 0.1\n", ""), "`version`"),
        (VIEW + "source: lab.other\n", "`source` twice"),
        (VIEW.replace("lab.pay", "&a lab.pay").replace("id > 0", "*a"), "aliases"),
        (VIEW.replace("lab.pay", "!!str lab.pay"), "tags"),
        (VIEW.replace("id > 0", "~"), "`filter` must be a text"),
        (VIEW.replace("upper(region)", "[a]"), "`expr` must be a text"),
        (VIEW.replace("dimensions:", "dimensions: a\nmeasures_:"), "measures_"),
        (VIEW + "---\nversion: 0.1\n", "not YAML"),
        ("- a", "must be a mapping"),
        ("{" * 5000, "not YAML"),
        ("version: 0.1\nsource: ' '\n", "no source"),
        (" " * (MAX_YAML_CHARS + 1), "too long"),
    ],
)
def test_what_parsers_may_read_differently_is_refused(text: str, why: str) -> None:
    with pytest.raises(UnreadMetrics, match=why):
        read_metrics(text)


@pytest.mark.parametrize("names", [("region",), ("a", "A"), ("a", "b", "c")])
def test_columns_are_dimensions_and_measures(names: tuple[str, ...]) -> None:
    with pytest.raises(UnreadMetrics, match="its columns"):
        metric_view(VIEW, names, {})


@pytest.mark.parametrize(
    "told",
    [
        {"metric_view.from.type": "SQL"},
        {"metric_view.from.name": "lab.other"},
        {"metric_view.where": "id > 1"},
        {"metric_view.where": ""},
    ],
)
def test_spark_has_to_say_the_same(told: dict[str, str]) -> None:
    with pytest.raises(UnreadMetrics, match="differently"):
        metric_view(VIEW, NAMES, TOLD | told)
