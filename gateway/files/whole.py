"""What all lines of text files are asked about, before Spark reads them line by line or as a whole.

First lines do not show whether a field further down has a line break in it, or another file lies among them.
One statement for all files tells; it reads them once, as Spark does when it looks for the types of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gateway.files.formats import Dialect, Format, NotKnown

_BACKSLASH = "\\"
_JSON_LINES = r"^[\s\uFEFF]*[^\s\uFEFF{]"
_BLANK = r"[\s\uFEFF]+"


def literal(value: str) -> str:
    """Return a text as it stands between apostrophes in Spark SQL."""
    return value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t").replace("\n", "\\n")


def question(found: Format) -> str | None:
    """Return what a view `{view}` of all lines is to be asked, in one row; None: nothing."""
    is_whole = found.options.get("multiLine") == "true"
    if found.name == "json":
        return _in_documents() if is_whole else _in_lines()
    if found.name == "csv" and found.options.get("quote") != "" and "UTF-16" not in found.options.values():
        return _quotes(found.options["sep"], found.options.get("quote", '"'))
    return None


def choose_whole_format(
    found: Format, row: Sequence[Any], files: Iterable[Dialect], named: Callable[[str], str]
) -> Format:
    """Return the format by which Spark reads what was told so of the lines. Raises NotKnown, with the name of
    a file, where there is none; `files`: how some of them are written."""
    if found.name == "json":
        if row[0] is not None:
            is_whole = found.options.get("multiLine") == "true"
            told = (
                "has several JSON documents that are not one per line"
                if is_whole
                else "has lines that are not JSON"
            )
            raise NotKnown(f"its files are JSON, and {named(str(row[0]))} {told}")
        return found
    backslash, doubled, by_doubling, by_backslash = row[0], row[1], row[2:4], row[4:6]
    shown = {one.escape for one in files if one.escape is not None}
    if backslash is not None and (doubled is not None or shown - {_BACKSLASH}):
        one, other = named(str(backslash)), "others" if doubled is None else named(str(doubled))
        where = f"{one} has both" if one == other else f"{one} has the former, {other} the latter"
        raise NotKnown(f"its csv files have backslashes before quotes and doubled quotes as well: {where}")
    options = dict(found.options)
    if backslash is not None:
        options["escape"] = _BACKSLASH
    opens, unclosed = by_backslash if options["escape"] == _BACKSLASH else by_doubling
    if unclosed is not None:
        raise NotKnown(f"{named(str(unclosed))} has a field with an opening quote and no closing one")
    if opens:
        options["multiLine"] = "true"
    return Format(found.name, options)


def _quotes(separator: str, quote: str) -> str:
    """Ask, for each way to escape quotes, whether a field goes on over the end of its line, and for a file in
    which one does and quotes do not come in pairs; and for a file with each way of escaping."""
    start = rf"(^|[{separator}])"
    opens = literal(rf"{start}{quote}[^{quote}]*$")
    backslash = literal(rf"{start}{quote}[^{quote}]*\\{quote}[^{quote}{separator}]")
    doubled = literal(rf"{start}{quote}[^{quote}]+{quote}{quote}[^{separator}]")
    one = literal(quote)
    plain = f"replace(value, '{one}{one}', '')"
    kept = f"replace(replace(value, '{literal(_BACKSLASH * 2)}', ''), '{literal(_BACKSLASH)}{one}', '')"

    def odd(text: str) -> str:
        return f"sum(length({text}) - length(replace({text}, '{one}', ''))) % 2 = 1"

    return (
        "SELECT min(IF(b, f, NULL)), min(IF(d, f, NULL)), bool_or(o1), min(IF(o1 AND n1, f, NULL)),"
        " bool_or(o2), min(IF(o2 AND n2, f, NULL)) FROM (SELECT f,"
        f" bool_or(value RLIKE '{backslash}') AS b, bool_or(value RLIKE '{doubled}') AS d,"
        f" bool_or(p RLIKE '{opens}') AS o1, {odd('p')} AS n1,"
        f" bool_or(k RLIKE '{opens}') AS o2, {odd('k')} AS n2"
        f" FROM (SELECT input_file_name() AS f, value, {plain} AS p, {kept} AS k FROM {{view}}) GROUP BY f)"
    )


def _in_lines() -> str:
    """Ask for a file with a line that is no object."""
    return (
        "SELECT min(f) FROM (SELECT input_file_name() AS f, value FROM {view})"
        f" WHERE value RLIKE '{literal(_JSON_LINES)}'"
    )


def _in_documents() -> str:
    """Ask for a file in which a line that ends an object or a list comes before one that begins one."""
    text = f"trim(regexp_replace(value, '{literal(_BLANK)}', ' '))"
    return (
        "SELECT min(f) FROM (SELECT f, a, lag(z) OVER (PARTITION BY f ORDER BY b, i) AS before FROM (SELECT"
        " input_file_name() AS f, input_file_block_start() AS b, monotonically_increasing_id() AS i,"
        f" left({text}, 1) AS a, right({text}, 1) AS z FROM {{view}}) WHERE a <> '')"
        " WHERE a IN ('[', '{') AND before IN (']', '}')"
    )
