"""Replica placement: replicas of a partition are separated, and brokers are balanced."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.controller.replica_placement import UsableBroker, place_replicas


def usable(count: int, *, racks: int = 0, hosts: int = 0) -> list[UsableBroker]:
    return [
        UsableBroker(
            number + 1,
            f"rack-{number % racks}" if racks else None,
            f"host-{number % hosts}" if hosts else f"host-{number}",
        )
        for number in range(count)
    ]


def replicas_of_each(placed: list[tuple[int, ...]]) -> Counter[int]:
    return Counter(broker_id for replicas in placed for broker_id in replicas)


def test_six_brokers_share_ten_partitions_of_three_replicas_five_each() -> None:
    for start in range(12):
        placed = place_replicas(usable(6), 10, 3, start)

        assert set(replicas_of_each(placed).values()) == {5}


def test_leaders_are_spread_as_evenly_as_they_can_be() -> None:
    for start in range(12):
        leaders = Counter(replicas[0] for replicas in place_replicas(usable(6), 10, 3, start))

        assert set(leaders.values()) == {1, 2}


def test_the_same_start_gives_the_same_placement_and_another_start_another() -> None:
    assert place_replicas(usable(5), 7, 2, 3) == place_replicas(usable(5), 7, 2, 3)
    assert place_replicas(usable(5), 7, 2, 3) != place_replicas(usable(5), 7, 2, 4)


def test_no_partition_has_two_replicas_in_one_rack_while_there_are_racks_enough() -> None:
    racked = usable(6, racks=3)
    rack_of = {broker.broker_id: broker.rack for broker in racked}

    placed = place_replicas(racked, 10, 3, 1)

    assert all(len({rack_of[broker_id] for broker_id in replicas}) == 3 for replicas in placed)
    assert set(replicas_of_each(placed).values()) == {5}


def test_with_too_few_racks_every_rack_still_has_a_replica() -> None:
    racked = usable(6, racks=2)
    rack_of = {broker.broker_id: broker.rack for broker in racked}

    placed = place_replicas(racked, 10, 3, 0)

    assert all(
        {rack_of[broker_id] for broker_id in replicas} == {"rack-0", "rack-1"}
        for replicas in placed
    )


def test_brokers_of_one_host_are_kept_apart_where_there_are_no_racks() -> None:
    crowded = usable(6, hosts=3)
    host_of = {broker.broker_id: broker.host for broker in crowded}

    placed = place_replicas(crowded, 10, 3, 2)

    assert all(len({host_of[broker_id] for broker_id in replicas}) == 3 for replicas in placed)


def test_replicas_that_share_a_rack_are_on_different_hosts() -> None:
    """Two racks of two hosts with two brokers each."""
    crowded = [
        UsableBroker(number + 1, f"rack-{number // 4}", f"host-{number // 2}")
        for number in range(8)
    ]
    host_of = {broker.broker_id: broker.host for broker in crowded}
    rack_of = {broker.broker_id: broker.rack for broker in crowded}

    for start in range(16):
        placed = place_replicas(crowded, 10, 4, start)

        assert all(len({host_of[each] for each in replicas}) == 4 for replicas in placed)
        for replicas in placed:
            assert (
                sorted(rack_of[each] or "" for each in replicas) == ["rack-0"] * 2 + ["rack-1"] * 2
            )


def test_the_replicas_of_a_brokers_partitions_are_on_different_brokers() -> None:
    placed = place_replicas(usable(6), 12, 2, 0)

    partners = {broker_id for replicas in placed if 1 in replicas for broker_id in replicas} - {1}
    assert len(partners) > 1


def test_more_replicas_than_brokers_cannot_be_placed() -> None:
    with pytest.raises(ValueError, match="2 replicas on 1 brokers"):
        place_replicas(usable(1), 1, 2, 0)


@settings(derandomize=True, deadline=None)
@given(
    brokers=st.integers(1, 9),
    partitions=st.integers(0, 30),
    factor=st.integers(1, 9),
    start=st.integers(0, 1 << 16),
)
def test_without_racks_no_broker_has_two_replicas_more_than_another(
    brokers: int, partitions: int, factor: int, start: int
) -> None:
    factor = min(factor, brokers)

    placed = place_replicas(usable(brokers), partitions, factor, start)

    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor for replicas in placed)
    counts = replicas_of_each(placed)
    loads = [counts[broker.broker_id] for broker in usable(brokers)]
    assert max(loads) - min(loads) <= 1
    leaders = Counter(replicas[0] for replicas in placed)
    leads = [leaders[broker.broker_id] for broker in usable(brokers)]
    assert max(leads) - min(leads) <= 2


@st.composite
def racked_brokers(draw: st.DrawFn) -> list[UsableBroker]:
    """Racks of hosts, each host with one or more brokers; some brokers may have no rack."""
    racks = draw(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), max_size=4))
    placed = [
        (f"rack-{rack}", f"host-{rack}-{host}")
        for rack, hosts in enumerate(racks)
        for host, count in enumerate(hosts)
        for _ in range(count)
    ]
    without = draw(st.integers(0 if placed else 1, 3))
    names: list[tuple[str | None, str]] = [*placed, *((None, f"free-{n}") for n in range(without))]
    order = draw(st.permutations(names))
    return [UsableBroker(number, *each) for number, each in enumerate(order, 1)]


@settings(derandomize=True, deadline=None)
@given(
    brokers=racked_brokers(),
    partitions=st.integers(1, 30),
    factor=st.integers(1, 6),
    start=st.integers(0, 1 << 16),
)
def test_replicas_are_apart_by_rack_then_by_host_and_leaders_are_spread(
    brokers: list[UsableBroker], partitions: int, factor: int, start: int
) -> None:
    factor = min(factor, len(brokers))
    by_id = {broker.broker_id: broker for broker in brokers}
    in_rack = Counter(broker.rack for broker in brokers)

    placed = place_replicas(brokers, partitions, factor, start)

    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        chosen = [by_id[each] for each in replicas]
        used = Counter(broker.rack for broker in chosen)
        # A rack has two replicas more than another one only if that one has no more brokers.
        for rack, size in in_rack.items():
            assert used[rack] == size or used[rack] >= max(used.values()) - 1
        for rack in used:
            hosts = Counter(broker.host for broker in chosen if broker.rack == rack)
            hosts_of_rack = {broker.host for broker in brokers if broker.rack == rack}
            if used[rack] <= len(hosts_of_rack):
                assert set(hosts.values()) == {1}
    leaders = Counter(replicas[0] for replicas in placed)
    holders = Counter(broker_id for replicas in placed for broker_id in replicas)
    # Nobody leads all that it has while another replica of it leads much less.
    for replicas in placed:
        least = min(leaders[each] for each in replicas)
        assert leaders[replicas[0]] <= least + 2, (leaders, holders)


@settings(derandomize=True, deadline=None)
@given(
    racks=st.integers(1, 4),
    per_rack=st.integers(1, 4),
    partitions=st.integers(1, 40),
    start=st.integers(0, 1 << 16),
    data=st.data(),
)
def test_equal_racks_are_loaded_equally(
    racks: int, per_rack: int, partitions: int, start: int, data: st.DataObject
) -> None:
    brokers = usable(racks * per_rack, racks=racks)
    factor = data.draw(st.integers(1, min(6, len(brokers))))

    loads = replicas_of_each(place_replicas(brokers, partitions, factor, start))

    counts = [loads[broker.broker_id] for broker in brokers]
    assert max(counts) - min(counts) <= 1
