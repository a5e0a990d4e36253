"""One Chromium for all tests of the console, before the session's gateway; needs Chromium and npm's
axe-core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.browser.chromium import Chromium, Page, running
from tests.e2e.running import PASSWORDS, RunningGateway


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    """The browser."""
    async with running(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


class People:
    """Opens pages in which somebody is logged in, each person once."""

    def __init__(self, browser: Chromium, base: str) -> None:
        self._browser = browser
        self._base = base
        self._pages: dict[str, Page] = {}

    async def page(self, name: str) -> Page:
        """Return somebody's page; he logs in by the keyboard."""
        if name not in self._pages:
            page = await self._browser.open(self._base)
            await page.look(1440)
            await page.log_in(name, PASSWORDS[name])
            self._pages[name] = page
        return self._pages[name]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def people(chromium: Chromium, gateway: RunningGateway) -> People:
    """Carol sees what is her own, alice audits, dave administers."""
    return People(chromium, f"http://localhost:{gateway.admin_port}")


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where pictures of pages go; `docs/pictures` has those of the documents."""
    return Path(__file__).parents[3] / ".run" / "console"
