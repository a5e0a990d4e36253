"""Checks `connection-params` of catalogs: which there are, what their values look like, which are secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway.catalog.kinds import GIVEN, CatalogKind
from gateway.catalog.providers import is_secret
from gateway.model.reading_settings import may_hold_secret
from gateway.policy.diagnostics import Diagnostics, Path, hint
from gateway.settings.metalakes import check_metalake

_ABOUT_SECRETS = re.compile(
    r"[.-](?:enabled?|provider|loader|path|file|location|endpoint|url|role-name|token-type|lifespan"
    r"|idle-timeout|expires-(?:at|in)(?:-ms)?)$|(?:^|[.-])token-expires-at-ms\.|account[.-](?:keyprovider\.|name$)"
)
"""Parameters that only look like secrets: the class that gets one, where it is, whose, how long it lasts."""
_HEADER = re.compile(r"(?:.*\.)?header\.(.*)", re.DOTALL)
_PLAIN_HEADERS = frozenset(
    {
        "accept", "content-type", "polaris-realm", "user-agent", "x-goog-user-project",
        "x-iceberg-access-delegation",
    }
)  # fmt: skip
"""Headers that no server takes for a login; of any other nobody here knows."""


def check_parameters(
    given: Any, at: Path, faults: Diagnostics, kind: CatalogKind | None
) -> dict[str, str | dict[str, str]]:
    """Return parameters as they stand, and note all their faults; `kind` is None where the type has one."""
    if given is not None and not isinstance(given, dict):
        faults.add(at, "`connection-params` must be a mapping")
        return {}
    made: dict[str, Any] = {}
    seen: dict[str, str] = {}
    sound: list[str] = []
    given = given or {}
    for key, value in given.items():
        where, before = (*at, key), faults.noted
        if key.lower() in seen:
            faults.add(where, f"parameter `{key}` is repeated here, first as `{seen[key.lower()]}`")
            continue
        seen[key.lower()] = key
        if kind is not None and not kind.takes(key, given):
            told = hint(key, kind.parameters)
            faults.add(where, f"type `{kind.name}` has no parameter `{key}`{told}")
        made[key] = _value(key, value, where, faults)
        if faults.noted == before:
            sound.append(key)
    if kind is None:
        return made
    if kind.lists:
        check_metalake(made, at, faults)
    for missing in kind.list_missing(made):
        faults.add(at, f"{_describe_kind(kind, made)} needs the parameter {missing}")
    for key in sound:
        told = _wrong_value(key, made, kind)
        if told:
            faults.add((*at, key), told)
    if kind.opened_by in seen and kind.chosen_by in seen:
        told = f"`{kind.chosen_by}` and `{kind.opened_by}` exclude each other for {kind.name}"
        faults.add((*at, seen[kind.opened_by]), told)
    return made


def _describe_kind(kind: CatalogKind, given: Mapping[str, Any]) -> str:
    """Return what a kind is called in messages: with its variant, where that says what it needs."""
    chosen = kind.choose_variants(given)
    return f"type `{kind.name}`" + (f" with `{kind.chosen_by}: {chosen}`" if chosen in kind.variants else "")


def _wrong_value(key: str, given: Mapping[str, Any], kind: CatalogKind) -> str:
    """Say why a value is none of its parameter's, empty when it is. That of a reference nobody knows yet; no
    other is repeated either, as it may be a password that stands in the wrong place."""
    value, folded = given[key], key.lower()
    if not isinstance(value, str):
        return ""
    form = kind.form(folded, given) or (GIVEN if folded in kind.list_needed(given) else None)
    if form is not None and not form.pattern.fullmatch(value):
        return f"`{key}` must be {form.spark_class}" if value.strip() else f"`{key}` is empty"
    if folded == kind.chosen_by and kind.choose_variants(given) not in kind.variants:
        return f"`{key}` must be {', '.join(kind.variants)}{hint(value, kind.variants)}"
    return ""


def _value(key: str, value: Any, at: Path, faults: Diagnostics) -> Any:
    if isinstance(value, dict):
        if set(value) not in ({"env"}, {"file"}) or not all(isinstance(v, str) and v for v in value.values()):
            faults.add(at, f"`{key}`: a secret must be either `env: NAME` or `file: PATH`")
        return value
    if value is None or isinstance(value, list):
        faults.add(at, f"`{key}` must be a text, a number, true or false, or a secret")
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _is_secret(key):
        faults.add(at, f"`{key}` is a secret: write `{{env: NAME}}` or `{{file: PATH}}`")
    elif is_secret("", text):
        told = "write the whole value as `{env: NAME}`, or use the parameter for passwords"
        faults.add(at, f"`{key}` contains a password: {told}")
    elif any(ord(c) < 32 for c in text):
        faults.add(at, f"`{key}` contains a character that parameters cannot have")
    return text


def _is_secret(key: str) -> bool:
    """Whether a parameter's value is a secret, as far as its name tells; in doubt it is."""
    folded = key.lower()
    header = _HEADER.fullmatch(folded)
    if header is not None:
        return header[1] not in _PLAIN_HEADERS
    return may_hold_secret(folded) and _ABOUT_SECRETS.search(folded) is None
