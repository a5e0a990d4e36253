"""The user file: who may log in with a password or a token, with groups and attributes. Never a secret in the
clear.

users:
  bob:
    id: 5d1f0c9ab3e2
    password: $argon2id$v=19$m=19456,t=2,p=1$…
    groups: [analysts]
    attributes: {region: EU}
    tokens:
      - {id: 3f9a1c2b, hash: "sha256:…", label: notebook, expires: "2027-01-31T12:00:00Z"}
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import argon2
import yaml

from gateway.errors import Faults, UnreadableFiles
from gateway.frontends.tokens import (
    HASH,
    ID,
    MAX_LABEL_CHARS,
    TOKEN_ENDPOINTS,
    Token,
    format_expiry,
    new_token,
    parse_expiry,
)
from gateway.model.principal import Principal

T = TypeVar("T")

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_HASH_MEMORY_KIB = 1024 * 1024
"""Memory that one verification may take; a hash that wants more is a fault of the file."""
_KEYS = frozenset({"password", "groups", "attributes", "tokens", "id"})
_USER_ID = re.compile(r"[0-9a-f]{8,32}")
_TOKEN_KEYS = frozenset({"id", "hash", "label", "expires", "endpoints", "purpose"})
MAX_TOKENS = 100
"""Tokens of one user."""

HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
"""OWASP's parameters for argon2id: 23 ms each, so that a burst of logins does not starve the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One entry of the file."""

    principal: Principal
    password_hash: str = field(repr=False)
    """Empty for a user who has tokens only; it then fits no password."""
    tokens: tuple[Token, ...] = ()


Users = Mapping[str, User]


def read_users(path: Path) -> dict[str, User]:
    """Read and check the file. Raises UnreadableFiles, or Faults that tell all that is wrong, with lines."""
    return parse_users(_read_text(path), str(path))


def read_usable_users(path: Path) -> tuple[dict[str, User], tuple[str, ...]]:
    """Return the users whose entries can be used, and what is wrong with the others, which are left out.

    Raises UnreadableFiles, or Faults for what is no user file as a whole.
    """
    reading = _UserFileReading(str(path))
    found = reading.read(_read_text(path))
    if reading.is_no_user_file:  # RULE (broken-user-removed)
        raise Faults(reading.faults)
    return found, tuple(reading.faults)


def _read_text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Opening a pipe would wait for somebody who writes to it.
            raise UnreadableFiles([f"{path}: cannot be read: it is not a file"])
        if status.st_size > MAX_FILE_BYTES:
            raise Faults([f"{path}: larger than {MAX_FILE_BYTES} bytes"])
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFiles([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise Faults([f"{path}: cannot be read: {error}"]) from None


def parse_users(text: str, file: str = "users.yaml") -> dict[str, User]:
    """Read the text of a user file; see `read_users`."""
    reading = _UserFileReading(file)
    found = reading.read(text)
    if reading.faults:
        raise Faults(reading.faults)
    return found


class _UserFileReading:
    """Walks the YAML nodes, which know their lines, and collects faults."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.faults: list[str] = []
        self.is_no_user_file = False
        """Whether nothing of it can be used: it is not YAML, or has not one mapping `users`."""

    def read(self, text: str) -> dict[str, User]:
        """Return the users without a fault."""
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            at = f":{mark.line + 1 if mark is not None else 1}"
            return self._unusable(f"{self._file}{at}: {getattr(error, 'problem', None) or 'not YAML'}")
        except RecursionError:
            return self._unusable(f"{self._file}: it is nested too deep")
        found: dict[str, User] = {}
        if root is None:
            return found
        self.is_no_user_file = True
        for key, value in self.read_mapping(root, "the file"):
            if key != "users":
                self.fault(value, f"unknown key `{key}`; the only key of the file is `users`")
                continue
            is_mapping = _is_null(value) or isinstance(value, yaml.MappingNode)
            self.is_no_user_file = not is_mapping or "users" in _list_repeated_keys(root)
            twice = _list_repeated_keys(value)
            for name, entry in self.read_mapping(value, "users") if not _is_null(value) else ():
                user = self.user(name, entry)
                if user is not None and name not in twice:
                    found[name] = user
        return self._of_one_owner(found)

    def _unusable(self, fault: str) -> dict[str, User]:
        self.faults.append(fault)
        self.is_no_user_file = True
        return {}

    def fault(self, node: yaml.Node, text: str) -> None:
        self.faults.append(f"{self._file}:{node.start_mark.line + 1}: {text}")

    def _of_one_owner(self, users: Users) -> dict[str, User]:
        """Return the users without tokens that several have: whose call would it be?"""
        owners: dict[str, str] = {}
        shared = set[str]()
        for name, user in users.items():
            for token in user.tokens:
                other = owners.setdefault(token.hash, name)
                if other != name:
                    shared.add(token.hash)
                    self.faults.append(f"{self._file}: token `{token.id}` is both of `{other}` and `{name}`")
        return {
            name: replace(user, tokens=tuple(one for one in user.tokens if one.hash not in shared))
            for name, user in users.items()
        }

    def read_mapping(self, node: yaml.Node, what: str) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self.fault(node, f"{what} must be a mapping")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = self.text(key, "a key")
            if name is None:
                continue
            if name in seen:
                self.fault(key, f"duplicate key `{name}`")
                continue
            seen.add(name)
            yield name, value

    def text(self, node: yaml.Node, what: str) -> str | None:
        if isinstance(node, yaml.ScalarNode) and not _is_null(node) and node.value:
            return str(node.value)
        self.fault(node, f"{what} must be a text and not empty")
        return None

    def user(self, name: str, node: yaml.Node) -> User | None:
        before = len(self.faults)
        if "\0" in name or name != name.strip():
            self.fault(node, f"the user name `{name}` has surrounding blanks or contains NUL")
        password, groups, attributes = "", frozenset[str](), list[tuple[str, str]]()
        id_ = ""
        tokens: tuple[Token, ...] = ()
        for key, value in self.read_mapping(node, f"user `{name}`"):
            if key == "password":
                password = self._hash(value, name)
            elif key == "groups":
                groups = self._groups(value)
            elif key == "attributes":
                attributes = [
                    (k, text)
                    for k, v in self.read_mapping(value, "attributes")
                    for text in self._values(k, v)
                ]
            elif key == "tokens":
                tokens = self._tokens(value)
            elif key == "id":
                id_ = self.text(value, key) or ""
                if not _USER_ID.fullmatch(id_):
                    self.fault(value, "`id` must be 8 to 32 digits and letters from `a` to `f`")
            else:
                self.fault(value, f"unknown key `{key}`; a user has {', '.join(sorted(_KEYS))}")
        if not password and not tokens and len(self.faults) == before:
            self.fault(node, f"user `{name}` has no password")
        if len(self.faults) > before:
            return None
        told = tuple(sorted(set(attributes)))
        principal = Principal(user=name, groups=groups, attributes=told, id=id_)
        return User(principal=principal, password_hash=password, tokens=tokens)

    def _tokens(self, node: yaml.Node) -> tuple[Token, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, "tokens must be a list")
            return ()
        if len(node.value) > MAX_TOKENS:
            self.fault(node, f"a user has at most {MAX_TOKENS} tokens; revoke some")
        found = [self._token(item) for item in node.value]
        return tuple(token for token in found if token is not None)

    def _token(self, node: yaml.Node) -> Token | None:
        before = len(self.faults)
        told: dict[str, str] = {}
        endpoints = frozenset[str]()
        for key, value in self.read_mapping(node, "a token"):
            if key == "endpoints":
                endpoints = self._endpoints(value)
            elif key not in _TOKEN_KEYS:
                self.fault(value, f"unknown key `{key}`; a token has {', '.join(sorted(_TOKEN_KEYS))}")
            elif (text := self.text(value, key)) is not None:
                told[key] = text
        if len(self.faults) > before:
            return None
        if not ID.fullmatch(told.get("id", "")) or not HASH.fullmatch(told.get("hash", "")):
            self.fault(node, "a token needs an `id` and a `hash`; use `sluice users token`")
            return None
        expires = parse_expiry(told["expires"]) if "expires" in told else None
        if "expires" in told and expires is None:
            # Taken as "never" it would let in somebody who should be out.
            self.fault(node, f"`expires: {told['expires']}` is not a time such as `2027-01-31T12:00:00Z`")
            return None
        return Token(
            id=told["id"],
            hash=told["hash"],
            label=told.get("label", ""),
            expires=expires,
            endpoints=endpoints,
            purpose=told.get("purpose", ""),
        )

    def _endpoints(self, node: yaml.Node) -> frozenset[str]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else []
        names = [self.text(one, "an endpoint") for one in nodes]
        # Taken as "none" it would be good everywhere.
        if not names or not set(names) <= set(TOKEN_ENDPOINTS):
            self.fault(node, f"`endpoints` must be a list of {', '.join(TOKEN_ENDPOINTS)}")
        return frozenset(name for name in names if name is not None)

    def _values(self, attribute: str, node: yaml.Node) -> list[str]:
        """Return the values of an attribute: one text, or a list of them."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        texts = [self.text(one, f"attribute `{attribute}`") for one in nodes]
        return [text for text in texts if text is not None]

    def _hash(self, node: yaml.Node, name: str) -> str:
        text = self.text(node, "password")
        if text is None:
            return ""
        try:
            parameters = argon2.extract_parameters(text)
        except argon2.exceptions.InvalidHashError:
            self.fault(node, f"the password of `{name}` is not an argon2 hash; use `sluice users add`")
            return ""
        if parameters.memory_cost > MAX_HASH_MEMORY_KIB:
            self.fault(node, f"the password hash of `{name}` needs more than {MAX_HASH_MEMORY_KIB} KiB")
            return ""
        return text

    def _groups(self, node: yaml.Node) -> frozenset[str]:
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, "groups must be a list")
            return frozenset()
        found = set[str]()
        for item in node.value:
            name = self.text(item, "a group")
            if name is not None and name == name.strip():
                found.add(name)
            elif name is not None:
                self.fault(item, f"the group `{name}` has surrounding blanks")
        return frozenset(found)


def _list_repeated_keys(node: yaml.Node) -> frozenset[str]:
    """Return the keys that a mapping has more than once."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    keys = Counter(key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode))
    return frozenset(key for key, times in keys.items() if times > 1)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


# -- changing it ---------------------------------------------------------------------------------------------


def set_user(
    path: Path,
    name: str,
    *,
    password: str | None = None,
    groups: list[str] | None = None,
    attributes: Mapping[str, str | Sequence[str]] | None = None,
) -> bool:
    """Add a user or change what is given; True when the user is new. Raises Faults.

    The file is replaced in one step, readable by its owner only; a gateway that runs takes it up by itself.
    """
    if password is not None and not password:
        raise Faults(["the password must not be empty"])

    def change(users: dict[str, Any]) -> bool:
        created = name not in users
        # So that who is removed and added again is not who wrote what the first one did.
        entry = {"id": secrets.token_hex(6)} if created else dict(users.get(name) or {})
        if password is not None:
            entry["password"] = HASHER.hash(password)
        if groups is not None:
            entry["groups"] = sorted(set(groups))
        if attributes is not None:
            entry["attributes"] = {
                key: value if isinstance(value, str) else value[0] if len(value) == 1 else list(value)
                for key, value in attributes.items()
            }
        users[name] = entry
        return created

    return _change(path, change)


def remove_user(path: Path, name: str) -> bool:
    """Remove a user; False when there was none of that name. Raises Faults."""
    return _change(path, lambda users: users.pop(name, None) is not None)


def add_token(
    path: Path,
    name: str,
    *,
    label: str = "",
    expires: datetime | None = None,
    endpoints: Collection[str] = (),
    purpose: str = "",
) -> str:
    """Give a user a new token and return the secret, which is kept nowhere. Raises Faults."""
    if unknown := set(endpoints) - set(TOKEN_ENDPOINTS):
        known = ", ".join(TOKEN_ENDPOINTS)
        raise Faults([f"`{min(unknown)}` is not an endpoint; a token may be for {known}"])
    for what, text in (("label", label), ("purpose", purpose)):
        if len(text) > MAX_LABEL_CHARS or not (text.isprintable() and text == text.strip()):
            raise Faults([f"a {what} must have at most {MAX_LABEL_CHARS} printable characters"])
    secret, token = new_token(label=label, expires=expires, endpoints=endpoints, purpose=purpose)
    entry: dict[str, Any] = {"id": token.id, "hash": token.hash}
    if label:
        entry["label"] = label
    if expires is not None:
        entry["expires"] = format_expiry(expires)
    if endpoints:
        entry["endpoints"] = sorted(set(endpoints))
    if purpose:
        entry["purpose"] = purpose

    def change(users: dict[str, Any]) -> None:
        if name not in users:
            raise Faults([f"{path}: user `{name}` does not exist"])
        users[name] = {**users[name], "tokens": [*users[name].get("tokens", ()), entry]}

    _change(path, change)
    return secret


def revoke_token(path: Path, name: str, token: str) -> bool:
    """Remove a user's token by its id; False when there is none. Raises Faults."""

    def change(users: dict[str, Any]) -> bool:
        user = users.get(name) or {}
        kept = [entry for entry in user.get("tokens", ()) if entry["id"] != token]
        removed = len(kept) < len(user.get("tokens", ()))
        if removed:
            # An empty list says no more than none.
            rest = {key: value for key, value in user.items() if key != "tokens"}
            users[name] = {**rest, "tokens": kept} if kept else rest
        return removed

    return _change(path, change)


def _change(path: Path, change: Callable[[dict[str, Any]], T]) -> T:
    """Change the users of a file; return what `change` does."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two `sluice users` at once must not lose one's change.
    with _lock_file(path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users: dict[str, Any] = {}
        if path.exists():
            read_users(path)
            document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            users = dict(document.get("users") or {})
        done = change(users)
        text = "# Maintained by `sluice users`; passwords and tokens are hashed.\n" + yaml.safe_dump(
            {"users": users}, allow_unicode=True, sort_keys=True
        )
        parse_users(text, str(path))
        _replace(path, text)
    return done


@contextlib.contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    """Open the file that is locked for changes. Raises Faults.

    Whoever owns the directory may have put something else there, and root may be who opens it: no link is
    followed, nothing is cut off, and only an empty file of one's own is given away.
    """
    name = f"{path}.lock"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            descriptor = os.open(name, flags)
    except OSError as error:
        raise Faults([f"{name}: cannot be locked: {error.strerror}"]) from None
    try:
        status = os.fstat(descriptor)
        is_ours = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size == 0
        if is_ours and status.st_uid == os.geteuid() and path.exists():
            _give(descriptor, path)
        yield descriptor
    finally:
        os.close(descriptor)


def _give(descriptor: int, path: Path) -> None:
    """Give a file the owner and the mode of another one. Raises Faults where that is not allowed."""
    status = path.stat()
    own = os.fstat(descriptor)
    try:
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    except PermissionError:
        raise Faults(
            [f"{path}: belongs to user id {status.st_uid}, which a change would lose; run this as that user"]
        ) from None


def _replace(path: Path, text: str) -> None:
    """Write a file in one step. One that was there keeps its owner and mode: its gateway has to read it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if path.exists():
                _give(descriptor, path)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def fingerprint(user: User | None) -> str:
    """Return what tells whether two gateways have the same user, without telling more; empty: nobody."""
    if user is None:
        return ""
    who = user.principal
    parts = (who.identity, sorted(who.groups), who.attributes, user.password_hash, user.tokens)
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
