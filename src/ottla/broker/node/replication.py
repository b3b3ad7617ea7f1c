"""Composes what replicates on a node: fetchers of what it follows, ISR changes of what it leads."""

from collections.abc import Callable

from ottla.address import Address
from ottla.broker.inter_broker.inter_broker import InterBroker
from ottla.broker.inter_broker.isr_requests import IsrRequests
from ottla.broker.inter_broker.shared_connection import find_peer
from ottla.broker.node.context import NodeContext
from ottla.client.options import ClientOptions
from ottla.metadata.publisher import Publisher
from ottla.replication.append.flusher import Flusher
from ottla.replication.fetch.follower_sessions import FollowerSessions
from ottla.replication.following.fetcher import FetcherParts
from ottla.replication.following.fetchers import ReplicaFetchers
from ottla.replication.following.log_starts import FollowedStarts
from ottla.replication.following.replica_update import FollowerLogs
from ottla.replication.following.session import FetchBounds
from ottla.replication.housekeeping.checkpointer import Checkpointer
from ottla.replication.local_broker import LocalBroker
from ottla.replication.replicas import Replicas
from ottla.replication.throttle import ReplicationThrottle
from ottla.settings.table import replication

# A response holds more than its records: for each partition some fields.
RESPONSE_OVERHEAD_BYTES_MAX = 64 << 20


def start_replication(
    context: NodeContext,
    *,
    me: LocalBroker,
    listener: str,
    publisher: Publisher,
    replicas: Replicas,
    checkpointer: Checkpointer,
    flusher: Flusher,
    inter_broker: InterBroker,
    follower_sessions: FollowerSessions,
    throttle: ReplicationThrottle,
) -> None:
    """Starts the tasks. They follow the metadata log from now on."""
    logger = context.logger

    def problem(where: str, error: Exception) -> None:
        logger.warning("not replicated", repeats_of=where, where=where, error=str(error))

    starts = FollowedStarts(
        replicas.directories, checkpointer, lambda replica: fetchers.start_moved(replica), problem
    )
    fetchers = ReplicaFetchers(
        replicas,
        _fetcher_parts(
            context,
            me,
            listener,
            publisher,
            FollowerLogs(replicas.create_followers_log, starts.put),
            flusher,
            throttle,
            problem,
        ),
        context.tasks.spawn,
    )
    isr_requests = IsrRequests(
        replicas,
        inter_broker.own_requests,
        lambda: publisher.image,
        lambda: context.settings[replication.REPLICA_LAG_TIME_MAX_MS],
        context.seams.clock,
        context.metrics.broker,
    )
    fetchers.start()
    for follow in (fetchers.follow, isr_requests.follow, follower_sessions.follow):
        publisher.subscribe(follow)
    context.tasks.spawn(starts.run(), "log starts")
    context.tasks.spawn(isr_requests.run(), "ISR changes")
    context.tasks.spawn(isr_requests.run_ticks(), "follower lag")


def _fetcher_parts(
    context: NodeContext,
    me: LocalBroker,
    listener: str,
    publisher: Publisher,
    logs: FollowerLogs,
    flusher: Flusher,
    throttle: ReplicationThrottle,
    problem: Callable[[str, Exception], None],
) -> FetcherParts:
    settings, meter = context.settings, context.metrics.broker

    def address_of(broker_id: int) -> Address | None:
        peer = find_peer(publisher.image, broker_id, listener)
        return None if peer is None else peer.address

    def on_bytes_in(size_bytes: int) -> None:
        meter.replication_bytes_in += size_bytes

    bounds = FetchBounds(
        wait_ms_max=settings[replication.REPLICA_FETCH_WAIT_MAX_MS],
        bytes_min=settings[replication.REPLICA_FETCH_MIN_BYTES],
        response_bytes_max=settings[replication.REPLICA_FETCH_RESPONSE_MAX_BYTES],
        partition_bytes_max=settings[replication.REPLICA_FETCH_MAX_BYTES],
    )

    return FetcherParts(
        me=me,
        address_of=address_of,
        logs=logs,
        flush=flusher.flush,
        net=context.seams.net,
        clock=context.seams.clock,
        bounds=lambda: bounds,
        backoff_ms=lambda: settings[replication.REPLICA_FETCH_BACKOFF_MS],
        options=ClientOptions(
            client_id=f"broker-{me.broker_id}-fetcher",
            request_timeout_ms=settings[replication.REPLICA_SOCKET_TIMEOUT_MS],
            receive_message_max_bytes=bounds.response_bytes_max + RESPONSE_OVERHEAD_BYTES_MAX,
        ),
        throttle=throttle,
        on_bytes_in=on_bytes_in,
        problem=problem,
    )
