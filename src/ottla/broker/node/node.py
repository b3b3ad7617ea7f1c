"""One broker, put together: this module composes and decides nothing.

What must be there before a client is answered happens in `start`, in this order: metadata, the
broker's new incarnation, logs recovered, partitions led, and only then the listeners.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.event_log import Logger
from ottla.broker.http.health import Health
from ottla.broker.http.server import HttpServer
from ottla.broker.http.storage_health import StorageHealth
from ottla.broker.net.listener import ConnectionLimits, Connections
from ottla.broker.node.dynamic_settings import Obey, SettingsInForce
from ottla.broker.node.gauges import Gauges
from ottla.broker.node.group_coordinator import GroupWorld, group_shards
from ottla.broker.node.group_gauges import watch_groups
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.broker.requests.record_work import RecordWork, TurnBudget
from ottla.broker.requests.served_apis import SERVED
from ottla.broker.requests.services import Services
from ottla.broker.tasks import Tasks
from ottla.metadata.configs import topic_configs
from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.min_isr import agree_on_min_isr
from ottla.metadata.embedded.home import find_home
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.incarnation import (
    SavedIncarnation,
    inherited_epochs,
    read_incarnation,
    with_unserved,
    write_incarnation,
)
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import Member, Registration
from ottla.metadata.values import Endpoint, Incarnation, SecurityProtocol
from ottla.metrics.node import NodeMetrics
from ottla.protocol.primitives import Uuid
from ottla.replication.append.appender import Appender
from ottla.replication.append.early_writeback import EarlyWriteback
from ottla.replication.append.flusher import Flusher
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.fetch.sessions import FetchSessions
from ottla.replication.housekeeping.checkpointer import Checkpointer, DeletedPartitions
from ottla.replication.housekeeping.cleanable_part import CleanerRules
from ottla.replication.housekeeping.log_cleaner import LogCleaner
from ottla.replication.housekeeping.tick import Tick, TickRules
from ottla.replication.replica import TopicRules
from ottla.replication.replicas import Replicas
from ottla.replication.rules import topic_rules
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy
from ottla.seams.files import Files
from ottla.seams.net import Listener, Net
from ottla.seams.threads import Threads
from ottla.seams.workers import Workers
from ottla.settings.broker import BrokerSettings
from ottla.settings.table import network, node, records, retention, segments
from ottla.storage.directory.checkpoint_files import MetaProperties
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import (
    check_directories,
    find_placements,
    make_directory,
    open_directory,
    prepare_directories,
)

IDLE_CHECK_S = 1.0
STALL_CHECK_S = 0.05


@dataclass(frozen=True, slots=True)
class Seams:
    """What a node may touch of the world."""

    clock: Clock
    entropy: Entropy
    files: Files
    net: Net
    threads: Threads
    workers: Workers


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Endpoints(NamedTuple):
    """Where a node that has started can be reached."""

    kafka: Address
    metrics: Address


class Node:
    """A broker from `start` to `stop`. `fault` is resolved if it cannot go on by itself."""

    def __init__(
        self,
        settings: BrokerSettings,
        seams: Seams,
        logger: Logger,
        *,
        connections_max: int = sys.maxsize,
        on_owned: Callable[[], None] = lambda: None,
    ) -> None:
        """`connections_max` is what the process can have, whatever the settings allow.

        `on_owned` is called once the data is locked, before any client is answered.
        """
        self._connections_max = connections_max
        self._on_owned = on_owned
        # What it was started with; what clients may change is read from those in force.
        self.settings = settings
        self._in_force = SettingsInForce(settings)
        self.metrics = NodeMetrics()
        self.health = Health()
        self.fault: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._seams = seams
        self._logger = logger
        self._tasks = Tasks(self._on_fault)
        self._listeners: list[Listener] = []
        paths = (path.rstrip("/") for path in settings[node.LOG_DIRS])
        self._log_dirs = list(dict.fromkeys(paths))
        self._store: EmbeddedStore | None = None
        self._directories: LogDirectories | None = None
        self._connections: Connections | None = None
        self._http_server: HttpServer | None = None
        self._broker_epoch = -1
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
        if self._directories:
            faults = self._directories.close(broker_epoch=self._broker_epoch)
            for path, error in faults.items():
                self._logger.error("not closed cleanly", path=path, error=str(error))
                if path == self._log_dirs[0] and self._store:
                    self._store.take_offline(error)
            if not faults:
                self._save_incarnation(clean=True)
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
        files, clock = self._seams.files, self._seams.clock
        # From here on the one with the metadata is the first.
        home = find_home(files, self._log_dirs)
        self._log_dirs = [home, *(path for path in self._log_dirs if path != home)]
        make_directory(files, home)
        placements = find_placements(files, self._log_dirs)
        failed = prepare_directories(files, self._log_dirs, placements)
        usable = [path for path in self._log_dirs if path not in failed]
        check_directories(files, usable, self.settings[node.NODE_ID])
        self._store = EmbeddedStore.open(files, self._log_dirs[0], clock, self._seams.threads)
        self._on_owned()
        publisher = Publisher(self._store, self._on_snapshot)
        await publisher.load()
        self._in_force.load(publisher.image)
        publisher.subscribe(self._in_force.follow)
        self._tasks.spawn(publisher.follow(), "metadata")
        me = await self._register(self._store, publisher)
        await agree_on_min_isr(publisher, publisher.image.topic_names, lambda: self._in_force.now)
        opened = self._open_directories(usable, failed, publisher)
        self._directories = LogDirectories(opened, failed, placements)
        replicas = Replicas(
            self._directories,
            me,
            self._rules_of,
            self._seams.entropy,
            EarlyWriteback(self._seams.threads, self._tasks.spawn).start,
        )
        for stray in replicas.load(publisher.image):
            self._logger.warning("stray partition set aside", partition=str(stray))
        for replica in replicas:
            if replica.is_unusable and not self._directories.is_unusable(replica.name):
                why = "its log directory is missing"
                self._logger.error("log offline", partition=str(replica.name), error=why)
        checkpointer = Checkpointer(self._seams.threads)
        self._directories.forget = DeletedPartitions(checkpointer, self._tasks.spawn).forget
        publisher.subscribe(replicas.follow)
        self._save_incarnation(clean=False)
        return await self._serve(publisher, replicas, checkpointer)

    async def _register(self, store: EmbeddedStore, publisher: Publisher) -> Incarnation:
        """This life's epoch; what the last one led is led again by this one."""
        previous = read_incarnation(self._seams.files, self._log_dirs[0])
        inherits = inherited_epochs(previous, self._seams.clock.boot_id())
        registration = Registration(
            broker_id=self.settings[node.NODE_ID],
            endpoints=self._advertised() or (),
            rack=None,
            host="localhost",
            inherits=inherits[0] if inherits else None,
            unserved=inherits[1:],
        )
        member = Member(registration, await store.register(registration))
        self._broker_epoch = member.broker_epoch
        if previous is not None and inherits:
            saved = with_unserved(previous, member.broker_epoch)
            write_incarnation(self._seams.files, self._log_dirs[0], saved)
        await publisher.lead()
        for partition in await topic_changes.start_broker(publisher, member):
            self._logger.warning("possible data loss", partition=str(partition))
        return member.incarnation

    def _open_directories(
        self, paths: Sequence[str], failed: dict[str, Exception], publisher: Publisher
    ) -> list[LogDirectory]:
        """Every log directory that can be used; recovery happens here. The others are added."""
        opened: list[LogDirectory] = []
        meta = MetaProperties.read(self._seams.files, self._log_dirs[0])
        self.cluster_id = meta.cluster_id if meta else str(self._new_id())
        for path in paths:
            try:
                opened.append(self._open_directory(path, publisher))
            except OSError as error:
                failed[path] = error
            except BaseException:
                for directory in opened:
                    directory.close(broker_epoch=self._broker_epoch)
                raise
        for path, fault in failed.items():
            self._logger.error("log directory offline", path=path, error=str(fault))
        for directory in opened:
            for partition, reason in directory.unusable.items():
                self._logger.error("log offline", partition=str(partition), error=str(reason))
            for partition, recovery in directory.recoveries.items():
                self.metrics.broker.recovered_bytes += recovery.scanned_bytes
                if recovery.cut_because:
                    self._logger.warning("log cut", partition=str(partition), **recovery._asdict())
        return opened

    def _open_directory(self, path: str, publisher: Publisher) -> LogDirectory:
        return open_directory(
            self._seams.files,
            path,
            cluster_id=self.cluster_id,
            node_id=self.settings[node.NODE_ID],
            directory_id=self._new_id(),
            config_of=lambda partition: self._rules_of(publisher.image, partition.topic).log,
            clock=self._seams.clock,
            open_files_max=self.settings[segments.FILES_OPEN_MAX],
        )

    async def _serve(
        self, publisher: Publisher, replicas: Replicas, checkpointer: Checkpointer
    ) -> Endpoints:
        seams, settings = self._seams, self.settings
        turn_budget = TurnBudget()
        appender = Appender(replicas.create_log, replicas.directories, turn_budget)
        flusher = Flusher(seams.threads)
        shards = group_shards(
            GroupWorld(lambda: self._in_force.now, lambda: publisher.image, self.metrics.groups),
            replicas,
            appender,
            flusher,
            seams.clock,
            seams.threads,
            self._tasks,
            self._logger,
        )
        publisher.subscribe(shards.follow)
        shards.start(publisher.image)
        self._tasks.spawn(shards.run(), "groups")
        services = Services(
            node_id=settings[node.NODE_ID],
            cluster_id=self.cluster_id,
            settings=self._in_force.now,
            clock=seams.clock,
            entropy=seams.entropy,
            publisher=publisher,
            replicas=replicas,
            appender=appender,
            flusher=flusher,
            checkpointer=checkpointer,
            cold_reads=ColdReads(seams.threads),
            fetch_sessions=FetchSessions(
                settings[network.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
                seams.clock,
                seams.entropy,
            ),
            producer_ids=ProducerIdBlocks(publisher),
            shards=shards,
            metrics=self.metrics,
            logger=self._logger,
            turn_budget=turn_budget,
            record_work=RecordWork(
                seams.threads,
                self._tasks.spawn,
                lambda: self._in_force.now[network.QUEUED_MAX_REQUEST_BYTES],
            ),
            tasks=self._tasks,
            served=SERVED,
            advertised=self._advertised(),
        )
        tick = self._start_tick(replicas, flusher, checkpointer)
        cleaner = self._cleaner(replicas, tick, flusher)
        self._tasks.spawn(cleaner.run(), "cleaner")
        limits = _limits(self._in_force.now)
        self._connections = Connections(
            seams.net, seams.clock, seams.threads, limits, self.metrics, self._logger
        )
        self._connections.possible_max = self._connections_max
        self._in_force.tell(_obeyed_by(services, tick, cleaner, self._connections))
        self._tasks.spawn(self._watch_connections(self._connections), "connections")
        self._tasks.spawn(self._watch_loop(), "loop")
        storage_health = StorageHealth(self.health, replicas.directories, self._log_dirs[0])
        gauges = Gauges(self.metrics, replicas, publisher, storage_health)
        self._tasks.spawn(gauges.run(), "gauges")
        self._tasks.spawn(watch_groups(shards, self.metrics.groups, seams.clock), "group gauges")
        return await self._listen(Dispatch(services, SERVED, self._on_fault), self._connections)

    def _start_tick(self, replicas: Replicas, flusher: Flusher, checkpointer: Checkpointer) -> Tick:
        tick = Tick(
            replicas=replicas,
            flusher=flusher,
            checkpointer=checkpointer,
            threads=self._seams.threads,
            clock=self._seams.clock,
            rules=_tick_rules(self._in_force.now),
            problem=self._problem,
            solved=self._solved,
            offline=self._on_offline,
        )
        self.metrics.disk_free_bytes = tick.disks.free_bytes
        self._tasks.spawn(tick.disks.run(), "disks")
        self._tasks.spawn(tick.run(), "tick")
        return tick

    def _cleaner(self, replicas: Replicas, tick: Tick, flusher: Flusher) -> LogCleaner:
        seams = self._seams
        return LogCleaner(
            replicas=replicas,
            workers=seams.workers,
            flusher=flusher,
            threads=seams.threads,
            files=seams.files,
            clock=seams.clock,
            rules=_cleaner_rules(self._in_force.now),
            meter=self.metrics.cleaner,
            event_log=self._logger,
            remove_later=tick.remove_later,
        )

    async def _listen(self, dispatch: Dispatch, connections: Connections) -> Endpoints:
        bound = []
        for listener in self.settings[node.LISTENERS]:
            opened = await connections.listen(dispatch, listener.name, listener.host, listener.port)
            self._listeners.append(opened)
            bound.append(Address(listener.host, opened.port))
        server = HttpServer(self._seams.net, self.health, self.metrics.render)
        host = self.settings[node.METRICS_HOST]
        port = await server.start(host, self.settings[node.METRICS_PORT])
        self._http_server = server
        return Endpoints(bound[0], Address(host, port))

    async def _watch_connections(self, connections: Connections) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_S)
            connections.end_silent()
            self.metrics.broker.queued_request_bytes = connections.held_bytes
            self.metrics.broker.unsent_reply_bytes = connections.unsent_bytes

    async def _watch_loop(self) -> None:
        """How late the loop comes to what is due: as long as the longest thing it did."""
        clock = self._seams.clock
        warn_s = self.settings[node.LOOP_STALL_WARN_MS] / 1000
        while True:
            due_ns = clock.steady_ns() + int(STALL_CHECK_S * 1e9)
            await asyncio.sleep(STALL_CHECK_S)
            late_s = max(0.0, (clock.steady_ns() - due_ns) / 1e9)
            self.metrics.loop.observe(late_s)
            if late_s > warn_s:
                self._logger.warning("loop stalled", seconds=round(late_s, 3))

    # What the settings say

    def _rules_of(self, image: Image, topic: str) -> TopicRules:
        return topic_rules(topic_configs(image, topic, self._in_force.now))

    def _advertised(self) -> tuple[Endpoint, ...] | None:
        listeners = self.settings[node.ADVERTISED_LISTENERS]
        if listeners is None:
            return None
        return tuple(
            Endpoint(each.name, each.host, each.port, SecurityProtocol.PLAINTEXT)
            for each in listeners
        )

    # What happens on the way

    def _new_id(self) -> Uuid:
        return Uuid(self._seams.entropy.token(16))

    def _save_incarnation(self, *, clean: bool) -> None:
        saved = SavedIncarnation(self._broker_epoch, self._seams.clock.boot_id(), clean)
        write_incarnation(self._seams.files, self._log_dirs[0], saved)

    def _on_snapshot(self, error: OSError | None) -> None:
        """The node goes on without a new snapshot of its metadata: somebody should make room."""
        part = "metadata snapshot"
        if error is None:
            self.health.warnings.clear(part)
        else:
            self.health.warnings.fail(part, str(error))
            self._logger.warning("metadata snapshot failed", error=str(error))

    def _on_offline(self, path: str, error: Exception) -> None:
        """A log directory went offline. The metadata is in the first one."""
        self._logger.error("log directory offline", path=path, error=str(error))
        if path == self._log_dirs[0] and self._store is not None:
            self._store.take_offline(error)

    def _problem(self, where: str, error: Exception) -> None:
        self._logger.error("disk fault", repeats_of=where, where=where, error=str(error))

    def _solved(self, where: str) -> None:
        self._logger.info("disk fault over", repeats_of=where, where=where)

    def _on_fault(self, error: Exception) -> None:
        """Our own fault: whoever runs the node ends it."""
        if not self.fault.done():
            self.fault.set_result(error)


def _obeyed_by(
    services: Services, tick: Tick, cleaner: LogCleaner, connections: Connections
) -> Obey:
    """Those who go by settings that clients may change; topics have their rules from `replicas`."""

    def obey(settings: BrokerSettings) -> None:
        services.settings = settings
        tick.rules = _tick_rules(settings)
        cleaner.rules = _cleaner_rules(settings)
        connections.limits = _limits(settings)

    return obey


def _limits(settings: BrokerSettings) -> ConnectionLimits:
    return ConnectionLimits(
        frame_bytes_max=settings[network.SOCKET_REQUEST_MAX_BYTES],
        queued_bytes_max=settings[network.QUEUED_MAX_REQUEST_BYTES],
        unsent_bytes_max=settings[network.REPLIES_UNSENT_MAX_BYTES],
        connections_max=settings[network.MAX_CONNECTIONS],
        connections_max_per_ip=settings[network.MAX_CONNECTIONS_PER_IP],
        idle_ms_max=settings[network.CONNECTIONS_MAX_IDLE_MS],
    )


def _cleaner_rules(settings: BrokerSettings) -> CleanerRules:
    return CleanerRules(
        is_enabled=settings[retention.LOG_CLEANER_ENABLE],
        backoff_ms=settings[retention.LOG_CLEANER_BACKOFF_MS],
        key_map_bytes_max=settings[retention.LOG_CLEANER_DEDUPE_BUFFER_SIZE],
        key_map_load_factor=settings[retention.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
        window_bytes=settings[retention.LOG_CLEANER_IO_BUFFER_SIZE],
        bytes_per_second=settings[retention.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND],
    )


def _tick_rules(settings: BrokerSettings) -> TickRules:
    return TickRules(
        retention_interval_ms=settings[retention.LOG_RETENTION_CHECK_INTERVAL_MS],
        checkpoint_interval_ms=settings[segments.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS],
        producer_expiration_ms=settings[records.PRODUCER_ID_EXPIRATION_MS],
        disk_reserve_bytes=settings[segments.DISK_RESERVE_BYTES],
    )
