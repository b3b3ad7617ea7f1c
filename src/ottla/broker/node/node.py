"""One broker from its start to its stop: this module composes and decides nothing.

What must be there before a client is answered happens in `start`, in this order: metadata, the
broker's new incarnation, which a controller brings up (this broker if there is no other), logs
recovered, partitions led, and only then the listeners.
"""

import asyncio
import gc
import sys
from collections.abc import Callable

from ottla.address import Address
from ottla.broker.event_log import Logger
from ottla.broker.http.health import Health
from ottla.broker.http.server import HttpServer
from ottla.broker.net.listener import Connections
from ottla.broker.node.background import start_background
from ottla.broker.node.context import NodeContext, Seams
from ottla.broker.node.dynamic_settings import SettingsInForce
from ottla.broker.node.endpoints import Endpoints
from ottla.broker.node.metadata_store import EMBEDDED, StoreFactory
from ottla.broker.node.opening import (
    PreparedDirectories,
    find_cluster_id,
    open_log_dirs,
    prepare_log_dirs,
)
from ottla.broker.node.parts import Parts, load_replicas, make_checkpointer, make_parts
from ottla.broker.node.registration import BrokerLife
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
    """A broker from `start` to `stop`. `fault` is resolved if it cannot go on by itself."""

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
        """`connections_max` is what the process can have, whatever the settings allow.

        `on_owned` is called once the data is locked, before any client is answered.
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
            in_force=SettingsInForce(settings),
            seams=seams,
            logger=logger,
            metrics=self.metrics,
            health=self.health,
            tasks=self._tasks,
        )
        self._listeners: list[Listener] = []
        self._store: MetadataStore | None = None
        self._life: BrokerLife | None = None
        self._directories: LogDirectories | None = None
        self._connections: Connections | None = None
        self._http_server: HttpServer | None = None
        self.cluster_id = ""

    async def start(self) -> Endpoints:
        """Serves on return. What was begun is undone if it fails."""
        self.health.ready.fail("start", "recovering")
        try:
            endpoints = await self._start_unless_fault()
        except BaseException:
            await self.stop()
            raise
        self.health.ready.clear("start")
        # What exists now stays: a full collection need not look at it again.
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
        if self._http_server:
            await self._http_server.close()
        await self._tasks.close()
        if self._directories and self._life:
            faults = self._directories.close(broker_epoch=self._life.broker_epoch)
            for path, error in faults.items():
                self._logger.error("not closed cleanly", path=path, error=str(error))
                if self._store:
                    self._store.log_directory_failed(path, error)
            if not faults:
                self._life.save(clean=True)
            self._directories = None
        if self._store:
            await self._store.close()
            self._store = None

    async def _start_unless_fault(self) -> Endpoints:
        """Raises what a task of the background failed by: the start may wait for it in vain."""
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
        self._life = BrokerLife(seams.files, prepared.home, seams.clock)
        member = await self._life.register(
            store, self.settings[node.NODE_ID], self._advertised() or ()
        )
        # After the new epoch was written down: as the controller, this broker lets the last life's
        # memberships carry over to it.
        controller = self._campaign(publisher, store)
        await publisher.until(lambda image: is_started(image, member))
        await controller.until_settled()
        return await self._serve(prepared, publisher, controller, member, self._life)

    async def _follow_metadata(self, store: MetadataStore) -> Publisher:
        """The image as it is now, which is kept up to date from then on."""
        in_force = self._context.in_force
        publisher = Publisher(store, self._on_snapshot)
        await publisher.load()
        in_force.load(publisher.image)
        publisher.subscribe(in_force.follow)
        self._tasks.spawn(publisher.follow(), "metadata")
        return publisher

    def _campaign(self, publisher: Publisher, store: MetadataStore) -> LocalController:
        """A task that makes this broker the controller whenever there is none."""
        in_force, logger = self._context.in_force, self._logger
        controller = LocalController(
            publisher=publisher,
            store=store,
            broker_id=self.settings[node.NODE_ID],
            current_settings=lambda: in_force.now,
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
        life: BrokerLife,
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
        life.save(clean=False)
        parts = make_parts(
            context,
            identity=Identity(
                node_id=self.settings[node.NODE_ID],
                cluster_id=self.cluster_id,
                served_apis=SERVED,
                advertised=self._advertised(),
            ),
            publisher=publisher,
            controller=controller,
            replicas=replicas,
            checkpointer=checkpointer,
            home=prepared.home,
            on_offline=self._on_offline,
        )
        self.metrics.disk_free_bytes = parts.tick.free_bytes
        self._connections = parts.connections
        self._connections.possible_max = self._connections_max
        context.in_force.tell(parts.obey)
        start_background(context, parts)
        return await self._listen(parts)

    async def _listen(self, parts: Parts) -> Endpoints:
        dispatch = Dispatch(parts.services, SERVED, self._on_fault)
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

    def _advertised(self) -> tuple[Endpoint, ...] | None:
        listeners = self.settings[node.ADVERTISED_LISTENERS]
        if listeners is None:
            return None
        return tuple(
            Endpoint(each.name, each.host, each.port, protocol_of(self.settings, each.name))
            for each in listeners
        )

    # What happens on the way

    def _on_snapshot(self, error: OSError | None) -> None:
        """The node goes on without a new snapshot of its metadata: somebody should make room."""
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
        """Our own fault: whoever runs the node ends it."""
        if not self.fault.done():
            self.fault.set_result(error)
