"""The group coordinator's metrics, by protocol and state."""

from ottla.metrics.groups import group_collectors
from ottla.metrics.meters import GroupMeter


def samples(meter: GroupMeter) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for collector in group_collectors(meter)
        for page in collector.collect()
        for sample in page.samples
    }


def test_groups_are_counted_by_protocol_and_state() -> None:
    meter = GroupMeter()
    meter.groups = {("classic", "Stable"): 2, ("classic", "Empty"): 1, ("consumer", "Stable"): 4}
    found = samples(meter)
    manager = "kafka_coordinator_group_groupmetadatamanager_"
    coordinator = "kafka_server_group_coordinator_metrics_"
    assert found[f"{manager}numgroups", ()] == 3
    assert found[f"{manager}numgroupsstable", ()] == 2
    assert found[f"{manager}numgroupsdead", ()] == 0
    assert found[f"{coordinator}group_count", ("classic",)] == 3
    assert found[f"{coordinator}group_count", ("consumer",)] == 4
    assert found[f"{coordinator}consumer_group_count", ("stable",)] == 4


def test_loads_have_an_average_and_a_maximum() -> None:
    meter = GroupMeter()
    for took_ms in (10, 30):
        meter.note_load(took_ms, longest_stall_ns=0)
    found = samples(meter)
    assert found["kafka_server_group_coordinator_metrics_partition_load_time_max", ()] == 30
    assert found["kafka_server_group_coordinator_metrics_partition_load_time_avg", ()] == 20
