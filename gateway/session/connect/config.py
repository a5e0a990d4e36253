"""The Config call of Spark Connect: settings are set by the rules of SQL's SET, and read by those of SET too.

Spark takes a key as it is written: another case, or a blank before it, is another setting. Policies and pins
are asked about the key in its plain form all the same, so that no spelling is a way round them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.model.reading_settings import (
    find_pinned_value,
    is_client_only,
    is_read_by_clients,
    is_servers_own,
    may_be_set,
    may_hold_secret,
)
from gateway.model.secret_values import REDACTED, find_secrets
from gateway.session.failures import CallRefusal
from gateway.wire.connect_requests import ConfigOperation
from gateway.wire.connect_responses import ConfigResponse

KeyRight = Callable[[str], bool]
"""Whether policies give the principal a right on the setting of this key."""

MAX_KEYS = 1_000
"""Keys in one call; pyspark asks for 13 at most."""
SHOWN = 20
"""Keys that a refusal names."""


def settings_changed(operation: ConfigOperation, own: Mapping[str, str]) -> Mapping[str, bool]:
    """Return what an operation does to settings: key → whether it then has the value that Spark itself has,
    as in `own`. Of one that is unset Spark has its default, which need not be what it was started with."""
    values = dict(operation.pairs) if operation.kind in ("set", "unset") else {}
    return {key: own.get(key) == value for key, value in values.items()}


def not_set(key: str, response: ConfigResponse) -> bool:
    """Whether Spark warns that it could not set a key; a silent call goes on."""
    return any(warning.startswith(f"Failed to set {key} ") for warning in response.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigQuestion:
    """What of a call goes to Spark, and what its answer becomes."""

    operation: ConfigOperation
    """To forward."""
    answers: tuple[tuple[str, str | None] | None, ...] = ()
    """One for each key that was asked for: (key, value) answered here, or None for Spark's next pair."""
    warnings: tuple[str, ...] = ()
    """What the client is warned of: keys that it asked to set silently and may not."""
    listed: bool = False
    """For a list of all settings: those that may not be read go."""


def judge_config(
    operation: ConfigOperation, user: str, may_set: KeyRight, may_read: KeyRight
) -> ConfigQuestion | CallRefusal:
    """Say what of a call for settings may go to Spark.

    `may_set` is asked for a `set` grant, `may_read` whether the setting is visible; neither is asked about
    keys that are pinned, hold secrets, or belong to clients.
    """
    if len(operation.pairs) > MAX_KEYS:
        message = f"a configuration request can name at most {MAX_KEYS} settings"
        return CallRefusal(code="LIMIT_EXCEEDED", sqlstate="54000", message=message)
    rights = _Rights(user, may_set, may_read)
    match operation.kind:
        case "set":
            return _set(operation, rights)
        case "unset":
            return _unset(operation, rights)
        case "get":
            return _get(operation, rights)
        case "get_with_default" | "get_option":
            return _get_if_read(operation, rights)
        case "is_modifiable":
            return _is_modifiable(operation, rights)
        case "get_all":
            return ConfigQuestion(operation=operation, listed=True)
        case "nothing":
            return CallRefusal(
                code="MALFORMED", sqlstate="22023", message="a configuration request has no operation"
            )


def answer_config(
    question: ConfigQuestion, response: ConfigResponse, may_read: KeyRight, *, secrets: Sequence[str] = ()
) -> ConfigResponse | None:
    """Return Spark's answer as the client may see it.

    A value with one of `secrets` in it (the token that gateway and Spark share) is redacted. None when the
    answer does not have the pairs that were asked for: then nothing of it may be shown.
    """
    hidden = find_secrets("\0".join(value for _, value in response.pairs if value), secrets)
    received = [(key, _without_secrets(value, hidden)) for key, value in response.pairs]
    shown: list[tuple[str, str | None]] = []
    if question.listed:
        # Spark cuts the prefix off the keys that it answers.
        prefix = question.operation.prefix or ""
        shown = [(key, value) for key, value in received if _may_be_read(prefix + key, may_read)]
    elif len(received) != sum(1 for known in question.answers if known is None):
        return None
    else:
        pairs = iter(received)
        shown = [next(pairs) if known is None else known for known in question.answers]
    return replace(response, pairs=tuple(shown), warnings=(*response.warnings, *question.warnings))


@dataclass(frozen=True, slots=True)
class _Rights:
    user: str
    may_set: KeyRight
    may_read: KeyRight

    def reads(self, key: str) -> bool:
        return _may_be_read(key, self.may_read)

    def against_setting(self, key: str) -> CallRefusal | None:
        """Say why a key may not be set, in the words of SQL's SET."""
        if is_client_only(key):
            return None
        plain = key.strip()
        if not may_be_set(plain) or is_servers_own(plain):
            return CallRefusal(
                code="NOT_GOVERNABLE",
                sqlstate="0A000",
                message=f"the setting `{key}` affects how statements are parsed and is fixed by Sluice",
            )
        if not self.may_set(plain):
            return self.build_denial([key])
        return None

    def build_denial(self, keys: Sequence[str]) -> CallRefusal:
        return CallRefusal(
            code="ACCESS_DENIED",
            sqlstate="42501",
            message=f"user {self.user} needs {_join_words(f'set on setting {key.strip()}' for key in keys)}",
        )


def _may_be_read(key: str, may_read: KeyRight) -> bool:
    if may_hold_secret(key) or is_servers_own(key):
        return False
    return is_read_by_clients(key) or may_read(key.strip())


def _set(asked: ConfigOperation, rights: _Rights) -> ConfigQuestion | CallRefusal:
    allowed: list[tuple[str, str | None]] = []
    refused: list[tuple[str, CallRefusal]] = []
    warnings: list[str] = []
    for key, value in asked.pairs:
        pinned = find_pinned_value(key)
        if pinned is not None and value is not None and value.strip().lower() == pinned.lower():
            # It has this value already, and gets it in the spelling that it is pinned in.
            allowed.append((key, pinned))
        elif (why := rights.against_setting(key)) is None:
            allowed.append((key, value))
        elif asked.silent:
            # As Spark words it when it cannot set a key.
            warnings.append(f"Failed to set {key} due to [SLUICE_{why.code}] {why.message}")
        else:
            refused.append((key, why))
    if refused:
        return _together(refused, rights)
    return ConfigQuestion(operation=replace(asked, pairs=tuple(allowed)), warnings=tuple(warnings))


def _unset(asked: ConfigOperation, rights: _Rights) -> ConfigQuestion | CallRefusal:
    refused = [(key, why) for key in asked.keys if (why := rights.against_setting(key)) is not None]
    return _together(refused, rights) if refused else ConfigQuestion(operation=asked)


def _together(refused: Sequence[tuple[str, CallRefusal]], rights: _Rights) -> CallRefusal:
    """Return one refusal that names every key; one that is pinned stands before those that lack a grant."""
    pinned = [key for key, why in refused if why.code == "NOT_GOVERNABLE"]
    denied = rights.build_denial([key for key, why in refused if why.code == "ACCESS_DENIED"])
    if not pinned:
        return denied
    are = "settings" if len(pinned) > 1 else "setting"
    shapes, is_ = ("affect", "are") if len(pinned) > 1 else ("affects", "is")
    names = _join_words(f"`{key}`" for key in pinned)
    message = f"the {are} {names} {shapes} how statements are parsed and {is_} fixed by Sluice"
    if len(pinned) < len(refused):
        message += f"; {denied.message}"
    return CallRefusal(code="NOT_GOVERNABLE", sqlstate="0A000", message=message)


def _get(asked: ConfigOperation, rights: _Rights) -> ConfigQuestion | CallRefusal:
    """A key that may not be read refuses the call, as one that does not exist fails it in Spark."""
    hidden = [key for key in asked.keys if not rights.reads(key)]
    secret = [key for key in hidden if may_hold_secret(key)]
    if secret:
        message = f"the value of {_join_words(f'`{key}`' for key in secret)} may be a secret and is not shown"
        if len(secret) < len(hidden):
            message += f"; {rights.build_denial([key for key in hidden if key not in secret]).message}"
        return CallRefusal(code="ACCESS_DENIED", sqlstate="42501", message=message)
    if hidden:
        return rights.build_denial(hidden)
    return ConfigQuestion(operation=asked, answers=(None,) * len(asked.pairs))


def _get_if_read(asked: ConfigOperation, rights: _Rights) -> ConfigQuestion:
    """A key that may not be read has its default, or no value, as one that is not set."""
    read = tuple(pair for pair in asked.pairs if rights.reads(pair[0]))
    answers = tuple(None if rights.reads(pair[0]) else pair for pair in asked.pairs)
    return ConfigQuestion(operation=replace(asked, pairs=read), answers=answers)


def _is_modifiable(asked: ConfigOperation, rights: _Rights) -> ConfigQuestion:
    """A key that may not be set cannot be modified; about the others Spark is asked."""
    settable = [rights.against_setting(key) is None for key in asked.keys]
    pairs = tuple(pair for pair, may in zip(asked.pairs, settable, strict=True) if may)
    answers = tuple(None if may else (key, "false") for key, may in zip(asked.keys, settable, strict=True))
    return ConfigQuestion(operation=replace(asked, pairs=pairs), answers=answers)


def _without_secrets(value: str | None, secrets: Sequence[str]) -> str | None:
    hidden = value is not None and any(secret and secret in value for secret in secrets)
    return REDACTED if hidden else value


def _join_words(words: Iterable[str]) -> str:
    unique = list(dict.fromkeys(words))
    return ", ".join(unique[:SHOWN]) + (", …" if len(unique) > SHOWN else "")
