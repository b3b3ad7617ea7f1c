"""Plans of replicas: complete, even, over many racks, with as few moves as possible."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.admin.balanced_choice import Choice, choose
from ottla.client.admin.replica_plans import (
    PlacedPartition,
    Placement,
    Replicas,
    Targets,
    plan_drain,
    plan_factor,
    plan_spread,
)
from ottla.protocol.topic_partition import TopicPartition

steady = settings(derandomize=True, deadline=None, max_examples=80)
FACTOR_MAX = 3


@st.composite
def placements(draw: st.DrawFn, *, racks: bool = False, brokers_max: int = 7) -> Placement:
    """Some brokers live, and some replicas may be on others, which do not."""
    count = draw(st.integers(FACTOR_MAX + 1, brokers_max))
    brokers = tuple(range(1, count + 1))
    anywhere = st.lists(
        st.sampled_from((*brokers, 90)), min_size=1, max_size=FACTOR_MAX, unique=True
    )
    partitions = []
    for number in range(draw(st.integers(1, 12))):
        replicas = tuple(draw(anywhere))
        in_sync = tuple(each for each in replicas if draw(st.booleans()))
        partitions.append(PlacedPartition(TopicPartition("orders", number), replicas, in_sync))
    domains = {each: draw(st.sampled_from("abc")) for each in brokers} if racks else {}
    return Placement(brokers, tuple(partitions), domains)


def names(placement: Placement) -> set[TopicPartition]:
    return {each.name for each in placement.partitions}


def after(placement: Placement, targets: Targets) -> dict[TopicPartition, Replicas]:
    present = {each.name: each.replicas for each in placement.partitions}
    assert targets.keys() <= present.keys()
    assert all(target != present[name] for name, target in targets.items())
    return present | targets


def loads(brokers: Iterable[int], assigned: Mapping[TopicPartition, Replicas]) -> Counter[int]:
    found = Counter(dict.fromkeys(brokers, 0))
    found.update(each for replicas in assigned.values() for each in replicas)
    return found


def spread(counts: Iterable[int]) -> int:
    """By how much the counts differ."""
    values = list(counts)
    return max(values) - min(values)


def crowding(domains: Mapping[int, str], replicas: Iterable[int]) -> int:
    """The pairs of replicas in one rack."""
    pairs = combinations([domains[each] for each in replicas if each in domains], 2)
    return sum(first == second for first, second in pairs)


@steady
@given(placements(racks=True))
def test_a_drain_leaves_the_broker_nothing_and_moves_nothing_else(placement: Placement) -> None:
    present = {each.name: each.replicas for each in placement.partitions}
    targets = plan_drain(placement, 1)
    assert targets.keys() == {name for name, replicas in present.items() if 1 in replicas}
    for name, target in targets.items():
        assert 1 not in target
        assert len(set(target)) == len(target) == len(present[name])
        assert set(target) >= set(present[name]) - {1}
        assert set(target) <= {*present[name], *placement.brokers}
        if present[name][0] != 1:
            assert target[0] == present[name][0]


@steady
@given(placements(), st.integers(1, FACTOR_MAX + 1))
def test_a_factor_is_reached_with_the_present_replicas(placement: Placement, factor: int) -> None:
    targets = plan_factor(placement, names(placement), factor)
    assigned = after(placement, targets)
    for each in placement.partitions:
        target = set(assigned[each.name])
        assert len(target) == len(assigned[each.name]) == factor
        kept = target & set(each.replicas)
        assert len(kept) == min(factor, len(each.replicas))
        whole = set(each.in_sync) & set(placement.brokers)
        assert len(target & whole) == min(len(whole), factor)


@steady
@given(placements(), st.integers(1, FACTOR_MAX + 1))
def test_preferred_leaders_are_spread_as_the_replicas_allow(
    placement: Placement, factor: int
) -> None:
    assigned = after(placement, plan_factor(placement, names(placement), factor))
    leads = Counter(replicas[0] for replicas in assigned.values())
    for replicas in assigned.values():
        assert all(leads[replicas[0]] - leads[other] <= 1 for other in replicas)


@steady
@given(placements())
def test_a_spread_is_even_to_within_one_replica(placement: Placement) -> None:
    assigned = after(placement, plan_spread(placement, names(placement), placement.brokers))
    for each in placement.partitions:
        assert len(set(assigned[each.name])) == len(assigned[each.name]) == len(each.replicas)
    on_brokers = loads(placement.brokers, assigned)
    assert on_brokers.keys() == set(placement.brokers)
    assert spread(on_brokers.values()) <= 1


@steady
@given(placements(), st.integers(1, FACTOR_MAX))
def test_a_spread_of_equal_factors_is_even_to_within_one_leader(
    placement: Placement, factor: int
) -> None:
    equal = after(placement, plan_factor(placement, names(placement), factor))
    placement = Placement(
        placement.brokers,
        tuple(PlacedPartition(name, replicas, replicas) for name, replicas in equal.items()),
    )
    assigned = after(placement, plan_spread(placement, names(placement), placement.brokers))
    leads = Counter(dict.fromkeys(placement.brokers, 0))
    leads.update(replicas[0] for replicas in assigned.values())
    assert spread(leads.values()) <= 1


@steady
@given(placements())
def test_a_spread_of_a_spread_moves_nothing(placement: Placement) -> None:
    once = after(placement, plan_spread(placement, names(placement), placement.brokers))
    again = Placement(
        placement.brokers,
        tuple(PlacedPartition(name, replicas, replicas) for name, replicas in once.items()),
    )
    assert plan_spread(again, names(again), again.brokers) == {}


@steady
@given(placements(racks=True))
def test_a_spread_has_as_many_racks_as_there_are(placement: Placement) -> None:
    domains = placement.domains
    for replicas in after(
        placement, plan_spread(placement, names(placement), placement.brokers)
    ).values():
        best = min(
            crowding(domains, each) for each in combinations(placement.brokers, len(replicas))
        )
        assert crowding(domains, replicas) == best


@steady
@given(placements(racks=True), st.integers(1, FACTOR_MAX + 1))
def test_new_replicas_are_in_as_many_racks_as_the_present_ones_allow(
    placement: Placement, factor: int
) -> None:
    assigned = after(placement, plan_factor(placement, names(placement), factor))
    for each in placement.partitions:
        missing = factor - len(each.replicas)
        if missing > 0:
            others = [broker for broker in placement.brokers if broker not in each.replicas]
            best = min(
                crowding(placement.domains, (*each.replicas, *added))
                for added in combinations(others, missing)
            )
            assert crowding(placement.domains, assigned[each.name]) == best


@steady
@given(placements(racks=True))
def test_no_replica_of_a_drained_broker_has_a_better_place(placement: Placement) -> None:
    """A broker with two replicas less, in no worse rack, would have been better."""
    targets = plan_drain(placement, 1)
    left = [each for each in placement.brokers if each != 1]
    on_brokers = loads(left, after(placement, targets))
    present = {each.name: each.replicas for each in placement.partitions}
    for name, target in targets.items():
        (new,) = set(target) - set(present[name])
        for other in set(left) - set(target):
            swapped = [other if each == new else each for each in target]
            if crowding(placement.domains, swapped) <= crowding(placement.domains, target):
                assert on_brokers[new] - on_brokers[other] <= 1


small_choices = st.dictionaries(
    st.integers(0, 3),
    st.builds(
        lambda options, count, present: Choice(
            tuple(sorted(options)), min(count, len(options)), tuple(sorted(present))
        ),
        st.sets(st.integers(1, 4), min_size=1),
        st.integers(1, 2),
        st.sets(st.integers(1, 4)),
    ),
    min_size=1,
)


@steady
@given(small_choices, st.dictionaries(st.integers(1, 4), st.integers(0, 3)))
def test_a_choice_is_the_evenest_of_all_and_of_these_the_one_with_the_fewest_changes(
    choices: dict[int, Choice], besides: dict[int, int]
) -> None:
    def cost(chosen: Iterable[tuple[Choice, Iterable[int]]]) -> tuple[int, int]:
        load, changes = Counter(besides), 0
        for choice, brokers in chosen:
            load.update(brokers)
            changes += len(set(brokers) - set(choice.present))
        return sum(each * each for each in load.values()), changes

    made = choose(choices, besides)
    every = product(*(combinations(each.options, each.count) for each in choices.values()))
    best = min(cost(zip(choices.values(), each, strict=True)) for each in every)
    assert cost((choices[key], made[key]) for key in choices) == best


@steady
@given(placements(racks=True))
def test_a_plan_does_not_depend_on_the_order_in_which_brokers_are_listed(
    placement: Placement,
) -> None:
    turned = Placement(placement.brokers[::-1], placement.partitions, placement.domains)
    everything = names(placement)
    assert plan_drain(placement, 1) == plan_drain(turned, 1)
    assert plan_factor(placement, everything, 2) == plan_factor(turned, everything, 2)
    assert plan_spread(placement, everything, placement.brokers) == plan_spread(
        turned, everything, turned.brokers
    )


def test_too_few_brokers_are_an_error() -> None:
    partition = PlacedPartition(TopicPartition("orders", 0), (1, 2), (1, 2))
    placement = Placement((1, 2), (partition,))
    with pytest.raises(ValueError, match="2 brokers out of 1"):
        plan_drain(placement, 1)
    with pytest.raises(ValueError, match="3 brokers out of 2"):
        plan_factor(placement, {partition.name}, 3)
    with pytest.raises(ValueError, match="2 brokers out of 1"):
        plan_spread(placement, {partition.name}, [2])
