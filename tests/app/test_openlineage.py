"""Settings decide where OpenLineage events go; what cannot work is told at the start."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.app.openlineage import open_sinks
from gateway.errors import Faults
from gateway.lineage.sinks import LineageSink
from gateway.settings.loading import parse_settings
from gateway.settings.openlineage import OpenLineageSettings
from tests.lineage.openlineage.servers import Server
from tests.lineage.statements import seen

STATEMENT = seen("a.x -> b.y: x IDENTITY")


def settings_of(text: str, directory: Path) -> OpenLineageSettings:
    return parse_settings(f"lineage: {{openlineage: {text}}}", "gateway.yaml", directory).lineage.openlineage


def contents(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def opened(
    settings: OpenLineageSettings, stack: AsyncExitStack, registry: CollectorRegistry | None = None
) -> tuple[LineageSink, ...]:
    return await open_sinks(
        settings, stack, registry or CollectorRegistry(), tables=lambda name: None, spark_version="4.0.1"
    )


async def test_by_default_events_go_nowhere(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        assert await opened(settings_of("{}", tmp_path), stack) == ()
    assert contents(tmp_path) == []


async def test_events_go_to_a_file_beside_the_settings(tmp_path: Path) -> None:
    settings = settings_of("{transport: file, file: out.jsonl, job: '{user}'}", tmp_path)
    async with AsyncExitStack() as stack:
        (sink,) = await opened(settings, stack)
        await sink.put([STATEMENT])
    content = (tmp_path / "out.jsonl").read_bytes()
    assert b'"name":"bob"' in content
    assert b'"version":"4.0.1"' in content


async def test_events_go_to_a_server_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    registry = CollectorRegistry()
    async with Server().running() as server, AsyncExitStack() as stack:
        http = f"{{url: '{server.options.url}', api_key: {{file: key}}, spool: waiting}}"
        (sink,) = await opened(settings_of(f"{{transport: http, http: {http}}}", tmp_path), stack, registry)
        await sink.put([STATEMENT])
        await server.until(lambda s: len(s.taken) == 2)
    assert {headers["authorization"] for _, headers in server.asked} == {"Bearer s3cret"}
    assert b"sluice_openlineage_events_total" in generate_latest(registry)
    assert (tmp_path / "waiting").is_dir()


@pytest.mark.parametrize("more", ["api_key: {file: absent}", "ca_file: absent"])
async def test_a_file_that_is_not_there_is_told_at_the_start(more: str, tmp_path: Path) -> None:
    settings = settings_of(f"{{transport: http, http: {{url: 'https://x:1/', {more}}}}}", tmp_path)
    async with AsyncExitStack() as stack:
        with pytest.raises(Faults, match="absent"):
            await opened(settings, stack)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{transport: http}", "needs a section `http`"),
        ("{http: {url: 'marquez:5000'}}", "is not an address"),
        ("{http: {url: 'http://a:b@marquez/'}}", "remove the login from the address; use `api_key`"),
        ("{http: {url: 'http://marquez/', ca_file: x}}", "needs an `https` address"),
        ("{http: {url: 'http://marquez/', spool_bytes: 10}}", "greater than or equal to"),
        ("{job: '{nobody}'}", "only `{operation}`, `{target}`, `{user}` in braces"),
        ("{job: '{user.__class__}'}", "in braces"),
        ("{job: '{user:>999999999}'}", "in braces"),
        ("{job: '{user'}", "expected '}'"),
    ],
)
def test_settings_that_cannot_work_are_faults(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(Faults) as caught:
        settings_of(text, tmp_path)
    assert fault in caught.value.message
