"""Every setting has an effect: each is changed in every possible way, and a probe observes it."""

from collections.abc import Mapping

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    Resource,
)
from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from tests.sim.seams.loop import run
from tests.support.broker.observations import TOPIC, World
from tests.support.broker.setting_probes import BROKER_PROBES, TOPIC_PROBES, Probe
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic
from tests.support.paths import ROOT

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
ALL_BROKERS, THIS_BROKER = "", "1"
SET, DELETE = 0, 1
PARTITIONS = 20

PROBES = (*TOPIC_PROBES.values(), *BROKER_PROBES)
BY_NAME = {name: probe for probe in PROBES for name in probe.values}

# Settings whose effect is tested elsewhere, by the tests of these names.
ELSEWHERE = {
    **dict.fromkeys(GROUP_SETTINGS, "test_a_groups_own_configs_apply_at_once"),
    "default.replication.factor": "test_omitted_numbers_are_the_default_settings",
    "delete.topic.enable": "test_nothing_is_deleted_if_deletion_is_disabled",
    **{
        f"group.consumer.{name}": "test_a_group_uses_the_brokers_settings"
        for name in (
            "assignors",
            "heartbeat.interval.ms",
            "max.size",
            "session.timeout.ms",
        )
    },
    **{
        f"group.consumer.{bound}.heartbeat.interval.ms": (
            "test_a_group_stays_within_the_brokers_bounds"
        )
        for bound in ("min", "max")
    },
    **{
        f"group.consumer.{name}": "test_values_outside_the_bounds_are_refused"
        for name in (
            "max.assignment.interval.ms",
            "max.session.timeout.ms",
            "min.session.timeout.ms",
        )
    },
    "group.consumer.min.assignment.interval.ms": (
        "test_a_broker_does_not_start_outside_its_own_bounds"
    ),
    "group.consumer.migration.policy": "test_the_migration_policy_limits_upgrades_and_downgrades",
    "group.initial.rebalance.delay.ms": "test_a_new_group_waits_for_the_initial_rebalance_delay",
    "group.max.session.timeout.ms": "test_a_session_is_neither_too_short_nor_too_long",
    "group.max.size": "test_members_of_a_group_are_limited",
    "group.min.session.timeout.ms": "test_a_session_is_neither_too_short_nor_too_long",
    "offset.metadata.max.bytes": "test_the_metadata_of_an_offset_is_limited",
    "offsets.commit.timeout.ms": "test_a_request_that_waits_too_long_is_told_to_retry",
    "offsets.retention.check.interval.ms": (
        "test_a_simple_consumers_offsets_expire_after_the_commit"
    ),
    "offsets.retention.minutes": "test_a_simple_consumers_offsets_expire_after_the_commit",
    "offsets.topic.num.partitions": "test_the_offsets_topic_is_created_with_the_brokers_settings",
    "offsets.topic.replication.factor": (
        "test_an_internal_topic_has_as_many_replicas_as_are_wanted"
    ),
    "offsets.topic.segment.bytes": "test_the_offsets_topic_is_created_with_the_brokers_settings",
    "ottla.groups.max": "test_the_number_of_groups_is_limited",
    "fetch.max.bytes": "test_the_brokers_limit_applies_to_every_fetch",
    "inter.broker.listener.name": (
        "test_requests_between_brokers_are_accepted_on_their_listener_only"
    ),
    "replica.selector.class": (
        "test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there"
    ),
    "request.timeout.ms": (
        "test_without_a_controller_a_request_times_out_and_the_connection_goes_on"
    ),
    "listener.security.protocol.map": (
        "test_a_listener_of_any_name_is_opened_with_the_protocol_that_the_map_gives_it"
    ),
    "log.dir": "test_older_names_still_count",
    "log.dirs": "test_with_several_directories_every_partition_is_in_one_of_them",
    "max.incremental.fetch.session.cache.slots": (
        "test_without_slots_fetches_are_served_without_a_session"
    ),
    "ottla.tail.batches.max": "test_a_full_tail_forgets_its_older_half",
    **{
        f"transaction.state.log.{name}": (
            "test_the_transaction_topic_is_created_with_the_brokers_settings"
        )
        for name in ("min.isr", "num.partitions", "segment.bytes")
    },
    **dict.fromkeys(
        (
            "transaction.max.timeout.ms",
            "ottla.transaction.partitions.max",
            "ottla.transactional.ids.max",
        ),
        "test_timeouts_ids_and_partitions_are_limited_by_settings",
    ),
    **dict.fromkeys(
        (
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            "transactional.id.expiration.ms",
        ),
        "test_idle_transactional_ids_expire_by_settings",
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "test_a_transaction_whose_producer_is_gone_is_aborted_after_its_timeout"
    ),
    **{
        f"add.partitions.to.txn.retry.backoff.{name}": (
            "test_a_leader_asks_again_while_markers_are_written_as_long_as_its_settings_say"
        )
        for name in ("ms", "max.ms")
    },
    "ottla.pending.offsets.max": "test_offsets_in_open_transactions_are_limited",
    "transaction.state.log.load.buffer.size": "test_a_log_is_read_in_pieces_of_the_load_buffer",
    "transaction.state.log.replication.factor": (
        "test_an_internal_topic_has_as_many_replicas_as_are_wanted"
    ),
    **{
        f"replica.fetch.{name}": ("test_a_follower_fetches_in_pieces_and_waits_as_its_settings_say")
        for name in ("max.bytes", "min.bytes", "response.max.bytes", "wait.max.ms")
    },
    "replica.high.watermark.checkpoint.interval.ms": (
        "test_high_watermarks_are_saved_as_often_as_the_setting_says"
    ),
    "replica.fetch.backoff.ms": "test_a_partition_that_fails_is_left_out_for_the_backoff",
    "replica.lag.time.max.ms": (
        "test_a_follower_that_lags_leaves_the_isr_and_joins_again_when_it_has_caught_up"
    ),
    "replica.socket.timeout.ms": "test_a_leader_that_does_not_answer_is_asked_again",
    "auto.leader.rebalance.enable": "test_preferred_leaders_come_back_as_the_settings_say",
    **{
        f"leader.imbalance.{name}": "test_preferred_leaders_come_back_as_the_settings_say"
        for name in ("check.interval.seconds", "per.broker.percentage")
    },
    "broker.rack": "test_a_broker_registers_its_rack",
    "unclean.leader.election.enable": (
        "test_a_setting_allows_a_live_replica_to_lead_without_the_last_records"
    ),
    **{
        f"{side}.replication.throttled.{what}": (
            "test_throttled_replicas_are_those_of_the_settings_while_the_broker_runs"
        )
        for side in ("leader", "follower")
        for what in ("rate", "replicas")
    },
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "test_the_rate_of_copies_is_that_of_the_settings_while_the_broker_runs"
    ),
    "ottla.event.loop.stall.max.ms": "test_only_a_broker_of_a_cluster_has_a_watchdog",
    "zookeeper.connect": "test_no_acknowledged_record_is_lost_when_a_leader_is_killed",
    "zookeeper.session.timeout.ms": "test_the_session_timeout_is_the_one_that_the_servers_grant",
    "zookeeper.connection.timeout.ms": (
        "test_a_start_without_servers_fails_after_the_connection_timeout"
    ),
    **dict.fromkeys(
        (
            "ottla.zookeeper.auth.digest.file",
            "zookeeper.set.acl",
            *(
                f"zookeeper.ssl.{name}"
                for name in (
                    "client.enable",
                    "keystore.location",
                    "keystore.password",
                    "truststore.location",
                )
            ),
        ),
        "test_nodes_are_for_the_identity_of_the_brokers_only",
    ),
    "socket.listen.backlog.size": "test_as_many_connections_wait_as_the_backlog_says",
}


async def change(client: Client, kind: int, resource: str, name: str, value: str | None) -> None:
    """Sets a config, or deletes it with None."""
    operation = DELETE if value is None else SET
    config = Config(name=name, config_operation=operation, value=value)
    asked = Resource(resource_type=kind, resource_name=resource, configs=(config,))
    (result,) = (
        await client.ask(IncrementalAlterConfigsRequest(resources=(asked,), validate_only=False))
    ).responses
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)


def look(
    probe: Probe,
    started_with: Mapping[str, str],
    *changes: tuple[int, str, str, str | None],
) -> object:
    """The probe's observation of a broker after these changes, on a topic with a record."""
    machine = Machine()

    async def tell() -> object:
        given = {name.replace(".", "_"): value for name, value in started_with.items()}
        async with machine.broker(**given) as client:
            world = World(machine, client)
            await create(client, new_topic(TOPIC, PARTITIONS))
            await world.send_value()
            for each in changes:
                await change(client, *each)
            return await probe.look(world)

    return run(tell(), clock=machine.clock)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_broker_uses_its_initial_settings(name: str) -> None:
    probe = BY_NAME[name]
    assert look(probe, probe.beside) == probe.by_default
    assert look(probe, {**probe.beside, name: probe.values[name]}) == probe.changed


@pytest.mark.parametrize("name", [name for name in BY_NAME if BROKER_SETTINGS[name].is_dynamic])
def test_a_broker_uses_settings_changed_while_it_runs(name: str) -> None:
    probe = BY_NAME[name]
    value = probe.values[name]
    for resource in (ALL_BROKERS, THIS_BROKER):
        setting = (BROKER_RESOURCE, resource, name)
        assert look(probe, probe.beside, (*setting, value)) == probe.changed
        assert look(probe, probe.beside, (*setting, value), (*setting, None)) == probe.by_default


@pytest.mark.parametrize("name", TOPIC_PROBES)
def test_a_topic_uses_configs_changed_while_the_broker_runs(name: str) -> None:
    probe = TOPIC_PROBES[name]
    setting = (TOPIC_RESOURCE, TOPIC, name)
    value = next(iter(probe.values.values()))
    assert look(probe, probe.beside, (*setting, value)) == probe.changed
    assert look(probe, probe.beside, (*setting, value), (*setting, None)) == probe.by_default


def test_every_setting_has_a_probe_or_a_test_elsewhere() -> None:
    settable = {
        name
        for table in (TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS)
        for name, setting in table.items()
        if not setting.unsupported_reason
    }
    assert settable == {*TOPIC_PROBES, *BY_NAME, *ELSEWHERE}


def test_the_tests_named_here_exist() -> None:
    tests = ROOT / "tests"
    written = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    named = (*ELSEWHERE.values(), *CHANGED_ELSEWHERE.values())
    assert [name for name in named if f"def {name}(" not in written] == []


# Dynamic settings that need several brokers or log directories to be seen: the tests of these names
# change them.
CHANGED_ELSEWHERE = {
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "test_the_rate_of_copies_is_that_of_the_settings_while_the_broker_runs"
    ),
    "unclean.leader.election.enable": (
        "test_a_setting_that_allows_unclean_elections_has_one_held_at_once"
    ),
    **{
        f"{side}.replication.throttled.{what}": (
            "test_throttled_replicas_are_those_of_the_settings_while_the_broker_runs"
        )
        for side in ("leader", "follower")
        for what in ("rate", "replicas")
    },
}


def test_every_dynamic_setting_is_changed_here_or_elsewhere() -> None:
    dynamic = {
        name
        for name, setting in BROKER_SETTINGS.items()
        if setting.is_dynamic and not setting.unsupported_reason
    }
    of_topics = {name for name, each in TOPIC_SETTINGS.items() if not each.unsupported_reason}
    assert dynamic | of_topics == {
        *(name for name in BY_NAME if BROKER_SETTINGS[name].is_dynamic),
        *TOPIC_PROBES,
        *CHANGED_ELSEWHERE,
    }
