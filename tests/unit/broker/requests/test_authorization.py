"""Every path of a request asks the authorizer, and refused operations have no effect."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest

from ottla.broker.net.session import Principal, Session
from ottla.broker.requests.authorization import OPERATIONS, Resource
from ottla.broker.requests.served_apis import INTER_BROKER, SERVED
from ottla.errors import ErrorCode
from ottla.metadata.values import AclOperation, AclResource
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import (
    APIS,
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from ottla.protocol.primitives import ZERO_UUID
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import COMMIT_VERSION, codes, commit, committed
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.sessions import (
    PRODUCE,
    WAYS,
    begun,
    by_codec,
    services_of,
    tell,
    written,
)
from tests.support.broker.simulated_broker import Client, Machine, encoded, new_topic
from tests.support.broker.transactional_requests import Producer

Rule = Callable[[AclOperation, Resource], bool]
TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTIONAL_ID = AclResource.TRANSACTIONAL_ID
MALLORY = Principal("User", "mallory")


class Refusing:
    """Applies a rule to one principal, and records the checks."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.asked: list[tuple[AclOperation, Resource]] = []

    def allows(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        if session.principal != MALLORY:
            return True
        self.asked.append((operation, resource))
        return self.rule(operation, resource)

    def visibility(self, session: Session) -> Hashable:
        return session.principal


async def refused_client(machine: Machine, rule: Rule) -> tuple[Client, Refusing]:
    """A client to which the rule applies. Other clients may do everything."""
    client, session = await begun(machine)
    session.principal = MALLORY
    authorizer = services_of(session).authorizer = Refusing(rule)
    return client, authorizer


def not_on(kind: AclResource) -> Rule:
    return lambda _, resource: resource.kind is not kind


# The paths of produce and commit


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("refused", [TOPIC, GROUP])
def test_unauthorized_requests_write_nothing(way: str, refused: AclResource) -> None:
    is_commit = way.startswith("commit")
    key, version = (8, COMMIT_VERSION) if is_commit else (0, 9)
    code = TOPIC_FAILED if refused is TOPIC else GROUP_FAILED

    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(machine, not_on(refused))
        await client.send_bytes(WAYS[way])
        if "without" not in way:
            answer = decode_response(await client.next_frame(), APIS[key], version)
            is_refused = is_commit or refused is TOPIC
            assert only(answer).error_code == (code if is_refused else ErrorCode.NONE)
        await asyncio.sleep(1)
        stored, offsets = await written(inside)
        assert bool(stored) == (not is_commit and refused is GROUP)
        assert offsets == {}

    tell(story)


TRANSACTIONAL = encoded(
    produce(
        "events",
        batch(b"new", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        transactional_id="t",
    ),
    9,
)
TRANSACTIONAL_WAYS = {
    "gathered": TRANSACTIONAL,
    "alone": TRANSACTIONAL + TRANSACTIONAL,
    "by the codec": by_codec(TRANSACTIONAL),
}


@pytest.mark.parametrize("way", TRANSACTIONAL_WAYS)
@pytest.mark.parametrize("is_allowed", [True, False])
def test_transactional_batches_need_write_on_their_transactional_id(
    way: str, is_allowed: bool
) -> None:
    def rule(_: AclOperation, resource: Resource) -> bool:
        return is_allowed or resource != (AclResource.TRANSACTIONAL_ID, "t")

    async def story(_: Client, machine: Machine) -> None:
        client, authorizer = await refused_client(machine, rule)
        await client.send_bytes(TRANSACTIONAL_WAYS[way])
        answer = decode_response(await client.next_frame(), APIS[0], 9)
        failed = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        # A broker without the coordinator's topic cannot verify it.
        expected = ErrorCode.NOT_ENOUGH_REPLICAS if is_allowed else failed
        assert only(answer).error_code == expected
        assert (AclOperation.WRITE, (AclResource.TRANSACTIONAL_ID, "t")) in authorizer.asked

    tell(story)


@pytest.mark.parametrize("version", [9, 13])
def test_of_gathered_produces_only_authorized_ones_are_written(
    version: int,
) -> None:
    async def story(inside: Client, machine: Machine) -> None:
        for _ in range(2):
            await inside.exchange(PRODUCE)
        described = await inside.ask(asked_by_name("events"), 12)
        key = "events" if version < 13 else described.topics[0].topic_id
        client, _ = await refused_client(machine, not_on(TOPIC))
        others = [await machine.client() for _ in range(3)]
        answers = await asyncio.gather(
            client.ask(produce(key, batch(b"no")), version),
            *[other.ask(produce(key, batch(b"yes")), version) for other in others],
        )
        assert [only(each).error_code for each in answers] == [TOPIC_FAILED, 0, 0, 0]
        assert (await written(inside))[0] == [b"new"] * 2 + [b"yes"] * 3

    tell(story)


def test_of_gathered_commits_only_authorized_ones_are_written() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(machine, lambda _, each: each.name not in ("g", "secret"))
        await inside.ask(create_topics.CreateTopicsRequest(topics=(new_topic("secret"),)))
        other = await machine.client()
        answers = await asyncio.gather(
            client.ask(commit("g", "events", {0: 1}), COMMIT_VERSION),
            other.ask(commit("g", "events", {0: 2}), COMMIT_VERSION),
        )
        assert [codes(each) for each in answers] == [[GROUP_FAILED], [ErrorCode.NONE]]
        answers = await asyncio.gather(
            client.ask(commit("h", "secret", {0: 3, 1: 3}), COMMIT_VERSION),
            other.ask(commit("h", "events", {0: 4}), COMMIT_VERSION),
        )
        assert [codes(each) for each in answers] == [[TOPIC_FAILED] * 2, [ErrorCode.NONE]]
        assert await committed(inside, "g") == {("events", 0): 2}
        assert await committed(inside, "h") == {("events", 0): 4}

    tell(story)


@pytest.mark.parametrize("name", ["events", "missing"])
def test_without_authorization_a_response_does_not_reveal_whether_a_topic_exists(name: str) -> None:
    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(machine, not_on(TOPIC))
        for request, version in (
            (produce(name, batch(b"no")), 9),
            (commit("g", name, {0: 1}), COMMIT_VERSION),
            (fetch(name, wanted()), 12),
            (asked_by_name(name), 12),
            (delete_topics.DeleteTopicsRequest(topics=(deleted(name),), timeout_ms=1000), 6),
        ):
            answer = await client.ask(request, version)
            assert set(error_codes(answer)) - {ErrorCode.NONE} == {TOPIC_FAILED}

    tell(story)


# Every API


def asked_by_name(*names: str) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(
        topics=tuple(metadata.RequestedTopic(name=name) for name in names),
        allow_auto_topic_creation=False,
    )


def deleted(name: str) -> delete_topics.Topic:
    return delete_topics.Topic(name=name, topic_id=ZERO_UUID)


def configured(module: Any, **fields: Any) -> tuple[Any, ...]:
    return tuple(
        module.Resource(resource_type=kind, resource_name=name, **fields)
        for kind, name in ((2, "events"), (4, "1"), (32, "g"))
    )


# A request of each API, about every type of resource that it can name.
REQUESTS: dict[str, Any] = {
    "Produce": (produce("events", batch(b"no")), 9),
    "Fetch": (fetch("events", wanted()), 12),
    "ListOffsets": list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=(
            list_offsets.Topic(
                name="events",
                partitions=(list_offsets.Partition(partition_index=0, timestamp=-1),),
            ),
        ),
    ),
    "Metadata": asked_by_name("events"),
    "OffsetCommit": (commit("g", "events", {0: 1}), COMMIT_VERSION),
    "OffsetFetch": (
        offset_fetch.OffsetFetchRequest(
            groups=(
                offset_fetch.Group(
                    group_id="g",
                    topics=(offset_fetch.Topic(name="events", partition_indexes=(0,)),),
                ),
            )
        ),
        9,
    ),
    "FindCoordinator": find_coordinator.FindCoordinatorRequest(coordinator_keys=("g",)),
    "JoinGroup": join_group.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(join_group.Protocol(name="range", metadata=b""),),
    ),
    "Heartbeat": heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    "LeaveGroup": leave_group.LeaveGroupRequest(group_id="g", members=()),
    "SyncGroup": sync_group.SyncGroupRequest(
        group_id="g", generation_id=1, member_id="m", assignments=()
    ),
    "DescribeGroups": describe_groups.DescribeGroupsRequest(groups=("g",)),
    "ListGroups": list_groups.ListGroupsRequest(),
    "CreateTopics": create_topics.CreateTopicsRequest(topics=(new_topic("new"),)),
    "DeleteTopics": delete_topics.DeleteTopicsRequest(topics=(deleted("events"),), timeout_ms=1000),
    "DeleteRecords": delete_records.DeleteRecordsRequest(
        topics=(
            delete_records.Topic(
                name="events", partitions=(delete_records.Partition(partition_index=0, offset=-1),)
            ),
        ),
        timeout_ms=1000,
    ),
    "InitProducerId": init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    ),
    "OffsetForLeaderEpoch": offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=(
            offset_for_leader_epoch.Topic(
                topic="events",
                partitions=(
                    offset_for_leader_epoch.Partition(
                        partition=0, current_leader_epoch=-1, leader_epoch=0
                    ),
                ),
            ),
        ),
    ),
    "DescribeConfigs": describe_configs.DescribeConfigsRequest(
        resources=configured(describe_configs, configuration_keys=None)
    ),
    "AlterConfigs": alter_configs.AlterConfigsRequest(
        resources=configured(alter_configs, configs=()), validate_only=False
    ),
    "IncrementalAlterConfigs": incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=configured(incremental_alter_configs, configs=()), validate_only=False
    ),
    "AlterReplicaLogDirs": alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=(
            alter_replica_log_dirs.LogDir(
                path="/data",
                topics=(alter_replica_log_dirs.Topic(name="events", partitions=(0,)),),
            ),
        )
    ),
    "DescribeLogDirs": describe_log_dirs.DescribeLogDirsRequest(topics=None),
    "CreatePartitions": create_partitions.CreatePartitionsRequest(
        topics=(create_partitions.Topic(name="events", count=2, assignments=None),),
        timeout_ms=1000,
        validate_only=False,
    ),
    "DeleteGroups": delete_groups.DeleteGroupsRequest(groups_names=("g",)),
    "ElectLeaders": elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None),
    "AlterPartitionReassignments": (
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=()),
        None,
    ),
    "ListPartitionReassignments": (
        list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
        None,
    ),
    "OffsetDelete": offset_delete.OffsetDeleteRequest(
        group_id="g",
        topics=(
            offset_delete.Topic(
                name="events", partitions=(offset_delete.Partition(partition_index=0),)
            ),
        ),
    ),
    "DescribeQuorum": describe_quorum.DescribeQuorumRequest(topics=()),
    "DescribeCluster": describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True
    ),
    "DescribeProducers": describe_producers.DescribeProducersRequest(
        topics=(describe_producers.RequestedTopic(name="events", partition_indexes=(0,)),)
    ),
    "ConsumerGroupHeartbeat": consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="c",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("events",),
        topic_partitions=(),
    ),
    "ConsumerGroupDescribe": consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=("consumers",), include_authorized_operations=True
    ),
    "ListConfigResources": list_config_resources.ListConfigResourcesRequest(resource_types=()),
    "AddPartitionsToTxn": (
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_topics=(add_partitions_to_txn.Topic(name="events", partitions=(0,)),),
        ),
        3,
    ),
    "AddOffsetsToTxn": add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id="id", producer_id=0, producer_epoch=0, group_id="g"
    ),
    "EndTxn": end_txn.EndTxnRequest(
        transactional_id="id", producer_id=0, producer_epoch=0, committed=True
    ),
    "WriteTxnMarkers": write_txn_markers.WriteTxnMarkersRequest(
        markers=(
            write_txn_markers.Marker(
                producer_id=1,
                producer_epoch=0,
                transaction_result=True,
                topics=(write_txn_markers.Topic(name="events", partition_indexes=(0,)),),
                coordinator_epoch=0,
            ),
        )
    ),
    "TxnOffsetCommit": txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="id",
        group_id="g",
        producer_id=0,
        producer_epoch=0,
        topics=(
            txn_offset_commit.Topic(
                name="events",
                partitions=(
                    txn_offset_commit.Partition(
                        partition_index=0, committed_offset=1, committed_metadata=""
                    ),
                ),
            ),
        ),
    ),
    "DescribeTransactions": describe_transactions.DescribeTransactionsRequest(
        transactional_ids=("open",)
    ),
    "ListTransactions": list_transactions.ListTransactionsRequest(
        state_filters=(), producer_id_filters=()
    ),
    "UpdateFeatures": update_features.UpdateFeaturesRequest(
        feature_updates=(
            update_features.FeatureUpdate(
                feature="transaction.version", max_version_level=1, upgrade_type=2
            ),
        )
    ),
    "DescribeClientQuotas": describe_client_quotas.DescribeClientQuotasRequest(
        components=(), strict=False
    ),
    "AlterClientQuotas": alter_client_quotas.AlterClientQuotasRequest(
        entries=(
            alter_client_quotas.Entry(
                entity=(alter_client_quotas.Entity(entity_type="user", entity_name="u"),),
                ops=(
                    alter_client_quotas.Operation(
                        key="producer_byte_rate", value=1.0, remove=False
                    ),
                ),
            ),
        ),
        validate_only=False,
    ),
    "DescribeTopicPartitions": describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.RequestedTopic(name="events"),)
    ),
}
# APIs for which another right is enough, or which leave things out without an error.
NO_ERROR = {
    ("ListGroups", CLUSTER),
    ("ListGroups", GROUP),
    ("CreateTopics", CLUSTER),
    ("CreateTopics", TOPIC),
    ("DescribeCluster", CLUSTER),
    ("ListTransactions", TRANSACTIONAL_ID),
    # The topics of a transaction that it may not describe are left out.
    ("DescribeTransactions", TOPIC),
}
CODES = {
    TOPIC: TOPIC_FAILED,
    GROUP: GROUP_FAILED,
    CLUSTER: CLUSTER_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
# Requests about another type of resource than the one in REQUESTS.
OTHER_REQUESTS: dict[tuple[str, AclResource], Any] = {
    ("Fetch", AclResource.CLUSTER): (fetch("events", wanted(), replica_id=2), 12),
    ("Produce", AclResource.TRANSACTIONAL_ID): (
        produce(
            "events",
            batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
            transactional_id="t",
        ),
        9,
    ),
    ("FindCoordinator", TRANSACTIONAL_ID): find_coordinator.FindCoordinatorRequest(
        key_type=1, coordinator_keys=("id",)
    ),
    ("InitProducerId", TRANSACTIONAL_ID): init_producer_id.InitProducerIdRequest(
        transactional_id="id", transaction_timeout_ms=1000
    ),
    ("AddPartitionsToTxn", CLUSTER): add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactions=()
    ),
}


# `test_inter_broker_listener` has the others.
FOR_CLIENTS = {APIS[key].name: OPERATIONS[APIS[key].name] for key in sorted(SERVED)}


def error_codes(answer: Any) -> Iterator[int]:
    """All error codes in a response."""
    if isinstance(answer, tuple | list):
        for each in answer:
            yield from error_codes(each)
    for name in getattr(type(answer), "__slots__", ()):
        value = getattr(answer, name)
        if name in ("error_code", "partition_error_code"):
            yield value
        else:
            yield from error_codes(value)


def test_the_table_has_every_api_that_is_served() -> None:
    assert set(OPERATIONS) == {APIS[key].name for key in SERVED | INTER_BROKER}
    assert set(REQUESTS) == {name for name, needed in FOR_CLIENTS.items() if needed}


async def open_transaction(client: Client) -> None:
    producer = Producer(client, "open", version=1)
    await producer.begin()
    assert await producer.add("events", 0) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, needed in FOR_CLIENTS.items() for kind in needed]
)
def test_each_api_checks_its_operation(name: str, kind: AclResource) -> None:
    request = OTHER_REQUESTS.get((name, kind), REQUESTS[name])
    request, version = request if isinstance(request, tuple) else (request, None)
    # So that the types of a resource that have less weight are asked about at all.
    rule = not_on(kind) if name not in ("ListGroups", "CreateTopics") else lambda *_: False

    async def story(inside: Client, machine: Machine) -> None:
        await inside.ask(commit("g", "events", {0: 7}), COMMIT_VERSION)
        await inside.ask(
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id="consumers",
                member_id="first",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=("events",),
                topic_partitions=(),
            )
        )
        if name in ("DescribeTransactions", "ListTransactions"):
            await open_transaction(inside)
        before = await inside.ask(asked_by_name("events", "new"), 12)
        client, authorizer = await refused_client(machine, rule)
        answer = await client.ask(request, version)
        asked = {(operation, resource.kind) for operation, resource in authorizer.asked}
        assert (OPERATIONS[name][kind], kind) in asked
        if (name, kind) not in NO_ERROR:
            assert CODES[kind] in set(error_codes(answer))
        # Nothing was done.
        assert await inside.ask(asked_by_name("events", "new"), 12) == before
        assert await written(inside) == ([], {("events", 0): 7})

    tell(story)


def test_create_on_the_cluster_or_on_the_topic_allows_its_creation() -> None:
    def rule(operation: AclOperation, resource: Resource) -> bool:
        return operation is not AclOperation.CREATE or resource.name in allowed

    allowed: set[str] = {"mine"}

    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(machine, rule)
        request = create_topics.CreateTopicsRequest(topics=(new_topic("mine"), new_topic("other")))
        answer = await client.ask(request)
        assert [each.error_code for each in answer.topics] == [ErrorCode.NONE, TOPIC_FAILED]
        allowed.add("kafka-cluster")
        answer = await client.ask(request)
        assert answer.topics[1].error_code == ErrorCode.NONE

    tell(story)


def test_the_configs_of_a_new_topic_need_describe_configs() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(
            machine, lambda operation, _: operation is not AclOperation.DESCRIBE_CONFIGS
        )
        request = create_topics.CreateTopicsRequest(topics=(new_topic("new"),))
        (told,) = (await client.ask(request)).topics
        assert (told.error_code, told.topic_config_error_code) == (ErrorCode.NONE, TOPIC_FAILED)
        assert told.configs == ()

    tell(story)


def test_only_groups_that_may_be_described_are_listed() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        for group_id in ("g", "h"):
            await inside.ask(commit(group_id, "events", {0: 7}), COMMIT_VERSION)
        client, _ = await refused_client(machine, lambda _, each: each.name == "h")
        listed = await client.ask(list_groups.ListGroupsRequest())
        assert [each.group_id for each in listed.groups] == ["h"]

    tell(story)


@pytest.mark.parametrize("refused", [AclOperation.DELETE, None])
def test_a_topic_is_deleted_by_id_only_with_authorization(refused: AclOperation | None) -> None:
    async def story(inside: Client, machine: Machine) -> None:
        (events,) = (await inside.ask(asked_by_name("events"), 12)).topics
        client, _ = await refused_client(machine, lambda operation, _: operation is not refused)
        asked = delete_topics.Topic(name=None, topic_id=events.topic_id)
        answer = await client.ask(delete_topics.DeleteTopicsRequest(topics=(asked,), timeout_ms=9))
        assert answer.responses[0].error_code == (TOPIC_FAILED if refused else ErrorCode.NONE)
        (left,) = (await inside.ask(asked_by_name("events"), 12)).topics
        assert (left == events) == (refused is not None)

    tell(story)


def test_a_request_for_all_topics_returns_the_visible_topics() -> None:
    partitions = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())
    offsets = offset_fetch.OffsetFetchRequest(
        groups=(offset_fetch.Group(group_id="g", topics=None),)
    )

    async def story(inside: Client, machine: Machine) -> None:
        await inside.ask(create_topics.CreateTopicsRequest(topics=(new_topic("secret"),)))
        for name in ("events", "secret"):
            await inside.ask(commit("g", name, {0: 7}), COMMIT_VERSION)
        client, _ = await refused_client(machine, lambda _, each: each.name != "secret")
        for asked, seen in ((inside, {"events", "secret"}), (client, {"events"})):
            described = await asked.ask(partitions)
            assert {each.name for each in described.topics} - {"__consumer_offsets"} == seen
            (group,) = (await asked.ask(offsets, 9)).groups
            assert {each.name for each in group.topics} == seen

    tell(story)


def test_without_describe_on_the_cluster_no_operation_is_authorized() -> None:
    request = REQUESTS["DescribeCluster"]

    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(
            machine, lambda operation, _: operation is not AclOperation.DESCRIBE
        )
        assert (await inside.ask(request)).cluster_authorized_operations > 0
        answer = await client.ask(request)
        assert (answer.error_code, answer.cluster_authorized_operations) == (0, 0)

    tell(story)


def test_the_offsets_topic_is_not_created_for_an_unauthorized_group() -> None:
    machine = Machine()
    request, every = REQUESTS["FindCoordinator"], metadata.MetadataRequest(topics=None)

    async def begin() -> None:
        async with machine.broker() as inside:
            assert (await inside.ask(every)).topics == ()
            client, _ = await refused_client(machine, not_on(GROUP))
            assert list(error_codes(await client.ask(request))) == [0, GROUP_FAILED]
            assert (await inside.ask(every)).topics == ()

    run(begin(), clock=machine.clock)


def test_authorized_operations_are_a_bit_field() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(
            machine, lambda operation, _: operation in (AclOperation.DESCRIBE, AclOperation.READ)
        )
        request = metadata.MetadataRequest(
            topics=(metadata.RequestedTopic(name="events"),),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        answer = await client.ask(request, 10)
        assert answer.topics[0].topic_authorized_operations == 1 << 8 | 1 << 3
        assert answer.cluster_authorized_operations == 1 << 8
        answer = await inside.ask(request, 10)
        assert answer.topics[0].topic_authorized_operations == 0b1101_1111_1000

    tell(story)


# Metadata


def test_a_cached_response_is_not_sent_to_clients_with_fewer_rights() -> None:
    every = metadata.MetadataRequest(topics=None)

    async def story(inside: Client, machine: Machine) -> None:
        await inside.ask(create_topics.CreateTopicsRequest(topics=(new_topic("secret"),)))
        client, _ = await refused_client(machine, lambda _, each: each.name != "secret")
        for _ in range(2):
            seen = {each.name for each in (await inside.ask(every)).topics}
            assert seen == {"events", "secret", "__consumer_offsets"}
            seen = {each.name for each in (await client.ask(every)).topics}
            assert seen == {"events", "__consumer_offsets"}
        # By its name, and by its id.
        (secret,) = (await inside.ask(asked_by_name("secret"))).topics
        (told,) = (await client.ask(asked_by_name("secret"))).topics
        assert (told.error_code, told.name, told.topic_id) == (TOPIC_FAILED, "secret", ZERO_UUID)
        by_id = metadata.MetadataRequest(
            topics=(metadata.RequestedTopic(name=None, topic_id=secret.topic_id),)
        )
        assert (await inside.ask(by_id)).topics == (secret,)
        (told,) = (await client.ask(by_id)).topics
        assert (told.error_code, told.name, told.partitions) == (TOPIC_FAILED, None, ())

    tell(story)


@pytest.mark.parametrize("right", ["mine", "kafka-cluster", "nothing"])
def test_auto_creation_needs_authorization(right: str) -> None:
    def rule(operation: AclOperation, resource: Resource) -> bool:
        return operation is not AclOperation.CREATE or resource.name == right

    async def story(inside: Client, machine: Machine) -> None:
        client, _ = await refused_client(machine, rule)
        request = metadata.MetadataRequest(
            topics=tuple(metadata.RequestedTopic(name=name) for name in ("mine", "other")),
            allow_auto_topic_creation=True,
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        expected = {
            "mine": [unknown, TOPIC_FAILED],
            "kafka-cluster": [unknown, unknown],
            "nothing": [TOPIC_FAILED, TOPIC_FAILED],
        }
        answer = await client.ask(request)
        assert [each.error_code for each in answer.topics] == expected[right]
        await asyncio.sleep(1)
        answer = await inside.ask(asked_by_name("mine", "other"))
        made = {each.name for each in answer.topics if not each.error_code}
        assert made == {"mine": {"mine"}, "kafka-cluster": {"mine", "other"}}.get(right, set())

    tell(story)
