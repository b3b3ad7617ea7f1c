"""The throttles of a running broker follow its settings and those of its topics."""

from ottla.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    Resource,
)
from ottla.protocol.topic_partition import TopicPartition
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.simulated_broker import Client, create, new_topic

TOPIC, BROKER = 2, 4
SET = 0


async def alter(client: Client, kind: int, resource: str, name: str, value: str) -> None:
    config = Config(name=name, config_operation=SET, value=value)
    asked = Resource(resource_type=kind, resource_name=resource, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(asked,), validate_only=False)
    (result,) = (await client.ask(request)).responses
    assert result.error_code == ErrorCode.NONE


def test_throttled_replicas_are_those_of_the_settings_while_the_broker_runs() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await create(client, new_topic("orders", 2))
        throttles = cluster.services(1).partitions.throttles
        first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
        for side, throttle in (("leader", throttles.leader), ("follower", throttles.follower)):
            await alter(client, TOPIC, "orders", f"{side}.replication.throttled.replicas", "0:1")
            assert not throttle.is_throttled(first)
            await alter(client, BROKER, "1", f"{side}.replication.throttled.rate", "100")
            assert throttle.is_throttled(first)
            assert not throttle.is_throttled(second)
            throttle.charge(first, 1_000, is_in_sync=False)
            assert not throttle.allows(first, is_in_sync=False)
            await alter(client, TOPIC, "orders", f"{side}.replication.throttled.replicas", "0:2")
            assert throttle.allows(first, is_in_sync=False)

    with_cluster(story, Cluster(1))
