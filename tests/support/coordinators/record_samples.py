"""Records of every type, random ones and Kafka's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from hypothesis import strategies as st

from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ClassicMetadata,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    OffsetCommitted,
    Partitions,
    Record,
    RegexResolved,
    SavedMember,
    TargetAssignmentSaved,
)
from ottla.protocol.batch import records
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.support.disk_vectors import all_batches, open_unpacked, unpack

KINDS: tuple[type[Any], ...] = get_args(Record)
OFFSETS_TOPIC = "__consumer_offsets"

names = st.text(st.characters(codec="utf-8"), max_size=20)
int8s = st.integers(-(2**7), 2**7 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
uuids = st.binary(min_size=16, max_size=16).map(Uuid)
indexes = st.lists(int32s, max_size=4).map(tuple)
partitions = st.dictionaries(uuids, indexes, max_size=4)
topics = st.lists(names, max_size=4).map(tuple)
saved_members = st.builds(
    SavedMember,
    names,
    st.none() | names,
    names,
    names,
    int32s,
    int32s,
    st.binary(max_size=20),
    st.binary(max_size=20),
)
classic_members = st.builds(
    ClassicMetadata,
    # The encoding of 256 ends in the same bytes as that of a null.
    int32s | st.just(0) | st.just(256),
    st.lists(st.tuples(names, st.binary(max_size=20)), max_size=3).map(tuple),
)


@st.composite
def with_epochs(draw: st.DrawFn) -> tuple[Partitions, Partitions]:
    """Partitions, and the epochs of those of some topics."""
    chosen = draw(partitions)
    epochs = {
        topic_id: draw(st.lists(int32s, min_size=len(own), max_size=len(own)).map(tuple))
        for topic_id, own in chosen.items()
        if own and draw(st.booleans())
    }
    return chosen, epochs


@st.composite
def current_assignments(draw: st.DrawFn) -> CurrentAssignmentSaved:
    assigned, assigned_epochs = draw(with_epochs())
    revoking, revoking_epochs = draw(with_epochs())
    return CurrentAssignmentSaved(
        draw(names),
        draw(names),
        draw(int32s),
        draw(int32s),
        draw(int8s),
        assigned,
        revoking,
        assigned_epochs,
        revoking_epochs,
    )


committed = st.builds(
    OffsetCommitted,
    names,
    names,
    int32s,
    int64s,
    int32s,
    names,
    int64s,
    expire_ms=st.just(-1),
    topic_id=st.just(ZERO_UUID) | uuids,
)
committed_with_expiry = st.builds(
    OffsetCommitted,
    names,
    names,
    int32s,
    int64s,
    # No version has these fields and an expiry time.
    leader_epoch=st.just(-1),
    metadata=names,
    commit_ms=int64s,
    expire_ms=int64s,
    topic_id=st.just(ZERO_UUID),
)
_BY_KIND: dict[type[Any], st.SearchStrategy[Any]] = {
    OffsetCommitted: committed | committed_with_expiry,
    ClassicGroupSaved: st.builds(
        ClassicGroupSaved,
        names,
        names,
        int32s,
        st.none() | names,
        st.none() | names,
        int64s,
        st.lists(saved_members, max_size=3).map(tuple),
    ),
    ConsumerMemberSaved: st.builds(
        ConsumerMemberSaved,
        names,
        names,
        st.none() | names,
        st.none() | names,
        names,
        names,
        topics,
        st.none() | names,
        int32s,
        st.none() | names,
        st.none() | classic_members,
    ),
    TargetAssignmentSaved: st.builds(TargetAssignmentSaved, names, names, partitions),
    CurrentAssignmentSaved: current_assignments(),
    RegexResolved: st.builds(RegexResolved, names, names, topics, int64s, int64s),
}
_BY_FIELD = {"group": names, "topic": names, "member_id": names, "regex": names}
_BY_FIELD |= {"partition": int32s, "epoch": int32s, "metadata_hash": int64s, "assigned_ms": int64s}


def any_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """A random record of this type."""
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    return st.builds(kind, *(_BY_FIELD[name] for name in kind.__dataclass_fields__))


class Written(NamedTuple):
    """A record that Kafka wrote, and its place."""

    partition: str
    offset: int
    key: bytes
    value: bytes | None


def written_by_kafka(case: str, target: Path) -> Iterator[Written]:
    """The records of every partition of `__consumer_offsets`, without the markers between them."""
    directory = open_unpacked(unpack(case, target))
    for partition, log in directory.logs.items():
        if partition.topic != OFFSETS_TOPIC:
            continue
        for segment, placed in all_batches(log):
            if placed.header.is_control:
                continue
            for record in records(segment.walk().batch(placed)):
                assert record.key is not None
                value = None if record.value is None else bytes(record.value)
                yield Written(str(partition), record.offset, bytes(record.key), value)
