"""The user file: faults with lines, changes in one step, what is in force of one at fault."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.errors import BackendUnavailable, Faults, UnreadableFiles
from gateway.frontends import user_file
from gateway.frontends.tokens import digest, new_token
from gateway.frontends.user_file import UserFile
from gateway.frontends.users import (
    User,
    fingerprint,
    parse_users,
    read_users,
    remove_user,
    set_user,
)
from gateway.model.principal import Principal, identity_of, principal_of, user_of
from tests.frontends.listening import CHEAP
from tests.speed import patience

HASH = CHEAP.hash("secret")
GOOD = f"users:\n  bob:\n    password: {HASH}\n    groups: [analysts, eu]\n    attributes: {{region: EU}}\n"


def test_a_good_file() -> None:
    bob = parse_users(GOOD)["bob"]
    assert bob.principal.groups == {"analysts", "eu"}
    assert bob.principal.values("region") == ("EU",)
    assert HASH not in repr(bob)


@pytest.mark.parametrize("text", ["", "users:\n", "users: {}\n", "# nothing\n"])
def test_nobody(text: str) -> None:
    assert parse_users(text) == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("users: [bob]\n", "users.yaml:1: users must be a mapping"),
        ("- a\n", "users.yaml:1: the file must be a mapping"),
        ("user: {}\n", "users.yaml:1: unknown key `user`"),
        ("users:\n  bob: {}\n", "users.yaml:2: user `bob` has no password"),
        (
            "users:\n  bob:\n    password: hunter2\n",
            "users.yaml:3: the password of `bob` is not an argon2 hash",
        ),
        ("users:\n  bob:\n    password: ''\n", "users.yaml:3: password must be a text"),
        (GOOD + "    passwrd: x\n", "users.yaml:6: unknown key `passwrd`"),
        (GOOD + "  bob: {}\n", "users.yaml:6: duplicate key `bob`"),
        (GOOD.replace("[analysts, eu]", "analysts"), "users.yaml:4: groups must be a list"),
        (GOOD.replace("[analysts, eu]", "[[a]]"), "users.yaml:4: a group must be a text"),
        (GOOD.replace("bob:", "' bob':"), "users.yaml:3: the user name ` bob`"),
        (GOOD.replace("m=8", "m=4194304"), "users.yaml:3: the password hash of `bob` needs more than"),
        (GOOD + "    id: 12\n", "users.yaml:6: `id` must be 8 to 32 digits and letters from `a` to `f`"),
        ("users: {bob: {\n", "users.yaml:2: "),
        ("users: !!python/object:os.system {}\n", "users.yaml:1: "),
    ],
)
def test_faults_are_told_with_their_line(text: str, fault: str) -> None:
    if "!!python" in text:
        # A tag is not constructed, only looked at: nothing of it runs.
        assert parse_users(text) == {}
        return
    with pytest.raises(Faults) as faults:
        parse_users(text)
    assert any(told.startswith(fault) for told in faults.value.faults), faults.value.faults


def test_all_faults_are_told_together() -> None:
    with pytest.raises(Faults) as faults:
        parse_users("users:\n  a: {}\n  b: {password: x}\n  c: {groups: 1}\n")
    assert len(faults.value.faults) >= 3


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="cannot be read"):
        UserFile(tmp_path / "users.yaml")


def test_users_are_added_changed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "users.yaml"
    assert set_user(path, "bob", password="one", groups=["b", "a"])
    before = read_users(path)["bob"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not set_user(path, "bob", attributes={"region": "EU", "project": ["b", "a"], "one": ["x"]})
    after = read_users(path)["bob"]
    assert after.password_hash == before.password_hash
    assert after.principal.groups == {"a", "b"}
    assert after.principal.values("region") == ("EU",)
    assert after.principal.values("project") == ("a", "b")
    assert after.principal.values("one") == ("x",)
    assert after.principal.values("none") == ()
    assert len(after.principal.id) == 12
    assert after.principal.id == before.principal.id
    assert remove_user(path, "bob")
    assert not remove_user(path, "bob")
    assert read_users(path) == {}
    assert set_user(path, "bob", password="one", groups=["b", "a"])
    assert read_users(path)["bob"].principal.id != before.principal.id, "he is somebody else"
    assert fingerprint(read_users(path)["bob"]) != fingerprint(before)


def test_a_user_without_a_password_cannot_be_made(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    with pytest.raises(Faults):
        set_user(path, "bob", password="")
    with pytest.raises(Faults, match="no password"):
        set_user(path, "bob", groups=["a"])
    assert not path.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["users.yaml.lock"]


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text("users: [broken\n")
    with pytest.raises(Faults):
        set_user(path, "bob", password="x")
    assert path.read_text() == "users: [broken\n"


def test_changes_at_the_same_time_lose_nobody(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: set_user(path, f"user{i}", password="x"), range(8)))
    assert len(read_users(path)) == 8


def test_a_changed_file_is_taken_up_and_a_bad_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    set_user(path, "bob", password="x")
    users = UserFile(path)
    assert not users.look()
    set_user(path, "alice", password="y")
    assert users.look()
    assert set(users.users) == {"alice", "bob"}
    path.write_text("user: {}\n")
    assert not users.look()
    assert users.faults
    assert set(users.users) == {"alice", "bob"}
    path.unlink()
    assert not users.look()
    assert set(users.users) == {"alice", "bob"}
    set_user(path, "carol", password="z")
    assert users.look()
    assert users.faults == ()
    assert set(users.users) == {"carol"}


def test_an_entry_at_fault_holds_no_removal_back(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    for name in ("alice", "bob", "carol", "dana"):
        set_user(path, name, password="x")
    users = UserFile(path)
    good = f'{{password: "{HASH}"}}'
    path.write_text(f"users:\n  alice: {good}\n  bob: {{passwrd: x}}\n  dana: {good}\n  dana: {good}\n")
    assert users.look()
    assert set(users.users) == {"alice"}
    assert [fault.removeprefix(str(path)) for fault in users.faults] == [
        ":3: unknown key `passwrd`; a user has attributes, groups, id, password, tokens",
        ":5: duplicate key `dana`",
    ]


def test_a_token_of_two_users_lets_neither_in(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    set_user(path, "bob", password="x")
    users = UserFile(path)
    token = f"{{tokens: [{{id: 0a1b2c3d, hash: '{TOKEN_HASH}'}}]}}"
    path.write_text(f"users:\n  bob: {token}\n  eve: {token}\n")
    assert users.look()
    assert [user.tokens for user in users.users.values()] == [(), ()]
    assert users.faults


@pytest.mark.parametrize("text", ["users: [zoe\n", "- a\n", "users: 7\n", "users: {}\nusers: {}\n", "\xff"])
def test_nobody_logs_in_by_what_is_no_user_file_for_too_long(tmp_path: Path, text: str) -> None:
    path, now = tmp_path / "users.yaml", [0.0]
    set_user(path, "bob", password="x")
    users = UserFile(path, max_stale_s=60, clock=lambda: now[0])
    path.write_bytes(text.encode("latin-1"))
    assert not users.look()
    assert set(users.users) == {"bob"}
    now[0] = 60.5
    assert users.users == {}


def test_a_file_that_could_not_be_read_is_looked_at_again_whatever_its_stamp(tmp_path: Path) -> None:
    """Who may read a file is not in its stamp: a revocation must not be passed over for ever."""
    path, aside = tmp_path / "users.yaml", tmp_path / "aside"
    for name in ("alice", "bob"):
        set_user(path, name, password="x")
    users = UserFile(path)
    remove_user(path, "bob")
    path.rename(aside)
    path.mkdir()  # so that nobody, not even root, can read it
    assert not users.look()
    assert "cannot be read" in users.faults[0]
    path.rmdir()
    aside.rename(path)
    assert users.look()
    assert set(users.users) == {"alice"}
    assert users.faults == ()


def test_nobody_logs_in_by_a_file_that_could_not_be_read_for_too_long(tmp_path: Path) -> None:
    path, now = tmp_path / "users.yaml", [0.0]
    set_user(path, "bob", password="x")
    users = UserFile(path, max_stale_s=60, clock=lambda: now[0])
    path.unlink()
    users.look()
    for now[0] in (1.0, 60.0):
        assert set(users.users) == {"bob"}
        assert users.stale() is None
        users.look()
    now[0] = 60.5
    assert users.users == {}
    assert users.principals == {}
    assert users.stale() == "the user file could not be read for 60 s"
    path.write_text("- bob\n")
    users.look()
    assert users.users == {}, "whoever was removed meanwhile is not let in again by a broken file"
    assert users.stale() == "the user file has been invalid for 60 s"
    path.unlink()
    users.look()
    assert users.stale() == "the user file could not be read for 60 s"
    set_user(tmp_path / "good.yaml", "carol", password="z")
    (tmp_path / "good.yaml").replace(path)
    assert users.look()
    assert set(users.users) == {"carol"}


async def test_a_bug_met_while_reading_keeps_nobody_in_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "users.yaml", [0.0]
    set_user(path, "bob", password="x")
    users = UserFile(path, max_stale_s=60, clock=lambda: now[0])

    def breaks(_: Path) -> dict[str, User]:
        raise AttributeError("never thought of")

    set_user(path, "bob", password="y")
    with monkeypatch.context() as patch:
        patch.setattr("gateway.frontends.user_file.read_usable_users", breaks)
        with pytest.raises(AttributeError):
            await users.refresh()
    assert set(users.users) == {"bob"}
    now[0] = 60.5
    assert users.users == {}
    await users.refresh()
    assert set(users.users) == {"bob"}


async def test_who_is_removed_and_added_between_two_looks_was_removed(tmp_path: Path) -> None:
    path, heard = tmp_path / "users.yaml", list[set[str]]()

    async def removed(users: Collection[str]) -> None:
        heard.append(set(users))

    for name in ("bob", "dana"):
        set_user(path, name, password="x")
    users = UserFile(path, removed=removed)
    remove_user(path, "bob")
    set_user(path, "bob", password="x")
    await users.refresh()
    assert heard == [{"bob"}]


def test_an_identity_is_of_one_user() -> None:
    bob = Principal(user="bob", id="5d1f0c9ab3e2")
    assert (user_of(bob.identity), user_of("bob"), user_of("bob the second")) == (
        "bob",
        "bob",
        "bob the second",
    )
    found = {"bob": bob, "a b": Principal(user="a b", id="5d1f0c9ab3e2")}
    assert principal_of(bob.identity, found.get) is bob
    assert principal_of(identity_of("a b", "5d1f0c9ab3e2"), found.get) is found["a b"]
    for other in ("bob", identity_of("bob", "5d1f0c9ab3e3"), identity_of("eve", bob.id), ""):
        assert principal_of(other, found.get) is None


def test_a_file_with_faults_keeps_nobody_in_for_ever(tmp_path: Path) -> None:
    """Somebody may have been removed from it."""
    path, now = tmp_path / "users.yaml", [0.0]
    for name in ("ann", "bob"):
        set_user(path, name, password="x")
    users = UserFile(path, max_stale_s=60, clock=lambda: now[0])
    good = path.read_text()
    path.write_text("users: [ann]\n")
    users.look()
    now[0] = 60.0
    path.write_text("users: [")
    users.look()
    assert users.stale() is None
    now[0] = 60.5
    assert users.users == {}
    assert users.stale() == "the user file has been invalid for 60 s"
    path.write_text(good)
    assert users.look()
    assert set(users.users) == {"ann", "bob"}


async def test_who_hears_of_users_that_are_removed(tmp_path: Path) -> None:
    path, heard = tmp_path / "users.yaml", list[set[str]]()

    async def removed(users: Collection[str]) -> None:
        heard.append(set(users))

    for name in ("bob", "dana", "zoe"):
        set_user(path, name, password="x")
    users = UserFile(path, removed=removed)
    set_user(path, "bob", password="another")
    await users.refresh()
    path.write_text("users: [zoe\n")
    await users.refresh()
    path.unlink()
    await users.refresh()
    assert heard == [], "nobody was removed: what is no user file keeps the last good users"
    set_user(path, "zoe", password="x")
    await users.refresh()
    await users.refresh()
    assert heard == [{"bob", "dana", "zoe"}], "who is added to a new file is somebody else"
    assert fingerprint(users.users.get("bob")) == ""
    assert fingerprint(users.users["zoe"]) == fingerprint(read_users(path)["zoe"])
    set_user(path, "zoe", groups=["hr"])
    assert fingerprint(users.users["zoe"]) != fingerprint(read_users(path)["zoe"])


async def test_who_did_not_hear_of_the_removed_hears_again(tmp_path: Path) -> None:
    path, heard, again = tmp_path / "users.yaml", list[set[str]](), asyncio.Event()

    async def removed(users: Collection[str]) -> None:
        heard.append(set(users))
        if len(heard) == 1:
            raise BackendUnavailable("away")
        again.set()

    for name in ("bob", "zoe"):
        set_user(path, name, password="x")
    users = UserFile(path, removed=removed)
    remove_user(path, "bob")
    looking = asyncio.create_task(users.run(0.0))
    await again.wait()
    looking.cancel()
    assert heard == [{"bob"}, {"bob"}]


async def test_a_look_that_does_not_end_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server that hangs must not keep those in force who were removed."""
    path, now, go_on = tmp_path / "users.yaml", [0.0], threading.Event()
    set_user(path, "bob", password="x")
    users = UserFile(path, max_stale_s=60, clock=lambda: now[0])
    begun = threading.Event()

    def hang(_: Path) -> tuple[dict[str, User], tuple[str, ...]]:
        begun.set()
        go_on.wait(patience())
        return {}, ()

    monkeypatch.setattr("gateway.frontends.user_file.read_usable_users", hang)
    path.touch()
    looking = asyncio.create_task(users.refresh())
    await asyncio.to_thread(begun.wait, patience())
    assert users.users
    now[0] = 60.5
    assert users.users == {}
    assert users.stale() is not None
    go_on.set()
    await looking
    assert users.stale() is None


async def test_nobody_is_removed_by_a_file_that_is_still_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, removed = tmp_path / "users.yaml", set[str]()

    async def hear(gone: Collection[str]) -> None:
        removed.update(gone)

    file.write_text(GOOD)
    users = UserFile(file, removed=hear)
    stamp_of, seen = user_file._stamp, list[tuple[int, int, int, int]]()

    def writing(path: Path) -> tuple[int, int, int, int]:
        """Write the other half when the first one has been seen."""
        if len(seen) == 1:
            file.write_text(f"{GOOD}  ann: {{password: '{HASH}'}}\n")
        seen.append(stamp_of(path))
        return seen[-1]

    file.write_text("users:\n")
    monkeypatch.setattr(user_file, "_stamp", writing)
    await users.refresh()
    assert users.users.keys() == {"bob", "ann"}
    assert not removed


def test_a_pipe_is_no_file_and_nesting_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    os.mkfifo(path)
    with pytest.raises(UnreadableFiles, match="it is not a file"):
        read_users(path)
    with pytest.raises(Faults, match="nested too deep"):
        parse_users("[" * 10_000)


def test_a_change_keeps_owner_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    set_user(path, "bob", password="x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    owner = 4321 if os.geteuid() == 0 else os.geteuid()
    if os.geteuid() == 0:
        os.chown(path, owner, 1234)
    set_user(path, "alice", password="y")
    status = path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o640, owner)
    assert Path(f"{path}.lock").stat().st_uid == owner, "else that user could not change it any more"


TOKEN_HASH = "sha256:" + "ab" * 32


def with_tokens(tokens: str) -> str:
    return f"users:\n  bob:\n    tokens: {tokens}\n"


def test_a_user_may_have_tokens_only() -> None:
    text = with_tokens(f"[{{id: 0a1b2c3d, hash: '{TOKEN_HASH}', label: x, expires: 2030-01-01T00:00:00Z}}]")
    bob = parse_users(text)["bob"]
    assert bob.password_hash == ""
    (token,) = bob.tokens
    assert (token.id, token.label, token.expires) == ("0a1b2c3d", "x", datetime(2030, 1, 1, tzinfo=UTC))
    assert TOKEN_HASH not in repr(bob)


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        ("x", "tokens must be a list"),
        ("[x]", "a token must be a mapping"),
        ("[{id: 0a1b2c3d}]", "a token needs an `id` and a `hash`"),
        ("[{id: 0a1b2c3d, hash: secret}]", "a token needs an `id` and a `hash`"),
        (f"[{{id: x, hash: '{TOKEN_HASH}'}}]", "a token needs an `id` and a `hash`"),
        (f"[{{id: 0a1b2c3d, hash: '{TOKEN_HASH}', expire: x}}]", "unknown key `expire`"),
        (f"[{{id: 0a1b2c3d, hash: '{TOKEN_HASH}', expires: soon}}]", "`expires: soon` is not a time"),
        (f"[{{id: 0a1b2c3d, hash: '{TOKEN_HASH}', expires: 2030-01-01}}]", "is not a time"),
        ("[" + f"{{id: 0a1b2c3d, hash: '{TOKEN_HASH}'}}," * 101 + "]", "at most 100 tokens"),
    ],
)
def test_a_token_that_is_not_understood_is_a_fault(tokens: str, fault: str) -> None:
    with pytest.raises(Faults, match=re.escape(fault)):
        parse_users(with_tokens(tokens))


def test_a_token_has_one_owner() -> None:
    tokens = f"{{tokens: [{{id: 0a1b2c3d, hash: '{TOKEN_HASH}'}}]}}"
    with pytest.raises(Faults, match="token `0a1b2c3d` is both of `bob` and `eve`"):
        parse_users(f"users:\n  bob: {tokens}\n  eve: {tokens}\n")


def test_tokens_are_random_and_kept_by_their_hash() -> None:
    secrets = {new_token()[0] for _ in range(100)}
    assert len(secrets) == 100
    secret, kept = new_token(label="l")
    assert secret.startswith(f"sluice_{kept.id}_")
    assert re.fullmatch(r"sluice_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", secret)
    assert digest(secret) == kept.hash
    assert secret not in repr(kept)
