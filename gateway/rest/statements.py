"""The SQL statement that a call counts as. Nobody runs it: it is what policies are asked about, and what the
record has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gateway.model.catalog import Column, TableName, quote, quote_parts
from gateway.rest.requests import forbidden

_ODD = re.compile(r"['\\\x00-\x1f\x7f]|\$\{")


def name_of(table: TableName) -> str:
    """Write the whole name of a table."""
    return quote_parts(table.parts)


def namespace_of(catalog: str, namespace: Sequence[str]) -> str:
    """Write the whole name of a namespace."""
    return quote_parts((catalog, *namespace))


def write_select(table: TableName, columns: Sequence[str] = ()) -> str:
    """Write what loading a table counts as: whoever has its files has all of its rows."""
    wanted = ", ".join(map(quote, columns)) or "*"
    return f"SELECT {wanted} FROM {name_of(table)}"


def write_overwrite(table: TableName) -> str:
    """Write what a snapshot counts as. It names all the files of a table, whatever it says of itself."""
    return f"INSERT OVERWRITE TABLE {name_of(table)} VALUES (NULL)"


def write_properties(properties: Mapping[str, str]) -> str:
    """Write properties in brackets."""
    return "(" + ", ".join(f"{literal(key)} = {literal(one)}" for key, one in properties.items()) + ")"


def literal(text: str) -> str:
    """Write a string. Raises RestFault for one that is not written the same everywhere."""
    if _ODD.search(text):
        raise forbidden("a text with a quote, a backslash or a control character is not governed here")
    return f"'{text}'"


def write_create(
    table: TableName,
    columns: Sequence[Column],
    location: str,
    properties: Mapping[str, str],
    *,
    replaces: bool = False,
) -> str:
    """Write what creating a table counts as."""
    fields = ", ".join(f"{quote(one.name)} {one.type}" for one in columns)
    text = f"CREATE {'OR REPLACE ' if replaces else ''}TABLE {name_of(table)} ({fields}) USING iceberg"
    if location:
        text += f" LOCATION {literal(location)}"
    if properties:
        text += f" TBLPROPERTIES {write_properties(properties)}"
    return text
