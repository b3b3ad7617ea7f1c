"""`ottla cluster describe`, `ottla broker list` and `ottla broker describe`."""

from ottla.cli.cluster.health import Health, broker_load, examine
from ottla.cli.shared.name_suggestions import no_such
from ottla.cli.shared.output import Row, RowWriter, say
from ottla.client.admin.cluster import Admin, Cluster
from ottla.client.errors import ClientError
from ottla.client.routing.router import Router
from ottla.protocol.topic_partition import TopicPartition

UP = "up"
DOWN = "down"


async def describe_cluster(router: Router, writer: RowWriter) -> None:
    """Writes a row of the cluster, one per broker, and one per partition with a problem."""
    health = await examine(router)
    cluster = await Admin(router).describe_cluster()
    partitions = health.survey.partitions
    writer.write(
        {
            "kind": "cluster",
            "cluster_id": cluster.cluster_id,
            "controller": _controller(cluster),
            "brokers": len(health.survey.brokers),
            "topics": len(health.survey.topics),
            "partitions": len(partitions),
            "under_replicated": len(health.under_replicated()),
            "offline": len(health.offline()),
            "below_min_isr": len(health.below_min_isr()) if health.min_isr else None,
            "moving": len(health.survey.moving),
            "possible_losses": len(health.possible_losses()) if health.eligible else None,
        }
    )
    for broker_id in health.broker_ids():
        writer.write(_broker_row(health, cluster, broker_id))
    writer.close()
    if _controller(cluster) is None:
        say("warning: there is no controller: no leader is elected, and nothing can be changed")


async def list_brokers(router: Router, writer: RowWriter) -> None:
    health = await examine(router)
    cluster = await Admin(router).describe_cluster()
    for broker_id in health.broker_ids():
        writer.write(_broker_row(health, cluster, broker_id))
    writer.close()


async def describe_broker(router: Router, broker_id: int, writer: RowWriter) -> None:
    """Writes a broker, its log directories, and its partitions that need attention. Failure."""
    health = await examine(router)
    require_known(health, broker_id)
    cluster = await Admin(router).describe_cluster()
    writer.write(_broker_row(health, cluster, broker_id))
    if broker_id in health.survey.brokers:
        await _write_directories(router, broker_id, writer)
    load = broker_load(health.survey.partitions, broker_id)
    for problem, names in (
        ("out of sync", load.out_of_sync),
        ("preferred leader, does not lead", load.led_elsewhere),
    ):
        for name in names:
            writer.write(_partition_row(health, name, problem))
    writer.close()


def require_known(health: Health, broker_id: int) -> None:
    """Failure if there is no such broker, up or down."""
    known = health.broker_ids()
    if broker_id not in known:
        raise no_such("broker", str(broker_id), map(str, known), "`ottla broker list`")


def _controller(cluster: Cluster) -> int | None:
    return None if cluster.controller < 0 else cluster.controller


def _broker_row(health: Health, cluster: Cluster, broker_id: int) -> Row:
    broker = health.survey.brokers.get(broker_id)
    load = broker_load(health.survey.partitions, broker_id)
    return {
        "kind": "broker",
        "id": broker_id,
        "address": None if broker is None else str(broker.address),
        "rack": None if broker is None else broker.rack,
        "state": DOWN if broker is None else UP,
        "is_controller": cluster.controller == broker_id,
        "leaders": load.leaders,
        "replicas": load.replicas,
        "out_of_sync": len(load.out_of_sync),
        "led_elsewhere": len(load.led_elsewhere),
    }


async def _write_directories(router: Router, broker_id: int, writer: RowWriter) -> None:
    try:
        directories = await Admin(router).describe_log_dirs(broker_id)
    except ClientError as error:
        say(f"warning: no log directories: {error}")
        return
    for each in directories:
        writer.write(
            {
                "kind": "directory",
                "path": each.path,
                "state": "ok" if each.error is None else each.error.code.name,
                "replicas": len(each.sizes),
                "bytes": sum(each.sizes.values()),
                "free_bytes": None if each.usable_bytes < 0 else each.usable_bytes,
                "total_bytes": None if each.total_bytes < 0 else each.total_bytes,
            }
        )


def _partition_row(health: Health, name: TopicPartition, problem: str) -> Row:
    partition = health.survey.partitions[name]
    return {
        "kind": "partition",
        "partition": str(name),
        "problem": problem,
        "leader": None if partition.is_unavailable else partition.leader,
        "replicas": ",".join(map(str, partition.replicas)),
        "isr": ",".join(map(str, partition.in_sync)),
    }
