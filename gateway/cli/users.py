"""`sluice users`: keeps the user file. Passwords come from a terminal or standard input only; a token is
printed once."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.app import exit_codes
from gateway.app.gateway_requests import ask_for_user
from gateway.cli.audit import find_record
from gateway.cli.terminal import Terminal, complain
from gateway.errors import Faults, LedgerUnavailable
from gateway.frontends.tokens import format_expiry
from gateway.frontends.users import add_token, read_users, remove_user, revoke_token, set_user
from gateway.model.principal import Principal
from gateway.settings import Settings, load_settings

MIN_PASSWORD_CHARS = 8


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do one of add, list, remove, passwd, token, tokens, revoke."""
    settings = None if arguments.file else load_settings(arguments.config)
    path = settings.users.file if settings is not None else arguments.file
    if arguments.action == "list":
        return _list(path, arguments.json, terminal)
    name = arguments.name
    if arguments.token is not None and arguments.action != "revoke":
        raise Faults([f"`sluice users {arguments.action}` takes one name"])
    if not name:
        raise Faults([f"`sluice users {arguments.action}` needs a user name"])
    done = True
    match arguments.action:
        case "add":
            if name in _read_known(path):
                raise Faults(
                    [
                        f"{path}: user `{name}` already exists; `sluice users passwd {name}` changes the "
                        "password"
                    ]
                )
            password = _password(arguments.password_stdin, name)
            set_user(
                path,
                name,
                password=password,
                groups=list(arguments.group),
                attributes=_attributes(arguments.attribute),
            )
        case "token":
            code = _new_token(path, name, arguments, terminal)
            # So that it can be used at once; a gateway that cannot be asked takes it up within seconds.
            _ask_gateways(settings, path, name, as_json=True, terminal=terminal)
            return code
        case "tokens":
            return _tokens(path, name, arguments.json, terminal)
        case "revoke":
            if not arguments.token:
                raise Faults(["`sluice users revoke` needs a token id; `sluice users tokens` lists them"])
            if not revoke_token(path, name, arguments.token):
                raise Faults([f"{path}: user `{name}` has no token `{arguments.token}`"])
        case "passwd":
            if name not in _read_known(path):
                raise Faults([f"{path}: user `{name}` does not exist"])
            set_user(path, name, password=_password(arguments.password_stdin, name))
        case _:
            done = remove_user(path, name)
            if not done:
                raise Faults([f"{path}: user `{name}` does not exist"])
    if arguments.json:
        terminal.json({"user": name, "action": arguments.action, "file": str(path)})
    else:
        said = {
            "add": "added",
            "passwd": "has a new password",
            "remove": "removed",
            "revoke": f"can no longer use token {arguments.token}",
        }[arguments.action]
        terminal.line(f"{name} {said} ({path})")
    asked = _ask_gateways(settings, path, name, arguments.json, terminal)
    # Who is new can wait for a gateway that cannot be asked, and may not run yet; who is gone cannot.
    return exit_codes.OK if arguments.action == "add" else asked


def _ask_gateways(settings: Settings | None, path: Path, name: str, as_json: bool, terminal: Terminal) -> int:
    """Ask the gateways that run whether they have what the file now says of a user, and say so."""
    if settings is None:
        if not as_json:
            terminal.line("gateways with this file load it by themselves")
        return exit_codes.OK
    try:
        dsn, _ = find_record(settings)
    except LedgerUnavailable:
        if not as_json:
            terminal.line("no gateway runs here; the next one to start loads it")
        return exit_codes.OK
    try:
        taken, troubles = asyncio.run(ask_for_user(dsn, name, read_users(path).get(name)))
    except LedgerUnavailable as error:
        complain(f"{path} is changed; could not ask the gateways whether they loaded it: {error.message}")
        return exit_codes.ERROR
    for trouble in troubles:
        complain(f"the change is not in force in {trouble}")
    if not as_json and not troubles:
        terminal.line("no running gateway" if not taken else f"in force in {', '.join(taken)}")
    return exit_codes.ERROR if troubles else exit_codes.OK


def _new_token(path: Path, name: str, arguments: argparse.Namespace, terminal: Terminal) -> int:
    expires = _expiry(arguments.expires)
    secret = add_token(
        path,
        name,
        label=arguments.label,
        expires=expires,
        endpoints=arguments.endpoint,
        purpose=arguments.purpose,
    )
    if arguments.json:
        when = format_expiry(expires) if expires is not None else None
        terminal.json({"user": name, "token": secret, "expires": when, "file": str(path)})
    else:
        # Alone on its line and on standard output, so that it can go straight into a file.
        terminal.line(secret)
        print(
            f"a token of {name}; it is not shown again, and only its hash is stored in {path}",
            file=sys.stderr,
        )
    return exit_codes.OK


def _tokens(path: Path, name: str, as_json: bool, terminal: Terminal) -> int:
    users = read_users(path) if path.exists() else {}
    if name not in users:
        raise Faults([f"{path}: user `{name}` does not exist"])
    now = datetime.now(UTC)
    listed = [
        {
            "id": token.id,
            "label": token.label,
            "expires": format_expiry(token.expires) if token.expires is not None else "never",
            "endpoints": " ".join(sorted(token.endpoints)) or "all",
            "purpose": token.purpose,
            "state": "expired" if token.is_expired(now) else "valid",
        }
        for token in users[name].tokens
    ]
    if as_json:
        terminal.json(listed)
    else:
        columns = ("id", "label", "expires", "endpoints", "purpose", "state")
        terminal.table(columns, [tuple(one.values()) for one in listed])
    return exit_codes.OK


def _expiry(text: str | None) -> datetime | None:
    """Return the instant that `12h`, `30d` or a time means. Raises Faults for anything else, and the past."""
    if text is None:
        return None
    now = datetime.now(UTC)
    units = {"h": "hours", "d": "days"}
    if text[-1:] in units and text[:-1].isascii() and text[:-1].isdigit() and len(text) < 8:
        return now + timedelta(**{units[text[-1]]: int(text[:-1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Faults([f"`{text}` is not a time; write `12h`, `30d` or `2027-01-31T13:00`"]) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    if moment <= now:
        raise Faults([f"`{text}` is in the past; a token must expire in the future"])
    return moment


def principal_of(path: Path, user: str, groups: Sequence[str] | None) -> Principal:
    """Return who `user` would be after login. With `groups` the user file need not know the user."""
    known = _read_known(path).get(user)
    if groups is not None:
        attributes = known.attributes if known is not None else ()
        return Principal(user=user, groups=frozenset(groups), attributes=attributes)
    if known is None:
        raise Faults([f"{path}: user `{user}` does not exist; set the groups with --groups"])
    return known


def _read_known(path: Path) -> dict[str, Principal]:
    if not path.exists():
        return {}
    return {name: user.principal for name, user in read_users(path).items()}


def _list(path: Path, as_json: bool, terminal: Terminal) -> int:
    people = sorted(_read_known(path).values(), key=lambda principal: principal.user)
    if as_json:
        terminal.json(
            [
                {"user": one.user, "groups": sorted(one.groups), "attributes": _format_user(one)}
                for one in people
            ]
        )
    else:
        rows = [
            (one.user, " ".join(sorted(one.groups)), " ".join(f"{k}={v}" for k, v in one.attributes))
            for one in people
        ]
        terminal.table(("user", "groups", "attributes"), rows)
    return exit_codes.OK


def _format_user(principal: Principal) -> dict[str, list[str]]:
    return {name: list(principal.values(name)) for name, _ in principal.attributes}


def _attributes(pairs: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Faults([f"`{pair}` is not an attribute; write name=value"])
        found.setdefault(name, []).append(value)
    return found


def _password(from_stdin: bool, name: str) -> str:
    if from_stdin or not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = getpass.getpass(f"password for {name}: ")
        if getpass.getpass("once more: ") != password:
            raise Faults(["the passwords do not match"])
    if len(password) < MIN_PASSWORD_CHARS:
        raise Faults([f"a password must have at least {MIN_PASSWORD_CHARS} characters"])
    return password
