"""What `tracing` of the settings may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from gateway.settings.section import Count, Name, Seconds, Secret, Section, require_http_url


class TracingSettings(Section):
    """OpenTelemetry traces of requests, see docs/monitoring.md. Needs the extra `tracing`."""

    url: Name
    """Address of a collector that takes OTLP over HTTP, such as `http://localhost:4318/v1/traces`."""
    headers: dict[Name, Secret] = Field(default_factory=dict)
    """Headers of each request, such as `Authorization`; read at the start."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify the collector's certificate; by default those of `certifi`."""
    service: Name = "sluice"
    """`service.name` of the traces."""
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Which part of the traces is sent that begin at the gateway."""
    from_clients: bool = True
    """Whether a client's `traceparent` counts: its trace goes on, and is sent where the client says so."""
    spans: Annotated[Count, Field(ge=512, le=1_000_000)] = 8192
    """Spans that may wait for the collector; more are dropped, the oldest first."""
    timeout_s: Seconds = 10.0
    """Seconds for one request to the collector, tries included."""

    @model_validator(mode="after")
    def _is_a_collector(self) -> TracingSettings:
        example = "http://localhost:4318/v1/traces"
        require_http_url(self.url, example, login="`headers`", ca_file=self.ca_file)
        return self
