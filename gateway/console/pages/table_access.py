"""What somebody sees of a table, and why: the engine's answer, at another time and under a draft too."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.routes import (
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    Viewer,
    parameter,
)
from gateway.errors import PoliciesStale
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import Table, TableName, quote, quote_parts, split_name
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import ADMIN_ACCESS, AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.table_report import (
    ReportChange,
    SpeakingPolicy,
    TableReport,
    compare_reports,
    cut_report,
    explain_column,
    report_table,
)

NOT_FOUND = "there is no such table, or nothing of it is for you"
MAX_SAMPLES = 32
"""Samples that wait to be looked at, of everybody together; the oldest go."""
SAMPLE_ROWS = 20
MAX_CELL_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccessQuestion:
    user: str = parameter("Whose view: a user. Empty: the viewer's own.", "")
    table: str = parameter("The table, as `database.table` or `catalog.database.table`. Empty: only ask.", "")
    at: datetime | None = parameter("As of this time, by the policies of then. Empty: now.", None)
    address: str = parameter("The client's address that conditions see. Empty: none.", "", most=100)
    draft: int = parameter("Under this draft of policies too. 0: none.", 0, most=10**15)
    column: str = parameter("Explain this column policy by policy.", "")
    groups: tuple[str, ...] = parameter("Groups to assume in place of those that are known.", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSelect:
    """What becomes of `SELECT * FROM` the table, by all that judging does."""

    cleared: bool
    code: str = ""
    message: str = ""
    forwarded: str = ""
    """What Spark would be sent; empty where it is not for the viewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """The answer, and how it differs from the one of now and in force."""

    asked: bool
    """Whether a table was asked about."""
    report: TableReport | None
    select: JudgedSelect | None
    explained: tuple[SpeakingPolicy, ...]
    """What became of each policy that was asked about the column."""
    compared_with: str
    """What `changes` are against; empty where nothing was compared."""
    changes: tuple[ReportChange, ...]
    notes: tuple[str, ...]
    whole: bool
    """Whether the viewer sees all of it; else it is cut to what is theirs."""
    known_user: bool
    may_sample: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuestion:
    table: str = parameter("The table.")
    user: str = parameter("As whom to read it. Empty: as oneself.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleKey:
    sample: str = parameter("The sample's id.", most=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSample:
    """A few rows as one user gets them, of a statement that ran as that user."""

    id: str
    table: str
    user: str
    by: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    statement_id: str


class OtherPolicySet(Protocol):
    """Policies of another time, or of a draft."""

    @property
    def policies(self) -> PolicySet: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


class PolicyStates(Protocol):
    """The policies in force, of other times and of drafts."""

    @property
    def current(self) -> PolicySet: ...
    def stale(self) -> str | None: ...
    async def find_at(self, at: datetime) -> OtherPolicySet: ...
    async def find_draft(self, viewer: Viewer, draft: int) -> OtherPolicySet: ...


FindPerson = Callable[[str], Awaitable[Principal | None]]
FindTable = Callable[[TableName], Awaitable[Table | None]]
JudgeUnder = Callable[[PolicySet, Principal, str, AccessContext], Awaitable[JudgedSelect]]
"""Policies, user, text and circumstances → the verdict; nothing runs and nothing is recorded."""
MayActAs = Callable[[Viewer, str], Awaitable[Principal | None]]
"""Viewer and user → who that is, where the viewer may act as them."""
RunSample = Callable[
    [Principal, Viewer, str, int], Awaitable[tuple[tuple[str, ...], list[tuple[str, ...]], str]]
]
"""User, viewer, text and rows → column names, rows, statement id: a governed statement, which is recorded
with both names."""


class TableAccessPages:
    """Answers the questions."""

    def __init__(
        self,
        policies: PolicyStates,
        find_person: FindPerson,
        look_up: FindTable,
        judge: JudgeUnder,
        *,
        first_catalog: str,
        may_act_as: MayActAs,
        run_sample: RunSample | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`run_sample`: None where no statement can be run."""
        self._policies = policies
        self._find_person = find_person
        self._look_up = look_up
        self._judge = judge
        self._first_catalog = first_catalog
        self._may_act_as = may_act_as
        self._run_sample = run_sample
        self._now = now
        self._samples: BoundedDict[str, TableSample] = BoundedDict(MAX_SAMPLES)

    async def see_table(self, viewer: Viewer, asked: TableAccessQuestion) -> TableAccess:
        if not asked.table.strip():
            return _NOTHING_ASKED
        name = parse_table(asked.table, self._first_catalog)
        context = AccessContext(
            time=asked.at or self._now(),
            client_ip=asked.address or None,
            client_type="console",
            action="QUERY",
        )
        resource = Resource.table(name.catalog, name.database, name.table)
        own = asked.user in ("", viewer.user)
        # RULE (console-others-access)
        whole = viewer.is_auditor or viewer.is_administrator or self._is_delegate(viewer, resource)
        if not whole and (
            not own or asked.draft or asked.groups or asked.address or asked.column or asked.at
        ):
            raise NotFound(NOT_FOUND)
        principal, known = await self._principal(viewer, asked, own=own)
        table = await self._look_up(name)
        if table is None:
            raise NotFound(NOT_FOUND)
        resource = Resource.table(name.catalog, name.database, name.table, table.owner)
        current, notes = self._policies.current, list[str]()
        shown = current
        compared_with = ""
        if asked.at is not None:
            past = await self._policies.find_at(asked.at)
            shown, compared_with = past.policies, "now"
            notes += past.notes
        if asked.draft:
            draft = await self._policies.find_draft(viewer, asked.draft)
            shown, compared_with = draft.policies, "the policies in force"
            notes += draft.notes
        if (stale := self._policies.stale()) is not None:
            notes.append(f"every statement is refused now: {stale}")
        report = report_table(shown, principal, resource, table.columns, context)
        if not whole and not report.visible:
            raise NotFound(NOT_FOUND)
        changes: tuple[ReportChange, ...] = ()
        if compared_with:
            base = context if asked.draft else _at(context, self._now())
            changes = compare_reports(report_table(current, principal, resource, table.columns, base), report)
            changes = changes if asked.draft else tuple(_turn(one) for one in changes)
        text = f"SELECT * FROM {quote_parts(name.parts)}"
        select = await self._judge_select(viewer, shown, principal, text, context)
        explained: tuple[SpeakingPolicy, ...] = ()
        if asked.column:
            explained = explain_column(shown, principal, resource.child("column", asked.column), context)
        return TableAccess(
            asked=True,
            report=report if whole else cut_report(report),
            select=select,
            explained=explained,
            compared_with=compared_with,
            changes=changes,
            notes=tuple(notes),
            whole=whole,
            known_user=known,
            may_sample=self._run_sample is not None
            and asked.at is None
            and not (asked.draft or asked.groups)
            and (own or await self._may_act_as(viewer, principal.user) is not None),
        )

    async def _principal(
        self, viewer: Viewer, asked: TableAccessQuestion, *, own: bool
    ) -> tuple[Principal, bool]:
        if own and not asked.groups:
            return viewer.principal, True
        user = asked.user or viewer.user
        found = await self._find_person(user)
        if asked.groups:
            attributes = found.attributes if found is not None else ()
            return Principal(
                user=user, groups=frozenset(asked.groups), attributes=attributes
            ), found is not None
        return found or Principal(user=user), found is not None

    def _is_delegate(self, viewer: Viewer, table: Resource) -> bool:
        request = AccessRequest(
            principal=viewer.principal,
            resource=table,
            access=ADMIN_ACCESS,
            context=AccessContext(time=self._now(), client_ip=viewer.address or None, client_type="console"),
        )
        return engine_for(self._policies.current).decide(request).allowed

    async def _judge_select(
        self, viewer: Viewer, policies: PolicySet, principal: Principal, text: str, context: AccessContext
    ) -> JudgedSelect | None:
        try:
            found = await self._judge(policies, principal, text, context)
        except PoliciesStale:
            return None
        # RULE (console-judged-text)
        if viewer.is_auditor or viewer.is_administrator:
            return found
        # A view's text and filters are of tables that a delegate of the view need not know.
        message = found.message if principal.user == viewer.user else ""
        return JudgedSelect(cleared=found.cleared, code=found.code, message=message)

    async def sample_table(self, viewer: Viewer, asked: SampleQuestion) -> TableSample:
        if self._run_sample is None:
            raise BadRequest("samples need `backend.thrift`")
        name = parse_table(asked.table, self._first_catalog)
        if asked.user in ("", viewer.user):
            principal: Principal | None = viewer.principal
        else:
            principal = await self._may_act_as(viewer, asked.user)  # RULE (console-sample-right)
        if principal is None:
            raise NotFound("there is no such user, or you may not act as them (`logins.impersonation`)")
        columns = await self._list_readable(principal, name)
        what = ", ".join(map(quote, columns)) or "*"
        text = f"SELECT {what} FROM {quote_parts(name.parts)} LIMIT {SAMPLE_ROWS}"
        shown, rows, statement = await self._run_sample(principal, viewer, text, SAMPLE_ROWS)
        sample = TableSample(
            id=secrets.token_urlsafe(16),
            table=str(name),
            user=principal.user,
            by=viewer.user,
            columns=shown,
            rows=tuple(tuple(cell[:MAX_CELL_CHARS] for cell in row) for row in rows),
            statement_id=statement,
        )
        self._samples[sample.id] = sample
        return sample

    async def _list_readable(self, principal: Principal, name: TableName) -> list[str]:
        """Return the columns that somebody may select: `*` would be refused where there are others."""
        table = await self._look_up(name)
        if table is None:
            return []
        context = AccessContext(time=self._now(), client_type="console", action="QUERY")
        resource = Resource.table(name.catalog, name.database, name.table, table.owner)
        report = report_table(self._policies.current, principal, resource, table.columns, context)
        return [one.name for one in report.columns if one.sight != "denied"]

    async def show_sample(self, viewer: Viewer, asked: SampleKey) -> TableSample:
        found = self._samples.get(asked.sample)
        if found is None or found.by != viewer.user:  # RULE (console-own-sample)
            raise NotFound("the sample is not here any more; another gateway may have it: take it again")
        return found


_NOTHING_ASKED = TableAccess(
    asked=False,
    report=None,
    select=None,
    explained=(),
    compared_with="",
    changes=(),
    notes=(),
    whole=False,
    known_user=True,
    may_sample=False,
)


def parse_table(text: str, first_catalog: str) -> TableName:
    """Return the name that a text means. Raises BadRequest."""
    parts = split_name(text.strip())
    if len(parts) == 2:
        parts = (first_catalog, *parts)
    try:
        return TableName.of(parts)
    except ValueError:
        raise BadRequest("write a table as `database.table` or `catalog.database.table`") from None


def _at(context: AccessContext, now: datetime) -> AccessContext:
    return AccessContext(
        time=now, client_ip=context.client_ip, client_type=context.client_type, action=context.action
    )


def _turn(change: ReportChange) -> ReportChange:
    """Return a change from what was to what is."""
    return ReportChange(what=change.what, before=change.after, after=change.before)


def part(pages: TableAccessPages) -> ConsolePart:
    """Return the routes, pages and forms of it."""
    seen = ConsoleRoute.get(
        "/table-access",
        pages.see_table,
        "What somebody sees of a table: columns, masks, rows, and the policies behind them.",
        own="Others' views are for auditors, administrators and who administers the table by delegation; "
        "one's own is cut to what one may know.",
        unrecorded_because="It shows what policies say, and nothing of the record.",
    )
    sample = ConsoleRoute.post(
        "/table-samples",
        pages.sample_table,
        "Run a SELECT of a few rows as somebody, governed and recorded with both names.",
        own="As oneself, or as whom `logins.impersonation` lets the viewer act.",
        examples={"table": "nowhere.nothing"},
    )
    shown = ConsoleRoute.get(
        "/table-samples/{sample}",
        pages.show_sample,
        "The rows of a sample that was taken a moment ago.",
        own="Only who took it sees it.",
        examples={"sample": "x"},
    )
    return ConsolePart(
        routes=(seen, sample, shown),
        pages=(
            ConsolePage(
                route=seen,
                path="/table-access",
                template="table_access.html",
                title="What does somebody see of a table?",
                menu="Table access",
                place=2,
            ),
            ConsolePage(
                route=shown,
                path="/table-samples/{sample}",
                template="table_sample.html",
                title="Sample of a table",
            ),
        ),
        forms=(
            ConsoleForm(
                route=sample, path="/table-samples", then=lambda _, made: f"/table-samples/{made.id}"
            ),
        ),
    )
