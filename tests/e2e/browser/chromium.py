"""Debian's Chromium, driven over its DevTools protocol: pages by mouse and keyboard, in both themes and
widths, with everything that it complains of.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import aiohttp

from tests.speed import patience

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[1] / "npm" / "node_modules" / "axe-core" / "axe.min.js"
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
_AT_LAUNCH = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--hide-scrollbars",
    "--lang=en-US",
)
_TELL_VIOLATIONS = """
document.addEventListener('securitypolicyviolation',
  one => console.error(`Content-Security-Policy: ${one.violatedDirective} ${one.blockedURI}`));
"""


class Chromium:
    """The browser; `open` gives pages."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._pages: dict[str, Page] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                answer = self._asked.pop(told["id"])
                if not answer.done():
                    answer.set_result(told)
            elif (page := self._pages.get(told.get("sessionId", ""))) is not None:
                page.note(told["method"], told["params"])

    async def ask(self, method: str, session: str = "", **given: Any) -> Any:
        """Send a command and return its result."""
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        asked = {"id": number, "method": method, "params": given}
        await self._socket.send_json(asked | ({"sessionId": session} if session else {}))
        async with asyncio.timeout(patience(120)):
            told = await self._asked[number]
        assert "error" not in told, (method, told)
        return told["result"]

    async def open(self, base: str) -> Page:
        """Return a page in a profile of its own, where nobody is logged in."""
        context = (await self.ask("Target.createBrowserContext"))["browserContextId"]
        target = await self.ask("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"], base)
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.ask(f"{domain}.enable")
        await page.ask("Page.addScriptToEvaluateOnNewDocument", source=_TELL_VIOLATIONS)
        # As if it were the page in front: only that one has a focus.
        await page.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        return page

    async def close(self) -> None:
        with contextlib.suppress(Exception):
            await self.ask("Browser.close")
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Page:
    """One page, and what was complained of in it."""

    def __init__(self, browser: Chromium, session: str, base: str) -> None:
        self._browser = browser
        self._session = session
        self.base = base
        self.complaints: list[str] = []
        self._loaded = asyncio.Event()

    async def ask(self, method: str, **given: Any) -> Any:
        return await self._browser.ask(method, self._session, **given)

    def note(self, method: str, told: dict[str, Any]) -> None:
        """Take an event of the browser."""
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Runtime.exceptionThrown":
                self.complaints.append(str(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    @contextlib.asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Wait at the end until another page has been loaded."""
        self._loaded.clear()
        yield
        try:
            async with asyncio.timeout(patience(120)):
                await self._loaded.wait()
        except TimeoutError:
            raise AssertionError(f"no page was loaded after {await self.path()}: {self.complaints}") from None

    async def go(self, path: str) -> None:
        """Open one of the console's pages."""
        async with self.loading():
            await self.ask("Page.navigate", url=self.base + path)

    async def run(self, script: str) -> Any:
        """Return what a script of ours says about the page."""
        told = await self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def wait(self, condition: str) -> None:
        """Wait until a script of ours says that something is so."""
        told = await self.run(
            "new Promise(done => { const look = () => { try { return "
            f"{condition}"
            "; } catch { return false; } };"
            " const until = Date.now() + "
            f"{1000 * patience(120):.0f};"
            " const ask = () => look() ? done(true)"
            " : Date.now() > until ? done(false) : setTimeout(ask, 100); ask(); })"
        )
        assert told, f"it never was so at {await self.path()}: {condition}: {await self.text()}"

    async def text(self) -> str:
        return str(await self.run("document.querySelector('main').innerText"))

    async def path(self) -> str:
        return str(await self.run("location.pathname + location.search"))

    async def look(self, width: int, theme: Literal["light", "dark"] = "light") -> None:
        """Have the page as wide, and in this theme."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        await self.ask(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}]
        )

    async def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element."""
        found = await self.run(
            f"(() => {{ const one = document.querySelector({selector!r}); if (!one) return null;"
            " one.scrollIntoView({block: 'center', inline: 'center'});"
            " const at = one.getClientRects()[0];"  # of a link on two lines the middle is beside it
            " return [at.x + at.width / 2, at.y + at.height / 2]; })()"
        )
        assert found is not None, f"there is no {selector} in {await self.path()}: {await self.text()}"
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask(
                "Input.dispatchMouseEvent", type=kind, x=found[0], y=found[1], button="left", clickCount=1
            )

    async def press(self, key: str) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        code = {" ": "Space"}.get(key, key)
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            await self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=code,
                windowsVirtualKeyCode=KEYS[key],
                **given,
            )

    async def type(self, text: str) -> None:
        await self.ask("Input.insertText", text=text)

    async def tab_to(self, selector: str, most: int = 80) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(most):
            if await self.run(f"document.activeElement?.matches({selector!r}) ?? false"):
                return
            await self.press("Tab")
        raise AssertionError(f"{selector} is not reached by {most} tabs in {await self.path()}")

    async def log_in(self, user: str, password: str) -> None:
        """Log in by the keyboard alone."""
        await self.go("/console/login")
        await self.type(user)
        await self.press("Tab")
        await self.type(password)
        async with self.loading():
            await self.press("Enter")
        assert "/login" not in await self.path(), await self.text()

    async def violations(self) -> list[str]:
        """Return what axe-core finds, each with the elements that it is about."""
        await self.run(f"window.axe || (() => {{ {AXE.read_text()} }})(); 0")
        found = await self.run(
            "axe.run(document, {resultTypes: ['violations']}).then(all => all.violations.map(one =>"
            " `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(n => n.html).join(' ')}`))"
        )
        return [str(one) for one in found]

    async def picture(self, file: Path) -> None:
        """Write the page as PNG."""
        taken = await self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        await asyncio.to_thread(_write, file, base64.b64decode(taken["data"]))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def find_program() -> str | None:
    """Return the browser of this machine; None where it has none."""
    return next((found for one in PROGRAMS if (found := shutil.which(one)) is not None), None)


@contextlib.asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Chromium]:
    """Start Chromium with its state in a directory, and stop it at the end."""
    program = find_program()
    assert program is not None, "Chromium is missing: `apt-get install chromium`"
    # As root it has no sandbox; it shows pages of ours alone.
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    arguments = [*_AT_LAUNCH, f"--user-data-dir={directory}", *as_root]
    process = await asyncio.create_subprocess_exec(
        program, *arguments, "about:blank", stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(patience(120)):
            line = ""
            while not line.startswith("DevTools listening on "):
                line = (await process.stderr.readline()).decode()
                assert line, "Chromium did not start"
        draining = asyncio.create_task(process.stderr.read())
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(line.split()[-1], max_msg_size=0) as socket,
        ):
            browser = Chromium(socket)
            yield browser
            await browser.close()
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)
    finally:
        if process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience(10)):
                    await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
