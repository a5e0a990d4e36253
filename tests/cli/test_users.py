"""`sluice users` keeps a file that a gateway can read; no password is shown or taken on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gateway.app import exit_codes
from gateway.cli import main
from gateway.frontends.tokens import digest
from gateway.frontends.users import read_users


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.yaml"


def users(file: Path, *arguments: str, password: str = "", monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
    return main(["users", "--file", str(file), *arguments])


def test_a_user_is_added_listed_changed_and_removed(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("add", "dana", "--group", "analysts", "--group", "emea", "--attribute", "region=EMEA")
    assert users(file, *arguments, password="correct horse", monkeypatch=monkeypatch) == exit_codes.OK
    dana = read_users(file)["dana"]
    assert dana.principal.groups == {"analysts", "emea"}
    assert dana.principal.values("region") == ("EMEA",)
    assert "correct horse" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0

    capsys.readouterr()
    assert users(file, "list", "--json", monkeypatch=monkeypatch) == exit_codes.OK
    assert json.loads(capsys.readouterr().out) == [
        {"user": "dana", "groups": ["analysts", "emea"], "attributes": {"region": ["EMEA"]}}
    ]

    assert users(file, "passwd", "dana", password="battery staple", monkeypatch=monkeypatch) == exit_codes.OK
    changed = read_users(file)["dana"]
    assert changed.password_hash != dana.password_hash
    assert changed.principal == dana.principal

    assert users(file, "remove", "dana", monkeypatch=monkeypatch) == exit_codes.OK
    assert read_users(file) == {}


@pytest.mark.parametrize(
    ("arguments", "password", "message"),
    [
        (("add", "dana"), "", "a password must have at least 8 characters"),
        (("add", "dana"), "short", "a password must have at least 8 characters"),
        (("add", "dana", "--attribute", "region"), "long enough", "`region` is not an attribute"),
        (("add", "known"), "long enough", "user `known` already exists"),
        (("passwd", "nobody"), "long enough", "user `nobody` does not exist"),
        (("remove", "nobody"), "", "user `nobody` does not exist"),
        (("add",), "long enough", "needs a user name"),
    ],
)
def test_what_cannot_be_done_is_explained(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    password: str,
    message: str,
) -> None:
    assert users(file, "add", "known", password="long enough", monkeypatch=monkeypatch) == exit_codes.OK
    before = file.read_text()
    assert users(file, *arguments, password=password, monkeypatch=monkeypatch) == exit_codes.FAULTS
    assert message in capsys.readouterr().err
    assert file.read_text() == before


def test_a_token_is_printed_once_listed_and_revoked(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert users(file, "add", "dana", password="long enough", monkeypatch=monkeypatch) == exit_codes.OK
    capsys.readouterr()
    arguments = ("token", "dana", "--label", "notebook", "--expires", "90d")
    assert users(file, *arguments, monkeypatch=monkeypatch) == exit_codes.OK
    secret = capsys.readouterr().out.strip()
    assert secret.startswith("sluice_")
    assert len(secret) >= 43
    assert secret not in file.read_text()
    (kept,) = read_users(file)["dana"].tokens
    assert kept.hash == digest(secret)

    assert users(file, "tokens", "dana", "--json", monkeypatch=monkeypatch) == exit_codes.OK
    out = capsys.readouterr().out
    (listed,) = json.loads(out)
    assert (listed["id"], listed["label"], listed["state"]) == (kept.id, "notebook", "valid")
    assert secret not in out
    assert kept.hash not in out

    # What else is changed leaves tokens as they are.
    assert users(file, "passwd", "dana", password="even longer", monkeypatch=monkeypatch) == exit_codes.OK
    assert read_users(file)["dana"].tokens == (kept,)

    assert users(file, "revoke", "dana", kept.id, monkeypatch=monkeypatch) == exit_codes.OK
    assert read_users(file)["dana"].tokens == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("token", "nobody"), "user `nobody` does not exist"),
        (("token", "known", "--expires", "soon"), "`soon` is not a time"),
        (("token", "known", "--expires", "2020-01-01"), "`2020-01-01` is in the past"),
        (("token", "known", "--label", "a\nb"), "printable"),
        (("token", "known", "--label", "x" * 101), "at most 100"),
        (("tokens", "nobody"), "user `nobody` does not exist"),
        (("revoke", "known"), "needs a token id"),
        (("revoke", "known", "00000000"), "user `known` has no token `00000000`"),
        (("remove", "known", "00000000"), "takes one name"),
    ],
)
def test_what_cannot_be_done_with_tokens_is_explained(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert users(file, "add", "known", password="long enough", monkeypatch=monkeypatch) == exit_codes.OK
    before = file.read_text()
    assert users(file, *arguments, monkeypatch=monkeypatch) == exit_codes.FAULTS
    assert message in capsys.readouterr().err
    assert file.read_text() == before
