"""Replays as the settings have them: both sides, the workers' parser, and what is asked of Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from gateway.app.accepted_tags import build_accepted_tags_path
from gateway.app.explaining import (
    catalog_without_sessions,
    find_parser_jars,
    make_reader,
    parsers_for,
    reader_limits,
    select_judging_settings,
)
from gateway.app.metalakes import load_cached_metalakes
from gateway.app.policy_diff import load_side, load_sides, load_user_file, parts_beside, settings_side
from gateway.errors import BackendUnavailable, Faults
from gateway.jobs.replay.job import ReplayOptions, ReplayPlan
from gateway.jobs.replay.judging import ReaderOptions, Sides
from gateway.model.catalog import LookUp
from gateway.reader.java_runtime import spark_version
from gateway.settings.models import Settings
from gateway.sources.accepted_tags import load_cached_list

IN_FORCE = "the settings"


def replay_options(
    settings: Settings,
    *,
    sides: tuple[Path, Path] | None = None,
    tables: Path | None = None,
) -> ReplayOptions:
    """Return what the job is given: the policies in force and the proposed ones, or two `sides` instead.

    `tables` is a file with the tables of now, in place of the settings' Spark.
    """
    chosen = settings.jobs.replay

    def proposal() -> ReplayPlan:
        people = load_user_file(settings)
        accepted = load_cached_list(build_accepted_tags_path(settings))
        beside = parts_beside(settings, accepted)
        metalakes, _ = asyncio.run(load_cached_metalakes(settings))
        if sides is not None:
            old, new = load_sides(sides, people, settings.policies.catalogs, beside)
            names = (str(sides[0]), str(sides[1]))
        elif chosen.proposed is not None:
            old = settings_side(settings, people, accepted)
            new = load_side(chosen.proposed, people, settings.policies.catalogs, beside=beside)
            names = (IN_FORCE, str(chosen.proposed))
        else:
            raise Faults(
                [
                    "`jobs.replay` needs `proposed`, the policies to compare with those in force; or run "
                    "`sluice policy diff OLD NEW --replay`"
                ]
            )
        return ReplayPlan(
            sides=Sides(old=old, new=new, principals=people, rules=select_judging_settings(settings)),
            old=names[0],
            new=names[1],
            reader=_reader(settings),
            catalogs=frozenset(name.lower() for name in settings.policies.catalogs),
            listed=metalakes.list_catalogs(),
        )

    @asynccontextmanager
    async def look_up() -> AsyncIterator[LookUp]:
        async with await make_reader(settings) as reader:
            metalakes, _ = await load_cached_metalakes(settings)
            async with catalog_without_sessions(settings, reader, tables, metalakes) as catalog:
                yield catalog.look_up

    return ReplayOptions(
        proposal=proposal,
        look_up=look_up,
        days=chosen.days,
        catalog=chosen.catalog,
        tables=chosen.tables,
        changes=chosen.changes,
        keep=chosen.keep,
        parts=settings.jobs.shuffle_partitions,
    )


def _reader(settings: Settings) -> ReaderOptions:
    """Return the parser of each worker: that of a gateway of these settings, at the same paths where they
    name any, and otherwise what the worker's machine has."""
    chosen = settings.reader
    try:
        parsers = asyncio.run(parsers_for(settings))
    except BackendUnavailable:
        parsers = find_parser_jars(chosen)
    named = chosen.spark_home is not None or chosen.spark_version is not None
    return ReaderOptions(
        spark_version=spark_version(parsers.spark_home),
        java=chosen.java,
        spark_home=parsers.spark_home if named or parsers.extensions else None,
        extensions=parsers.extensions,
        jars=parsers.jars,
        heap=chosen.heap,
        limits=replace(reader_limits(chosen), wait_s=10 * chosen.wait_s),
    )
