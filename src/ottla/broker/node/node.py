"""Starts and stops a broker. This module composes, and decides nothing.

`start` runs these steps in order: load the metadata; register the broker's new incarnation, which
the controller (this broker if there is no other) brings up; recover the logs; lead partitions; open
the listeners.
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
from ottla.broker.inter_broker.listener import listener_between_brokers, with_inter_broker_endpoint
from ottla.broker.net.connections import Connections
from ottla.broker.node.background import start_background
from ottla.broker.node.context import NodeContext, Seams
from ottla.broker.node.dynamic_settings import DynamicSettings
from ottla.broker.node.endpoints import Endpoints
from ottla.broker.node.log_dirs import (
    PreparedDirectories,
    find_cluster_id,
    open_log_dirs,
    prepare_log_dirs,
)
from ottla.broker.node.metadata_store import EMBEDDED, StoreFactory
from ottla.broker.node.parts import (
    Parts,
    connect_brokers,
    load_replicas,
    make_checkpointer,
    make_parts,
)
from ottla.broker.node.quota_enforcement import QuotaEnforcement
from ottla.broker.node.registration import BrokerRegistration
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.served_apis import SERVED
from ottla.broker.requests.services import Identity
from ottla.broker.tasks import Tasks
from ottla.metadata.controller.broker_restart import is_started
from ottla.metadata.controller_interface import Controller
from ottla.metadata.local_controller import LocalController
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import MetadataStore, RegisteredBroker
from ottla.metadata.values import Endpoint
from ottla.metrics.node import NodeMetrics
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
        stores: StoreFactory = EMBEDDED,
        connections_max: int = sys.maxsize,
        on_owned: Callable[[], None] = lambda: None,
    ) -> None:
        """`connections_max` is the limit of the process, which the settings may exceed.

        `on_owned` is called when the log directories are locked, before the listeners open.
        """
        self._stores = stores
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
        self._registration: BrokerRegistration | None = None
        self._directories: LogDirectories | None = None
        self._connections: Connections | None = None
        self._inter_broker: InterBroker | None = None
        self._http_server: HttpServer | None = None
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

    async def stop(self) -> None:
        """Stops serving, then flushes and closes everything. Idempotent."""
        self.health.ready.fail("stop", "stopping")
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
        if self._directories and self._registration:
            faults = self._directories.close(broker_epoch=self._registration.broker_epoch)
            for path, error in faults.items():
                self._logger.error("not closed cleanly", path=path, error=str(error))
                if self._store:
                    self._store.log_directory_failed(path, error)
            if not faults:
                self._registration.save(clean=True)
            self._directories = None
        if self._store:
            await self._store.close()
            self._store = None

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
        log_dirs = [path.rstrip("/") for path in self.settings[node.LOG_DIRS]]
        prepared = prepare_log_dirs(
            seams.files, list(dict.fromkeys(log_dirs)), self.settings[node.NODE_ID], self._stores
        )
        store = self._store = await self._stores.open(seams, prepared.home)
        self._on_owned()
        publisher = await self._follow_metadata(store)
        self._registration = BrokerRegistration(seams.files, prepared.home, seams.clock)
        member = await self._registration.register(
            store,
            self.settings[node.NODE_ID],
            with_inter_broker_endpoint(
                self.settings, self._advertised() or (), has_peers=self._has_peers
            ),
        )
        # After the new epoch is stored: as the controller, this broker transfers the memberships of
        # the last incarnation to it.
        controller = self._start_controller(publisher, store)
        await publisher.until(lambda image: is_started(image, member))
        await controller.until_settled()
        return await self._serve(prepared, publisher, controller, member, self._registration)

    async def _follow_metadata(self, store: MetadataStore) -> Publisher:
        """Loads the image, and starts the task that keeps it up to date."""
        dynamic_settings = self._context.dynamic_settings
        publisher = Publisher(store, self._on_snapshot)
        await publisher.load()
        dynamic_settings.load(publisher.image)
        publisher.subscribe(dynamic_settings.follow)
        self._tasks.spawn(publisher.follow(), "metadata")
        return publisher

    def _start_controller(self, publisher: Publisher, store: MetadataStore) -> LocalController:
        """Starts the task that makes this broker the controller if there is none."""
        dynamic_settings, logger = self._context.dynamic_settings, self._logger
        controller = LocalController(
            publisher=publisher,
            store=store,
            broker_id=self.settings[node.NODE_ID],
            current_settings=lambda: dynamic_settings.current,
            on_elected=lambda epoch: logger.debug("controller", epoch=epoch),
            on_possible_loss=lambda partition: logger.warning(
                "possible data loss", partition=str(partition)
            ),
        )
        self._tasks.spawn(controller.run(), "controller")
        return controller

    async def _serve(
        self,
        prepared: PreparedDirectories,
        publisher: Publisher,
        controller: Controller,
        member: RegisteredBroker,
        registration: BrokerRegistration,
    ) -> Endpoints:
        context = self._context
        self.cluster_id = find_cluster_id(context, prepared.home)
        directories = self._directories = open_log_dirs(
            context,
            prepared,
            publisher,
            cluster_id=self.cluster_id,
            broker_epoch=member.broker_epoch,
        )
        replicas = load_replicas(context, directories, member.incarnation, publisher)
        checkpointer = make_checkpointer(context, directories)
        registration.save(clean=False)
        identity = Identity(
            node_id=self.settings[node.NODE_ID],
            cluster_id=self.cluster_id,
            served_apis=SERVED,
            advertised=self._advertised(),
            inter_broker_listener=listener_between_brokers(
                self.settings, has_peers=self._has_peers
            ),
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
            checkpointer=checkpointer,
            home=prepared.home,
            on_offline=self._on_offline,
            inter_broker=self._inter_broker,
        )
        self.metrics.disk_free_bytes = parts.tick.disks.free_bytes
        self._connections = parts.connections
        self._connections.descriptors_max = self._connections_max
        context.dynamic_settings.subscribe(parts.apply_settings)
        start_background(context, parts)
        dispatch = Dispatch(parts.services, SERVED, self._on_fault)
        clock = context.seams.clock
        quotas = QuotaEnforcement(parts.connections, dispatch, clock.steady_ns, self.metrics)
        quotas.load(publisher.image)
        publisher.subscribe(quotas.follow)
        return await self._listen(parts, dispatch)

    async def _listen(self, parts: Parts, dispatch: Dispatch) -> Endpoints:
        bound = []
        for listener in self.settings[node.LISTENERS]:
            opened = await parts.connections.listen(
                dispatch,
                listener.name,
                protocol_of(self.settings, listener.name),
                listener.host,
                listener.port,
            )
            self._listeners.append(opened)
            bound.append(Address(listener.host, opened.port))
        server = HttpServer(self._context.seams.net, self.health, self.metrics.render)
        host = self.settings[node.METRICS_HOST]
        port = await server.start(host, self.settings[node.METRICS_PORT])
        self._http_server = server
        return Endpoints(bound[0], Address(host, port))

    @property
    def _has_peers(self) -> bool:
        """Whether there may be other brokers: a metadata store of its own has no room for them."""
        return self._stores is not EMBEDDED

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
