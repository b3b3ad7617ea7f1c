"""Starts and stops a broker. This module composes, and decides nothing.

`start` runs these steps in order: load the metadata; recover the logs; bind the ports; store and
register the broker's new incarnation; wait until the controller (this broker if there is no other)
has brought it up; accept connections.
"""

import asyncio
import gc
import sys
from collections.abc import Callable

from ottla.address import Address
from ottla.broker.event_log import Logger
from ottla.broker.http.health import Health
from ottla.broker.http.server import HttpServer
from ottla.broker.inter_broker.inter_broker import InterBroker
from ottla.broker.inter_broker.listener import (
    listener_between_brokers,
    registered_endpoints,
    require_reachable,
)
from ottla.broker.inter_broker.log_end_queries import LogEndQueries
from ottla.broker.net.connections import Connections
from ottla.broker.node.background import start_background
from ottla.broker.node.context import NodeContext, Seams
from ottla.broker.node.damaged_logs import damaged_partitions
from ottla.broker.node.dynamic_settings import DynamicSettings
from ottla.broker.node.election_meter import ElectionMeter
from ottla.broker.node.endpoints import Endpoints
from ottla.broker.node.log_dirs import (
    NO_BROKER_EPOCH,
    PreparedDirectories,
    open_log_dirs,
    prepare_log_dirs,
    proposed_cluster_id,
)
from ottla.broker.node.membership import drain, keep_saved, stay_registered
from ottla.broker.node.metadata_store import StoreFactory, stores_of
from ottla.broker.node.offline_logs import OfflineLogReports, offline_partitions
from ottla.broker.node.parts import (
    Parts,
    connect_brokers,
    load_replicas,
    make_checkpointer,
    make_parts,
)
from ottla.broker.node.possible_losses import PossibleLosses
from ottla.broker.node.quota_enforcement import QuotaEnforcement
from ottla.broker.node.registration import BrokerRegistration
from ottla.broker.node.replication import start_replication
from ottla.broker.node.stall_guard import StallGuard
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.served_apis import SERVED
from ottla.broker.requests.services import Identity
from ottla.broker.tasks import Tasks
from ottla.metadata.applied_offset import AppliedOffset
from ottla.metadata.local_controller import LocalController
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import MetadataStore
from ottla.metadata.values import Endpoint
from ottla.metrics.node import NodeMetrics
from ottla.replication.local_broker import LocalBroker
from ottla.replication.log_ends import log_end
from ottla.replication.replicas import Replicas
from ottla.seams.net import Listener
from ottla.settings.broker import BrokerSettings
from ottla.settings.listener_protocols import protocol_of
from ottla.settings.table import node
from ottla.storage.directory.directories import LogDirectories


class Node:
    """A broker. `fault` is resolved if it cannot continue."""

    def __init__(
        self,
        settings: BrokerSettings,
        seams: Seams,
        logger: Logger,
        *,
        stores: StoreFactory | None = None,
        connections_max: int = sys.maxsize,
        on_owned: Callable[[], None] = lambda: None,
    ) -> None:
        """`stores` is by default the kind that the settings ask for.

        `connections_max` is the limit of the process, which the settings may exceed.

        `on_owned` is called when the log directories are locked, before the listeners open.
        """
        self._stores = stores or stores_of(settings, logger)
        self._connections_max = connections_max
        self._on_owned = on_owned
        self.settings = settings
        self.metrics = NodeMetrics()
        self.health = Health()
        self.fault: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._logger = logger
        self._tasks = Tasks(self._on_fault)
        self._context = NodeContext(
            settings=settings,
            dynamic_settings=DynamicSettings(settings),
            seams=seams,
            logger=logger,
            metrics=self.metrics,
            health=self.health,
            tasks=self._tasks,
        )
        self._listeners: list[Listener] = []
        self._store: MetadataStore | None = None
        self._publisher: Publisher | None = None
        self._replicas: Replicas | None = None
        self._registration: BrokerRegistration | None = None
        self._staying: asyncio.Task[None] | None = None
        self._prepared: PreparedDirectories | None = None
        self._directories: LogDirectories | None = None
        self._connections: Connections | None = None
        self._inter_broker: InterBroker | None = None
        self._http_server: HttpServer | None = None
        self._applied: AppliedOffset | None = None
        self.cluster_id = ""

    async def start(self) -> Endpoints:
        """Serves clients on return. Undoes the completed steps if it fails."""
        self.health.ready.fail("start", "recovering")
        try:
            endpoints = await self._start_unless_fault()
        except BaseException:
            await self.stop()
            raise
        self.health.ready.clear("start")
        # The objects of the start stay: full collections need not visit them again.
        gc.collect()
        gc.freeze()
        self._logger.info("started", kafka=str(endpoints.kafka), metrics=str(endpoints.metrics))
        return endpoints

    async def stop(self, *, hands_over: bool = True) -> None:
        """Hands over leaderships, stops serving, then flushes and closes everything. Idempotent.

        Without `hands_over` the others are not told, as if the broker had died.
        """
        self.health.ready.fail("stop", "stopping")
        if hands_over:
            await self._drain()
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        if self._connections:
            self._connections.end_all("stopping")
        if self._inter_broker:
            self._inter_broker.close()
        if self._http_server:
            await self._http_server.close()
        await self._tasks.close()
        try:
            self._close_directories()
        finally:
            if self._store:
                await self._store.close()
            self._store = self._publisher = self._replicas = None

    def _close_directories(self) -> None:
        """Flushes and closes all logs, and stores whether that was clean. OSError if it cannot."""
        directories, self._directories = self._directories, None
        if self._prepared:
            self._prepared.release()
        if directories is None:
            return
        registration = self._registration
        broker_epoch = NO_BROKER_EPOCH if registration is None else registration.broker_epoch
        faults = directories.close(broker_epoch=broker_epoch)
        for path, error in faults.items():
            self._logger.error("not closed cleanly", path=path, error=str(error))
            if self._store:
                self._store.log_directory_failed(path, error)
        if not faults and registration is not None and registration.is_serving:
            registration.save(clean=True)

    async def _drain(self) -> None:
        """Hands over leaderships, unless the broker has failed or never served."""
        store, publisher, replicas = self._store, self._publisher, self._replicas
        if store is None or publisher is None or replicas is None or self.fault.done():
            return
        if self._registration is not None and self._registration.is_serving:
            await drain(self.settings[node.NODE_ID], store, publisher, replicas, self._logger)

    async def _start_unless_fault(self) -> Endpoints:
        """Raises the error of a failed background task, for which the start may wait in vain."""
        starting = asyncio.get_running_loop().create_task(self._start(), name="starting")
        try:
            await asyncio.wait((starting, self.fault), return_when=asyncio.FIRST_COMPLETED)
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        if starting.cancelled():
            raise self.fault.result()
        return starting.result()

    async def _start(self) -> Endpoints:
        seams = self._context.seams
        if self._stores.is_shared:
            require_reachable(self.settings)
        log_dirs = list(dict.fromkeys(path.rstrip("/") for path in self.settings[node.LOG_DIRS]))
        home = self._stores.home(seams.files, log_dirs)
        if self._stores.is_shared:
            # First: a start that fails here has changed nothing on disk.
            self._store = await self._stores.open(seams, home)
        node_id = self.settings[node.NODE_ID]
        prepared = prepare_log_dirs(seams.files, log_dirs, node_id, home)
        self._prepared = prepared
        if self._store is None:
            self._store = await self._stores.open(seams, home)
        store = self._store
        self._on_owned()
        publisher = self._publisher = await self._follow_metadata(store, prepared.home)
        self.cluster_id = await store.cluster_id(proposed_cluster_id(self._context, prepared.home))
        directories = self._directories = open_log_dirs(
            self._context, prepared, publisher, cluster_id=self.cluster_id
        )
        registration = self._registration = self._new_registration(prepared.home)
        me = LocalBroker(node_id, registration.incarnation_id)
        replicas = self._replicas = load_replicas(self._context, directories, me, publisher)
        await self._bind()
        controller = await self._register(registration, store, publisher, replicas)
        return await self._serve(
            prepared.home, store, publisher, controller, replicas, registration
        )

    def _new_registration(self, home: str) -> BrokerRegistration:
        seams = self._context.seams
        return BrokerRegistration(
            files=seams.files,
            clock=seams.clock,
            entropy=seams.entropy,
            home=home,
            broker_id=self.settings[node.NODE_ID],
            rack=self.settings[node.BROKER_RACK] or None,
        )

    async def _register(
        self,
        registration: BrokerRegistration,
        store: MetadataStore,
        publisher: Publisher,
        replicas: Replicas,
    ) -> LocalController:
        """Registers this broker. It is up on return, and may lead partitions."""
        damaged, offline = damaged_partitions(replicas), offline_partitions(replicas)
        listeners = self.settings[node.LISTENERS]
        ports = {
            each.name: bound.port for each, bound in zip(listeners, self._listeners, strict=True)
        }
        endpoints = registered_endpoints(self.settings, ports)
        await registration.register(store, endpoints, damaged, offline)
        # The damage is stored with the incarnation.
        for directory in replicas.directories.directories:
            directory.damage_recorded()
        # Also while it waits: there may be no controller for longer than a session lasts.
        self._staying = self._tasks.spawn(
            stay_registered(registration, store, replicas, self._logger, self.metrics.broker),
            "registration",
        )
        controller = self._start_controller(publisher, store, replicas, registration)
        await publisher.until(registration.is_up)
        await controller.until_settled()
        registration.save(clean=False)
        if self._applied is not None:
            # Before it serves: it may get logs of topics that the backup of a store does not know.
            self._applied.save(publisher.image.offset)
            saving = keep_saved(
                self._applied, lambda: publisher.image.offset, self._context.seams.threads
            )
            self._tasks.spawn(saving, "applied metadata offset")
        return controller

    async def _follow_metadata(self, store: MetadataStore, home: str) -> Publisher:
        """Loads the image, and starts the task that keeps it up to date."""
        dynamic_settings = self._context.dynamic_settings
        elections = ElectionMeter(
            self.metrics.leader_elections, self._context.seams.clock.steady_ns
        )
        publisher = Publisher(store, self._on_snapshot, elections)
        await publisher.load()
        if self._stores.is_shared:
            self._applied = AppliedOffset(self._context.seams.files, home)
            self._applied.check(publisher.image.offset)
            self._applied.save(publisher.image.offset)
        dynamic_settings.load(publisher.image)
        publisher.subscribe(dynamic_settings.follow)
        losses = PossibleLosses(
            self.metrics, self.health.warnings, self._logger, lambda: publisher.is_controller
        )
        losses.load(publisher.image)
        publisher.subscribe(losses.follow)
        self._tasks.spawn(publisher.follow(), "metadata")
        return publisher

    def _start_controller(
        self,
        publisher: Publisher,
        store: MetadataStore,
        replicas: Replicas,
        registration: BrokerRegistration,
    ) -> LocalController:
        """Starts the task that makes this broker the controller if there is none."""
        dynamic_settings, logger = self._context.dynamic_settings, self._logger
        ask_log_ends = LogEndQueries(
            node_id=self.settings[node.NODE_ID],
            broker_epoch=lambda: registration.broker_epoch,
            own_log_end=lambda where: log_end(replicas, publisher.image, where),
            channels=lambda: self._inter_broker.brokers if self._inter_broker else None,
        )
        controller = LocalController(
            publisher=publisher,
            store=store,
            broker_id=self.settings[node.NODE_ID],
            current_settings=lambda: dynamic_settings.current,
            is_shared=self._stores.is_shared,
            on_elected=lambda epoch: logger.debug("controller", epoch=epoch),
            ask_log_ends=ask_log_ends,
        )
        self._tasks.spawn(controller.run(), "controller")
        return controller

    async def _serve(
        self,
        home: str,
        store: MetadataStore,
        publisher: Publisher,
        controller: LocalController,
        replicas: Replicas,
        registration: BrokerRegistration,
    ) -> Endpoints:
        context = self._context
        identity = Identity(
            node_id=self.settings[node.NODE_ID],
            cluster_id=self.cluster_id,
            served_apis=SERVED,
            advertised=self._advertised(),
            inter_broker_listener=listener_between_brokers(
                self.settings, has_peers=self._stores.is_shared
            ),
            has_peers=self._stores.is_shared,
        )
        self._inter_broker = connect_brokers(
            context,
            identity=identity,
            publisher=publisher,
            controller=controller,
            broker_epoch=lambda: registration.broker_epoch,
        )
        parts = make_parts(
            context,
            identity=identity,
            publisher=publisher,
            controller=controller,
            replicas=replicas,
            checkpointer=make_checkpointer(context, replicas.directories),
            home=home,
            store=store,
            on_offline=self._on_offline,
            unclean_elections=controller.unclean_elections,
            inter_broker=self._inter_broker,
        )
        self.metrics.disk_free_bytes = parts.tick.disks.free_bytes
        self._connections = parts.connections
        self._connections.descriptors_max = self._connections_max
        if self._stores.is_shared:
            self._guard_against_stalls(replicas, registration)
        context.dynamic_settings.subscribe(parts.apply_settings)
        start_background(context, parts)
        if self._inter_broker is not None:
            reports = OfflineLogReports(
                replicas,
                self._inter_broker.own_requests,
                lambda: registration.broker_epoch,
                offline_partitions(replicas),
            )
            self._tasks.spawn(reports.run(), "offline logs")
            start_replication(
                context,
                me=replicas.me,
                listener=identity.inter_broker_listener or "",
                publisher=publisher,
                replicas=replicas,
                checkpointer=parts.services.partitions.checkpointer,
                flusher=parts.services.partitions.flusher,
                inter_broker=self._inter_broker,
                follower_sessions=parts.services.partitions.follower_sessions,
                throttle=parts.services.partitions.throttles.follower,
            )
        dispatch = Dispatch(parts.services, SERVED, self._on_fault)
        clock = context.seams.clock
        quotas = QuotaEnforcement(parts.connections, dispatch, clock.steady_ns, self.metrics)
        quotas.load(publisher.image)
        publisher.subscribe(quotas.follow)
        return await self._accept(parts, dispatch)

    def _guard_against_stalls(self, replicas: Replicas, registration: BrokerRegistration) -> None:
        """After a stall for longer than its session lasts, the broker leads nothing."""
        store, connections = self._store, self._connections
        if store is None or connections is None:
            raise RuntimeError("not started")

        def on_stall(stalled_ms: int) -> None:
            self._logger.warning("event loop stood still", ms=stalled_ms)
            replicas.lose_session(registration.broker_epoch)
            if self._staying is not None:
                self._staying.cancel()
            staying = stay_registered(
                registration, store, replicas, self._logger, self.metrics.broker, is_lost=True
            )
            self._staying = self._tasks.spawn(staying, "registration")

        guard = StallGuard(
            self._context.seams.clock.steady_ns, lambda: store.session_timeout_ms, on_stall
        )
        connections.now_ns = guard.now_ns
        self._tasks.spawn(guard.run(), "stalls")

    async def _bind(self) -> None:
        """Binds the ports, so that they can be registered. They refuse connections until then."""
        for listener in self.settings[node.LISTENERS]:
            self._listeners.append(await self._context.seams.net.bind(listener.host, listener.port))

    async def _accept(self, parts: Parts, dispatch: Dispatch) -> Endpoints:
        listeners = self.settings[node.LISTENERS]
        for listener, bound in zip(listeners, self._listeners, strict=True):
            protocol = protocol_of(self.settings, listener.name)
            await parts.connections.accept(bound, dispatch, listener.name, protocol)
        server = HttpServer(self._context.seams.net, self.health, self.metrics.render)
        host = self.settings[node.METRICS_HOST]
        port = await server.start(host, self.settings[node.METRICS_PORT])
        self._http_server = server
        kafka = Address(listeners[0].host, self._listeners[0].port)
        return Endpoints(kafka, Address(host, port))

    def _advertised(self) -> tuple[Endpoint, ...] | None:
        listeners = self.settings[node.ADVERTISED_LISTENERS]
        if listeners is None:
            return None
        return tuple(
            Endpoint(each.name, each.host, each.port, protocol_of(self.settings, each.name))
            for each in listeners
        )

    # Callbacks

    def _on_snapshot(self, error: OSError | None) -> None:
        """Reports a failed metadata snapshot as a warning. The node continues without it."""
        part = "metadata snapshot"
        if error is None:
            self.health.warnings.clear(part)
        else:
            self.health.warnings.fail(part, str(error))
            self._logger.warning("metadata snapshot failed", error=str(error))

    def _on_offline(self, path: str, error: Exception) -> None:
        """A log directory went offline."""
        self._logger.error("log directory offline", path=path, error=str(error))
        if self._store is not None:
            self._store.log_directory_failed(path, error)

    def _on_fault(self, error: Exception) -> None:
        """Reports a bug. The process that runs the node then stops it."""
        if not self.fault.done():
            self.fault.set_result(error)
