"""Secrets that take a while to get: what a command prints, and what Vault keeps.

Each is asked for once, and again behind the scenes when it is old, so that nobody waits for it twice.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import structlog

from gateway.errors import Faults

_log = structlog.get_logger(__name__)

RENEW_S = 60.0
"""How old a secret is when it is asked for again."""
COMMAND_S = 10.0
MAX_BYTES = 1024 * 1024
FetchSecret = Callable[[], str]
"""Gets a secret. Raises Faults where it is not to be had, SecretAway where nobody could be asked."""


class SecretAway(Faults):
    """Nobody could be asked; the last value still counts."""


class SlowSecrets:
    """Secrets that were asked for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, tuple[str, float]] = {}
        self._asking: set[Hashable] = set()
        self._lock = threading.Lock()

    def get(self, key: Hashable, fetch: FetchSecret) -> str:
        """Return a secret, at most `RENEW_S` and one question old. Raises Faults."""
        with self._lock:
            value, at = self._known.get(key, ("", float("-inf")))
            is_due = self._clock() - at >= RENEW_S and key not in self._asking
            if at > float("-inf"):
                if is_due:
                    self._asking.add(key)
                    threading.Thread(target=self._renew, args=(key, fetch), daemon=True).start()
                return value
        return self._fetch(key, fetch)

    def _fetch(self, key: Hashable, fetch: FetchSecret) -> str:
        value = fetch()
        with self._lock:
            self._known[key] = (value, self._clock())
        return value

    def _renew(self, key: Hashable, fetch: FetchSecret) -> None:
        try:
            self._fetch(key, fetch)
        except SecretAway as fault:
            _log.warning("secret_not_renewed", faults=list(fault.faults))
            with self._lock:
                self._known[key] = (self._known[key][0], self._clock())
        except Faults as fault:
            # It is there no more: whoever asks next is told.
            _log.warning("secret_gone", faults=list(fault.faults))
            with self._lock:
                del self._known[key]
        finally:
            with self._lock:
                self._asking.discard(key)


SECRETS = SlowSecrets()
"""Of this process."""


def run_command(command: Sequence[str]) -> str:
    """Return what a command prints, without its trailing line break. Raises Faults, which repeat nothing of
    what it said."""
    told = f"the secret of the command `{command[0]}`"
    try:
        done = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        is_late = isinstance(error, subprocess.TimeoutExpired)
        why = "it took too long" if is_late else os.strerror(getattr(error, "errno", None) or 0)
        raise SecretAway([f"{told} cannot be read: {why}"]) from None
    if done.returncode != 0:
        raise SecretAway([f"{told} cannot be read: it ended with {done.returncode}"])
    try:
        value = done.stdout.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        value = ""
    if not value or len(value) > MAX_BYTES:
        raise Faults([f"{told} is empty, too long or no text"])
    return value


def read_vault(
    address: str,
    place: str,
    *,
    token: str,
    mount: str,
    version: int,
    namespace: str,
    ca_file: Path | None,
    timeout_s: float,
) -> str:
    """Return a field of a secret of Vault's KV engine; `place` is `PATH#FIELD`. Raises Faults."""
    path, _, name = place.rpartition("#")
    data = "data/" if version == 2 else ""
    url = f"/v1/{quote(mount.strip('/'))}/{data}{quote(path.strip('/'))}"
    headers = {"X-Vault-Token": token, "X-Vault-Request": "true"}
    if namespace:
        headers["X-Vault-Namespace"] = namespace
    told = f"the secret `{place}` of Vault"
    try:
        status, body = _get(address, url, headers, ca_file, timeout_s)
    except (OSError, ssl.SSLError, http.client.HTTPException, ValueError) as error:
        raise SecretAway([f"{told} cannot be read: {type(error).__name__}: {error}"]) from None
    if status >= 500 or status in (412, 429):
        raise SecretAway([f"{told} cannot be read: Vault answers {status}"])
    if status != 200:
        # Of what is not there and what nobody may read it says the same.
        raise Faults([f"{told} cannot be read: Vault answers {status}"])
    value = _field(body, name, version)
    if value is None:
        raise Faults([f"{told} has no field `{name}` with a text"])
    return value


def _get(
    address: str, url: str, headers: Mapping[str, str], ca_file: Path | None, timeout_s: float
) -> tuple[int, bytes]:
    """Ask once; redirects are not followed: the token would go to whoever they name."""
    server = urlsplit(address)
    connection: http.client.HTTPConnection
    if server.scheme == "https":
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
        connection = http.client.HTTPSConnection(
            server.hostname or "", server.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(server.hostname or "", server.port, timeout=timeout_s)
    try:
        connection.request("GET", server.path.rstrip("/") + url, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read(MAX_BYTES)
    finally:
        connection.close()


def _field(body: bytes, name: str, version: int) -> str | None:
    try:
        found: Any = json.loads(body)["data"]
        found = found["data"][name] if version == 2 else found[name]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) and found else None
