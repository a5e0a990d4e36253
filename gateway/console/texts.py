"""Texts of statements as a viewer may see them: whole, or with every literal replaced."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from gateway.console.routes import Viewer
from gateway.reader.shapes import FingerprintOf, lex_statement

WITHHELD = "(the text is not shown, because its literals cannot be told apart)"
MAX_REMEMBERED_CHARS = 4_000_000


class ShownTexts:
    """Shows texts by who looks at them."""

    def __init__(self, fingerprint: FingerprintOf) -> None:
        self._fingerprint = fingerprint
        self._known: OrderedDict[str, str] = OrderedDict()
        self._chars = 0

    def are_whole(self, viewer: Viewer, owner: str) -> bool:
        """Whether texts of a person are shown to a viewer as they are: he wrote them, or has the role."""
        return viewer.reads_texts or viewer.user == owner

    async def show(
        self,
        viewer: Viewer,
        text: str,
        *,
        owner: str,
        kind: Literal["sql", "plan"] = "sql",
        texts: Sequence[str] = (),
    ) -> str:
        """Return a text as a viewer may see it. `owner`: who sent it; empty for what the gateway made of it.
        `texts`: those within a plan."""
        if self.are_whole(viewer, owner):  # RULE (literals-hidden)
            return text
        asked = lex_statement(text, is_rendering=kind == "plan", texts=texts)
        return await self._shape(asked) if asked else ""

    def show_message(self, viewer: Viewer, message: str, *, owner: str) -> str:
        """Return an error's message as a viewer may see it: values may stand in it."""
        return message if self.are_whole(viewer, owner) else ""

    async def _shape(self, text: str) -> str:
        if (known := self._known.get(text)) is not None:
            self._known.move_to_end(text)
            return known
        found = await self._fingerprint(text)
        if not isinstance(found, str):
            return WITHHELD
        self._known[text] = found
        self._chars += len(text) + len(found)
        while self._chars > MAX_REMEMBERED_CHARS and self._known:
            old, shape = self._known.popitem(last=False)
            self._chars -= len(old) + len(shape)
        return found
