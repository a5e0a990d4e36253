"""One Chromium for all tests of the console, before a gateway whose console has what the demo's has; needs
Chromium and npm's axe-core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.demo.grants import PLUGIN, find_port, list_sources, make_service, prepare_login
from gateway.demo.run import IMPERSONATION
from gateway.demo.tour import ENGINEER
from tests.e2e.browser.chromium import Chromium, Page, running
from tests.e2e.browser.walk import Hand
from tests.e2e.conftest import write_settings
from tests.e2e.running import PASSWORDS, RunningGateway, Spark
from tests.shares import in_turn


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    """The browser."""
    async with running(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="session")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway that grants what is asked for, and lets an auditor read samples as others."""
    file = write_settings(open_directory / "console", spark)
    settings = json.loads(file.read_text())
    # People are told of ports that stay.
    for listener in settings["listeners"].values():
        listener["port"] = find_port(0)
    admin = settings["listeners"]["admin"]
    port = admin["port"]
    admin |= {"ranger": {"administrators": [ENGINEER.name], "plugins": [PLUGIN]}}
    admin["console"]["public_url"] = f"http://localhost:{port}"
    settings["policies"]["ranger"] = [one | {"cache": "grants"} for one in list_sources(port)]
    settings["logins"] = {"impersonation": IMPERSONATION}
    prepare_login(file.parent, file.with_name("users.yaml"), {})
    file.write_text(json.dumps(settings))
    running = RunningGateway(file).start()
    asyncio.run(make_service(port))
    yield running
    assert running.stop() == 0


class People:
    """Opens pages in which somebody is logged in, each person once."""

    def __init__(self, browser: Chromium, base: str) -> None:
        self._browser = browser
        self._base = base
        self._pages: dict[str, Page] = {}

    async def page(self, name: str) -> Page:
        """Return somebody's page; he logs in by the keyboard."""
        if name not in self._pages:
            page = await self.nobody()
            await page.log_in(name, PASSWORDS[name])
            self._pages[name] = page
        return self._pages[name]

    async def nobody(self) -> Page:
        """Return a page in which nobody is logged in."""
        page = await self._browser.open(self._base)
        await page.look(1440)
        return page

    def forget(self, name: str) -> None:
        """Have somebody log in anew the next time."""
        self._pages.pop(name)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def people(chromium: Chromium, gateway: RunningGateway) -> People:
    """Carol sees what is her own, alice audits, dave administers."""
    return People(chromium, f"http://localhost:{gateway.admin_port}")


@pytest.fixture(params=in_turn(["mouse", "keyboard"], 2))
def hand(request: pytest.FixtureRequest) -> Hand:
    """How somebody goes from page to page."""
    given: Hand = request.param
    return given


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where pictures of pages go; `docs/pictures` has those of the documents."""
    return Path(__file__).parents[3] / ".run" / "console"
