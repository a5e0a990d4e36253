"""What `lineage.openlineage` of the settings may hold."""

from __future__ import annotations

from pathlib import Path
from string import Formatter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway.lineage.openlineage.names import JOB_PARTS
from gateway.settings.section import Bytes, MadePath, Name, Seconds, Secret, Section, require_http_url


def _job_name(template: str) -> str:
    try:
        fields = [field for field in Formatter().parse(template) if field[1] is not None]
    except ValueError as error:
        raise ValueError(f"`{template}`: {error}") from None
    for _, name, details, conversion in fields:
        if name not in JOB_PARTS or details or conversion:
            known = ", ".join(f"`{{{part}}}`" for part in sorted(JOB_PARTS))
            raise ValueError(f"`{template}` may contain only {known} in braces")
    return template


JobTemplate = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_job_name)]


class OpenLineageHttp(Section):
    """A server for OpenLineage events, such as Marquez."""

    url: Name
    """Its full address, such as `http://marquez:5000/api/v1/lineage`."""
    api_key: Secret | None = None
    """The bearer token, as `{env: NAME}` or `{file: PATH}`; read again for every event."""
    ca_file: Path | None = None
    """PEM file of the authorities that verify its certificate; by default the system's."""
    gzip: bool = True
    """Whether events are compressed."""
    timeout_s: Seconds = 30.0
    """Seconds for one event, from connecting to the end of the answer."""
    longest_pause_s: Seconds = 60.0
    """Longest pause before an event is sent again; the first is half a second, and each is twice the last."""
    spool: MadePath = Path("run/openlineage")
    """Directory of events that the server has not accepted yet; each gateway needs its own."""
    spool_bytes: Annotated[Bytes, Field(ge=1024**2)] = 1024**3
    """Bytes of it beyond which the oldest events are dropped and counted."""
    spool_age_s: Annotated[Seconds, Field(ge=60)] = 7 * 86_400.0
    """Seconds after which events are dropped and counted."""

    @model_validator(mode="after")
    def _is_an_address(self) -> OpenLineageHttp:
        example = "http://marquez:5000/api/v1/lineage"
        require_http_url(self.url, example, login="`api_key`", ca_file=self.ca_file)
        return self


class OpenLineageSettings(Section):
    """Lineage as OpenLineage events, see docs/lineage.md."""

    transport: Literal["off", "file", "http"] = "off"
    """Where events go: nowhere, to `file`, or to the server of `http`."""
    file: MadePath = Path("run/openlineage.jsonl")
    """One event to a line. The file only grows, and may be renamed at any time. Each gateway needs its
    own."""
    http: OpenLineageHttp | None = None
    namespace: Name = "sluice"
    """Namespace of jobs, and of datasets whose catalog is not in `catalogs`."""
    job: JobTemplate = "{operation}.{target}"
    """Name of a statement's job; it may contain `{user}`, too. Statements with one name are runs of one job,
    whatever their texts."""
    catalogs: dict[str, Name] = Field(default_factory=dict)
    """Spark catalog → namespace of its data source in OpenLineage's naming, such as `hive://metastore:9083`;
    `postgres://db:5432/sales` for a JDBC catalog of the database `sales`."""
    paths: Name = "file"
    """Namespace of paths that name no file system, such as `hdfs://namenode:8020`."""
    texts: bool = True
    """Whether events hold texts of statements, expressions and errors, with the literals in them."""
    queries: bool = True
    """Whether queries make events. Their result is a dataset that is named for their text."""

    @model_validator(mode="after")
    def _has_a_server(self) -> OpenLineageSettings:
        if self.transport == "http" and self.http is None:
            raise ValueError("`transport: http` needs a section `http` with a `url`")
        return self
