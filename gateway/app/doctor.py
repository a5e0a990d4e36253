"""Examines all that a gateway needs, and says what to do about what is wrong: `sluice doctor`.

Whatever `sluice check` finds is found by it. Here are only what it does not ask, and what to do.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import gateway
from gateway.app.checking import CheckReport, check
from gateway.app.database_checks import DatabaseAnswer
from gateway.app.logins import jwt_rules, make_directory
from gateway.app.outgoing import ReachAnswer, list_outgoing_addresses, reach_all
from gateway.app.site_checks import gateway_runs
from gateway.app.site_places import list_wanted_addresses
from gateway.app.writable_places import free_bytes
from gateway.errors import Faults
from gateway.frontends.jwt_logins import IssuerUnavailable, JwtLogins
from gateway.frontends.ldap_rules import LdapRefused, LdapUnavailable
from gateway.model.spark_configuration import SparkConfiguration
from gateway.settings.loading import load_settings
from gateway.settings.models import Settings

FindingArea = Literal[
    "version",
    "settings",
    "machine",
    "disk",
    "ports",
    "network",
    "logins",
    "postgresql",
    "clock",
    "spark",
    "policies",
]
FindingState = Literal["ok", "warning", "fault", "unknown"]
RECOMMENDED = {
    "spark.connect.grpc.marshallerRecursionLimit": "otherwise messages may be 1,024 deep at most",
    "spark.sql.thriftServer.incrementalCollect": "otherwise the driver holds whole results",
}
"""Settings of Spark that should be set, see docs/connect.md; with what happens otherwise."""
_OF_THRIFT = "spark.sql.thriftServer."
NOBODY = "sluice-doctor"
"""A name that a directory is asked for, and does not have."""
STACK = "-Xss"
STACK_KEY = "spark.driver.extraJavaOptions"

ADVICE: dict[FindingArea, str] = {
    "settings": "correct the lines that are named; docs/settings.md has every key",
    "machine": "correct what is named, or the setting that names it, as the user that runs the gateway",
    "policies": "correct the packs that are named; `sluice check` with their directory is quicker to repeat",
    "spark": "start Spark as docs/hardening.md says, then restart the gateway; until then it runs nothing",
    "postgresql": "correct `ledger.dsn`, or the rights of its user; docs/upgrading.md has what it needs",
}
"""What to do about what `sluice check` finds; most of it says more itself."""
REACH_ADVICE = {
    "dns": "correct the name, or add it to DNS; in a container, look at its resolver",
    "way": "start the server, or open the way to it: firewall, security group, NetworkPolicy",
    "tls": "have the server show a certificate of that name, or name its authority in `ca_file`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that was looked at."""

    area: FindingArea
    state: FindingState
    text: str
    advice: str = ""
    """What to do; empty where nothing is to be done."""
    away: bool = False
    """A fault of somebody who cannot be reached, and may be again."""


async def examine(config: Path) -> list[DoctorFinding]:
    """Look at everything that a gateway of these settings needs; starts a parser, and changes nothing."""
    versions = f"Sluice {gateway.__version__}, Python {platform.python_version()}"
    found = [DoctorFinding(area="version", state="ok", text=versions)]
    try:
        settings = load_settings(config)
    except Faults as error:
        advice = ADVICE["settings"]
        return [
            *found,
            *(DoctorFinding(area="settings", state="fault", text=one, advice=advice) for one in error.faults),
        ]
    found.append(DoctorFinding(area="settings", state="ok", text=f"{config} can be read"))
    found += _find_disks(settings)
    found += _find_ports(settings)
    found += _describe_iceberg(settings)
    reached = await reach_all(list_outgoing_addresses(settings))
    for answer in reached:
        found += _describe_reach(answer)
    report = await check([config])
    found += _list_check(report)
    if report.database is not None:
        found += _describe_database(report.database)
    found += await _try_logins(settings)
    for name, spark in report.sparks.items():
        found += _describe_spark(name, spark, settings)
    if not any(one.area == "policies" and one.state == "fault" for one in found):
        text = f"{report.policies} policies in {len(report.files)} files"
        found.append(DoctorFinding(area="policies", state="ok", text=text))
    return found


def _list_check(report: CheckReport) -> Iterator[DoctorFinding]:
    """Yield what `sluice check` finds."""
    for state, messages in (("fault", report.faults), ("warning", report.warnings)):
        for message in messages:
            area: FindingArea = report.areas.get(message, "policies")
            yield DoctorFinding(
                area=area,
                state="fault" if state == "fault" else "warning",
                text=message,
                advice=ADVICE[area],
            )
    for message in report.not_asked:
        yield DoctorFinding(area="policies", state="unknown", text=message)


def _find_disks(settings: Settings) -> Iterator[DoctorFinding]:
    spool = settings.ledger.directory
    left = free_bytes(spool)
    if left is None:
        return
    text = f"{left / 2**30:.1f} GiB are free for the spool in `{spool}`"
    wanted = settings.ledger.spool_bytes * settings.workers
    if left < wanted:
        yield DoctorFinding(
            area="disk",
            state="warning",
            text=f"{text}, less than `ledger.spool_bytes` ({wanted / 2**30:.1f} GiB)",
            advice="give the spool a larger disk of its own, or lower `ledger.spool_bytes`: statements stop "
            "when the disk is full",
        )
    else:
        yield DoctorFinding(area="disk", state="ok", text=text)


def _find_ports(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield where the gateway listens; ports that are taken are found by `sluice check`."""
    runs = gateway_runs(settings.ledger.directory)
    for one in list_wanted_addresses(settings):
        used = "used by the gateway that runs" if runs else "for the gateway"
        text = f"`{one.name}`: {one.host}:{one.port}, {used}"
        yield DoctorFinding(area="ports", state="ok", text=text)


def _describe_iceberg(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield what engines get that read Iceberg by themselves, as far as settings say it."""
    listener = settings.listeners.iceberg_rest
    if listener is None:
        return
    trusted = {"enforce restrictions": listener.enforcing, "write files": listener.writers}
    told = [f"nobody is trusted to {what}" for what, who in trusted.items() if not (who.users or who.groups)]
    told += [
        f"trusted to {what}: {', '.join((*who.users, *(f'group {one}' for one in who.groups)))}"
        for what, who in trusted.items()
        if who.users or who.groups
    ]
    text = f"`listeners.iceberg_rest`: serves {', '.join(listener.catalogs)}; {'; '.join(told)}"
    yield DoctorFinding(area="settings", state="ok", text=text)


def _describe_reach(answer: ReachAnswer) -> Iterator[DoctorFinding]:
    address = answer.address
    where = f"`{address.at}`: {address}"
    if answer.failed is not None:
        what = {"dns": "does not resolve", "way": "cannot be reached", "tls": "is not trusted over TLS"}
        yield DoctorFinding(
            area="network",
            state="fault",
            text=f"{where} {what[answer.failed]}: {answer.reason}",
            advice=REACH_ADVICE[answer.failed],
            away=answer.failed != "tls",
        )
        return
    shown = ", ".join(one for one in answer.numbers if one != address.host)
    text = where + (f" ({shown})" if shown else "") + " can be reached"
    if answer.certificate_ends is None:
        yield DoctorFinding(area="network", state="ok", text=text)
        return
    soon = answer.ends_soon(datetime.now(UTC))
    yield DoctorFinding(
        area="network",
        state="warning" if soon else "ok",
        text=f"{text}; its certificate is trusted, and expires on {answer.certificate_ends:%Y-%m-%d}",
        advice="renew the server's certificate" if soon else "",
    )


def _describe_database(answer: DatabaseAnswer) -> Iterator[DoctorFinding]:
    if answer.version:
        yield DoctorFinding(
            area="postgresql", state="ok", text=f"PostgreSQL {answer.version} accepts the login"
        )
    schema = answer.schema
    if schema is not None:
        newest = max(schema.applied, default=0)
        text = f"the tables have {len(schema.applied)} migrations, the newest is {newest}"
        if schema.pending:
            text += f"; {len(schema.pending)} more are applied when a gateway starts"
        if schema.newer:
            text += f"; {len(schema.newer)} are of a later version, which this one can work with"
        yield DoctorFinding(area="postgresql", state="ok", text=text)
    if answer.clock_ahead_s is not None:
        zone = time.strftime("%Z")
        text = f"PostgreSQL's clock differs by {abs(answer.clock_ahead_s):.1f} s; the local zone is {zone}"
        yield DoctorFinding(area="clock", state="ok", text=text)


async def _try_logins(settings: Settings) -> list[DoctorFinding]:
    """Ask a directory and an issuer for what a login of anybody needs. Nobody logs in."""
    found: list[DoctorFinding] = []
    ldap, tokens = settings.logins.ldap, settings.logins.jwt
    if ldap is not None and ldap.bind_dn:
        directory = None
        try:
            directory = make_directory(ldap)
            await directory.find(NOBODY)
        except Faults:
            pass  # `sluice check` told
        except LdapRefused:
            found.append(
                DoctorFinding(area="logins", state="ok", text="`logins.ldap`: the directory answers")
            )
        except LdapUnavailable as fault:
            found.append(_describe_login("ldap", str(fault)))
        finally:
            if directory is not None:
                directory.close()
    if tokens is not None:
        issuer = JwtLogins(jwt_rules(tokens))
        try:
            keys = await issuer.load_keys()
        except IssuerUnavailable as fault:
            found.append(_describe_login("jwt", str(fault)))
        else:
            text = f"`logins.jwt`: the issuer has {keys} keys that tokens may be signed by"
            found.append(DoctorFinding(area="logins", state="ok", text=text))
        finally:
            issuer.close()
    return found


def _describe_login(way: str, fault: str) -> DoctorFinding:
    return DoctorFinding(
        area="logins",
        state="fault",
        text=f"nobody can log in by `logins.{way}` now: {fault}",
        advice=f"correct `logins.{way}` (docs/logins.md) or what it names; try `sluice check --login NAME`",
        away=True,
    )


def _describe_spark(name: str, spark: SparkConfiguration, settings: Settings) -> Iterator[DoctorFinding]:
    which = f"`{name}`: " if len(settings.all_backends) > 1 else ""
    settings = settings.for_backend(name)
    yield DoctorFinding(
        area="spark", state="ok", text=f"{which}Spark {spark.version} parses statements as the gateway does"
    )
    wanted = dict(RECOMMENDED)
    if settings.listeners.connect is None:
        wanted.pop("spark.connect.grpc.marshallerRecursionLimit")
    if settings.backend.thrift is None:
        wanted = {key: why for key, why in wanted.items() if not key.startswith(_OF_THRIFT)}
    for key, why in wanted.items():
        if key not in spark.settings:
            yield DoctorFinding(
                area="spark",
                state="warning",
                text=f"{which}Spark's `{key}` is not set: {why}",
                advice="start Spark with it, see docs/connect.md",
            )
    if STACK not in spark.settings.get(STACK_KEY, ""):
        yield DoctorFinding(
            area="spark",
            state="warning",
            text=f"{which}Spark's `{STACK_KEY}` has no `{STACK}`: deep statements may overflow its stack",
            advice="start Spark with `-Xss16m`, unless Java has it from elsewhere; see docs/connect.md",
        )
