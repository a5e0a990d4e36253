"""One gateway process: every room is made here from the settings, started in order and stopped in reverse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import structlog

from gateway.admin.listener import Check
from gateway.app.catalogs import first_context, make_catalogs
from gateway.app.certificates import Certificates
from gateway.app.concurrent_work import run_together, to_the_end
from gateway.app.current_policies import CurrentPolicies
from gateway.app.database_checks import ask_database
from gateway.app.descriptors import raise_limit
from gateway.app.endpoints import Address, start_endpoints
from gateway.app.explaining import make_catalog, make_reader, make_upstream
from gateway.app.files import dataset_owners, make_listening, make_places, make_promotion, make_refreshing
from gateway.app.gateway_health import GatewayHealth
from gateway.app.gateway_parts import GatewayParts
from gateway.app.gateway_requests import GatewayRequests, HandleOwners
from gateway.app.jobs_metrics import JobStates
from gateway.app.left_spools import ship_left
from gateway.app.lineage_following import LineageCollector, lineage_input, lineage_state, make_follower
from gateway.app.logins import make_identity_refresh, make_logins
from gateway.app.metalake_restrictions import make_restrictions
from gateway.app.metalakes import metalakes_of
from gateway.app.metastore_catalog import MetastoreCatalog
from gateway.app.openlineage import open_sinks
from gateway.app.other_gateways import follow_others
from gateway.app.policy_authors import AuthorRights, PolicyAuthors
from gateway.app.probes import Probes, start_probes
from gateway.app.record_forwarding import ForwardCollector, make_forwarders, report_forwarding
from gateway.app.reloading import Reloading
from gateway.app.rules import PolicyRegistry
from gateway.app.site_checks import check_site, only_one
from gateway.app.sparks import START_S, Sparks, make_parts
from gateway.app.state_metrics import (
    StateCollector,
    backend_gauges,
    dataset_gauges,
    metalake_gauges,
    source_gauges,
)
from gateway.app.tag_propagation import Accepted, TagPropagation, build_accepted_source
from gateway.app.unmatched import UnmatchedPolicies
from gateway.app.upstream import Upstream
from gateway.app.versions import versions
from gateway.audit.forwarding import Forwarder
from gateway.audit.ledger import FileLedger, LedgerOptions
from gateway.audit.seals import keep_sealing, read_signing_key
from gateway.audit.spool import SpoolLimits
from gateway.backends.reasons import reason_of
from gateway.catalog.live import LiveCatalog
from gateway.database.gateway_requests import Answering
from gateway.database.limit_shares import LimitShares
from gateway.database.limit_use import LimitUse
from gateway.database.login_failures import LoginFailures
from gateway.errors import BackendMismatch, BackendUnavailable, Faults
from gateway.files.refreshing import Refreshing
from gateway.frontends.identities import Identities
from gateway.frontends.user_file import UserFile
from gateway.lineage.following import Follower
from gateway.lineage.workers import LineageWorkers
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.spark_minors import minor_of
from gateway.model.statement import Client, SessionContext, Statement, Verdict
from gateway.model.tracing import Tracer
from gateway.policy.limits import limits_of
from gateway.policy.parts import build_closing_part
from gateway.reader.pool import ReaderPool
from gateway.session.budgets import Budgets
from gateway.session.dependencies import Dependencies
from gateway.session.limits import SessionLimits
from gateway.session.metrics import Metrics
from gateway.session.open_sessions import OpenSessions
from gateway.session.shares import Shares
from gateway.session.states import STOPPING, Lifecycle
from gateway.settings.backends import BackendSettings
from gateway.settings.models import SessionSettings, Settings
from gateway.sources.metalakes import Metalakes

if TYPE_CHECKING:
    from gateway.backends.embedded_spark import EmbeddedSpark


log = structlog.get_logger(__name__)

DRAIN_LOOK_S = 0.1
"""How often a gateway that is about to stop looks whether anything runs."""
LAST_ANSWERS_S = 1.5
"""Seconds in which clients ask for their statements once more; impyla asks each second, others more often."""
_Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a running gateway and what it stands on can be reached."""

    endpoints: Mapping[str, Address]
    """Those that there are, by their names."""
    spark_host: str
    spark_port: int
    ledger_dsn: str


class Gateway:
    """Starts on `async with`, serves while `run` is awaited, leaves nothing running when the block ends."""

    def __init__(
        self,
        settings: Settings,
        progress: _Progress = lambda _: None,
        *,
        config: Path | None = None,
        probes: Probes | None = None,
    ) -> None:
        """`config`: the file that the settings stand in; scheduled jobs are processes that read it again.
        `probes`: the operators' listener, where it is there already; this closes it."""
        self._settings = settings
        self._config = config
        self._progress = progress
        self._stack = AsyncExitStack()
        self._background: list[Coroutine[Any, Any, None]] = []
        self._forwarders: list[Forwarder] = []
        self._addresses: Addresses | None = None
        self.metrics = probes.metrics if probes is not None else Metrics()
        self._probes = probes
        self._lifecycle = Lifecycle()
        self._open_sessions = OpenSessions()
        self._reloading = Reloading(settings, config, Certificates(self.metrics.certificate_ends))
        if probes is not None and probes.handed is not None:
            self._reloading.worker = probes.handed.place.number

    @property
    def addresses(self) -> Addresses:
        """Where everything listens; known once started."""
        if self._addresses is None:
            raise BackendUnavailable("the gateway has not been started")
        return self._addresses

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def run(self) -> None:
        """Do what has to be done while serving; never returns. Raises when something that is needed ends."""
        background, self._background = self._background, []
        await run_together(*background)

    async def drain(self) -> None:
        """Take nothing new, and wait until what runs has ended, `sessions.drain_s` at most."""
        self._stop_taking()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.sessions.drain_s
        while (busy := self._open_sessions.busy()) and loop.time() < until:  # noqa: ASYNC110 - many may end it
            await asyncio.sleep(DRAIN_LOOK_S)
        log.info("drained", still_busy=busy)

    async def reload(self) -> None:
        """Put in force what can be of settings and files that have changed."""
        await self._reloading.reload()

    def _stop_taking(self) -> None:
        self._lifecycle.stopping = True
        if self._probes is not None:
            self._probes.admin.unready = STOPPING

    async def _start(self) -> None:
        settings = self._settings
        if self._probes is not None:
            self._stack.push_async_callback(self._probes.admin.close)
        self._require_site()
        open_sessions = self._open_sessions
        users = UserFile(
            settings.users.file,
            max_stale_s=settings.users.max_stale_s,
            removed=open_sessions.end_removed_users if settings.users.end_sessions else None,
            changed=lambda: refresh.follow_file(),
        )
        logins = make_logins(settings, lambda: users.users)
        self._stack.callback(logins.chain.close)
        identities = Identities(lambda: users.principals, remember_s=settings.logins.remember_s)
        refresh = make_identity_refresh(settings, lambda: users.users, identities, logins, open_sessions)
        if (few := raise_limit(settings)) is not None:
            self._progress(few)
        probes = await self._open_probes()
        self._stack.enter_context(only_one(settings.ledger.directory))
        reader, dsn, embedded = await run_together(
            self._start_reader(), self._start_postgres(), self._start_embedded_sparks()
        )
        ledger = await self._start_ledger(dsn)
        accepted = Accepted(dsn)
        self._stack.callback(accepted.close)
        metalakes = metalakes_of(settings, minor_of(reader.spark_version))
        self._stack.push_async_callback(metalakes.close)
        propagation = TagPropagation(settings.tag_propagation, dsn, lambda: rules.current)
        unmatched = UnmatchedPolicies(lambda: rules.current)
        rules = await self._start_rules(reader, accepted, metalakes, unmatched)
        sparks = Sparks(
            settings=settings,
            limits=partial(session_limits, settings.sessions),
            open_sessions=open_sessions,
            embedded=embedded,
        )
        names = await follow_others(dsn, ledger.gateway, sparks, rules)
        self._stack.push_async_callback(names.leave)
        self._background.append(names.run())
        self._stack.push_async_callback(sparks.close)
        main, alone = settings.main_backend, settings.for_backend(settings.main_backend)
        catalogs = make_catalogs(settings, metalakes)
        upstream = make_upstream(alone, embedded.get(main), reader.configuration, catalogs, ledger.gateway)
        stack = AsyncExitStack()
        self._stack.push_async_callback(stack.aclose)
        # Spark forgets a cancel that comes while it plans: what was stopped is stopped again before we go.
        in_time = self._lifecycle.close_in_time
        stack.push_async_callback(in_time, upstream.close)
        queries = upstream.queries()
        stack.push_async_callback(in_time, queries.close)
        spark_version = await self._ask_version(upstream, reader, is_alone=not sparks.fleet.several)
        await metalakes.start(rules.replace_part, upstream.own_catalogs)
        self.metrics.registry.register(StateCollector(lambda: metalake_gauges(metalakes.states())))
        owners = dataset_owners(settings, dsn, metalakes.owner, lambda user: users.principals.get(user))
        self.metrics.registry.register(unmatched)
        catalog = make_catalog(settings, queries, reader, metalakes, owners, unmatched.learn)
        sparks.owners, sparks.lakes = owners, metalakes
        held = MetastoreCatalog(catalog, lambda: sparks.main.dependencies.locks.catalogs)
        stack.push_async_callback(in_time, catalog.close)
        restrictions = make_restrictions(settings, catalogs, metalakes)
        stack.push_async_callback(restrictions.aclose)
        limits = session_limits(settings.sessions, settings.backend)
        places = make_places(settings, queries, catalog, metalakes.states)
        uses = self._stack.enter_context(closing(LimitUse(dsn)))
        limit_shares = LimitShares(dsn, ledger.gateway)
        self._stack.push_async_callback(limit_shares.leave)
        shares = Shares(limit_shares, has_others=lambda: bool(names.others))
        budgets = Budgets(lambda: rules.current, limits_of, self.metrics, shared=uses, shares=shares)
        self._background += [uses.run(), limit_shares.run(), budgets.run(), budgets.keep_shares()]
        dependencies = Dependencies(
            judge=sparks.make_judge(alone, reader),
            policies=CurrentPolicies(rules, identities, users),
            catalog=catalog,
            locks=sparks.locks_of(main, catalog, limits),
            ledger=ledger,
            gateway=ledger.gateway,
            reader=reader.configuration,
            console_url=console_url_of(settings),
            backend=main,
            may_use=sparks.build_facts(main, main, spark_version).may_be_used_by,
            records_backend=sparks.fleet.several,
            lifecycle=self._lifecycle,
            ask_owner=HandleOwners(dsn, lambda: names.others).ask,
            tracer=self._start_tracer(ledger.gateway),
            identity=refresh,
            metrics=self.metrics,
            limits=limits,
            budgets=budgets,
            lineage_input=lineage_input(settings.lineage),
            first_context=first_context(settings),
            secrets=catalogs.secrets(),
            session_catalogs=catalogs.list_session_catalogs,
            restrictions=restrictions,
            places=sparks.wrap_places(main, places),
            promotion=make_promotion(
                settings,
                queries,
                held,
                dsn,
                elsewhere=sparks.find_elsewhere(main).explain if sparks.fleet.several else None,
                ledger=ledger,
                gateway=ledger.gateway,
                metalakes=metalakes.states,
            ),
        )
        facts = sparks.build_facts(main, main, spark_version)
        sparks.add_main(
            make_parts(
                facts, alone, reader, upstream, queries, catalog, dependencies, places, spark_version, stack
            )
        )
        self._background.append(sparks.run())
        if sparks.fleet.several:
            self.metrics.registry.register(StateCollector(lambda: backend_gauges(sparks.fleet)))
            self._reloading.fleet = sparks.fleet
            await sparks.try_pending(START_S)
        self._background.append(make_listening(settings, held, dsn).run())
        self._refresh_datasets(make_refreshing(settings, queries, held, dsn))
        lineage = await self._start_lineage(dsn, reader, catalog, ledger)

        async def judge(text: str, principal: Principal) -> Verdict:
            statement = Statement(text=text, principal=principal, context=SessionContext())
            return await dependencies.verdicts.judge(statement, Client(protocol="policies"))

        rights = AuthorRights(reader, judge, lambda: catalog.snapshot, catalog.look_up)
        authors = PolicyAuthors(lambda: rules.current, lambda user: identities.principals.get(user), rights)
        notes: dict[str, Check] = {
            "metalakes": metalakes.report_trouble,
            "authors": authors.report_trouble,
            "unmatched": unmatched.report_trouble,
            "certificates": self._reloading.certificates.report_trouble,
            "forwarding": partial(report_forwarding, self._forwarders),
        }
        if settings.tag_propagation.enabled:
            notes["tags"] = propagation.report_trouble
        if sparks.fleet.several:
            notes["backends"] = sparks.report_trouble
        self._share_login_failures(dsn)
        endpoints = await start_endpoints(
            GatewayParts(
                settings=settings,
                stack=self._stack,
                background=self._background,
                dependencies=dependencies,
                sparks=sparks,
                spark_version=spark_version,
                reader=reader,
                rules=rules,
                users=users,
                identities=identities,
                logins=logins,
                guesses=self._reloading.guesses,
                open_sessions=open_sessions,
                ledger=ledger,
                dsn=dsn,
                lineage=lineage,
                notes=notes,
                authors=rights,
                probes=probes,
                reloading=self._reloading,
            )
        )
        self.metrics.build.info({**versions(), "spark": spark_version})
        if self._lifecycle.stopping:
            self._stop_taking()
        every_s = settings.policies.reload_s
        requests = GatewayRequests(open_sessions, users, sparks)
        worker = self._reloading.worker, settings.workers
        requests.tell_health = GatewayHealth(
            probes.admin, self.metrics, ledger, rules, sparks, open_sessions, lineage_state(lineage), worker
        ).tell
        self._background += [
            rules.watch(),
            users.run(every_s),
            refresh.run(),
            authors.run(every_s),
            metalakes.run(),
            self._reloading.certificates.run(every_s),
            unmatched.run(),
            Answering(dsn, ledger.gateway, requests.answer).run(),
        ]
        if settings.tag_propagation.enabled:
            self._background.append(propagation.run())
        self._schedule_jobs(dsn)
        self._addresses = Addresses(
            endpoints=endpoints,
            spark_host=upstream.host,
            spark_port=upstream.port,
            ledger_dsn=dsn,
        )

    async def _stop(self) -> None:
        self._stop_taking()
        busy = self._open_sessions.busy()
        self._lifecycle.cut()
        for never_run in self._background:
            never_run.close()
        self._background = []
        if busy:
            # Clients that poll hear that the gateway stops while Spark ends their statements.
            self._open_sessions.begin_closing()
            await asyncio.sleep(LAST_ANSWERS_S)
        await self._stack.aclose()

    def _require_site(self) -> None:
        """Look at what a person may have done wrongly before anything is started. Raises Faults."""
        held = self._probes.held if self._probes is not None else ()
        worker = self._reloading.worker
        site = check_site(self._settings, self._config, starting=True, held=held, worker=worker)
        for warning in site.warnings:
            log.warning("site", warning=warning)
        if site.faults:
            raise Faults(list(site.faults))

    async def _open_probes(self) -> Probes:
        probes = self._probes
        if probes is None:
            try:
                probes = self._probes = await start_probes(self._settings, self.metrics)
            except OSError as error:
                raise Faults([f"cannot listen for operators: {reason_of(error)}"]) from None
            self._stack.push_async_callback(probes.admin.close)
        if self._lifecycle.stopping:
            self._stop_taking()
        return probes

    # -- the parts that stand beside the gateway -------------------------------------------------------------

    async def _start_reader(self) -> ReaderPool:
        reader = await make_reader(self._settings)
        self._stack.push_async_callback(reader.close)
        await reader.start()
        self._progress(f"parser of Spark {reader.spark_version} is ready")
        return reader

    async def _start_postgres(self) -> str:
        ledger = self._settings.ledger
        if ledger.dsn is not None:
            dsn = ledger.dsn.reveal()
            database = await ask_database(dsn)
            for told in (database.fault, *database.warnings):
                if told is not None:
                    # Statements are recorded on disk until it can be had.
                    log.warning("site", warning=told)
            return dsn
        from gateway.database.postgres import EmbeddedPostgres  # optional: tests/test_architecture.py

        postgres = EmbeddedPostgres(ledger.embedded.directory, progress=self._progress)
        self._stack.push_async_callback(to_the_end, postgres.stop)
        dsn = await to_the_end(postgres.start)
        self._background.append(postgres.supervise())
        self._progress("PostgreSQL is ready")
        return dsn

    async def _start_embedded_sparks(self) -> dict[str, EmbeddedSpark]:
        found = {}
        for name, backend in self._settings.all_backends.items():
            if backend.embedded is None:
                continue
            from gateway.app.embedded import make_embedded_spark  # optional

            spark = make_embedded_spark(self._settings.for_backend(name), backend.embedded)
            self._stack.push_async_callback(spark.stop)
            await spark.start(lambda line: self._progress(f"Spark: {line}"))
            self._background.append(_while_it_lives(spark))
            found[name] = spark
        return found

    # -- the parts of the gateway ----------------------------------------------------------------------------

    async def _start_rules(
        self, reader: ReaderPool, accepted: Accepted, metalakes: Metalakes, unmatched: UnmatchedPolicies
    ) -> PolicyRegistry:
        def follow_policies(policies: PolicySet) -> None:
            self.metrics.policy_version.set(policies.version)
            unmatched.policies_changed()

        rules = PolicyRegistry(
            self._settings.policies,
            reader,
            accepted=build_accepted_source(self._settings, accepted),
            on_change=follow_policies,
            speaking=metalakes.services,
            closed=build_closing_part(self._settings.file_sources()),
        )
        self._stack.push_async_callback(rules.close)
        await rules.start()
        self.metrics.registry.register(StateCollector(lambda: source_gauges(rules.sources())))
        return rules

    async def _ask_version(self, upstream: Upstream, reader: ReaderPool, *, is_alone: bool) -> str:
        try:
            return (await upstream.ask()).version
        except BackendMismatch:
            # The log and `/readyz` say why. Nothing runs before Spark is another: every session asks anew.
            self._progress(
                "Spark may parse statements differently from the gateway: every statement is refused"
            )
        except BackendUnavailable as fault:
            if is_alone:
                raise
            # Others may be there; each session asks this one anew, too.
            self._progress(f"the main Spark is not there yet: {fault.for_operators}")
        return reader.spark_version

    def _refresh_datasets(self, refreshing: Refreshing | None) -> None:
        if refreshing is not None:
            self.metrics.registry.register(StateCollector(partial(dataset_gauges, refreshing)))
            self._background.append(refreshing.run())

    def _share_login_failures(self, dsn: str) -> None:
        if self._settings.logins.share_failures:
            guesses, failures = self._reloading.guesses, LoginFailures(dsn)
            self._stack.callback(failures.close)
            self._stack.callback(guesses.close)
            guesses.shared = failures
            self._background.append(failures.run(guesses.limits.longest_block_s))

    def _schedule_jobs(self, dsn: str) -> None:
        if self._settings.jobs.schedule and self._config is not None:
            from gateway.app.jobs import keep_running  # optional: it brings all jobs along

            states = JobStates({})
            self.metrics.registry.register(states)
            self._background.append(keep_running(self._settings.jobs, dsn, self._config, states=states))

    def _start_tracer(self, gateway: str) -> Tracer | None:
        settings = self._settings.tracing
        if settings is None:
            return None
        try:
            from gateway.app.tracing import OtlpTracer
        except ImportError:
            raise Faults(["`tracing` needs: pip install 'sluice-gateway[tracing]'"]) from None
        tracer = OtlpTracer(settings, gateway, self.metrics)
        self._stack.push_async_callback(tracer.close)
        return tracer

    async def _start_ledger(self, dsn: str) -> FileLedger:
        settings = self._settings.ledger
        ledger = FileLedger(
            LedgerOptions(
                directory=settings.directory, dsn=dsn, spool=SpoolLimits(max_spool_bytes=settings.spool_bytes)
            )
        )
        await ledger.start()
        self._stack.push_async_callback(ledger.close)
        shown = self.metrics
        shown.watch(shown.spool_bytes, lambda: ledger.metrics().backlog_bytes)
        shown.watch(shown.ledger_connected, lambda: ledger.metrics().database_connected)
        shown.watch(shown.ledger_recorded, lambda: ledger.metrics().recorded_events)
        shown.watch(shown.ledger_shipped, lambda: ledger.metrics().shipped_events)
        shown.watch(shown.ledger_unfit, lambda: ledger.metrics().unfit_events)
        shown.watch(shown.ledger_open, lambda: ledger.metrics().open_statements)
        if self._probes is None or self._probes.is_first:
            self._background.append(ship_left(settings.directory, self._settings.workers, dsn))
        if settings.seal_key is not None:
            key = read_signing_key(settings.seal_key.reveal())
            self._background.append(keep_sealing(dsn, key, settings.directory))
        if settings.forward:
            self._forwarders = make_forwarders(settings.forward, dsn)
            self.metrics.registry.register(ForwardCollector(self._forwarders))
            self._background.extend(forwarder.run() for forwarder in self._forwarders)
        return ledger

    async def _start_lineage(
        self, dsn: str, reader: ReaderPool, catalog: LiveCatalog, ledger: FileLedger
    ) -> Follower | None:
        settings = self._settings.lineage
        if not settings.enabled:
            return None
        workers = LineageWorkers(settings.workers, deadline_s=settings.deadline_s)
        await self._stack.enter_async_context(workers)
        sinks = await open_sinks(
            settings.openlineage,
            self._stack,
            self.metrics.registry,
            tables=lambda name: catalog.snapshot.table(name),
            spark_version=reader.spark_version,
        )
        follower = make_follower(settings, dsn, reader, catalog, ledger.gateway, workers, sinks)
        self.metrics.registry.register(LineageCollector(follower.metrics))
        self._background.append(follower.run())
        return follower


def console_url_of(settings: Settings) -> str:
    """Return where browsers reach the console; empty where they do not, or nobody has said where."""
    console = settings.listeners.admin.console
    return console.public_url if console is not None else ""


def session_limits(settings: SessionSettings, backend: BackendSettings) -> SessionLimits:
    """Return the session room's limits with those that an operator may turn."""
    return SessionLimits(
        session_idle_s=settings.idle_s,
        operation_idle_s=settings.operation_idle_s,
        login_s=backend.login_timeout_s,
        sessions=settings.total,
        sessions_per_user=settings.per_user,
        operations_per_session=settings.operations,
        fetch_rows=settings.fetch_rows,
        policy_tables_s=settings.policy_tables_s,
        catalog_wait_s=settings.catalog_wait_s,
        end_results_on_policy_change=settings.end_results_on_policy_change,
        statements=backend.statements,
        statements_waiting=backend.waiting,
        spark_wait_s=backend.wait_s,
    )


async def _while_it_lives(spark: EmbeddedSpark) -> None:
    code = await spark.wait_for_exit()
    raise BackendUnavailable(f"the embedded Spark exited with code {code}; see {spark.log}")
