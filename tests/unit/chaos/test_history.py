"""Events come back from their file as they were written."""

from contextlib import closing
from pathlib import Path

from tests.cluster.chaos.history import (
    Acknowledged,
    Assigned,
    HistoryWriter,
    OffsetsCommitted,
    Partition,
    Polled,
    Record,
    Sent,
    Step,
    Transaction,
    read_history,
)

HERE = Partition("records", 2)


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "client.jsonl"
    record = Record("records", 2, 7, "value", "ü")
    with closing(HistoryWriter(path, "client")) as history:
        history.write(Sent, producer=1, partition=HERE, value="value", transaction="t")
        history.write(Acknowledged, partition=HERE, offset=7, value="value")
        history.write(Transaction, transaction="t", step=Step.COMMITTED)
        history.write(Assigned, group="g", partitions=(HERE,))
        history.write(Polled, group="g", records=(record,))
        history.write(OffsetsCommitted, group="g", offsets=((HERE, 8),))
    sent, acknowledged, step, assigned, polled, committed = read_history(path)
    assert isinstance(sent, Sent)
    assert (sent.client, sent.partition, sent.transaction) == ("client", HERE, "t")
    assert sent.time_s <= acknowledged.time_s <= committed.time_s
    assert isinstance(step, Transaction)
    assert step.step is Step.COMMITTED
    assert isinstance(assigned, Assigned)
    assert assigned.partitions == (HERE,)
    assert isinstance(polled, Polled)
    assert polled.records[0].where == HERE
    assert polled.records == (record,)
    assert isinstance(committed, OffsetsCommitted)
    assert committed.offsets == ((HERE, 8),)


def test_a_line_that_a_kill_has_cut_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "client.jsonl"
    with closing(HistoryWriter(path, "client")) as history:
        history.write(Transaction, transaction="t", step=Step.BEGUN)
    with path.open("a") as file:
        file.write('{"event": "Transac')
    (found,) = read_history(path)
    assert isinstance(found, Transaction)
