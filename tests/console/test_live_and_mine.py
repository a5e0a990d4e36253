"""What runs, how the gateways are doing, and what is one's own: of the right people, with every number
explained."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import pytest

from gateway.admin.requests import NotFound
from gateway.console.pages import mine as mine_page
from gateway.console.pages.events import EventPages, build_event_part
from gateway.console.pages.live import (
    CancelParameters,
    EndParameters,
    LivePages,
    LiveParameters,
    build_live_part,
)
from gateway.console.pages.mine import (
    Endpoints,
    MinePage,
    OwnSessionParameters,
    OwnStatementParameters,
    OwnToken,
    build_mine_part,
    explain_connecting,
)
from gateway.console.pages.overview import OverviewPage, build_overview_part, sum_up
from gateway.console.routes import NoParameters
from gateway.console.shared_answers import SharedAnswer
from gateway.console.site import STREAMS_OF_ONE
from gateway.console.texts import ShownTexts
from gateway.errors import LedgerUnavailable
from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceValues,
    Service,
    ServiceDef,
)
from gateway.model.principal import Principal
from tests.console.fakes import FakeConsole, MemorySessions, as_user, serving, viewer

SESSIONS = [
    {
        "gateway": "g1",
        "user": "cleo",
        "endpoint": "thrift",
        "address": "10.0.0.1",
        "session": "s1",
        "backend": "etl",
        "opened_at": "2026-11-30T12:00:00+00:00",
        "idle_s": 3.0,
        "statements": 1,
        "waits": "",
    },
    {
        "gateway": "g2",
        "user": "zoe",
        "endpoint": "connect",
        "address": "10.0.0.2",
        "session": "s2",
        "backend": "bi",
        "opened_at": "2026-11-30T12:00:00+00:00",
        "idle_s": 0.0,
        "statements": 1,
        "waits": "limit",
    },
]
STATEMENTS = [
    {
        "gateway": "g1",
        "statement": "a1",
        "user": "cleo",
        "endpoint": "thrift",
        "session": "s1",
        "backend": "etl",
        "state": "running",
        "for_s": 12.5,
        "text": "SELECT 'Ada'",
        "is_plan": False,
        "rows": 3,
        "waits": "",
    },
    {
        "gateway": "g2",
        "statement": "a2",
        "user": "zoe",
        "endpoint": "connect",
        "session": "s2",
        "backend": "bi",
        "state": "queued",
        "for_s": 1.0,
        "text": "SELECT 'Zoe'",
        "is_plan": False,
        "rows": 0,
        "waits": "limit",
    },
]


class Gateways:
    """What all gateways say, and what they were asked to stop."""

    def __init__(self) -> None:
        self.asked = 0
        self.stopped: list[str] = []
        self.ended: list[tuple[str, str, str]] = []
        self.now = 0.0
        self.sessions = list(SESSIONS)
        self.messages: list[str] = []

    async def list_sessions(self) -> tuple[list[Any], Sequence[str]]:
        self.asked += 1
        return self.sessions, self.messages

    async def list_statements(self) -> tuple[list[Any], Sequence[str]]:
        return STATEMENTS, self.messages

    async def stop(self, statement: str) -> tuple[int, Sequence[str]]:
        self.stopped.append(statement)
        return int(statement in ("a1", "a2")), ()

    async def end(self, user: str, session: str, by: str) -> tuple[int, Sequence[str]]:
        self.ended.append((user, session, by))
        return sum((one["user"], one["session"]) == (user, session) for one in self.sessions), ()

    def live(self) -> LivePages:
        return LivePages(
            self.list_sessions,
            self.list_statements,
            self.stop,
            self.end,
            ShownTexts(_shape),
            lambda: self.now,
        )


async def _shape(text: str) -> str:
    return text.replace("'Ada'", "?").replace("'Zoe'", "?")


@pytest.fixture
def gateways() -> Iterator[Gateways]:
    yield Gateways()  # noqa: PT022 - made anew for each test, also where rules are taken out


async def test_what_runs_by_gateway_and_spark_without_literals_of_others(gateways: Gateways) -> None:
    shown = await gateways.live().show(viewer("ben"), LiveParameters())
    assert [(one.gateway, one.running, one.waiting) for one in shown.counts] == [("g1", 1, 0), ("g2", 0, 1)]
    assert [one.text for one in shown.statements] == ["SELECT ?", "SELECT ?"]
    one = await gateways.live().show(viewer("ben"), LiveParameters(user="zoe"))
    assert [each.id for each in one.sessions] == ["s2"]


async def test_many_viewers_are_one_question(gateways: Gateways) -> None:
    live = gateways.live()
    for _ in range(5):
        await live.show(viewer("ben"), LiveParameters())
    assert gateways.asked == 1
    gateways.now += 50
    await live.show(viewer("ben"), LiveParameters())
    assert gateways.asked == 2


async def test_statements_and_sessions_are_ended_by_name(gateways: Gateways) -> None:
    live = gateways.live()
    assert (await live.cancel(viewer("ann"), CancelParameters(statement="a1"))).done == 1
    assert (await live.end(viewer("ann"), EndParameters(user="zoe", session="s2"))).done == 1
    assert gateways.ended == [("zoe", "s2", "ann")]
    with pytest.raises(NotFound):
        await live.cancel(viewer("ann"), CancelParameters(statement="gone"))
    with pytest.raises(NotFound):
        await live.end(viewer("ann"), EndParameters(user="cleo", session="s2"))


async def test_an_event_is_sent_when_something_has_changed(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gateway.console.pages.live as module

    monkeypatch.setattr(module, "LOOK_S", 0)
    monkeypatch.setattr(module, "KEPT_S", -1)
    console = FakeConsole([build_live_part(gateways.live())])
    async with serving(console) as nobody:
        ben = await as_user(console, nobody, "ben")
        headers = {"Cookie": f"sluice-console={ben.secret}", "Sec-Fetch-Site": "same-origin"}
        async with ben.http.get(f"{ben.url}/api/v1/live/events", headers=headers) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert answer.headers["Cache-Control"] == "no-store"
            gateways.sessions = []
            assert await answer.content.readline() == b"data: changed\n"
        assert [one[1] for one in console.recorded] == ["watch_live"]


async def test_a_page_that_is_loaded_again_and_again_has_its_events(gateways: Gateways) -> None:
    console = FakeConsole([build_live_part(gateways.live())])
    async with serving(console) as nobody:
        ben = await as_user(console, nobody, "ben")
        headers = {"Cookie": f"sluice-console={ben.secret}", "Sec-Fetch-Site": "same-origin"}
        for _ in range(3 * STREAMS_OF_ONE):
            answer = await ben.http.get(f"{ben.url}/api/v1/live/events", headers=headers)
            assert answer.status == 200
            answer.close()  # the connection with it
            await asyncio.sleep(0)


async def test_the_page_has_buttons_for_administrators_alone(gateways: Gateways) -> None:
    events = build_event_part(EventPages(*[MagicMock()] * 3))
    console = FakeConsole([build_live_part(gateways.live()), events])
    async with serving(console) as nobody:
        ben, ann = [await as_user(console, nobody, name) for name in ("ben", "ann")]
        assert "/console/live/end" not in (await ben.ask("GET", "/console/live"))[1]
        page = (await ann.ask("GET", "/console/live"))[1]
        assert page.count('action="/console/live/cancel"') == 2
        form = {"csrf": ann.csrf, "statement": "a1"}
        status, _, headers = await ann.ask("POST", "/console/live/cancel", data=form)
        assert (status, headers["Location"], gateways.stopped) == (303, "/console/live", ["a1"])


# -- what is one's own ---------------------------------------------------------------------------------------


def _policies() -> PolicySet:
    def policy(number: int, table: str, item: PolicyItem, **more: Any) -> Policy:
        resources = {
            "database": ResourceValues(values=("hr",)),
            "table": ResourceValues(values=(table,)),
        }
        return Policy(
            id=number,
            name=f"p{number}",
            service="s",
            type=PolicyType.ACCESS,
            resources=resources,
            allow=(item,),
            **more,
        )

    select = frozenset({"select"})
    listed = (
        policy(1, "mine", PolicyItem(users=frozenset({"cleo"}), accesses=select)),
        policy(2, "ours", PolicyItem(groups=frozenset({"staff"}), accesses=select)),
        policy(3, "all", PolicyItem(groups=frozenset({"public"}), accesses=select)),
        policy(4, "theirs", PolicyItem(users=frozenset({"zoe"}), accesses=select)),
        policy(5, "off", PolicyItem(users=frozenset({"cleo"}), accesses=select), enabled=False),
    )
    definition = ServiceDef(name="hive", resources=(), access_types=())
    return PolicySet(version=1, services={"s": Service(name="s", definition=definition, policies=listed)})


def mine(gateways: Gateways, rows: list[dict[str, Any]] | None = None, store: Any = None) -> MinePage:
    class Connection:
        async def fetch(self, text: str, *given: Any) -> list[dict[str, Any]]:
            assert given[0] == "cleo"
            return rows or []

    @asynccontextmanager
    async def connect() -> AsyncIterator[Connection]:
        yield Connection()

    return MinePage(
        connect,
        store or MemorySessions(),
        live=gateways.live().show,
        stop=gateways.stop,
        end=gateways.end,
        tokens=lambda user: [OwnToken(id="ab", label="ci", expires="", endpoints=(), purpose="")],
        policies=_policies,
        endpoints=Endpoints(host="gw.example", thrift=10000, connect=15002, thrift_tls=True),
    )


async def test_mine_is_the_viewers_own(gateways: Gateways) -> None:
    row = {
        "event_id": "e1",
        "time": datetime.now(UTC),
        "verdict": "cleared",
        "code": None,
        "statement": "SELECT 'Ada'",
        "plan_class": "Project",
    }
    shown = await mine(gateways, [row]).show(viewer("cleo"), NoParameters())
    assert [one.id for one in shown.sessions] == ["s1"]
    assert [one.text for one in shown.running] == ["SELECT 'Ada'"], "his own words"
    assert [(one.resource, one.by) for one in shown.grants] == [
        ("database hr, table mine", "you"),
        ("database hr, table ours", "group staff"),
        ("database hr, table all", "everybody"),
    ]
    texts = {one.tool: one.text for one in shown.how_to}
    assert "jdbc:hive2://gw.example:10000/default;ssl=true" in texts["beeline"]
    assert "sc://gw.example:15002" in texts["PySpark, notebooks"]
    assert "ab" in repr(shown.tokens)


async def test_policies_are_looked_through_once_for_each_person(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = [_policies(), _policies()]
    asked: list[tuple[int, str]] = []
    look = mine_page.list_grants

    def count(listed: Any, principal: Principal) -> Any:
        asked.append((len(policies), principal.user))
        return look(listed, principal)

    monkeypatch.setattr(mine_page, "list_grants", count)
    monkeypatch.setattr(mine_page, "MAX_GRANTS", 2)
    page = mine(gateways)
    page._policies = lambda: policies[-1]
    for _ in range(3):
        shown = await page.show(viewer("cleo"), NoParameters())
        assert (len(shown.grants), shown.more_grants) == (2, 1)
    assert asked == [(2, "cleo")]
    policies.pop()
    await page.show(viewer("cleo"), NoParameters())
    assert asked == [(2, "cleo"), (1, "cleo")]


async def test_nobody_ends_what_is_not_his(gateways: Gateways) -> None:
    page = mine(gateways)
    await page.end_session(viewer("cleo"), OwnSessionParameters(session="s1"))
    for session in ("s2", "s3"):
        with pytest.raises(NotFound):
            await page.end_session(viewer("cleo"), OwnSessionParameters(session=session))
    assert {user for user, _, _ in gateways.ended} == {"cleo"}
    await page.cancel(viewer("cleo"), OwnStatementParameters(statement="a1"))
    with pytest.raises(NotFound):
        await page.cancel(viewer("cleo"), OwnStatementParameters(statement="a2"))
    assert gateways.stopped == ["a1"]


async def test_a_name_that_is_no_plain_one_is_not_put_into_a_command(gateways: Gateways) -> None:
    hostile = "x'; rm -rf ~ #"
    told = "".join(one.text for one in explain_connecting(Endpoints(host="h", thrift=1, connect=2), hostile))
    assert hostile not in told
    assert "USER" in told


async def test_a_catalog_is_told_as_a_program_names_it() -> None:
    from gateway.console.pages.mine import explain_connecting

    at = Endpoints(host="gw", iceberg_rest=10090, iceberg_rest_tls=True, iceberg_catalogs=("lake", 'a"b'))
    (told,) = explain_connecting(at, "cleo")
    assert 'load_catalog("lake", type="rest", uri="https://gw:10090", warehouse="lake"' in told.text
    assert r'warehouse="a\"b"' in told.text
    compile(told.text, "told", "exec")


async def test_the_page_of_ones_own(gateways: Gateways) -> None:
    console = FakeConsole([])
    console = FakeConsole([build_mine_part(mine(gateways, store=console.sessions))])
    async with serving(console) as nobody:
        cleo = await as_user(console, nobody, "cleo")
        status, page, _ = await cleo.ask("GET", "/console/mine")
        assert status == 200
        assert "database hr, table mine" in page
        assert "theirs" not in page


# -- the overview --------------------------------------------------------------------------------------------


def health(**more: Any) -> dict[str, Any]:
    return {
        "version": "1.0",
        "up_s": 7300,
        "parts": {"parser": None, "spark": "away"},
        "sessions": 3,
        "running": 1,
        "waiting": 2,
        "cleared": 90,
        "refused": 10,
        "unrecorded": 0,
        "judged": [[10, 50, 80, 90, 99, 100]],
        "ledger": {"connected": True, "backlog_bytes": 10, "behind": 4, "trouble": ""},
        "policies": [
            {"name": "files", "version": None, "policies": 7, "age_s": None, "faults": ["bad"], "stale": ""},
            {"name": "hive", "version": 3, "policies": 9, "age_s": 12.0, "faults": [], "stale": "old"},
        ],
        "policy_version": 5,
        "lineage": {"waiting": 0, "behind_s": 0.0},
        "backends": [
            {
                "backend": "etl",
                "version": "4.0",
                "sessions": 2,
                "endpoints": {"thrift": "ready"},
                "drained": True,
            },
            {"backend": "bi", "waiting_for": "it does not answer"},
        ],
        **more,
    }


def test_every_number_is_explained() -> None:
    shown = sum_up(
        {"g1": health(), "g2": health(ledger={"connected": False, "backlog_bytes": 0, "behind": 0})}, ["g3"]
    )
    figures = {one.label: one for one in shown.figures}
    assert all(one.meaning for one in (*shown.figures, *shown.gateways))
    assert (figures["Gateways"].value, figures["Cleared"].value) == ("2 of 3", "180")
    assert "10.0%" in figures["Refused"].meaning
    assert "Iceberg REST calls" not in figures
    assert (figures["PostgreSQL"].value, figures["PostgreSQL"].is_bad) == ("away", True)
    assert [one.judged for one in shown.bands] == [20, 80, 60, 20, 18, 2]
    assert sum(one.share for one in shown.bands) == pytest.approx(100, abs=0.5)


def test_workers_are_told_from_gateways() -> None:
    shown = sum_up({"g1": health(worker=[1, 2]), "g2": health(worker=[2, 2]), "g3": health()}, [])
    assert [one.meaning.split(", ")[0] for one in shown.gateways] == [
        "worker 1 of 2",
        "worker 2 of 2",
        "version 1.0",
    ]
    assert "each worker of a gateway counts as one" in shown.figures[0].meaning
    assert "worker" not in sum_up({"g3": health()}, []).figures[0].meaning


async def test_what_all_see_alike_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, cleared = [0.0], [1]

    async def ask() -> tuple[dict[str, dict[str, Any]], Sequence[str]]:
        return {"<b>": health(cleared=cleared[0])}, ()

    console = FakeConsole([build_overview_part(OverviewPage(ask, lambda: now[0]))])
    templates = console.site._renderer._templates
    written: list[str] = []
    get = templates.get_template

    def note(name: str, *others: Any) -> Any:
        written.append(name)
        return get(name, *others)

    monkeypatch.setattr(templates, "get_template", note)
    async with serving(console) as nobody:
        pages = {}
        for name in ("ann", "ben"):
            somebody = await as_user(console, nobody, name)
            _, page, _ = await somebody.ask("GET", "/console/overview")
            pages[name] = page
            assert somebody.csrf in page
            assert f"<span>{name}" in page
            assert "&lt;b&gt;" in page
            assert "<b>" not in page
        assert written.count("overview_parts.html") == 1
        parts = {page.split("<dl", 1)[1].split("</main>")[0] for page in pages.values()}
        assert len(parts) == 1
        now[0], cleared[0] = 100.0, 4711
        ann = await as_user(console, nobody, "ann")
        assert "4,711" in (await ann.ask("GET", "/console/overview"))[1]


def test_calls_of_the_iceberg_rest_catalog_are_told_where_it_is_served() -> None:
    calls = {"answered": 1_200, "refused": 30, "failed": 4}
    # A gateway of before does not say anything of it.
    shown = sum_up({"g1": health(iceberg_rest=calls), "g2": health(iceberg_rest=None), "g3": health()}, [])
    (figure,) = (one for one in shown.figures if one.label == "Iceberg REST calls")
    assert figure.value == "1,234"
    assert figure.meaning.endswith("30 were refused, 4 failed")


async def test_viewers_see_an_old_overview_at_once_while_a_newer_is_asked_for() -> None:
    now, asked, away = [0.0], [0], [False]

    async def ask() -> tuple[dict[str, dict[str, Any]], Sequence[str]]:
        asked[0] += 1
        if away[0]:
            raise LedgerUnavailable("away")
        return {"g1": health(cleared=asked[0])}, ()

    page = OverviewPage(ask, lambda: now[0])
    console = FakeConsole([build_overview_part(page)])
    async with serving(console) as nobody:
        ben = await as_user(console, nobody, "ben")
        for _ in range(3):
            assert (await ben.ask("GET", "/console/overview"))[0] == 200
        assert asked == [1]
        now[0] = 10.0
        assert (await ben.ask("GET", "/console/overview"))[0] == 200
        assert page.shared._renewing is not None
        await page.shared._renewing
        assert asked == [2]
        away[0], now[0] = True, 100.0
        status, text, _ = await ben.ask("GET", "/console/overview")
        assert (status, "away" in text) == (503, True), "not an old one for ever"
        assert [one[1] for one in console.recorded] == ["show_overview"], "once in a while"


async def test_what_is_changed_while_gateways_answer_is_asked_for_again() -> None:
    now, asked, answer = [0.0], [0], asyncio.Event()

    async def ask() -> int:
        asked[0] += 1
        told = asked[0]
        await answer.wait()
        return told

    shared = SharedAnswer(ask, lambda: now[0], kept_s=2, old_s=5)
    first, same = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    shared.forget()
    answer.set()
    assert tuple(await asyncio.gather(first, same)) == (1, 2), "what came before the change is not all's"
    assert await shared.get() == 2
    now[0] = 3.0
    assert await shared.get() == 2, "an old one at once"
    assert await shared.get_new() == 3, "a new one to who wants it"
    assert await shared.get() == 3
