"""How it is written down who defined a view: as a property of the view itself, bound to its text.

Only the gateway writes such properties (docs/adr/0016). One that is bound to another text says nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

PREFIX = "sluice.definer."


def definer_property(text: str, identity: str) -> tuple[str, str]:
    """Return key and value of the property that says that who has this identity (`Principal.identity`) has
    defined the view with this text.

    Both are letters, digits and dots only, whatever the name is: they stand in literals, and Spark does not
    take the name for a secret that it has to hide.
    """
    return f"{PREFIX}{_digest(text)}", identity.encode("utf-8", "surrogatepass").hex()


def is_definer_property(key: str) -> bool:
    """Whether a property says who defines a view."""
    return key.lower().startswith(PREFIX)


def definer_of(text: str, properties: Mapping[str, str]) -> str | None:
    """Return who defined the view with this text, as `Principal.identity`.

    None: the properties say nothing of any definer; empty: what they say is about another text.
    """
    told = {key.lower(): value for key, value in properties.items() if key.lower().startswith(PREFIX)}
    if not told:
        return None
    value = told.get(f"{PREFIX}{_digest(text)}", "")
    try:
        return bytes.fromhex(value).decode("utf-8", "surrogatepass")
    except (ValueError, UnicodeDecodeError):
        return ""


_MARK = re.compile(rf"\[({re.escape(PREFIX)}[0-9a-f]{{64}}) = ([0-9a-f]*)\]\Z")


def definer_mark(text: str, identity: str) -> str:
    """Return what a function's comment ends in, which has no properties: the same as the property says of a
    view, of its body."""
    key, value = definer_property(text, identity)
    return f"[{key} = {value}]"


def definer_in_comment(text: str, comment: str) -> str | None:
    """Return who defined the function with this body, as `definer_of` does. What stands in the comment before
    its end is whoever's."""
    found = _MARK.search(comment)
    return None if found is None else definer_of(text, {found[1]: found[2]})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
