"""Who may read a copy of a column less protected than the column itself, and by which policies."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.model.catalog import Column
from gateway.model.context import AccessContext
from gateway.model.decision import Decision
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource, Scope
from gateway.policy.differences import pairs_of, principals_of
from gateway.policy.diffing import SELECT, AccessQuestion, filter_side, mask_side
from gateway.policy.engine import Engine

TablePath = tuple[str, str, str]
MAX_TABLES_ASKED = 200_000
"""Answers about one table for one principal; some 10 s."""


class Protection(enum.Enum):
    """How policies keep a principal from the values of a column."""

    DENIED = "denied"
    """Policies deny it, or grant others of its table and not this one."""
    MASKED = "masked"
    FILTERED = "filtered"
    """Some rows are not shown."""
    UNGRANTED = "not granted"
    """No policy grants anything of its table."""


class ColumnSight(NamedTuple):
    """How one principal sees a column: whole, masked, filtered or not at all."""

    protection: Protection | None
    """None: all values as they are."""
    rows: str = ""
    """The filter, with the principal's values in it; empty for every row."""


class Weaker(NamedTuple):
    """Somebody who sees more of the copy than of the column."""

    principal: str
    protection: Protection
    """Of the column."""
    there: str
    """How the column is protected, and by which policy."""
    here: str
    """How the copy is read, and by which policy."""


@dataclass(slots=True)
class Sights:
    """How principals see the columns of tables. Each table is asked about once per principal."""

    engine: Engine
    principals: Sequence[Principal]
    context: AccessContext
    most_asked: int = MAX_TABLES_ASKED
    asked: int = 0
    cut_off: str = ""
    """Why not everything was asked; empty when it was."""

    def of(self, table: TablePath, columns: Iterable[str]) -> dict[str, list[ColumnSight]]:
        """Return for each column what each of the principals sees, in their order.

        Nothing when there is no more to be asked: `cut_off` says so.
        """
        names = sorted(set(columns))
        found: dict[str, list[ColumnSight]] = {name: [] for name in names}
        if self.asked + len(self.principals) > self.most_asked:
            self.cut_off = f"only the first {self.most_asked:,} policy decisions on tables were evaluated"
            return {}
        self.asked += len(self.principals)
        resource = Resource.table(*table)
        asked = [Column(name=name, type="string") for name in names]
        for principal in self.principals:
            view = self.engine.table_view(principal, resource, asked, context=self.context)
            rows = "" if view.row_filter is None else view.row_filter.expression
            for name in names:
                if name in view.hidden:
                    found[name].append(ColumnSight(self._is_hidden(principal, resource, name)))
                elif name in view.masks:
                    found[name].append(ColumnSight(Protection.MASKED, rows))
                else:
                    found[name].append(ColumnSight(Protection.FILTERED if rows else None, rows))
        return found

    def _is_hidden(self, principal: Principal, table: Resource, column: str) -> Protection:
        if self._decide(principal, table.child("column", column)).determined:
            return Protection.DENIED
        some = AccessRequest(
            principal=principal,
            resource=table,
            access=SELECT,
            context=self.context,
            scope=Scope.SELF_OR_DESCENDANTS,
        )
        return Protection.DENIED if self.engine.decide(some).allowed else Protection.UNGRANTED

    def list_weaker(
        self,
        source: tuple[TablePath, str],
        target: tuple[TablePath, str],
        at_source: Sequence[ColumnSight],
        at_target: Sequence[ColumnSight],
        *,
        ungranted: bool,
    ) -> list[Weaker]:
        """Return who sees more of the target than of the source, with the reasons.

        `ungranted`: also those who are granted nothing of the source's table.
        """
        found = []
        for principal, before, after in zip(self.principals, at_source, at_target, strict=True):
            why = before.protection
            if why is None or (why is Protection.UNGRANTED and not ungranted):
                continue
            if after.protection in (Protection.DENIED, Protection.UNGRANTED, Protection.MASKED):
                continue
            # Who sees the same rows here as there sees no more of them.
            if why is Protection.FILTERED and after.rows == before.rows:
                continue
            there, here = (
                self._explain_sight(principal, source, before),
                self._explain_sight(principal, target, after),
            )
            found.append(Weaker(principal.user, why, there, here))
        return found

    def files(
        self,
        source: tuple[TablePath, str],
        location: str,
        at_source: Sequence[ColumnSight],
        *,
        ungranted: bool,
    ) -> list[Weaker]:
        """Return who may read the files that the source landed in and sees less of the source."""
        found = []
        for principal, before in zip(self.principals, at_source, strict=True):
            why = before.protection
            if why is None or (why is Protection.UNGRANTED and not ungranted):
                continue
            request = AccessRequest(
                principal=principal, resource=Resource.url(location), access="read", context=self.context
            )
            decision = self.engine.decide(request)
            if decision.allowed:
                here = f"files are read without filters and masks{_by(decision.policy.name)}"
                found.append(
                    Weaker(principal.user, why, self._explain_sight(principal, source, before), here)
                )
        return found

    def _decide(self, principal: Principal, resource: Resource) -> Decision:
        return self.engine.decide(
            AccessRequest(principal=principal, resource=resource, access=SELECT, context=self.context)
        )

    def _explain_sight(self, principal: Principal, of: tuple[TablePath, str], sight: ColumnSight) -> str:
        """Say how a column is seen, and which policies have it so."""
        table = Resource.table(*of[0])
        column = table.child("column", of[1])
        if sight.protection in (Protection.DENIED, Protection.UNGRANTED):
            decision = self._decide(principal, column)
            return f"denied: {decision.reason}{_by(decision.policy.name)}"
        side = mask_side(self.engine, self._question(principal, column), None)
        rows = filter_side(self.engine, self._question(principal, table), None)
        read = "" if sight.protection is Protection.MASKED else self._decide(principal, column).policy.name
        told = [f"{side.says}{_by(side.policy.name or read)}"]
        if sight.rows:
            told.append(f"{rows.says}{_by(rows.policy.name)}")
        return ", ".join(told)

    def _question(self, principal: Principal, resource: Resource) -> AccessQuestion:
        return AccessQuestion(
            principal=principal,
            resource=resource,
            label=str(resource),
            accesses=(),
            old_service=None,
            new_service=None,
            context=self.context,
        )


def _by(policy: str) -> str:
    return f" (policy `{policy}`)" if policy else ""


def list_named_principals(policies: PolicySet, people: Mapping[str, Principal]) -> list[Principal]:
    """Return whom to ask for: the known people, somebody for each user, group and role that policies name,
    and one who is in none."""
    made = principals_of(pairs_of(PolicySet(version=0), policies))
    return [*people.values(), *(one for one in made if one.user not in people)]
