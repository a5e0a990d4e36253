"""What all sections of the settings are made of: strict reading, bounds, secrets that do not print."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from gateway.errors import Faults

MADE = "made"
"""Marks a path that need not be there: it is made when something is written to it."""
MadePath = Annotated[Path, MADE]

REFERENCES = "a secret must be either `env: NAME` or `file: PATH`"

Port = Annotated[int, Field(strict=True, ge=0, le=65535)]
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

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Secret(Section):
    """A reference to a secret; the value itself is never in the settings."""

    env: Name | None = None
    """Environment variable that holds the secret."""
    file: Path | None = None
    """File that holds the secret, without its trailing line break."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError(REFERENCES)
        return self

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def reveal(self) -> str:
        """Return the secret. Raises Faults when the variable is not set or the file cannot be read."""
        if self.env is not None:
            value = os.environ.get(self.env)
            if not value:
                raise Faults([f"the environment variable `{self.env}` is not set"])
            return value
        path = self.file or Path()
        try:
            return path.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Faults([f"the secret in `{path}` cannot be read: {error}"]) from None
