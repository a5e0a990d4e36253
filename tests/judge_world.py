"""The small world of tests/cases/judge: a catalog, three people and one pack, as snapshots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from gateway.catalog.describe import function_from_rows
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName, ViewBody
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import NeedsCatalog, PlanRequest, SessionContext, Statement, Verdict
from gateway.pipeline import Rules, judge
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.port import ReaderPort
from gateway.sql.metric_views import metric_view

CASES = Path(__file__).parent / "cases" / "judge"
SERVICE_DEFS = Path(__file__).parents[1] / "rules" / "service_defs"

BOBS_EMPLOYEES = (
    "SELECT `id`, `name`, {email} AS `email`, `region` FROM (SELECT * FROM `spark_catalog`.`hr`.`employee` "
    "AS `employee` WHERE (region = 'EMEA')) TABLESAMPLE (100 PERCENT) REPEATABLE (0) AS `employee`"
)


def load_cases(name: str) -> list[dict[str, Any]]:
    cases = yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    assert isinstance(cases, list)
    return cases


def _name(dotted: str) -> TableName:
    return TableName.of(dotted.split("."))


BARRIERS = Rules(barriers="always")
"""What is judged where nothing else is said: most tests look at guards with all that can stand in them."""


class World:
    """Everything that judging needs, with a catalog that is complete from the start."""

    def __init__(self, data: dict[str, Any] | None = None) -> None:
        text = (CASES / "world.yaml").read_text(encoding="utf-8")
        self.data: dict[str, Any] = data if data is not None else yaml.safe_load(text)
        tables = [self._table(name, columns) for name, columns in self.data["tables"].items()]
        tables += [self._view(name, view) for name, view in self.data["views"].items()]
        self.tables = {table.name.fold(): table for table in tables}
        self.versions: dict[TableName, Table] = {}
        """Versions that have other columns than their table."""
        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        self.policies = load_packs({"world.yaml": self.data["pack"]}, definitions, 1)
        self.principals = {user: self.principal(user) for user in self.data["people"]}

    def principal(self, user: str) -> Principal:
        return Principal(user=user, groups=frozenset(self.data["people"][user]["groups"]))

    def snapshot(self, missing: frozenset[TableName] = frozenset()) -> Snapshot:
        asked = {name: self.versions.get(name) or self._of_now(name) for name in missing if name.version}
        versions = {name: table for name, table in asked.items() if table is not None}
        catalog = CatalogSnapshot(
            version=1,
            catalogs=frozenset(self.data["catalogs"]),
            tables={**self.tables, **versions},
            missing=missing - versions.keys(),
        )
        return Snapshot(policies=self.policies, catalog=catalog, principals=self.principals)

    async def judge(
        self,
        sql: str,
        reader: ReaderPort,
        *,
        user: str,
        use: str = "hr",
        temp_views: frozenset[str] = frozenset(),
        variables: frozenset[str] = frozenset(),
        rules: Rules | None = None,
    ) -> Verdict:
        """Judge as the session service does: look up what is asked for, and ask again."""
        context = SessionContext(namespace=(use,), temp_views=temp_views, variables=variables)
        statement = Statement(text=sql, principal=self.principal(user), context=context)
        return await self.judge_statement(statement, reader, rules)

    async def judge_plan(
        self,
        plan: PlanRequest,
        reader: ReaderPort,
        *,
        user: str,
        rules: Rules | None = None,
        **context: Any,
    ) -> Verdict:
        """Judge a plan in a session of database hr; `context` are other fields of its SessionContext."""
        session = SessionContext(**{"namespace": ("hr",), "endpoint": "connect", **context})
        statement = Statement(text="", principal=self.principal(user), context=session, plan=plan)
        return await self.judge_statement(statement, reader, rules)

    async def judge_statement(
        self, statement: Statement, reader: ReaderPort, rules: Rules | None = None
    ) -> Verdict:
        missing: frozenset[TableName] = frozenset()
        for _ in range(25):
            verdict = await judge(statement, self.snapshot(missing), reader, rules or BARRIERS)
            if not isinstance(verdict, NeedsCatalog):
                return verdict
            missing |= frozenset(verdict.tables)
        raise AssertionError("judging asks for look-ups without end")

    def _of_now(self, name: TableName) -> Table | None:
        table = self.tables.get(name.current)
        return None if table is None else replace(table, name=name)

    def _table(self, name: str, columns: dict[str, str]) -> Table:
        provider = self.data.get("providers", {}).get(name)
        return Table(name=_name(name), kind=TableKind.TABLE, columns=_columns(columns), provider=provider)

    def _view(self, name: str, view: dict[str, Any]) -> Table:
        columns = _columns(view["columns"])
        if "metrics" in view:
            body = metric_view(view["metrics"], [column.name for column in columns], {})
            return Table(name=_name(name), kind=TableKind.VIEW, columns=columns, view=body)
        body = ViewBody(
            text=view["text"],
            catalog=view.get("catalog", "spark_catalog"),
            database=view["database"],
            output=tuple(view["output"]),
            collation=view.get("collation", ""),
            definer=view.get("definer"),
        )
        return Table(
            name=_name(name),
            kind=TableKind.VIEW,
            columns=_columns(view["columns"]),
            owner=view.get("owner"),
            view=body,
        )


def _columns(columns: dict[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=type_) for name, type_ in columns.items())


def with_function(world: World, name: TableName, body: str = "rand() < 0.5") -> World:
    """Return the world with a function in SQL, whose body it has looked up."""
    world.tables[name] = function_from_rows([(f"Function:      {name}",), (f"Body:          {body}",)], name)
    return world
