import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptLog
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEntry, LeaderEpochs
from tests.support.storage.recorded_log_files import CASES, batches_of, expected, files_of

NAME = "leader-epoch-checkpoint"


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


# Assigning


def test_a_new_leader_begins_where_the_log_ends() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest is None
    assert epochs.assign(0, 0)
    assert epochs.assign(2, 65)
    assert epochs.entries == ((0, 0), (2, 65))
    assert epochs.latest == (2, 65)


def test_the_same_epoch_again_is_no_news() -> None:
    epochs = epochs_of((0, 0), (2, 65))
    assert not epochs.assign(2, 65)
    assert not epochs.assign(2, 70)
    assert epochs.entries == ((0, 0), (2, 65))


def test_an_epoch_that_wrote_nothing_is_replaced_by_the_next() -> None:
    epochs = epochs_of((0, 0), (2, 42), (4, 84))
    assert epochs.assign(6, 84)
    assert epochs.encode() == b"0\n3\n0 0\n2 42\n6 84\n"


@pytest.mark.parametrize(
    ("epoch", "start_offset", "left"),
    [
        (3, 15, [(1, 0), (2, 10), (3, 15)]),
        (3, 5, [(1, 0), (3, 5)]),
        (5, 10, [(1, 0), (5, 10)]),
        (1, 30, [(1, 30)]),
        (2, 0, [(2, 0)]),
        (4, 12, [(1, 0), (2, 10), (4, 12)]),
    ],
)
def test_what_contradicts_the_newest_assignment_goes(
    epoch: int, start_offset: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((1, 0), (2, 10), (4, 20))
    assert epochs.assign(epoch, start_offset)
    assert list(epochs.entries) == left


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_nothing_is_written_before_the_first_epoch_or_offset(epoch: int, start_offset: int) -> None:
    with pytest.raises(ValueError):
        LeaderEpochs().assign(epoch, start_offset)


# Where an epoch ends (KIP-101, KIP-279)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        pytest.param(9, (9, 90), id="the latest epoch ends where the log does"),
        pytest.param(5, (5, 60), id="an epoch ends where the next one starts"),
        pytest.param(2, (2, 40), id="the first one as well"),
        pytest.param(7, (5, 60), id="one that wrote nothing here: the epoch before it"),
        pytest.param(3, (2, 40), id="however far before"),
        pytest.param(0, (0, 20), id="one whose records are gone: where what is left starts"),
        pytest.param(10, UNKNOWN_END, id="one that this log has not reached"),
        pytest.param(-1, UNKNOWN_END, id="none"),
    ],
)
def test_where_an_epoch_ends(asked: int, answer: tuple[int, int]) -> None:
    epochs = epochs_of((2, 20), (5, 40), (9, 60))
    assert epochs.end_offset(asked, log_end_offset=90) == answer


def test_a_log_without_epochs_knows_no_end() -> None:
    assert LeaderEpochs().end_offset(0, log_end_offset=10) == UNKNOWN_END


def truncate_like(follower: LeaderEpochs, follower_end: int, leader: LeaderEpochs, end: int) -> int:
    """How a follower finds where it parted from its leader: ask, cut, ask again."""
    while follower.latest is not None:
        asked = follower.latest.epoch
        found, leader_end = leader.end_offset(asked, end)
        _, own_end = follower.end_offset(found, follower_end)
        cut = min(leader_end, own_end if own_end >= 0 else leader_end, follower_end)
        follower.truncate_end(cut)
        follower_end = cut
        if found == asked or follower.latest is None:
            break
    return follower_end


def test_follower_cuts_what_only_the_lost_leader_had() -> None:
    """KIP-101: A led epoch 0 and wrote 0-1, B had only 0 and wrote its own 1 in epoch 1."""
    a, b = epochs_of((0, 0)), epochs_of((0, 0), (1, 1))
    assert truncate_like(a, 2, b, 2) == 1


def test_follower_survives_fast_leader_changes_with_holes_between() -> None:
    """KIP-279: two logs parted at offset 10, and each has epochs that the other never saw."""
    a, b = epochs_of((0, 0), (2, 10)), epochs_of((0, 0), (1, 10), (3, 12))
    assert truncate_like(a, 15, b, 20) == 10
    assert a.entries == ((0, 0),)


# Which epoch wrote an offset


@pytest.mark.parametrize(
    ("offset", "epoch"), [(19, None), (20, 2), (39, 2), (40, 5), (59, 5), (60, 9), (1000, 9)]
)
def test_which_epoch_wrote_an_offset(offset: int, epoch: int | None) -> None:
    assert epochs_of((2, 20), (5, 40), (9, 60)).epoch_at(offset) == epoch


# Cutting the log


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (61, [(2, 20), (5, 40), (9, 60)]),
        (60, [(2, 20), (5, 40)]),
        (41, [(2, 20), (5, 40)]),
        (40, [(2, 20)]),
        (0, []),
    ],
)
def test_cutting_the_end_forgets_epochs_that_wrote_only_there(
    offset: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((2, 20), (5, 40), (9, 60))
    assert epochs.truncate_end(offset) == (len(left) < 3)
    assert list(epochs.entries) == left


@pytest.mark.parametrize(
    ("offset", "left", "changed"),
    [
        (10, [(2, 20), (5, 40), (9, 60)], False),
        (20, [(2, 20), (5, 40), (9, 60)], False),
        (21, [(2, 21), (5, 40), (9, 60)], True),
        (40, [(5, 40), (9, 60)], True),
        (55, [(5, 55), (9, 60)], True),
        (80, [(9, 80)], True),
    ],
)
def test_cutting_the_front_moves_the_epoch_that_is_cut(
    offset: int, left: list[tuple[int, int]], changed: bool
) -> None:
    epochs = epochs_of((2, 20), (5, 40), (9, 60))
    assert epochs.truncate_start(offset) is changed
    assert list(epochs.entries) == left


# The file


def test_every_file_that_kafka_wrote_is_read_and_written_alike() -> None:
    seen = 0
    for case in CASES:
        for name, content in files_of(case).items():
            if name.endswith(f"/{NAME}"):
                assert LeaderEpochs.decode(content, name).encode() == content
                seen += 1
    assert seen == 55


@pytest.mark.parametrize(
    ("case", "partition"),
    [
        ("transactions", "transactions-0"),
        ("idempotent", "idempotent-0"),
        ("segments", "segments-0"),
        ("segments", "overwritten-epochs-0"),
    ],
)
def test_epochs_found_in_the_batches_are_those_of_kafkas_file(case: str, partition: str) -> None:
    epochs = LeaderEpochs()
    for header, _ in batches_of(case, partition):
        epochs.assign(header.partition_leader_epoch, header.base_offset)
    assert epochs.encode().decode() == expected(case)["partitions"][partition][NAME]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1\n0\n", 1),
        (b"zero\n0\n", 1),
        (b"0", 1),
        (b"0\n2\n0 0\n", 2),
        (b"0\n0\n0 0\n", 2),
        (b"0\n1\n0\n", 3),
        (b"0\n1\n0 0 0\n", 3),
        (b"0\n1\n0 -1\n", 3),
        (b"0\n1\n0 1_0\n", 3),
        (b"0\n1\n0 99999999999999999999\n", 3),
        (b"0\n1\n0 9999999999999999999\n", 3),
        (b"0\n2\n0 0\n\xff 5\n", 4),
        (b"0\n2\n1 0\n0 5\n", 4),
        (b"0\n2\n1 7\n2 5\n", 4),
    ],
)
def test_a_garbled_file_is_named_with_its_line(content: bytes, line: int) -> None:
    with pytest.raises(CorruptLog, match=rf"logs/t-0/{NAME}, byte \d+: line {line}: "):
        LeaderEpochs.decode(content, f"logs/t-0/{NAME}")


def test_an_empty_file_holds_no_epochs() -> None:
    assert LeaderEpochs.decode(b"") == LeaderEpochs()
    assert LeaderEpochs.decode(b"0\n0\n") == LeaderEpochs()


offsets = st.integers(0, 50)
changes = st.one_of(
    st.tuples(st.just("assign"), st.integers(0, 9), offsets),
    st.tuples(st.just("truncate_end"), offsets),
    st.tuples(st.just("truncate_start"), offsets),
)


@settings(derandomize=True, deadline=None)
@given(st.lists(changes, max_size=12))
def test_whatever_happens_epochs_and_offsets_rise_and_the_file_holds_them(
    steps: list[tuple[str, int]],
) -> None:
    epochs = LeaderEpochs()
    for name, *arguments in steps:
        before = epochs.entries
        assert getattr(epochs, name)(*arguments) == (epochs.entries != before)
    for earlier, later in zip(epochs.entries, epochs.entries[1:], strict=False):
        assert earlier.epoch < later.epoch
        assert earlier.start_offset < later.start_offset
    assert LeaderEpochs.decode(epochs.encode()) == epochs
