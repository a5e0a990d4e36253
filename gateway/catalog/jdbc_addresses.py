"""Addresses of databases that somebody else names: which of them can be told to a JDBC driver.

Drivers take parameters in their addresses, and some of these name classes, files or statements that run where
the driver does: in Spark. So an address counts when all of it is known: a database of the table, hosts,
a name, and parameters that stand in the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?"
_SERVER = re.compile(rf"//(?:[^@/?#();&=\s]*@)?{_HOST}(?:,{_HOST})*(?:/[\w.$~-]*)?")
"""Without brackets and `=`: MySQL's driver reads parameters among the hosts as well."""
_MEMORY = re.compile(r"memory:[\w.-]+")
_PARAMETER = re.compile(r"([A-Za-z][\w.]*)=[^&;#\s]*")
"""A name is not percent-encoded: some drivers would decode it, and some not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcDatabase:
    """A kind of database, by what its addresses begin with after `jdbc:`."""

    name: str
    drivers: frozenset[str]
    """Classes of its driver."""
    parameters: frozenset[str]
    """Those that run and read nothing, lower case."""
    separator: str = "&"
    """What stands between parameters; before the first one the same, but `?` for `&`."""
    in_memory: bool = False
    """Whether it can be in Spark's own memory, instead of at a server."""


def explain_unfit_address(address: str, databases: Iterable[JdbcDatabase]) -> str | None:
    """Say why an address is not told to a driver, in words that go on after its name; None where it is."""
    scheme, _, rest = address.partition(":")
    name, _, rest = rest.partition(":")
    database = next((one for one in databases if one.name == name), None)
    if scheme != "jdbc" or database is None:
        return "is not the address of a known database"
    place, _, parameters = rest.partition("?" if database.separator == "&" else database.separator)
    if not (_SERVER.fullmatch(place) or (database.in_memory and _MEMORY.fullmatch(place))):
        return "does not have the form `jdbc:DATABASE://HOST:PORT/NAME`"
    for one in parameters.split(database.separator) if parameters else ():
        found = _PARAMETER.fullmatch(one)
        if found is None:
            return "has a parameter that is not of the form `name=value`"
        if found[1].lower() not in database.parameters:
            return (
                f"has the parameter `{found[1]}`, which is not on the list of parameters that cannot run code"
            )
    return None
