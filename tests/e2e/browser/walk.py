"""Somebody who goes through pages by the mouse alone, or by the keyboard alone, and how long it takes him."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tests.e2e.browser.chromium import Page
from tests.shares import todays
from tests.speed import patience

Hand = Literal["mouse", "keyboard"]
Look = tuple[int, Literal["light", "dark"]]
LOOKS: tuple[Look, ...] = ((1440, "light"), (1440, "dark"), (360, "light"), (360, "dark"))
TODAYS_LOOKS = todays(LOOKS, 2)
"""Two of them, the wide and the narrow one; by night all."""
PRESSED = 'a, button, summary, input[type="checkbox"]'
MOST_TABS = 400
_FIND = """
(() => {{
  for (const one of document.querySelectorAll('[data-walk]')) one.removeAttribute('data-walk');
  const named = one => (one.getAttribute('aria-label') ?? one.innerText ?? '').trim();
  const found = [...document.querySelectorAll({pressed!r})]
    .filter(one => one.closest({within!r}) && one.getClientRects().length)
    .find(one => named(one).startsWith({text!r}));
  found?.setAttribute('data-walk', '');
  return found !== undefined;
}})()
"""
_TOO_WIDE = (
    "[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, pre, svg'))"
    ".filter(one => one.getBoundingClientRect().right > innerWidth + 1)"
    ".map(one => one.outerHTML.slice(0, 120))"
)
_FOCUS_SHOWS = """
(() => {
  const one = document.activeElement, style = getComputedStyle(one), at = one.getBoundingClientRect();
  if (one.closest('svg')) return true;
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
    && at.bottom > 0 && at.top < innerHeight;
})()
"""


async def list_faults(page: Page) -> list[str]:
    """Return what is wrong with a page as it is shown now."""
    wrong = await page.violations()
    if await page.run("document.scrollingElement.scrollWidth > innerWidth"):
        wrong += [f"too wide: {one}" for one in await page.run(_TOO_WIDE)]
    return wrong


class Walk:
    """One person's way; what is wrong with a page on it is kept until its end."""

    def __init__(self, page: Page, hand: Hand, pictures: Path | None = None) -> None:
        """`pictures`: where those of each page go in today's looks; only then pages are looked at closely."""
        self.page = page
        self.faults: list[str] = []
        self.acts = 0
        self._hand = hand
        self._pictures = pictures
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    async def press(self, text: str, within: str = "main") -> None:
        """Press a link or a button by what it is called, and wait for the page that comes."""
        async with self.page.loading():
            await self.touch(text, within)

    async def touch(self, text: str, within: str = "main") -> None:
        """Press what leads to no other page."""
        self.acts += 1
        asked = _FIND.format(pressed=PRESSED, within=within, text=text)
        assert await self.page.run(asked), (
            f"no {text!r} at {await self.page.path()}: {await self.page.text()}"
        )
        await self._act("[data-walk]")

    async def menu(self, text: str) -> None:
        """Go to a page of the menu."""
        await self.press(text, ".top nav")

    async def fill(self, selector: str, text: str) -> None:
        """Write into a field, over what is in it."""
        self.acts += 1
        if self._hand == "mouse":
            await self.page.click(selector)
        else:
            await self._tab_to(selector)
        await self.page.run("document.activeElement.select?.()")
        await self.page.type(text)

    async def enter(self) -> None:
        """Press Enter in a field."""
        self.acts += 1
        async with self.page.loading():
            await self.page.press("Enter")

    async def look(self, name: str, *wanted: str) -> str:
        """Look at the page; return its text, in which there is what is wanted."""
        text = await self.page.text()
        for one in wanted:
            assert one in text, f"no {one!r} at {await self.page.path()}: {text}"
        if self._pictures is not None:
            for width, theme in TODAYS_LOOKS:
                await self.page.look(width, theme)
                told = await list_faults(self.page)
                self.faults += [f"{await self.page.path()} {width} {theme}: {one}" for one in told]
                await self.page.picture(self._pictures / f"{name}-{width}-{theme}.png")
            await self.page.look(1440)
        return text

    async def wait_until(self, path: str, true: Callable[[str], bool]) -> None:
        """Open a page again and again, until its text is as it should be."""
        deadline = time.monotonic() + patience()
        while True:
            await self.page.go(path)
            if true(text := await self.page.text()):
                return
            assert time.monotonic() < deadline, f"{path} stays as it is: {text}"
            await asyncio.sleep(0.2)

    async def _act(self, selector: str) -> None:
        if self._hand == "mouse":
            await self.page.click(selector)
        else:
            await self._tab_to(selector)
            is_box = await self.page.run("document.activeElement.type === 'checkbox'")
            await self.page.press(" " if is_box else "Enter")

    async def _tab_to(self, selector: str) -> None:
        await self.page.tab_to(selector, MOST_TABS)
        if not await self.page.run(_FOCUS_SHOWS):
            self.faults.append(f"{await self.page.path()}: the focus on {selector} does not show")
