"""What `ledger.forward` of the settings may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from gateway.audit.forward_formats import ForwardFormat
from gateway.model.audit import AuditKind
from gateway.settings.section import Count, Host, Name, Seconds, Secret, Section, ServerPort, require_http_url


class ForwardSettings(Section):
    """A system that gets the events of the record."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """By this name PostgreSQL remembers what the target has. Another name is another target."""
    transport: Literal["syslog", "http"]
    """`syslog`: RFC 5424 over TCP, with TLS where `tls` is set; `http`: lines by POST."""
    host: Host | None = None
    """Syslog server; needed by `syslog`."""
    port: ServerPort = 6514
    """Port of the syslog server."""
    tls: bool = True
    """Whether syslog goes over TLS."""
    url: Name | None = None
    """Address that takes lines (`application/x-ndjson`) by POST; needed by `http`."""
    headers: dict[Name, Secret] = Field(default_factory=dict)
    """Headers of each request, such as `Authorization`; read again for each."""
    gzip: bool = True
    """Whether requests are compressed."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify the server's certificate; by default the system's."""
    format: ForwardFormat = "json"
    """`json`: the event as docs/audit.md has it; `cef`: ArcSight's Common Event Format; `ocsf`: OCSF 1.3."""
    kinds: Annotated[tuple[AuditKind, ...], Field(min_length=1)] = get_args(AuditKind)
    """Kinds of events that are sent."""
    text_chars: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 4096
    """Characters of a statement that are sent; 0 for none. What was sent cannot be erased there by Sluice."""
    since: Literal["now", "beginning"] = "now"
    """Whether a new target gets what PostgreSQL has already."""
    batch: Count = 200
    """Events that are confirmed together."""
    timeout_s: Seconds = 30.0
    """Seconds for one batch."""
    longest_pause_s: Seconds = 60.0
    """Longest pause before a failed batch is sent again."""

    @model_validator(mode="after")
    def _has_an_address(self) -> ForwardSettings:
        if self.transport == "syslog":
            if self.host is None:
                raise ValueError("`transport: syslog` needs `host`")
            if self.url is not None or self.headers:
                raise ValueError("`url` and `headers` belong to `transport: http`")
            return self
        if self.url is None:
            raise ValueError("`transport: http` needs `url`")
        require_http_url(self.url, "https://collector:8088/services/raw", login="`headers`")
        if self.host is not None:
            raise ValueError("`host` belongs to `transport: syslog`")
        return self
