"""The YAML of a metric view, read into what it is made of, and into a query that says all that it reads.

Spark reads it with Jackson and takes what it knows of: version 0.1 has a source, a filter, dimensions and
measures. What YAML parsers read differently (aliases, tags, a key twice, nothing for a value) is refused, as
is every key that this version does not have; and where Spark tells what it found, it has to be the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import yaml

from gateway.model.catalog import MetricDefinition, ViewBody, quote, quote_parts
from gateway.model.reading import Reading

METRIC_VIEW = "METRIC_VIEW"
"""The type that Spark gives it."""
MAX_YAML_CHARS = 262_144
"""More than a view with ten thousand columns has."""

_VERSION = "0.1"
_KEYS = frozenset({"version", "source", "filter", "dimensions", "measures"})
_COLUMN_KEYS = frozenset({"name", "expr"})
_NULL = "tag:yaml.org,2002:null"
_PART = r"(?:`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
_FROM, _WHERE = "metric_view.from.", "metric_view.where"
"""Properties in which Spark 4.3 tells what it found."""


class UnreadMetrics(Exception):
    """The definition of a metric view is not understood; the message says why, in lower case."""


def metric_view(text: str, names: Sequence[str], properties: Mapping[str, str]) -> ViewBody:
    """Read the YAML of a view whose columns are called `names`, the dimensions first.

    `properties`: the view's own. Raises UnreadMetrics.
    """
    found = read_metrics(text)
    metrics = found.with_names(names)
    _check_described(found, properties)
    return ViewBody(text=query_of(metrics), catalog="", database="", output=tuple(names), metrics=metrics)


class WrittenMetrics:
    """A definition as it is written."""

    def __init__(self, root: Mapping[str, yaml.Node]) -> None:
        if root.keys() - _KEYS:
            raise UnreadMetrics(f"unknown key `{min(root.keys() - _KEYS)}`; Spark 4.3 does not have it")
        if _scalar(root.get("version"), "version") != _VERSION:
            raise UnreadMetrics(f"its version is not {_VERSION}")
        self.source = _scalar(root.get("source"), "source").strip()
        self.where = "" if root.get("filter") is None else _scalar(root["filter"], "filter")
        self.dimensions = _columns(root.get("dimensions"), "dimensions")
        self.measures = _columns(root.get("measures"), "measures")
        if not self.source:
            raise UnreadMetrics("it has no source")

    @property
    def is_named(self) -> bool:
        """Whether the source is a table's name; else it is a query."""
        return _NAME.fullmatch(self.source) is not None

    def with_names(self, names: Sequence[str]) -> MetricDefinition:
        """Return it with other names for its columns, as CREATE VIEW may give them."""
        count = len(self.dimensions)
        if len(names) != count + len(self.measures) or len({name.lower() for name in names}) != len(names):
            raise UnreadMetrics("its columns differ from its dimensions and measures")
        return MetricDefinition(
            source=self.source if self.is_named else f"({self.source}\n)",
            where=self.where,
            dimensions=tuple(zip(names[:count], [e for _, e in self.dimensions], strict=True)),
            measures=tuple(zip(names[count:], [e for _, e in self.measures], strict=True)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in (*self.dimensions, *self.measures))


def read_metrics(text: str) -> WrittenMetrics:
    """Read a definition. Raises UnreadMetrics."""
    if len(text) > MAX_YAML_CHARS:
        raise UnreadMetrics("its definition is too long")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            told = (getattr(event, "anchor", None), getattr(event, "tag", None))
            if isinstance(event, yaml.AliasEvent) or any(told):  # RULE (yaml-no-aliases)
                raise UnreadMetrics("its definition has aliases, anchors or tags")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadMetrics("its definition is not YAML") from error
    return WrittenMetrics(_read_mapping(root, "the definition"))


def find_source(text: str) -> tuple[int, int] | None:
    """Return where the source of a definition stands in it; None where it is not written as it is."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        found = WrittenMetrics(_read_mapping(root, "the definition"))
    except (yaml.YAMLError, RecursionError, UnreadMetrics):
        return None
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode) and key.value == "source":
            start, end = value.start_mark.index, value.end_mark.index
            written = text[start:end].rstrip()
            return (start, start + len(written)) if written == found.source else None
    return None


def query_of(metrics: MetricDefinition, measured: Sequence[tuple[str, str]] | None = None) -> str:
    """Write the query whose columns are the dimensions and those of `measured`; if not given, the measures.

    A line break ends each text, so that a comment at its end swallows nothing.
    """
    columns = metrics.measures if measured is None else measured
    written = ", ".join(f"({text}\n) AS {quote(name)}" for name, text in (*metrics.dimensions, *columns))
    where = f" WHERE ({metrics.where}\n)" if metrics.where else ""
    groups = ", ".join(str(number) for number, _ in enumerate(metrics.dimensions, start=1))
    grouped = f" GROUP BY {groups}" if measured is None and groups else ""
    return f"SELECT {written} FROM {metrics.source}{where}{grouped}"


def as_plain_view(reading: Reading) -> str | None:
    """Return the statement that makes a view with the columns of a metric view that a statement makes: it
    reads the same. None for other statements, and where the definition is not understood."""
    command = next((one for one in reading.commands if one.node == "CreateMetricView"), None)
    target = next((one for one in reading.relations if one.holder == "CreateMetricView"), None)
    if command is None or target is None:
        return None
    text, listed = command.fields.get("originalText"), command.fields.get("userSpecifiedColumns")
    names = (
        [str(column[0]) for column in listed if isinstance(column, tuple)]
        if isinstance(listed, tuple)
        else []
    )
    try:
        found = read_metrics(str(text))
        query = query_of(found.with_names(names or found.names))
    except UnreadMetrics:
        return None
    return f"CREATE VIEW {quote_parts(target.parts)} AS {query}"


def _check_described(found: WrittenMetrics, properties: Mapping[str, str]) -> None:
    kind = properties.get(f"{_FROM}type")
    if kind is None:
        return
    source = properties.get(f"{_FROM}name" if found.is_named else f"{_FROM}sql", "")
    same = kind == ("ASSET" if found.is_named else "SQL") and _alike(source, found.source)
    if not same or not _alike(properties.get(_WHERE, ""), found.where):  # RULE (yaml-read-alike)
        raise UnreadMetrics("Spark parses its source or its filter differently")


def _alike(told: str, found: str) -> bool:
    """Whether Spark tells the same text; of a long one it may tell the beginning."""
    told, found = told.strip(), found.strip()
    return told == found or (len(told) > 100 and found.startswith(told.removesuffix("...")))


def _read_mapping(node: yaml.Node | None, what: str) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise UnreadMetrics(f"{what} must be a mapping")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _scalar(key, "a key")
        if name in found:
            raise UnreadMetrics(f"it has `{name}` twice")
        found[name] = value
    return found


def _columns(node: yaml.Node | None, what: str) -> tuple[tuple[str, str], ...]:
    if node is None:
        return ()
    if not isinstance(node, yaml.SequenceNode):
        raise UnreadMetrics(f"its {what} must be a list")
    columns = []
    for item in node.value:
        column = _read_mapping(item, f"one of its {what}")
        if column.keys() != _COLUMN_KEYS:
            raise UnreadMetrics(f"one of its {what} has keys other than `name` and `expr`")
        columns.append((_scalar(column["name"], "name"), _scalar(column["expr"], "expr")))
    return tuple(columns)


def _scalar(node: yaml.Node | None, what: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL:
        raise UnreadMetrics(f"its `{what}` must be a text")
    return str(node.value)
