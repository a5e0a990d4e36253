"""The job `proof` as the settings have it: what judges, and the session that samples tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from gateway.app.accepted_tags import accepted_path
from gateway.app.classifying import gateway_session
from gateway.app.explaining import catalog_without_sessions, judging_rules, make_reader
from gateway.app.metalakes import Metalakes
from gateway.app.policy_diff import read_people, settings_side
from gateway.jobs.job import Work
from gateway.jobs.proof.job import Gate, ProofOptions
from gateway.jobs.proof.source import GatewaySamples
from gateway.model.spark_minors import minor_of
from gateway.settings.models import Settings
from gateway.sources.accepted_tags import kept


def proof_options(settings: Settings) -> ProofOptions:
    """Return what the job is given."""
    chosen = settings.jobs.proof

    @asynccontextmanager
    async def gate() -> AsyncIterator[Gate]:
        people = read_people(settings.users.file) if settings.users.file.exists() else {}
        policies = settings_side(settings, people, kept(accepted_path(settings)))
        async with await make_reader(settings) as reader:
            metalakes = Metalakes(settings, minor_of(reader.spark_version), read_only=True)
            async with catalog_without_sessions(settings, reader, None, metalakes) as catalog:
                yield Gate(
                    reader=reader,
                    policies=policies,
                    principals=people,
                    rules=judging_rules(settings),
                    catalogs=frozenset(name.lower() for name in settings.policies.catalogs),
                    look_up=catalog.look_up,
                )

    @contextmanager
    def source(work: Work) -> Iterator[GatewaySamples]:
        with gateway_session("jobs.proof", chosen.gateway, chosen.token) as session:
            work.progress(f"sampling through the gateway at {chosen.gateway}")
            yield GatewaySamples(session)

    return ProofOptions(
        gate=gate,
        source=source,
        days=chosen.days,
        statements=chosen.statements,
        per_stratum=chosen.per_stratum,
        tables=chosen.tables,
        rows=chosen.rows,
        bytes=chosen.bytes,
        result_rows=chosen.result_rows,
        statement_s=chosen.statement_s,
    )
