"""The job `classify` as the settings have it: its rules, its session at the gateway, the policies' tags."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.app.policy_diff import load_user_file, settings_side
from gateway.app.rule_files import PACK_PATTERNS, find_shipped_rules, read_texts, rule_files
from gateway.app.tag_propagation import load_accepted_list
from gateway.errors import BackendUnavailable, Faults
from gateway.jobs.classification.job import ClassifyOptions
from gateway.jobs.classification.rules import Classifiers, load_classifiers
from gateway.jobs.classification.source import GatewaySource, Limits, TableParts
from gateway.jobs.job import Work
from gateway.jobs.reaching import give_up_soon, require_answer
from gateway.jobs.spark import keep_messages_out
from gateway.model.context import AccessContext
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.engine import Engine, engine_for
from gateway.settings.jobs import ClassifySettings
from gateway.settings.models import Settings
from gateway.settings.section import Secret

SHIPPED = "classifiers"


def classifiers(settings: ClassifySettings) -> Classifiers:
    """Return the rules of classification. Raises Faults with file and line."""
    return classifiers_of(settings.rules or (find_shipped_rules() / SHIPPED,))


def classifiers_of(paths: Sequence[Path]) -> Classifiers:
    """Return the rules of files and directories. Raises Faults with file and line."""
    return load_classifiers(read_texts(rule_files(paths, PACK_PATTERNS)))


def classify_options(settings: Settings) -> ClassifyOptions:
    """Return what the job is given."""
    chosen = settings.jobs.classify

    @contextmanager
    def source(work: Work) -> Iterator[GatewaySource]:
        with gateway_session("jobs.classify", chosen.gateway, chosen.token) as session:
            work.progress(f"reading through the gateway at {chosen.gateway}")
            yield GatewaySource(session)

    async def policies(connection: Any) -> EngineColumns:
        people = load_user_file(settings)
        accepted = await load_accepted_list(connection)
        side = await asyncio.to_thread(settings_side, settings, people, accepted)
        return EngineColumns(engine_for(side), people)

    return ClassifyOptions(
        classifiers=lambda: classifiers(chosen),
        source=source,
        policies=policies,
        catalogs=chosen.catalogs,
        include=chosen.include,
        exclude=chosen.exclude,
        regions=chosen.regions,
        limits=Limits(
            columns=chosen.columns,
            rows=chosen.rows,
            bytes=chosen.bytes,
            value_chars=chosen.value_chars,
            strata=chosen.strata,
            sample_percent=chosen.sample_percent,
        ),
        tables=chosen.tables,
        again_days=chosen.again_days,
    )


@contextmanager
def gateway_session(section: str, gateway: str | None, token: Secret | None) -> Iterator[object]:
    """Yield a PySpark session at a gateway's Spark Connect, logged in as the user of the token; `section` of
    the settings has both. Raises Faults, BackendUnavailable."""
    if gateway is None or token is None:
        raise Faults(
            [
                f"`{section}` needs `gateway`, the address of a gateway's Spark Connect endpoint, and "
                "`token`, of the user by whose policies data is read"
            ]
        )
    keep_messages_out()
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise BackendUnavailable(f"jobs need pyspark; install `sluice-gateway[spark]`: {error}") from None
    address = gateway.rstrip("/")
    address, _, more = address.partition("/;")
    login = token.reveal()
    if not (login.isascii() and login.isprintable()):
        raise Faults(
            [
                f"`{section}.token` has a character that Spark Connect cannot send; use a token printed by "
                "`sluice users token`"
            ]
        )
    url = f"{address}/;token={quote(login, safe='')}{';' + more if more else ''}"
    try:
        require_answer(url)
        session = SparkSession.builder.remote(url).create()
        give_up_soon(session)
    except (PySparkException, OSError) as error:
        # The address has the token in it, and the error may have the address.
        raise BackendUnavailable(f"cannot open a session at {gateway}: {type(error).__name__}") from None
    try:
        yield session
    finally:
        session.stop()


class EngineColumns:
    """Asks the policies of an engine about columns."""

    def __init__(self, engine: Engine, people: Mapping[str, Principal]) -> None:
        self._engine, self._people = engine, people
        self._context = AccessContext(time=datetime.now(UTC))

    def tags(self, table: TableParts, columns: Sequence[str]) -> Mapping[str, Collection[str]]:
        """Return the tags of each, without those that were accepted."""
        of_table = Resource.table(*table)
        return {
            name: {
                tag.type
                for tag in self._engine.tags(of_table.child("column", name), self._context)
                if not tag.propagated
            }
            for name in columns
        }

    def list_masked_columns(self, user: str, table: TableParts, columns: Sequence[str]) -> Collection[str]:
        """Return those that are masked for a user; one who is not among the people has no groups."""
        principal, of_table = self._principal(user), Resource.table(*table)
        return {
            name
            for name in columns
            if self._engine.mask(principal, of_table.child("column", name), "string", self._context)
        }

    def list_hidden_columns(self, user: str, table: TableParts, columns: Sequence[str]) -> Collection[str]:
        """Return those that a user may not select."""
        principal, of_table = self._principal(user), Resource.table(*table)
        return {
            name
            for name in columns
            if not self._engine.allows(principal, of_table.child("column", name), "select", self._context)[0]
        }

    def _principal(self, user: str) -> Principal:
        return self._people.get(user, Principal(user=user))
