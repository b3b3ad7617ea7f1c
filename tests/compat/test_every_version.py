"""Every API in every version that is advertised, asked over a real socket by a foreign codec.

Each is asked about what is there, and some times more by values of the fields' types alone. The
codes that may stand in an answer are those that Kafka gives to such a request.
"""

import dataclasses
import datetime
import random
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from kio.index import load_request_schema

from ottla.protocol.batch import Record, build
from ottla.testing import Broker
from tests.support.compat.kio_client import Filling, KioClient, error_codes, filled

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
RANDOM_ROUNDS = 4
TOPIC, GROUP = "orders", "live"
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + len(TOPIC).to_bytes(2) + TOPIC.encode() + b"\xff" * 4
BATCH = build([Record(offset=0, timestamp=1_700_000_000_000, key=b"k", value=b"v")])
TRANSACTIONAL_ID = "payments"
MINUTE = datetime.timedelta(minutes=1)
PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
JOIN_GROUP, SYNC_GROUP, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 11, 14, 18, 19, 22
# Clients of old look for these to tell what a broker can do: nobody may send them.
ADVERTISED_ONLY = {(PRODUCE, version) for version in range(3)}


class Member(NamedTuple):
    """Of a classic group that stays as it is for as long as the tests run."""

    member_id: str
    generation_id: int


class Producer(NamedTuple):
    """Of a transactional id."""

    producer_id: int
    producer_epoch: int


class Scene(NamedTuple):
    """The topics, groups and transactional ids of the broker."""

    client: KioClient
    topic_id: uuid.UUID
    member: Member
    producer: Producer
    log_dir: str


class Entry(NamedTuple):
    """The fields of an API's request, and the allowed error codes of its response."""

    versions: range
    # What a request about what is there says.
    filling: Filling
    # The codes in the answer to that, and in the answer to any other.
    codes: set[str]
    random_codes: set[str]
    # What every request says: else somebody would wait, or nothing would be answered.
    always: Filling = {}


NONE = {"none"}
TOPIC_CODES = {"unknown_topic_or_partition", "unknown_topic_id", "invalid_topic_exception"}
# A random JoinGroup has a member in its group until the session of that ends.
JOINED = {"non_empty_group"}
GROUP_CODES = {"invalid_group_id", "group_id_not_found", "unknown_member_id"}
NO_PRODUCER = {"invalid_producer_id_mapping", "invalid_producer_epoch", "invalid_request"}
MEMBER_CODES = {*GROUP_CODES, "illegal_generation", "fenced_instance_id", "stale_member_epoch"}


def entries(scene: Scene) -> dict[int, Entry]:
    return {
        **records_entries(scene),
        **group_entries(scene),
        **transaction_entries(scene),
        **admin_entries(scene),
    }


def records_entries(scene: Scene) -> dict[int, Entry]:
    topic_id = scene.topic_id
    return {
        0: Entry(
            range(14),
            {
                "transactional_id": None,
                "topic_data.name": TOPIC,
                "topic_data.topic_id": topic_id,
                "topic_data.partition_data.index": 0,
                "topic_data.partition_data.records": BATCH,
            },
            NONE,
            {*TOPIC_CODES, "corrupt_message", "invalid_record", "message_too_large"},
            # With 0 nothing is answered.
            {"acks": lambda rng: rng.choice((1, -1))},
        ),
        1: Entry(
            range(4, 19),
            {
                "cluster_id": None,
                "replica_id": -1,
                "replica_state.replica_id": -1,
                "isolation_level": 0,
                "max_bytes": 1 << 20,
                "session_id": 0,
                "session_epoch": -1,
                "topics.topic": TOPIC,
                "topics.topic_id": topic_id,
                "topics.partitions.partition": 0,
                "topics.partitions.fetch_offset": 0,
                "topics.partitions.partition_max_bytes": 1 << 20,
                "topics.partitions.current_leader_epoch": -1,
                "topics.partitions.last_fetched_epoch": -1,
                "forgotten_topics_data": (),
            },
            NONE,
            {
                *(NONE | TOPIC_CODES),
                *("fetch_session_id_not_found", "invalid_fetch_session_epoch"),
                *("offset_out_of_range", "fenced_leader_epoch", "unknown_leader_epoch"),
                *("inconsistent_topic_id", "inconsistent_cluster_id", "invalid_request"),
                # A replica that is none of the partition's.
                "not_leader_or_follower",
            },
        ),
        2: Entry(
            range(1, 12),
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics.name": TOPIC,
                "topics.partitions.partition_index": 0,
                "topics.partitions.timestamp": lambda rng: rng.choice((-1, -2, 0)),
                "topics.partitions.current_leader_epoch": -1,
            },
            NONE,
            {*(NONE | TOPIC_CODES), "unsupported_version", "invalid_request"},
        ),
        3: Entry(
            range(14),
            {"topics.name": TOPIC, "topics.topic_id": None},
            NONE,
            {*(NONE | TOPIC_CODES), "invalid_request"},
            {"allow_auto_topic_creation": False},
        ),
        21: Entry(
            range(3),
            {
                "topics.name": TOPIC,
                "topics.partitions.partition_index": 0,
                "topics.partitions.offset": 0,
            },
            NONE,
            {*(NONE | TOPIC_CODES), "offset_out_of_range"},
        ),
        22: Entry(
            range(6),
            {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
            NONE,
            # A random id may be one of an earlier request, with another producer.
            {
                *NONE,
                "invalid_request",
                "invalid_transaction_timeout",
                "invalid_producer_epoch",
                "producer_fenced",
            },
        ),
        23: Entry(
            range(2, 5),
            {
                "replica_id": -1,
                "topics.topic": TOPIC,
                "topics.partitions.partition": 0,
                "topics.partitions.current_leader_epoch": -1,
                "topics.partitions.leader_epoch": 0,
            },
            NONE,
            {*(NONE | TOPIC_CODES), "fenced_leader_epoch", "unknown_leader_epoch"},
        ),
        61: Entry(
            range(1),
            {"topics.name": TOPIC, "topics.partition_indexes": (0,)},
            NONE,
            {*(NONE | TOPIC_CODES)},
        ),
    }


def group_entries(scene: Scene) -> dict[int, Entry]:
    topic_id, member = scene.topic_id, scene.member
    of_member: Filling = {
        "group_id": GROUP,
        "member_id": member.member_id,
        "generation_id": member.generation_id,
        "group_instance_id": None,
    }
    return {
        8: Entry(
            range(2, 11),
            {
                **of_member,
                "generation_id_or_member_epoch": member.generation_id,
                "topics.name": TOPIC,
                "topics.topic_id": topic_id,
                "topics.partitions.partition_index": 0,
                "topics.partitions.committed_offset": 1,
            },
            # Of a note that is too long.
            {*NONE, "offset_metadata_too_large"},
            {*(NONE | TOPIC_CODES | MEMBER_CODES), "invalid_commit_offset_size"},
        ),
        9: Entry(
            range(1, 11),
            {
                "group_id": GROUP,
                "topics.name": TOPIC,
                "topics.partition_indexes": (0, 1),
                "groups.group_id": GROUP,
                "groups.member_id": None,
                "groups.member_epoch": -1,
                "groups.topics.name": TOPIC,
                "groups.topics.topic_id": topic_id,
                "groups.topics.partition_indexes": (0, 1),
            },
            NONE,
            {*(NONE | TOPIC_CODES | MEMBER_CODES)},
        ),
        10: Entry(
            range(7),
            {"key": GROUP, "key_type": 0, "coordinator_keys": (GROUP, "other")},
            NONE,
            {
                *NONE,
                *("invalid_request", "invalid_group_id", "coordinator_not_available"),
                *("transactional_id_authorization_failed", "unsupported_version"),
            },
        ),
        11: Entry(
            range(10),
            {
                "group_id": lambda rng: f"joined-{rng.randrange(1 << 30)}",
                "member_id": "",
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols.name": "range",
                "protocols.metadata": SUBSCRIPTION,
            },
            {*NONE, "member_id_required"},
            {*(NONE | MEMBER_CODES), "inconsistent_group_protocol", "invalid_session_timeout"},
            {"session_timeout": MINUTE, "rebalance_timeout": MINUTE / 60},
        ),
        12: Entry(range(5), of_member, NONE, {*MEMBER_CODES}),
        13: Entry(
            range(6),
            {"group_id": GROUP, "member_id": "nobody", "members.member_id": "nobody"},
            {*NONE, "unknown_member_id"},
            {*(NONE | MEMBER_CODES)},
            {"members.group_instance_id": None},
        ),
        14: Entry(
            range(6),
            {
                **of_member,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments.member_id": member.member_id,
            },
            NONE,
            {*MEMBER_CODES, "inconsistent_group_protocol"},
        ),
        15: Entry(range(7), {"groups": (GROUP,)}, NONE, {*NONE, "group_id_not_found"}),
        16: Entry(
            range(6), {"states_filter": ("Stable",), "types_filter": ("classic",)}, NONE, NONE
        ),
        42: Entry(
            range(3),
            {"groups_names": (GROUP,)},
            {"non_empty_group"},
            {*(NONE | GROUP_CODES), *JOINED},
        ),
        47: Entry(
            range(1),
            {
                "group_id": GROUP,
                "topics.name": TOPIC,
                "topics.partitions.partition_index": 0,
            },
            {*NONE, "group_subscribed_to_topic"},
            {*(NONE | GROUP_CODES | TOPIC_CODES), *JOINED},
        ),
        68: Entry(
            range(2),
            {
                "group_id": lambda rng: f"consumers-{rng.randrange(1 << 30)}",
                "member_id": lambda rng: f"member-{rng.randrange(1 << 30)}",
                "member_epoch": 0,
                "instance_id": None,
                "rack_id": None,
                "rebalance_timeout": MINUTE,
                "subscribed_topic_names": (TOPIC,),
                "subscribed_topic_regex": None,
                "server_assignor": "uniform",
                "topic_partitions": (),
            },
            NONE,
            {
                *(NONE | MEMBER_CODES),
                *("invalid_request", "unsupported_assignor", "invalid_regular_expression"),
                *("fenced_member_epoch", "unreleased_instance_id"),
            },
        ),
        69: Entry(
            range(2),
            {"group_ids": (GROUP,)},
            # It is a classic one.
            {"group_id_not_found"},
            {"group_id_not_found", "invalid_group_id"},
        ),
    }


def transaction_entries(scene: Scene) -> dict[int, Entry]:
    producer_id, producer_epoch = scene.producer
    of_producer: Filling = {
        "transactional_id": TRANSACTIONAL_ID,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
    }
    return {
        24: Entry(
            range(6),
            {
                **{f"v3_and_below_{name}": value for name, value in of_producer.items()},
                "v3_and_below_topics.name": TOPIC,
                "v3_and_below_topics.partitions": (0,),
                **{f"transactions.{name}": value for name, value in of_producer.items()},
                "transactions.topics.name": TOPIC,
                "transactions.topics.partitions": (0,),
            },
            NONE,
            {*(NONE | TOPIC_CODES | NO_PRODUCER), "operation_not_attempted"},
        ),
        25: Entry(range(5), {**of_producer, "group_id": GROUP}, NONE, {*(NONE | NO_PRODUCER)}),
        26: Entry(
            range(6),
            {**of_producer, "committed": True},
            # From v5 on a transaction without partitions cannot be committed.
            {*NONE, "invalid_txn_state"},
            NO_PRODUCER,
        ),
        27: Entry(
            range(1, 3),
            {
                "markers.producer_id": producer_id,
                "markers.producer_epoch": producer_epoch,
                "markers.coordinator_epoch": 0,
                "markers.transaction_version": 0,
                "markers.topics.name": TOPIC,
                "markers.topics.partition_indexes": (0,),
            },
            NONE,
            {*NONE, *TOPIC_CODES, "invalid_producer_id_mapping"},
        ),
        28: Entry(
            range(6),
            {
                **of_producer,
                "group_id": GROUP,
                "member_id": "",
                "generation_id": -1,
                "group_instance_id": None,
                "topics.name": TOPIC,
                "topics.partitions.partition_index": 0,
                "topics.partitions.committed_metadata": "",
            },
            # The transaction is over: v5 begins the next one.
            {*NONE, "invalid_txn_state", "transaction_abortable"},
            {*(NONE | TOPIC_CODES | MEMBER_CODES | NO_PRODUCER)},
        ),
        65: Entry(
            range(1),
            {},
            {*NONE, "transactional_id_not_found"},
            {*NONE, "transactional_id_not_found"},
            # The codec cannot read the start time of an id without a transaction, which is -1.
            {"transactional_ids": (TRANSACTIONAL_ID, "missing")},
        ),
        66: Entry(
            range(3),
            {"state_filters": ("Ongoing",), "transactional_id_pattern": None},
            NONE,
            {*NONE, "invalid_regular_expression"},
        ),
    }


def admin_entries(scene: Scene) -> dict[int, Entry]:
    def new_name(rng: random.Random) -> str:
        return f"new-{rng.randrange(1 << 40)}"

    topic_config: Filling = {"resources.resource_type": 2, "resources.resource_name": TOPIC}
    retention: Filling = {"resources.configs.name": "retention.ms", "resources.configs.value": "-1"}
    config_codes = {*NONE, "invalid_request", "invalid_config", *TOPIC_CODES}
    return {
        18: Entry(
            range(5),
            {"client_software_name": "kio", "client_software_version": "1.0"},
            NONE,
            {*NONE, "invalid_request"},
        ),
        19: Entry(
            range(2, 8),
            {
                "topics.name": new_name,
                "topics.num_partitions": 2,
                "topics.replication_factor": 1,
                "topics.assignments": (),
                "topics.configs.name": "retention.ms",
                "topics.configs.value": "1000000",
            },
            NONE,
            {
                *("invalid_topic_exception", "invalid_partitions", "invalid_replication_factor"),
                *("invalid_replica_assignment", "invalid_config", "invalid_request"),
                *("policy_violation", "topic_already_exists", "none"),
            },
        ),
        20: Entry(
            range(1, 7),
            {"topic_names": ("gone",), "topics.name": "gone", "topics.topic_id": None},
            {"unknown_topic_or_partition"},
            {*(NONE | TOPIC_CODES), "invalid_request"},
        ),
        32: Entry(
            range(1, 5),
            {**topic_config, "resources.configuration_keys": ("retention.ms", "cleanup.policy")},
            NONE,
            config_codes,
        ),
        33: Entry(range(3), {**topic_config, **retention}, NONE, config_codes),
        34: Entry(
            range(1, 3),
            {"dirs.path": scene.log_dir, "dirs.topics.name": TOPIC, "dirs.topics.partitions": (0,)},
            NONE,
            {*TOPIC_CODES, "log_dir_not_found", "kafka_storage_error", "replica_not_available"},
        ),
        35: Entry(range(1, 6), {"topics.topic": TOPIC, "topics.partitions": (0,)}, NONE, {*NONE}),
        37: Entry(
            range(4),
            {
                "topics.name": TOPIC,
                "topics.count": 3,
                "topics.assignments": None,
                "validate_only": True,
            },
            NONE,
            {*TOPIC_CODES, "invalid_partitions", "invalid_replica_assignment", "policy_violation"},
        ),
        43: Entry(
            range(3),
            {
                "election_type": 0,
                "topic_partitions.topic": TOPIC,
                "topic_partitions.partitions": (0,),
            },
            {*NONE, "election_not_needed"},
            {*(NONE | TOPIC_CODES), "invalid_request", "election_not_needed"},
        ),
        44: Entry(
            range(2),
            {**topic_config, **retention, "resources.configs.config_operation": 0},
            NONE,
            config_codes,
        ),
        45: Entry(
            range(2),
            {
                "topics.name": TOPIC,
                "topics.partitions.partition_index": 0,
                "topics.partitions.replicas": (1,),
            },
            NONE,
            {
                *(NONE | TOPIC_CODES),
                *("invalid_replica_assignment", "no_reassignment_in_progress"),
                "invalid_replication_factor",
            },
        ),
        46: Entry(
            range(1), {"topics.name": TOPIC, "topics.partition_indexes": (0,)}, NONE, {*NONE}
        ),
        48: Entry(
            range(2),
            {
                "components.entity_type": "user",
                "components.match_type": 0,
                "components.match": "nobody",
            },
            NONE,
            {*NONE, "unsupported_version", "invalid_request"},
        ),
        49: Entry(
            range(2),
            {
                "entries.entity.entity_type": "user",
                "entries.entity.entity_name": "nobody",
                "entries.ops.key": "producer_byte_rate",
                "entries.ops.value": 1e9,
            },
            NONE,
            {*NONE, "invalid_request"},
        ),
        55: Entry(
            range(3),
            {
                "topics.topic_name": "__cluster_metadata",
                "topics.partitions.partition_index": 0,
            },
            NONE,
            {*TOPIC_CODES, "invalid_request", "none"},
        ),
        57: Entry(
            range(3),
            {
                "feature_updates.feature": "transaction.version",
                "feature_updates.max_version_level": 2,
                "feature_updates.upgrade_type": 1,
            },
            NONE,
            {*NONE, "invalid_update_version"},
        ),
        60: Entry(
            range(3),
            {"endpoint_type": 1},
            NONE,
            {*NONE, "unsupported_endpoint_type", "mismatched_endpoint_type", "invalid_request"},
        ),
        74: Entry(range(2), {"resource_types": (2,)}, NONE, {*NONE, "unsupported_version"}),
        75: Entry(
            range(1),
            {"topics.name": TOPIC, "response_partition_limit": 100, "cursor": None},
            NONE,
            {*(NONE | TOPIC_CODES), "invalid_request"},
        ),
    }


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Broker(SETTINGS) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with KioClient(host, int(port)) as client:
            create(client)
            member = joined(client)
            yield Scene(client, topic_id(client), member, producer(client), broker.directory)


def asked(client: KioClient, key: int, version: int, filling: Filling, seed: int = 0) -> Any:
    request = filled(load_request_schema(key, version), filling, random.Random(seed))
    return client.ask(key, version, request)


def create(client: KioClient) -> None:
    topic = {"topics.name": TOPIC, "topics.num_partitions": 2, "topics.replication_factor": 1}
    nothing_else: Filling = {
        "topics.assignments": (),
        "topics.configs": (),
        "validate_only": False,
    }
    answer = asked(client, CREATE_TOPICS, 7, {**topic, **nothing_else})
    assert error_codes(answer) == NONE


def topic_id(client: KioClient) -> uuid.UUID:
    answer = asked(client, METADATA, 12, {"topics.name": TOPIC, "topics.topic_id": None})
    (topic,) = answer.topics
    found: uuid.UUID = topic.topic_id
    return found


def joined(client: KioClient) -> Member:
    """The only member of a group, in the version in which that takes fewest steps."""
    asked(client, FIND_COORDINATOR, 0, {"key": GROUP})
    request: Filling = {
        "group_id": GROUP,
        "member_id": "",
        "session_timeout": MINUTE,
        "protocol_type": "consumer",
        "protocols.name": "range",
        "protocols.metadata": SUBSCRIPTION,
    }
    answer = asked(client, JOIN_GROUP, 0, request)
    assert error_codes(answer) == NONE
    member = Member(answer.member_id, answer.generation_id)
    synced = asked(
        client,
        SYNC_GROUP,
        0,
        {
            "group_id": GROUP,
            "member_id": member.member_id,
            "generation_id": member.generation_id,
            "assignments.member_id": member.member_id,
        },
    )
    assert error_codes(synced) == NONE
    return member


def producer(client: KioClient) -> Producer:
    """The producer of a transactional id."""
    asked(client, FIND_COORDINATOR, 1, {"key": TRANSACTIONAL_ID, "key_type": 1})
    answer = asked(
        client,
        INIT_PRODUCER_ID,
        4,
        {
            "transactional_id": TRANSACTIONAL_ID,
            "transaction_timeout": MINUTE,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    )
    assert error_codes(answer) == NONE
    return Producer(answer.producer_id, answer.producer_epoch)


def test_every_advertised_version_answers_a_foreign_codec_as_kafka_would(scene: Scene) -> None:
    table = entries(scene)
    offered = asked(scene.client, API_VERSIONS, 4, table[API_VERSIONS].filling)
    assert error_codes(offered) == NONE
    advertised = {
        (api.api_key, version)
        for api in offered.api_keys
        for version in range(api.min_version, api.max_version + 1)
    }
    known = {(key, version) for key, entry in table.items() for version in entry.versions}
    assert advertised == known, "each has an entry, and no entry is for another"
    wrong = []
    for key, version in sorted(advertised - ADVERTISED_ONLY):
        entry = table[key]
        answer = asked(scene.client, key, version, {**entry.filling, **entry.always}, version)
        if not error_codes(answer) <= entry.codes:
            wrong.append((key, version, "what is there", error_codes(answer) - entry.codes))
        for seed in range(RANDOM_ROUNDS):
            answer = asked(scene.client, key, version, entry.always, 1000 * version + seed)
            if not error_codes(answer) <= entry.random_codes:
                wrong.append((key, version, seed, error_codes(answer) - entry.random_codes))
    assert not wrong, "\n".join(map(str, wrong))


def test_the_broker_works_after_all_of_these(scene: Scene) -> None:
    produce, fetch = records_entries(scene)[PRODUCE], records_entries(scene)[FETCH]
    produced = asked(scene.client, PRODUCE, 13, {**produce.filling, "acks": -1})
    assert error_codes(produced) == NONE
    offset = produced.responses[0].partition_responses[0].base_offset
    fetched = asked(
        scene.client, FETCH, 18, {**fetch.filling, "topics.partitions.fetch_offset": offset}
    )
    assert error_codes(fetched) == NONE
    records = fetched.responses[0].partitions[0].records
    # But for where it stands and who led, it is what was sent.
    assert records[16:] == BATCH[16:]


# Names that no topic has, or can have; partitions that none has.
NAMES = ("missing", "x" * 249, "x" * 250, "x" * 32_000, "bad name!", ".", "..", "", "\N{BEETLE}")
INDEXES = (-1, -(2**31), 2**31 - 1)
MISSING = {"unknown_topic_or_partition"}
INVALID = {"invalid_topic_exception"}
# The API, the latest version that names topics, the fields of a topic's name and of an index, what
# is said of a topic that is missing, and of a name that none can have.
NAMED = (
    (0, 12, "topic_data.name", "topic_data.partition_data.index", MISSING, MISSING | INVALID),
    (1, 12, "topics.topic", "topics.partitions.partition", MISSING, MISSING),
    (2, 11, "topics.name", "topics.partitions.partition_index", MISSING, MISSING),
    (3, 13, "topics.name", None, MISSING, INVALID),
    (8, 9, "topics.name", "topics.partitions.partition_index", MISSING, MISSING),
    (9, 9, "groups.topics.name", "groups.topics.partition_indexes", NONE, NONE),
    (20, 5, "topic_names", None, MISSING, MISSING),
    (21, 2, "topics.name", "topics.partitions.partition_index", MISSING, MISSING),
    (23, 4, "topics.topic", "topics.partitions.partition", MISSING, MISSING),
    (37, 3, "topics.name", None, MISSING, MISSING),
    (
        43,
        2,
        "topic_partitions.topic",
        "topic_partitions.partitions",
        MISSING,
        MISSING,
    ),
    (45, 1, "topics.name", "topics.partitions.partition_index", MISSING, MISSING),
    (46, 0, "topics.name", "topics.partition_indexes", NONE, NONE),
    (47, 0, "topics.name", "topics.partitions.partition_index", MISSING, MISSING),
    (61, 0, "topics.name", "topics.partition_indexes", MISSING, MISSING | INVALID),
    (75, 0, "topics.name", None, MISSING, INVALID),
)


@pytest.mark.parametrize("named", NAMED, ids=lambda named: str(named[0]))
def test_invalid_topics_and_partitions_have_kafkas_codes(
    scene: Scene, named: tuple[int, int, str, str | None, set[str], set[str]]
) -> None:
    key, version, name_field, index_field, missing, invalid = named
    entry = entries(scene)[key]
    is_array = {"topic_names", "topic_partitions.partitions", "topics.partition_indexes"}
    is_array |= {"groups.topics.partition_indexes"}
    wrong = []

    def ask(field: str, value: str | int, expected: set[str]) -> None:
        filling = {field: (value,) if field in is_array else value}
        answer = asked(scene.client, key, version, {**entry.filling, **entry.always, **filling})
        # Of the request as a whole nothing is said.
        codes = error_codes(answer) - NONE or NONE
        if not codes <= expected:
            wrong.append((value if isinstance(value, int) else value[:10], codes))

    for name in NAMES:
        ask(name_field, name, missing if name in NAMES[:2] else invalid)
    for index in INDEXES if index_field else ():
        ask(str(index_field), index, missing)
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("named", NAMED, ids=lambda named: str(named[0]))
def test_a_topic_that_is_named_twice_is_answered(
    scene: Scene, named: tuple[int, int, str, str | None, set[str], set[str]]
) -> None:
    key, version, name_field, *_ = named
    entry = entries(scene)[key]
    schema = load_request_schema(key, version)
    request = filled(schema, {**entry.filling, **entry.always}, random.Random(0))
    array = name_field.partition(".")[0]
    twice = dataclasses.replace(request, **{array: getattr(request, array) * 2})
    codes = error_codes(scene.client.ask(key, version, twice))
    allowed = {*entry.codes, "invalid_request", "duplicate_resource"}
    assert codes
    assert codes <= allowed
