"""A gateway of a module's own, with one pack and a few users, and their sessions through either endpoint."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyhive import hive
from thrift.transport.TTransport import TTransportException

from gateway.frontends.users import set_user
from tests.e2e.running import RunningGateway, Spark, connect

PASSWORD = "correct horse battery"
ENDPOINTS = ("thrift", "connect")

Ask = Callable[[str], list[Any]]
"""Runs a statement and returns its rows, sorted."""


def write_settings(
    directory: Path, spark: Spark, pack: str, users: Mapping[str, Sequence[str]], **more: Mapping[str, Any]
) -> Path:
    """Write all that a gateway before `spark` needs into a new directory, and return its settings.

    `users`: name → groups. `more`: sections of the settings; `policies` is added to what stands there.
    """
    directory.mkdir()
    directory.chmod(0o711)
    for user, groups in users.items():
        set_user(directory / "users.yaml", user, password=PASSWORD, groups=list(groups))
    (directory / "pack.yaml").write_text(pack)
    backend = spark.backend_settings(directory)
    settings = {
        "listeners": {listener: {"port": 0} for listener in (*backend, "admin")},
        "backend": backend,
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
        **more,
        "policies": {"paths": ["pack.yaml"], **more.get("policies", {})},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file


class Thrift:
    """An open session of a user."""

    def __init__(self, gateway: RunningGateway, user: str, password: str = PASSWORD) -> None:
        self._connection = connect(gateway.host, gateway.port, user, password)
        self._cursor = self._connection.cursor()

    def __call__(self, text: str) -> list[Any]:
        self._cursor.execute(text)
        names = [column[0] for column in self._cursor.description or ()]
        # Where a command has no columns, Spark 3.5 speaks of one, and PyHive cannot read rows without it.
        return [] if names in ([], ["Result"]) else sorted(self._cursor.fetchall())

    def begin(self, text: str) -> None:
        """Have a statement run that nobody asks about any more."""
        self._connection.cursor().execute(text, async_=True)

    def close(self) -> None:
        try:
            self._connection.close()
        except (hive.OperationalError, TTransportException):
            pass  # the session is gone, with its user or its gateway
        finally:
            # PyHive leaves it open then.
            self._connection._transport.close()


@contextlib.contextmanager
def session(gateway: RunningGateway, endpoint: str, user: str, password: str = PASSWORD) -> Iterator[Ask]:
    """Open a session through an endpoint."""
    if endpoint == "thrift":
        with contextlib.closing(Thrift(gateway, user, password)) as ask:
            yield ask
        return
    with gateway.session(user, password) as frames:
        yield lambda text: sorted(tuple(row) for row in frames.sql(text).collect())


@contextlib.contextmanager
def sessions(gateway: RunningGateway) -> Iterator[Callable[[str, str], Ask]]:
    """Open sessions as they are asked for: `ask(endpoint, user)(text)`."""
    with contextlib.ExitStack() as opened:
        yield lambda endpoint, user: opened.enter_context(session(gateway, endpoint, user))
