"""The Config call of Spark Connect: settings are set by the rules of SQL's SET, and read by those of SET too.

Spark takes a key as it is written: another case, or a blank before it, is another setting. Policies and pins
are asked about the key in its plain form all the same, so that no spelling is a way round them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.model.reading_settings import (
    is_client_only,
    is_read_by_clients,
    is_servers_own,
    may_be_set,
    may_hold_secret,
    pinned_value,
)
from gateway.session.failures import CallRefusal
from gateway.wire.connect import pb, serialize

KeyRight = Callable[[str], bool]
"""Whether policies give the principal a right on the setting of this key."""

MAX_KEYS = 1_000
"""Keys in one call; pyspark asks for 13 at most."""
REDACTED = "*********(redacted)"
"""As Spark writes it."""
SHOWN = 20
"""Keys that a refusal names."""


def settings_changed(operation: pb.ConfigRequest.Operation, own: Mapping[str, str]) -> Mapping[str, bool]:
    """Return what a `ConfigRequest.Operation` does to settings: key → whether it then has the value that
    Spark itself has, as in `own`."""
    match operation.WhichOneof("op_type"):
        case "set":
            values = {p.key: p.value if p.HasField("value") else None for p in operation.set.pairs}
        case "unset":
            # Spark then has its default, which need not be what it was started with.
            values = dict.fromkeys(operation.unset.keys)
        case _:
            values = {}
    return {key: own.get(key) == value for key, value in values.items()}


def not_set(key: str, response: pb.ConfigResponse) -> bool:
    """Whether Spark warns in its `ConfigResponse` that it could not set a key; a silent call goes on."""
    return any(warning.startswith(f"Failed to set {key} ") for warning in response.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigQuestion:
    """What of a call goes to Spark, and what its answer becomes."""

    operation: pb.ConfigRequest.Operation
    """To forward, made of known fields only."""
    answers: tuple[tuple[str, str | None] | None, ...] = ()
    """One for each key that was asked for: (key, value) answered here, or None for Spark's next pair."""
    warnings: tuple[str, ...] = ()
    """What the client is warned of: keys that it asked to set silently and may not."""
    listed: bool = False
    """For a list of all settings: those that may not be read go."""
    prefix: str = ""
    """What the client cut off the keys of that list."""


def judge_config(
    request: pb.ConfigRequest, user: str, may_set: KeyRight, may_read: KeyRight
) -> ConfigQuestion | CallRefusal:
    """Say what of a `ConfigRequest` may go to Spark.

    `may_set` is asked for a `set` grant, `may_read` whether the setting is visible; neither is asked about
    keys that are pinned, hold secrets, or belong to clients.
    """
    case = request.operation.WhichOneof("op_type")
    rights = _Rights(user, may_set, may_read)
    match case:
        case "set":
            return _set(request.operation.set, rights)
        case "unset":
            return _unset(list(request.operation.unset.keys), rights)
        case "get":
            return _get(list(request.operation.get.keys), rights)
        case "get_with_default":
            return _get_with_default(request.operation.get_with_default, rights)
        case "get_option":
            return _get_option(list(request.operation.get_option.keys), rights)
        case "is_modifiable":
            return _is_modifiable(list(request.operation.is_modifiable.keys), rights)
        case "get_all":
            return _get_all(request.operation.get_all)
        case _:
            return CallRefusal(
                code="MALFORMED", sqlstate="22023", message="a call for settings that asks for nothing"
            )


def answer_config(
    question: ConfigQuestion, response: pb.ConfigResponse, may_read: KeyRight, *, secrets: Sequence[str] = ()
) -> bytes | None:
    """Return Spark's `ConfigResponse` as the client may see it, serialized.

    A value with one of `secrets` in it (the token that gateway and Spark share) is redacted. None when the
    response does not have the pairs that were asked for: then nothing of it may be shown.
    """
    answer = pb.ConfigResponse(
        session_id=response.session_id, server_side_session_id=response.server_side_session_id
    )
    answer.warnings.extend([*response.warnings, *question.warnings])
    received = [_without_secrets(pair, secrets) for pair in response.pairs]
    if question.listed:
        answer.pairs.extend(pair for pair in received if _may_be_read(question.prefix + pair.key, may_read))
        return serialize(answer)
    if len(received) != sum(1 for known in question.answers if known is None):
        return None
    pairs = iter(received)
    for known in question.answers:
        if known is None:
            answer.pairs.append(next(pairs))
        else:
            answer.pairs.append(_pair(*known))
    return serialize(answer)


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
                message=f"the setting `{key}` shapes how statements are read and is pinned by Sluice",
            )
        if not self.may_set(plain):
            return self.denied([key])
        return None

    def denied(self, keys: Sequence[str]) -> CallRefusal:
        return CallRefusal(
            code="ACCESS_DENIED",
            sqlstate="42501",
            message=f"user {self.user} needs {_listed(f'set on setting {key.strip()}' for key in keys)}",
        )


def _may_be_read(key: str, may_read: KeyRight) -> bool:
    if may_hold_secret(key):
        return False
    return is_read_by_clients(key) or may_read(key.strip())


def _set(asked: pb.ConfigRequest.Set, rights: _Rights) -> ConfigQuestion | CallRefusal:
    if (refusal := _too_many(len(asked.pairs))) is not None:
        return refusal
    operation = pb.ConfigRequest.Operation()
    operation.set.SetInParent()
    if asked.HasField("silent"):
        operation.set.silent = asked.silent
    refused: list[tuple[str, CallRefusal]] = []
    warnings: list[str] = []
    for pair in asked.pairs:
        pinned = pinned_value(pair.key)
        if pinned is not None and pair.HasField("value") and pair.value.strip().lower() == pinned.lower():
            # It has this value already, and gets it in the spelling that it is pinned in.
            operation.set.pairs.append(_pair(pair.key, pinned))
        elif (why := rights.against_setting(pair.key)) is None:
            operation.set.pairs.append(_pair(pair.key, pair.value if pair.HasField("value") else None))
        elif asked.silent:
            # As Spark words it when it cannot set a key.
            warnings.append(f"Failed to set {pair.key} due to [SLUICE_{why.code}] {why.message}")
        else:
            refused.append((pair.key, why))
    if refused:
        return _together(refused, rights)
    return ConfigQuestion(operation=operation, warnings=tuple(warnings))


def _unset(keys: list[str], rights: _Rights) -> ConfigQuestion | CallRefusal:
    if (refusal := _too_many(len(keys))) is not None:
        return refusal
    refused = [(key, why) for key in keys if (why := rights.against_setting(key)) is not None]
    if refused:
        return _together(refused, rights)
    operation = pb.ConfigRequest.Operation()
    operation.unset.SetInParent()
    operation.unset.keys.extend(keys)
    return ConfigQuestion(operation=operation)


def _together(refused: Sequence[tuple[str, CallRefusal]], rights: _Rights) -> CallRefusal:
    """Return one refusal that names every key; one that is pinned stands before those that lack a grant."""
    pinned = [key for key, why in refused if why.code == "NOT_GOVERNABLE"]
    denied = rights.denied([key for key, why in refused if why.code == "ACCESS_DENIED"])
    if not pinned:
        return denied
    are = "settings" if len(pinned) > 1 else "setting"
    shapes, is_ = ("shape", "are") if len(pinned) > 1 else ("shapes", "is")
    names = _listed(f"`{key}`" for key in pinned)
    message = f"the {are} {names} {shapes} how statements are read and {is_} pinned by Sluice"
    if len(pinned) < len(refused):
        message += f"; {denied.message}"
    return CallRefusal(code="NOT_GOVERNABLE", sqlstate="0A000", message=message)


def _get(keys: list[str], rights: _Rights) -> ConfigQuestion | CallRefusal:
    """A key that may not be read refuses the call, as one that does not exist fails it in Spark."""
    if (refusal := _too_many(len(keys))) is not None:
        return refusal
    hidden = [key for key in keys if not rights.reads(key)]
    secret = [key for key in hidden if may_hold_secret(key)]
    if secret:
        message = f"the value of {_listed(f'`{key}`' for key in secret)} may be a secret and is not shown"
        if len(secret) < len(hidden):
            message += f"; {rights.denied([key for key in hidden if key not in secret]).message}"
        return CallRefusal(code="ACCESS_DENIED", sqlstate="42501", message=message)
    if hidden:
        return rights.denied(hidden)
    operation = pb.ConfigRequest.Operation()
    operation.get.SetInParent()
    operation.get.keys.extend(keys)
    return ConfigQuestion(operation=operation, answers=(None,) * len(keys))


def _get_with_default(
    asked: pb.ConfigRequest.GetWithDefault, rights: _Rights
) -> ConfigQuestion | CallRefusal:
    """A key that may not be read has its default, as one that is not set."""
    if (refusal := _too_many(len(asked.pairs))) is not None:
        return refusal
    operation = pb.ConfigRequest.Operation()
    operation.get_with_default.SetInParent()
    answers: list[tuple[str, str | None] | None] = []
    for pair in asked.pairs:
        default = pair.value if pair.HasField("value") else None
        if rights.reads(pair.key):
            operation.get_with_default.pairs.append(_pair(pair.key, default))
            answers.append(None)
        else:
            answers.append((pair.key, default))
    return ConfigQuestion(operation=operation, answers=tuple(answers))


def _get_option(keys: list[str], rights: _Rights) -> ConfigQuestion | CallRefusal:
    """A key that may not be read has no value, as one that is not set."""
    if (refusal := _too_many(len(keys))) is not None:
        return refusal
    operation = pb.ConfigRequest.Operation()
    operation.get_option.SetInParent()
    operation.get_option.keys.extend(key for key in keys if rights.reads(key))
    answers = tuple(None if rights.reads(key) else (key, None) for key in keys)
    return ConfigQuestion(operation=operation, answers=answers)


def _is_modifiable(keys: list[str], rights: _Rights) -> ConfigQuestion | CallRefusal:
    """A key that may not be set cannot be modified; about the others Spark is asked."""
    if (refusal := _too_many(len(keys))) is not None:
        return refusal
    operation = pb.ConfigRequest.Operation()
    operation.is_modifiable.SetInParent()
    settable = [rights.against_setting(key) is None for key in keys]
    operation.is_modifiable.keys.extend(key for key, may in zip(keys, settable, strict=True) if may)
    answers = tuple(None if may else (key, "false") for key, may in zip(keys, settable, strict=True))
    return ConfigQuestion(operation=operation, answers=answers)


def _get_all(asked: pb.ConfigRequest.GetAll) -> ConfigQuestion:
    operation = pb.ConfigRequest.Operation()
    operation.get_all.SetInParent()
    if asked.HasField("prefix"):
        operation.get_all.prefix = asked.prefix
    # Spark cuts the prefix off the keys that it answers.
    return ConfigQuestion(operation=operation, listed=True, prefix=asked.prefix)


def _too_many(keys: int) -> CallRefusal | None:
    if keys <= MAX_KEYS:
        return None
    message = f"a call for settings names at most {MAX_KEYS} of them"
    return CallRefusal(code="LIMIT_EXCEEDED", sqlstate="54000", message=message)


def _without_secrets(pair: pb.KeyValue, secrets: Sequence[str]) -> pb.KeyValue:
    hidden = any(secret and secret in pair.value for secret in secrets)
    return _pair(pair.key, REDACTED) if hidden else pair


def _pair(key: str, value: str | None) -> pb.KeyValue:
    return pb.KeyValue(key=key) if value is None else pb.KeyValue(key=key, value=value)


def _listed(words: Iterable[str]) -> str:
    unique = list(dict.fromkeys(words))
    return ", ".join(unique[:SHOWN]) + (", …" if len(unique) > SHOWN else "")
