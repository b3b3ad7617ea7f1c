"""DescribeCluster and DescribeQuorum: the brokers, and the metadata quorum."""

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartition,
    RequestedTopic,
)
from tests.support.broker.recorded_answers import (
    CLUSTER_ID,
    SETTINGS,
    comparable,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import HOST, PORT, Client, create, new_topic, with_broker

DESCRIBE_CLUSTER, DESCRIBE_QUORUM = 60, 55


def test_every_recorded_question_is_answered_as_kafka_did() -> None:
    async def story(client: Client) -> None:
        pairs = list(recordings(DESCRIBE_CLUSTER))
        assert len(pairs) > 5
        for pair in pairs:
            assert comparable(await ours(client, pair)) == comparable(pair["responseJson"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)


def test_this_broker_is_the_cluster_and_its_controller() -> None:
    async def story(client: Client) -> None:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=True
        )
        response = await client.ask(request)

        assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
        (broker,) = response.brokers
        assert (broker.broker_id, broker.host, broker.port) == (1, HOST, PORT)
        assert not broker.is_fenced

    with_broker(story, machine=recorded_machine())


def test_an_unknown_endpoint_type_is_refused() -> None:
    async def story(client: Client) -> None:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=3
        )
        assert (await client.ask(request)).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    with_broker(story)


# --- DescribeQuorum ---------------------------------------------------------------------------

# Fields that differ between clusters and over time.
MOMENTARY = {"leaderEpoch", "highWatermark", "logEndOffset", "lastFetchTimestamp"}
MOMENTARY |= {"lastCaughtUpTimestamp", "listeners"}


def shape(document: object) -> object:
    if isinstance(document, dict):
        return {
            name: "momentary" if name in MOMENTARY and value else shape(value)
            for name, value in comparable(document).items()
        }
    if isinstance(document, list):
        return [shape(each) for each in document]
    return document


def test_every_recorded_quorum_has_the_shape_that_kafka_gave_it() -> None:
    async def story(client: Client) -> None:
        pairs = list(recordings(DESCRIBE_QUORUM))
        assert len(pairs) > 5
        for pair in pairs:
            assert shape(await ours(client, pair)) == shape(pair["responseJson"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)


def test_the_controller_is_the_one_voter_and_the_log_grows_with_every_change() -> None:
    request = DescribeQuorumRequest(
        topics=(
            RequestedTopic(
                topic_name="__cluster_metadata",
                partitions=(RequestedPartition(partition_index=0),),
            ),
        )
    )

    async def story(client: Client) -> None:
        before = (await client.ask(request)).topics[0].partitions[0]
        await create(client, new_topic("orders"))
        response = await client.ask(request)
        after = response.topics[0].partitions[0]

        assert after.leader_id == after.current_voters[0].replica_id == 1
        assert after.high_watermark == after.current_voters[0].log_end_offset
        assert after.high_watermark == before.high_watermark + 1
        assert response.nodes[0].listeners[0].port == PORT

    with_broker(story)
