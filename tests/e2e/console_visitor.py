"""Somebody at the web console without a browser: opens pages, follows their links and sends their forms."""

from __future__ import annotations

import html
import re
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

from tests.speed import patience

_FORM = re.compile(r'<form method="post" action="([^"]+)".*?</form>', re.DOTALL)
_FIELD = re.compile(r'<(?:input|textarea)[^>]* name="([^"]+)"(?:[^>]* value="([^"]*)")?')


class ConsoleVisitor:
    """One person with a session of the console."""

    def __init__(self, base: str, user: str, password: str) -> None:
        """Log in. Raises HTTPError for a wrong password."""
        self._base = base
        self._browser = build_opener(HTTPCookieProcessor(CookieJar()))
        self.page = self.at = ""
        self.open("/console/login")
        self.send("/console/login", user=user, password=password)

    def open(self, path: str, form: dict[str, str] | None = None) -> str:
        """Return a page, after what a form has done where one is given."""
        data = None if form is None else urlencode(form).encode()
        headers = {"Sec-Fetch-Site": "same-origin", "Origin": self._base}
        with self._browser.open(Request(self._base + path, data, headers), timeout=patience()) as answer:
            self.page = answer.read().decode()
            self.at = urlsplit(answer.url).path
        return self.page

    def follow(self, address: str) -> str:
        """Follow the first link of the page to an address that a pattern fits."""
        found = re.search(f'href="({address})"', self.page)
        assert found is not None, f"{self.at} has no link to {address}"
        return self.open(html.unescape(found[1]))

    def send(self, action: str, **given: str) -> str:
        """Send the page's form whose address a pattern fits, filled in as it is but for what is given."""
        for one in _FORM.finditer(self.page):
            if re.fullmatch(action, one[1]):
                fields = {name: html.unescape(value) for name, value in _FIELD.findall(one[0])}
                return self.open(one[1], fields | given)
        raise AssertionError(f"{self.at} has no form for {action}")
