"""Pages from templates: escaped, with hostile text made visible, without a script or a style in them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import partial
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gateway.console import display
from gateway.console.routes import ConsolePage, ConsolePart, Recordable, Viewer

PAGES = "/console"
API = "/api/v1"
_CONTENT_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_IN_PATH = re.compile(r"\{(\w+)\}")
_LOCAL = re.compile(r"/console/[\w.~!$&'()*+,;=:@%/?-]*", re.ASCII)


class StaticFiles:
    """Files of the package, each under a name that has its content's hash."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.files: dict[str, tuple[bytes, str]] = {}
        """Name with the hash → content and its type."""
        for file in (resources.files("gateway.console") / "static").iterdir():
            stem, _, ending = file.name.rpartition(".")
            if ending in _CONTENT_TYPES:
                content = file.read_bytes()
                name = f"{stem}.{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
                self._names[file.name] = name
                self.files[name] = (content, _CONTENT_TYPES[ending])

    def url(self, name: str) -> str:
        return f"{PAGES}/static/{self._names[name]}"


class Paths:
    """Addresses of pages, forms and the API, by the names of routes."""

    def __init__(self, parts: Sequence[ConsolePart]) -> None:
        self._pages = {one.route.name: PAGES + one.path for part in parts for one in part.pages}
        self._forms = {one.route.name: PAGES + one.path for part in parts for one in part.forms}
        used: list[Recordable] = []
        for part in parts:
            used += [*part.routes, *part.streams, *part.downloads]
        self._api = {one.name: API + one.path for one in used}

    def path(self, name: str, /, **values: Any) -> str:
        """Return the address of a route's page or form; of one without either that of the API."""
        pattern = self._pages.get(name) or self._forms.get(name) or self._api[name]
        return fill(pattern, values)

    def has(self, name: str) -> bool:
        """Whether there is such a route."""
        return name in self._api

    def api(self, name: str, /, **values: Any) -> str:
        return fill(self._api[name], values)


def fill(pattern: str, values: Mapping[str, Any]) -> str:
    """Return an address with values in its path, and the others in its query; those that are empty are left
    out there."""
    named = set(_IN_PATH.findall(pattern))
    found = _IN_PATH.sub(lambda one: quote(_text(values[one[1]]), safe=""), pattern)
    asked: list[tuple[str, str]] = []
    for name, value in values.items():
        if name in named or value is None or value == "" or value is False:
            continue
        several = value if isinstance(value, tuple | list) else (value,)
        asked += [(name, _text(one)) for one in several]
    return f"{found}?{urlencode(asked)}" if asked else found


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def is_local(address: str) -> bool:
    """Whether an address is one of our pages, so that nobody is sent elsewhere by it."""
    return _LOCAL.fullmatch(address) is not None  # RULE (console-redirect)


class Renderer:
    """Writes pages."""

    def __init__(self, parts: Sequence[ConsolePart], static: StaticFiles) -> None:
        self.paths = Paths(parts)
        self._menu = sorted(
            (one for part in parts for one in part.pages if one.menu), key=lambda one: (one.place, one.menu)
        )
        self._shared: dict[str, tuple[Any, Markup]] = {}
        """Parts of pages with the answer that each was made of."""
        self._templates = Environment(
            loader=PackageLoader("gateway.console"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=display.finalize,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {
            "path": self.paths.path,
            "api": self.paths.api,
            "static": static.url,
            "when": display.when,
            "mark": display.mark,
            "has": self.paths.has,
            "cut": display.cut,
            "name_mask": display.name_mask,
            "name_items": display.name_items,
            "whole": display.whole,
        }

    def menu_of(self, viewer: Viewer) -> list[ConsolePage]:
        """Return the pages of the menu that are for somebody."""
        return [one for one in self._menu if viewer.may(one.route.who)]

    def page(self, page: ConsolePage, viewer: Viewer, csrf: str, asked: Any, it: Any) -> str:
        """Return a page of what its route has answered."""
        given = {one.name: getattr(asked, one.name) for one in fields(asked)}
        return self.template(
            page.template,
            viewer=viewer,
            csrf_token=csrf,
            page=page,
            asked=asked,
            it=it,
            here=lambda **others: fill(PAGES + page.path, {**given, **others}),
            shared=partial(self._share, it),
        )

    def _share(self, it: Any, name: str) -> Markup:
        """Return a part of a page that is made of the answer alone, and of nothing of the viewer: it is
        written once for all who have the same answer."""
        known = self._shared.get(name)
        if known is None or known[0] is not it:
            text = self._templates.get_template(name).render(it=it)
            known = self._shared[name] = it, Markup(text)  # noqa: S704 - the template has escaped it
        return known[1]

    def template(self, name: str, *, viewer: Viewer | None = None, **values: Any) -> str:
        """Return a page that is no route's."""
        menu = self.menu_of(viewer) if viewer is not None else []
        token = values.get("csrf_token", "")
        return self._templates.get_template(name).render(
            {"page": None, "csrf_token": "", **values},
            viewer=viewer,
            menu=menu,
            csrf=lambda: Markup('<input type="hidden" name="csrf" value="{}">').format(token),
        )
