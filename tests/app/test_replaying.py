"""What a replay judges by: what the gateway has beside its policies holds under proposed ones too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.app.accepted_tags import build_accepted_tags_path
from gateway.app.replaying import replay_options
from gateway.model.context import AccessContext
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.settings.loading import parse_settings
from gateway.sources.accepted_tags import AcceptedList, AcceptedTag, AcceptedTags

PACK = """\
service: spark
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: "*", table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: personal data is masked
    on: {tag: PII}
    mask: [{groups: [public], type: MASK_NULL}]
"""
ANN = Principal(user="ann", groups=frozenset({"analysts"}))


@pytest.mark.parametrize("given", ["proposed", "both"])
def test_accepted_tags_and_closed_files_count_on_both_sides(tmp_path: Path, given: str) -> None:
    for name in ("pack.yaml", "other.yaml"):
        (tmp_path / name).write_text(PACK)
    text = f"""\
policies: {{paths: [pack.yaml]}}
ledger: {{directory: ledger}}
users: {{file: users.yaml}}
jobs: {{replay: {{proposed: {tmp_path / "other.yaml"}}}}}
files: {{landing: {{root: "file:{tmp_path}/landing", database: landing, closed: true}}}}
"""
    settings = parse_settings(text, "gateway.yaml", tmp_path)
    mail = AcceptedTag(catalog="spark_catalog", database="hr", table="emp", column="mail", tag="PII")
    asyncio.run(read_by_a_gateway(build_accepted_tags_path(settings), AcceptedList(number=1, tags=(mail,))))
    sides = (tmp_path / "pack.yaml", tmp_path / "other.yaml") if given == "both" else None
    plan = replay_options(settings, sides=sides).proposal()
    for side in (plan.sides.old, plan.sides.new):
        engine = engine_for(side)
        column = Resource.table("spark_catalog", "hr", "emp").child("column", "mail")
        assert [tag.type for tag in engine.tags(column, AccessContext())] == ["PII"]
        closed = Resource.table("spark_catalog", "landing", "orders").child("column", "id")
        assert not engine.decide(AccessRequest(principal=ANN, resource=closed, access="select")).allowed


async def read_by_a_gateway(cache: Path, found: AcceptedList) -> None:
    """Have a gateway read the list, and keep it."""

    async def fetch(_: int | None) -> AcceptedList:
        return found

    async def offer(_: AcceptedList) -> None:
        return None

    cache.parent.mkdir()
    await AcceptedTags(fetch, cache=cache).start(offer)
