"""What Spark says of the text of a mask or a filter before the REST API stores it.

It is asked for the tables that the policy names, and analyses the text over relations without rows that have
their columns. What it cannot be asked is no fault: the policy may come before its table.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, Protocol

import orjson

from gateway.app.text_analysis import Ask, in_short, text_fault
from gateway.errors import BackendUnavailable
from gateway.model.catalog import Table, TableName, quote
from gateway.model.policy import FilterItem, MaskItem
from gateway.model.reading import Reading, RelationRole
from gateway.pipeline.table_checks import FittingText, is_name
from gateway.policy.sqltext import sample
from gateway.reader.port import ReaderPort
from gateway.session.ports import BackendError, Catalog
from gateway.sql.policy_text import find_unknown_column

MAX_TABLES = 10
"""Tables that one text is held against."""
TIMEOUT_S = 20.0
"""For all that Spark is asked of one text."""
SILENCE_S = 60.0
"""After a text that Spark did not answer about in time, it is asked about no other for so long: an import of
hundreds would wait for each of them, and be refused as a whole for the time that it takes."""
_UNKNOWN_FUNCTION = "42883"
_LEVELS = ("database", "table", "column")


class AskedText(Protocol):
    """A text, and what it is for."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def service(self) -> str: ...
    @property
    def about(self) -> str:
        """The policy's resource sets: a JSON object with the list `sets`."""
        ...


class SparkTexts:
    """Asks the gateway's Spark about texts of policies whose services speak for its catalogs."""

    def __init__(
        self,
        catalogs: Mapping[str, str],
        catalog: Catalog,
        ask: Ask,
        reader: ReaderPort,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`catalogs`: catalog → service that speaks for it; `ask` runs statements of the gateway's own."""
        self._catalogs = catalogs
        self._catalog = catalog
        self._ask = ask
        self._reader = reader
        self._timeout_s = timeout_s
        self._silent_until_s = float("-inf")

    async def check_text(self, question: AskedText, reading: Reading) -> tuple[str | None, str]:
        """Return what is wrong with a text that was read, and what Spark was not asked of it."""
        if not question.text.strip():
            return None, ""
        loop = asyncio.get_running_loop()
        why = "Spark did not answer in time"
        if loop.time() < self._silent_until_s:
            return None, f"a {question.kind} was not checked: {why}"
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._say(question, reading)
        except TimeoutError:
            self._silent_until_s = loop.time() + SILENCE_S
        except (BackendUnavailable, BackendError) as error:
            why = in_short(error.message)
        return None, f"a {question.kind} was not checked: {why}"

    async def _say(self, question: AskedText, reading: Reading) -> tuple[str | None, str]:
        speaking = [one.lower() for one, service in self._catalogs.items() if service == question.service]
        if not speaking:
            return None, (
                f"a {question.kind} was not checked: service `{question.service}` is not the service of "
                "any catalog of this gateway"
            )
        unknown: list[str] = []
        held = 0
        for name, column in islice(_list_named_tables(question, speaking), MAX_TABLES):
            table = (await self._catalog.look_up([name])).table(name)
            if table is None:
                unknown.append(f"table {name} does not exist")
                continue
            columns = {one.name.lower() for one in table.columns}
            if column and column not in columns:
                unknown.append(f"table {name} has no column `{column}`")
            held += 1
            fault = await self._fault(question, table, column if column in columns else "")
            if fault is not None:
                return fault, ""
        if not held:
            fault = await self._unknown_function(question, reading)
            if fault is not None:
                return fault, ""
            why = "; ".join(unknown) or "the policy does not name its table without wildcards"
            return None, f"a {question.kind} was not checked against columns: {why}"
        return None, "; ".join(unknown)

    async def _fault(self, question: AskedText, table: Table, column: str) -> str | None:
        """Return what is wrong with a text for one table."""
        type_ = next((one.type for one in table.columns if one.name.lower() == column), "STRING")
        own = quote(column or (table.columns[0].name if table.columns else "c"))
        text = question.text.replace("{col}", own)
        written = sample(text.replace("{colType}", type_).replace("{type}", type_))
        reading = await self._reader.read_expression(written)
        if not isinstance(reading, Reading):
            return None  # read before, with other values
        names = [one.parts for one in reading.relations if one.role is not RelationRole.CTE]
        read = [TableName.of(parts) for parts in names if len(parts) > len(_LEVELS) - 1]
        found = (await self._catalog.look_up(read)) if read else None
        tables = [found.table(name) for name in read] if found is not None else []
        if len(read) == len(names) and None not in tables:
            what = find_unknown_column(written, reading, table, tables)
            if what is not None:
                return f"this {question.kind} refers to {what}, which table {table.name} does not have"
        item = _item(question)
        return await text_fault(FittingText(None, item, table, column, written), self._ask)

    async def _unknown_function(self, question: AskedText, reading: Reading) -> str | None:
        """Return which function of a text Spark does not have, whatever its columns are."""
        if reading.relations:
            return None
        columns = dict.fromkeys(one.parts[0] for one in reading.columns if one.parts and not one.star)
        relation = ", ".join(f"NULL AS {quote(name)}" for name in columns) or "NULL AS `c`"
        text = sample(question.text)
        try:
            await self._ask(f"DESCRIBE QUERY SELECT (\n{text}\n) AS `v` FROM (SELECT {relation})")
        except BackendError as error:
            if error.sqlstate == _UNKNOWN_FUNCTION or "UNRESOLVED_ROUTINE" in error.message:
                return f"Spark refuses this {question.kind}: {in_short(error.message)}"
        return None


def _item(question: AskedText) -> MaskItem | FilterItem:
    if question.kind == "mask":
        return MaskItem(mask_type="CUSTOM", value_expression=question.text)
    return FilterItem(filter_expression=question.text)


def _list_named_tables(question: AskedText, speaking: Sequence[str]) -> Iterator[tuple[TableName, str]]:
    """Yield the tables that a policy writes out, each with a column that it does, or none."""
    for resources in orjson.loads(question.about)["sets"]:
        levels = {level: _values(resources.get(level)) for level in _LEVELS}
        given = resources.get("catalog")
        catalogs = speaking if given is None else [one for one in _values(given) if one in speaking]
        for catalog, database, table in product(catalogs, levels["database"], levels["table"]):
            for column in levels["column"] or [""]:
                yield TableName(catalog, database, table), column


def _values(given: Any) -> list[str]:
    """Return the names that a level writes out."""
    if not isinstance(given, Mapping) or given.get("isExcludes"):
        return []
    return [
        value.lower()
        for value in given.get("values") or ()
        if isinstance(value, str) and value.strip() and is_name(value) and _PLAIN.fullmatch(value)
    ]


_PLAIN = re.compile(r"[^$`]+")
