"""`sluice users`: keeps the user file. Passwords come from a terminal or standard input only."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.cli import exit_codes
from gateway.cli.terminal import Terminal
from gateway.errors import Faults
from gateway.frontends.users import read_users, remove_user, set_user
from gateway.model.principal import Principal
from gateway.settings import load_settings

MIN_PASSWORD_CHARS = 8


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do one of add, list, remove, passwd."""
    path = arguments.file or load_settings(arguments.config).users.file
    if arguments.action == "list":
        return _list(path, arguments.json, terminal)
    name = arguments.name
    if not name:
        raise Faults([f"`sluice users {arguments.action}` needs a user name"])
    done = True
    match arguments.action:
        case "add":
            if name in _known(path):
                raise Faults(
                    [f"{path}: user `{name}` exists; `sluice users passwd {name}` changes the password"]
                )
            password = _password(arguments.password_stdin, name)
            set_user(
                path,
                name,
                password=password,
                groups=list(arguments.group),
                attributes=_attributes(arguments.attribute),
            )
        case "passwd":
            if name not in _known(path):
                raise Faults([f"{path}: there is no user `{name}`"])
            set_user(path, name, password=_password(arguments.password_stdin, name))
        case _:
            done = remove_user(path, name)
            if not done:
                raise Faults([f"{path}: there is no user `{name}`"])
    if arguments.json:
        terminal.json({"user": name, "action": arguments.action, "file": str(path)})
    else:
        said = {"add": "added", "passwd": "has a new password", "remove": "removed"}[arguments.action]
        terminal.line(f"{name} {said} ({path}); a running gateway takes it up by itself")
    return exit_codes.OK


def principal_of(path: Path, user: str, groups: Sequence[str] | None) -> Principal:
    """Return who `user` would be after login. With `groups` the user file need not know the user."""
    known = _known(path).get(user)
    if groups is not None:
        attributes = known.attributes if known is not None else ()
        return Principal(user=user, groups=frozenset(groups), attributes=attributes)
    if known is None:
        raise Faults([f"{path}: there is no user `{user}`; name the groups to look at with --groups"])
    return known


def _known(path: Path) -> dict[str, Principal]:
    if not path.exists():
        return {}
    return {name: user.principal for name, user in read_users(path).items()}


def _list(path: Path, as_json: bool, terminal: Terminal) -> int:
    people = sorted(_known(path).values(), key=lambda principal: principal.user)
    if as_json:
        terminal.json(
            [{"user": one.user, "groups": sorted(one.groups), "attributes": _listed(one)} for one in people]
        )
    else:
        rows = [
            (one.user, " ".join(sorted(one.groups)), " ".join(f"{k}={v}" for k, v in one.attributes))
            for one in people
        ]
        terminal.table(("user", "groups", "attributes"), rows)
    return exit_codes.OK


def _listed(principal: Principal) -> dict[str, list[str]]:
    return {name: list(principal.values(name)) for name, _ in principal.attributes}


def _attributes(pairs: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Faults([f"`{pair}` is no attribute; write name=value"])
        found.setdefault(name, []).append(value)
    return found


def _password(from_stdin: bool, name: str) -> str:
    if from_stdin or not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = getpass.getpass(f"password for {name}: ")
        if getpass.getpass("once more: ") != password:
            raise Faults(["the two passwords differ"])
    if len(password) < MIN_PASSWORD_CHARS:
        raise Faults([f"a password has at least {MIN_PASSWORD_CHARS} characters"])
    return password
