from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader, Marker, MarkerKind, read_header
from ottla.storage.producers.entry import BATCHES_KEPT, SEQUENCE_MAX, ProducerEntry
from tests.support.storage.workbench import batch_from


def header(sequence: int, *, count: int = 1, epoch: int = 0, offset: int = 0) -> BatchHeader:
    return read_header(batch_from(7, sequence, count=count, epoch=epoch)).placed(offset, 0)


def entry(*headers: BatchHeader) -> ProducerEntry:
    made = ProducerEntry(7)
    for each in headers:
        made = made.after_batch(each)
    return made


def refusal(check: Callable[..., None], *args: object) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        check(*args)
    return refused.value.code


def test_the_next_sequence_of_the_epoch_continues() -> None:
    made = entry(header(0, count=3))
    assert made.continues(header(3))
    assert not made.continues(header(4))
    assert not made.continues(header(3, epoch=1))


def test_a_sequence_wraps_to_zero() -> None:
    made = entry(header(SEQUENCE_MAX))
    assert made.continues(header(0))
    made.check_sequence(header(0))


def test_a_new_epoch_begins_at_sequence_zero_and_an_old_one_is_fenced() -> None:
    made = entry(header(0, epoch=4))
    made.check_sequence(header(0, epoch=5))
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(made.check_sequence, header(1, epoch=5)) is out_of_order
    assert refusal(made.check_sequence, header(2, epoch=4)) is out_of_order
    assert refusal(made.check_epoch, header(0, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    made.check_epoch(header(0, epoch=5))


def test_the_latest_batches_are_known_as_duplicates() -> None:
    made = entry(*(header(number, offset=10 + number) for number in range(BATCHES_KEPT + 1)))
    assert made.repeated(header(0)) is None, "too long ago"
    found = made.repeated(header(1))
    assert found is not None
    assert found.first_offset == 11
    assert made.repeated(header(1, count=2)) is None, "not the same batch"


def test_an_open_transaction_takes_transactional_batches_only() -> None:
    opened = read_header(batch_from(7, 0, transactional=True)).placed(20, 0)
    made = entry(opened)
    assert made.transaction_first_offset == 20
    assert refusal(made.check_transaction, header(1)) is ErrorCode.INVALID_TXN_STATE
    made.check_transaction(read_header(batch_from(7, 1, transactional=True)))


def test_markers_of_fenced_coordinators_and_late_markers_are_refused() -> None:
    opened = read_header(batch_from(7, 0, transactional=True))
    made = entry(opened)._replace(coordinator_epoch=3)
    commit = Marker(MarkerKind.COMMIT, 3)
    made.check_marker(header(-1), commit, 1)
    fenced = Marker(MarkerKind.COMMIT, 2)
    coordinator_fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal(made.check_marker, header(-1), fenced, 1) is coordinator_fenced
    invalid_epoch = ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(made.check_marker, header(-1), commit, 2) is invalid_epoch
    made.check_marker(header(-1, epoch=1), commit, 2)
    ended = made.after_marker(header(-1, epoch=1), commit)
    assert (ended.epoch, ended.has_open_transaction, ended.batches) == (1, False, ())
