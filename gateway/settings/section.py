"""What all sections of the settings are made of: strict reading, bounds, secrets that do not print."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from gateway.errors import Faults
from gateway.settings.secret_stores import SECRETS, read_vault, run_command

MADE = "made"
"""Marks a path that need not be there: it is made when something is written to it."""
MadePath = Annotated[Path, MADE]

REFERENCES = (
    "a secret must be one of `env: NAME`, `file: PATH`, `command: [PROGRAM, …]` and `vault: PATH#FIELD`"
)

Port = Annotated[int, Field(strict=True, ge=0, le=65535)]
ServerPort = Annotated[int, Field(strict=True, ge=1, le=65535)]
"""Port of a server that is connected to."""
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]
Days = Annotated[int, Field(strict=True, gt=0, le=36_500)]
Count = Annotated[int, Field(strict=True, gt=0, le=1_000_000_000)]
Bytes = Annotated[int, Field(strict=True, gt=0, le=2**50)]
Heap = Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmgKMG]$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


def _require_host(text: str) -> str:
    """Take a name or an address, and neither a URL nor a port behind it, for these are no names."""
    if ":" in text and not _is_address(text):
        raise ValueError("must be a name or an address alone, without scheme and port, which has its own key")
    if not text.isprintable() or any(sign in text for sign in " /@"):
        raise ValueError("must be a name or an address, without blanks, `/` and `@`")
    return text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


Host = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_require_host)]
SparkConnect = Annotated[str, Field(pattern=r"^sc://[^\s/;]+(/(;[^\s]*)?)?$")]


class Section(BaseModel):
    """Base of every section: frozen, and a misspelt key is a fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Secret(Section):
    """A reference to a secret; the value itself is never in the settings."""

    env: Name | None = None
    """Environment variable that holds the secret."""
    file: Path | None = None
    """File that holds the secret, without its trailing line break."""
    command: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Program with its arguments, by no shell, that prints the secret."""
    vault: Annotated[str, Field(pattern=r"^[^#\s]+#[^#\s]+$", max_length=500)] | None = None
    """Path and field of a secret in the KV engine of `vault`."""
    _store: VaultSettings | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        if [self.env, self.file, self.command, self.vault].count(None) != 3:
            raise ValueError(REFERENCES)
        return self

    @property
    def kind(self) -> str:
        """What is written of it: `env`, `file`, `command` or `vault`."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    def keep_in(self, store: VaultSettings | None) -> None:
        """Have it read from a Vault, where it is one of Vault's."""
        self._store = store

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def reveal(self) -> str:
        """Return the secret as it is now. Raises Faults when it cannot be had."""
        if self.env is not None:
            value = os.environ.get(self.env)
            if not value:
                raise Faults([f"the environment variable `{self.env}` is not set"])
            return value
        if self.command is not None:
            command = self.command
            return SECRETS.get(("command", command), lambda: run_command(command))
        if self.vault is not None:
            if self._store is None:
                raise Faults([f"the secret `{self.vault}` needs the section `vault`"])
            store, place = self._store, self.vault
            return SECRETS.get(
                ("vault", store.url, store.namespace, store.mount, place), lambda: store.read(place)
            )
        path = self.file or Path()
        try:
            return path.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Faults([f"the secret in `{path}` cannot be read: {error}"]) from None


class VaultSettings(Section):
    """HashiCorp Vault or OpenBao. Its KV engine has the secrets that are written as `{vault: PATH#FIELD}`."""

    url: Name
    """Address, such as `https://vault.corp.example:8200`."""
    token: Secret
    """Token that may read them, as `{file: PATH}` for one that Vault Agent keeps."""
    mount: Name = "secret"
    """Where the engine is mounted."""
    version: Literal[1, 2] = 2
    """Version of the engine."""
    namespace: str = ""
    """Namespace, of Vault Enterprise."""
    ca_file: Path | None = None
    """PEM file of the authorities that Vault's certificate is checked with; by default the system's."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds until an answer must be there."""

    @model_validator(mode="after")
    def _token_is_safe(self) -> VaultSettings:
        require_safe_url("url", self.url)
        if self.token.vault is not None:
            raise ValueError("`token` cannot be in Vault itself")
        return self

    def read(self, place: str) -> str:
        """Return a secret. Raises Faults."""
        return read_vault(
            self.url,
            place,
            token=self.token.reveal(),
            mount=self.mount,
            version=self.version,
            namespace=self.namespace,
            ca_file=self.ca_file,
            timeout_s=self.timeout_s,
        )


def require_http_url(
    written: str, example: str, *, login: str, ca_file: Path | None = None, is_base: bool = False
) -> None:
    """Raise ValueError for what is no address of HTTP such as the example, has a login, for which `login`
    names the place, or has authorities for a certificate that nobody shows. `is_base`: paths are added."""
    try:
        parts = urlsplit(written)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(f"`{written}` is not an address such as `{example}`") from None
    if not is_address or (is_base and (parts.query or parts.fragment)):
        raise ValueError(f"`{written}` is not an address such as `{example}`")
    if parts.username is not None:
        raise ValueError(f"remove the login from the address; use {login}")
    if ca_file is not None and parts.scheme != "https":
        raise ValueError("`ca_file` needs an `https` address")


def is_local(host: str | None) -> bool:
    """Whether a name is this machine's own, so that nothing crosses a network on the way to it."""
    return host in ("localhost", "127.0.0.1", "::1")


def require_safe_url(name: str, written: str) -> None:
    """Raise ValueError for an address where secrets would cross a network in the clear."""
    url = urlsplit(written)
    if not (url.scheme == "https" or (url.scheme == "http" and is_local(url.hostname))):
        raise ValueError(f"`{name}` must be an `https://` address")
