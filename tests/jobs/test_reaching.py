"""A Spark Connect server that is not there, or that a token cannot be sent to, is told at once. No Spark."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.app.classifying import gateway_session
from gateway.errors import BackendUnavailable, Faults
from gateway.jobs import reaching
from gateway.jobs.spark import SparkOptions, open_session
from gateway.settings.section import Secret


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address at which nobody listens."""
    monkeypatch.setattr(reaching, "ANSWER_S", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"sc://127.0.0.1:{taken.getsockname()[1]}"


def token(tmp_path: Path, text: str) -> Secret:
    (tmp_path / "token").write_text(text)
    return Secret(file=tmp_path / "token")


def test_a_gateway_that_is_not_there_is_told_without_the_token(nobody: str, tmp_path: Path) -> None:
    with (
        pytest.raises(BackendUnavailable, match=f"^no answer at {nobody}$"),
        gateway_session("jobs.classify", nobody, token(tmp_path, "ann:hidden")),
    ):
        pass


def test_a_server_that_is_not_there_is_told_without_the_token(nobody: str) -> None:
    with pytest.raises(BackendUnavailable, match=f"^no answer at {nobody}$"):
        open_session(SparkOptions(remote=f"{nobody}/;token=hidden"))


@pytest.mark.parametrize("text", ["änn:password", "ann:pass\nword"])
def test_a_token_that_cannot_be_sent_is_told(nobody: str, tmp_path: Path, text: str) -> None:
    with (
        pytest.raises(Faults, match=r"`jobs\.classify\.token` has a character"),
        gateway_session("jobs.classify", nobody, token(tmp_path, text)),
    ):
        pass
