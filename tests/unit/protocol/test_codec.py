"""Declarations: versions, nulls, defaults, tags, and errors that name their field."""

from contextlib import suppress
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.codec import (
    decode,
    encode,
    encode_bytes,
    nullable_since,
    request,
    response,
    since,
    struct,
    tagged,
    until,
)
from ottla.protocol.codec.declare import is_declared, schema_of
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.primitives import (
    ZERO_UUID,
    DecodeError,
    EncodeError,
    Records,
    StoredRecords,
    Uuid,
    f64,
    i8,
    i16,
    i32,
    i64,
    u16,
    u32,
)
from tests.support.protocol.memory_trace import takes_less_than
from tests.support.protocol.wire_vectors import Recorded, one_of_each


@struct
class Leaf:
    index: i32
    note: str | None = since(1, default=None)


@struct
class Branch:
    name: str
    leaves: tuple[Leaf, ...]


@struct
class Hint:
    epoch: i32 = -1


@request(key=999, versions=(0, 3), flexible=2)
class TreeRequest:
    branches: tuple[Branch, ...] | None = nullable_since(1)
    removed: str = until(1, default="", ignorable=True)
    limit: i64 = since(1, default=-1)
    words: tuple[str, ...] = since(1, default=(), ignorable=True)
    cluster: str | None = tagged(0, since=2, default=None)
    hint: Hint | None = tagged(5, since=3, default=None)


@response(to=TreeRequest)
class TreeResponse:
    records: Records | None
    stored: StoredRecords
    next_hint: Hint | None
    topic_id: Uuid = ZERO_UUID


@request(key=998, versions=(0, 1), flexible=1)
class NumbersRequest:
    flag: bool
    a: i8
    b: i16
    c: i32
    d: i64
    e: u16
    f: u32
    g: f64
    blob: bytes
    many: tuple[i32, ...]


@struct
class Nothing:
    something: i32 = since(1, default=0)


@request(key=997, versions=(0, 1), flexible=None)
class NothingsRequest:
    nothings: tuple[Nothing, ...]


@request(key=996, versions=(0, 0), flexible=None)
class UuidsRequest:
    uuids: tuple[Uuid, ...]


def _tree(**changes: object) -> TreeRequest:
    return TreeRequest(**{"branches": (), **changes})  # type: ignore[arg-type]


def test_integers_are_big_endian_and_as_wide_as_declared() -> None:
    numbers = NumbersRequest(
        flag=True, a=-1, b=-2, c=-3, d=-4, e=65535, f=2**32 - 1, g=0.5, blob=b"\xff", many=(1, 2)
    )
    legacy = bytes.fromhex(
        "01 ff fffe fffffffd fffffffffffffffc ffff ffffffff 3fe0000000000000"
        "00000001 ff 00000002 00000001 00000002"
    )
    compact = legacy[:30] + bytes.fromhex("02 ff 03 00000001 00000002 00")

    assert encode(numbers, 0) == [legacy]
    assert encode(numbers, 1) == [compact]
    assert decode(NumbersRequest, 0, legacy) == (numbers, len(legacy))
    assert decode(NumbersRequest, 1, compact) == (numbers, len(compact))


def test_long_arrays_strings_and_counts_need_longer_varints() -> None:
    many = tuple(range(40_000))
    numbers = NumbersRequest(
        flag=False, a=0, b=0, c=0, d=0, e=0, f=0, g=0.0, blob=bytes(300), many=many
    )
    tree = _tree(words=tuple("w" * size for size in (0, 126, 127, 128, 16_383, 32_767)) * 40)

    for version in (0, 1):
        assert decode(NumbersRequest, version, encode_bytes(numbers, version))[0] == numbers
    for version in (1, 2, 3):
        assert decode(TreeRequest, version, encode_bytes(tree, version))[0] == tree


def test_a_version_without_a_field_decodes_to_its_default() -> None:
    tree, _ = decode(TreeRequest, 0, encode_bytes(_tree(removed="x"), 0))

    assert (tree.removed, tree.limit, tree.words) == ("x", -1, ())


def test_a_value_that_a_version_cannot_encode_is_an_error_unless_ignorable() -> None:
    assert encode(_tree(words=("dropped",), removed="kept"), 0) == encode(_tree(removed="kept"), 0)
    with pytest.raises(EncodeError) as refused:
        encode(_tree(limit=5), 0)
    assert refused.value.field == "limit"


def test_null_is_refused_by_versions_that_do_not_allow_it() -> None:
    assert encode_bytes(_tree(branches=None), 1).startswith(b"\xff\xff\xff\xff")
    with pytest.raises(EncodeError) as unsaid:
        encode(_tree(branches=None), 0)
    with pytest.raises(DecodeError) as unread:
        decode(TreeRequest, 0, b"\xff\xff\xff\xff\0\0")
    assert unsaid.value.field == "branches"
    assert (unread.value.field, unread.value.position) == ("branches", 4)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_lengths_below_null_are_refused(version: int) -> None:
    blob = encode_bytes(_tree(branches=(Branch(name="n", leaves=()),)), version)
    broken = (
        blob.replace(b"\0\x01n", b"\xff\xfen") if version < 2 else blob.replace(b"\x02n", b"\0n")
    )
    with pytest.raises(DecodeError) as refused:
        decode(TreeRequest, version, broken)
    assert refused.value.field == "branches[0].name"


def test_a_tagged_field_is_on_the_wire_only_if_it_is_set() -> None:
    plain, marked = _tree(), _tree(cluster="c", hint=Hint(epoch=7))
    assert encode_bytes(plain, 3).endswith(b"\0")
    assert encode_bytes(marked, 3).endswith(b"\x02\x00\x02\x02c\x05\x05\0\0\0\x07\0")
    assert decode(TreeRequest, 3, encode_bytes(plain, 3))[0] == plain
    assert decode(TreeRequest, 3, encode_bytes(marked, 3))[0] == marked


def test_a_tag_of_a_later_version_is_unknown_to_an_earlier_one() -> None:
    later = encode_bytes(_tree(cluster="c", hint=Hint(epoch=7)), 3)
    assert decode(TreeRequest, 2, later) == (_tree(cluster="c"), len(later))
    with pytest.raises(EncodeError) as refused:
        encode(_tree(hint=Hint(epoch=7)), 2)
    assert refused.value.field == "hint"


def test_unknown_tags_are_skipped_everywhere() -> None:
    plain = encode_bytes(_tree(), 3)
    unknown = b"\x03\x01\x02xx\x63\x00\x80\x02\x01y"
    assert decode(TreeRequest, 3, plain[:-1] + unknown)[0] == _tree()
    inner = encode_bytes(TreeResponse(records=None, stored=b"", next_hint=Hint()), 3)
    marked = inner.replace(b"\xff\xff\xff\xff\0", b"\xff\xff\xff\xff" + unknown)
    assert decode(TreeResponse, 3, marked)[0].next_hint == Hint()


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (b"\x02\x00\x02\x02c\x00\x02\x02c", "tag 0 after tag 0"),
        (b"\x02\x05\x05\0\0\0\x07\0\x00\x02\x02c", "tag 0 after tag 5"),
        (b"\x02\x09\x00\x08\x00", "tag 8 after tag 9"),
        (b"\x01\x09\x7f", "tag 9 of 127 bytes, but 0 are left"),
        (b"\x01\x00\x03\x02c\x00", "the length of a tagged field does not match its size"),
        (b"\x01\x00\x01\x02c", "the length of a tagged field does not match its size"),
        (b"\xff\xff\xff\xff\xff\x01", "a varint of more than 32 bits"),
        (b"\xff\xff\xff\xff\x7f", "a varint of more than 32 bits"),
        (b"\xff\xff\xff\xff\x0f", "the bytes end here"),
    ],
)
def test_a_tag_section_out_of_order_or_bounds_is_refused(tags: bytes, reason: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(TreeRequest, 3, encode_bytes(_tree(), 3)[:-1] + tags)
    assert refused.value.reason == reason


def test_records_are_not_copied_by_decoding_or_encoding() -> None:
    stored = _FileSlice(1000)
    parts = encode(TreeResponse(records=memoryview(b"batch"), stored=stored, next_hint=None), 3)

    assert [len(part) for part in parts] == [1, 5, 2, 1000, 18]
    assert parts[3] is stored

    frame = bytearray(encode_bytes(TreeResponse(records=b"batch", stored=b"", next_hint=None), 3))
    message, _ = decode(TreeResponse, 3, frame)
    frame[1:6] = b"BATCH"
    assert message.records == b"BATCH"


def test_a_message_with_records_in_a_file_has_no_bytes() -> None:
    with pytest.raises(TypeError):
        encode_bytes(TreeResponse(records=None, stored=_FileSlice(1), next_hint=None), 3)


def test_bytes_after_a_message_are_ignored() -> None:
    frame = b"xx" + encode_bytes(_tree(), 3) + b"yyy"
    assert decode(TreeRequest, 3, frame, 2) == (_tree(), len(frame) - 3)


def test_an_error_names_its_field_and_its_position() -> None:
    leaves = tuple(Leaf(index=index, note="a longer note") for index in range(3))
    tree = _tree(branches=(Branch(name="a", leaves=()), Branch(name="b", leaves=leaves)))
    whole = encode_bytes(tree, 1)
    cut = whole.index(b"\0\0\0\x02", whole.index(b"\0\x01b") + 6) + 2

    with pytest.raises(DecodeError) as refused:
        decode(TreeRequest, 1, whole[:cut])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.field == "branches[1].leaves[2].index"
    assert refused.value.position == cut - 2
    assert str(refused.value) == (
        f"TreeRequest v1, field branches[1].leaves[2].index, byte {cut - 2}: the bytes end here"
    )


def test_an_error_among_values_read_together_names_the_truncated_one() -> None:
    with pytest.raises(DecodeError) as refused:
        decode(NumbersRequest, 0, bytes(9))
    assert (refused.value.field, refused.value.position) == ("d", 8)


def test_a_string_that_is_not_utf8_is_refused_at_its_first_bad_byte() -> None:
    frame = encode_bytes(_tree(words=("abc",)), 1).replace(b"abc", b"ab\xff")
    with pytest.raises(DecodeError) as refused:
        decode(TreeRequest, 1, frame)
    assert (refused.value.field, refused.value.reason) == ("words[0]", "not UTF-8")
    assert refused.value.position == frame.index(b"\xff", 14)


def test_a_string_over_kafkas_limit_is_refused_in_both_directions() -> None:
    with pytest.raises(EncodeError) as unsaid:
        encode(_tree(words=("ok", "w" * 32_768)), 2)
    with pytest.raises(DecodeError) as unread:
        decode(TreeRequest, 2, b"\x01" + bytes(8) + b"\x02\x81\x80\x02" + b"w" * 32_768 + b"\0")
    assert unsaid.value.field == "words[1]"
    assert unread.value.field == "words[0]"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"limit": 2**63}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"words": ("a", None)}, "words[1]"),
        ({"words": None}, "words"),
        ({"branches": (Branch(name="\ud800", leaves=()),)}, "branches[0].name"),
        (
            {"branches": (Branch(name="n", leaves=(Leaf(index=2**31),)),)},
            "branches[0].leaves[0].index",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(changes: dict[str, object], field: str) -> None:
    for version in (1, 2):
        with pytest.raises(EncodeError) as refused:
            encode(_tree(**changes), version)
        assert refused.value.field == field


def test_of_values_packed_together_the_error_names_the_one_that_does_not_fit() -> None:
    """A struct's presence byte, its fields, its tags and the next fields are packed together."""
    for changes, field in (
        ({"next_hint": Hint(epoch=2**31)}, "next_hint.epoch"),
        ({"topic_id": "no bytes"}, "topic_id"),
    ):
        given = {"records": None, "stored": b"", "next_hint": Hint(), **changes}
        with pytest.raises(EncodeError) as refused:
            encode(TreeResponse(**given), 3)  # type: ignore[arg-type]
        assert refused.value.field == field


@pytest.mark.parametrize("version", [1, 2])
def test_an_implausible_count_allocates_nothing(version: int) -> None:
    count = b"\x7f\xff\xff\xff" if version < 2 else b"\xff\xff\xff\xff\x0f"
    decode(TreeRequest, version, encode_bytes(_tree(), version))

    def refuse() -> None:
        with pytest.raises(DecodeError) as refused:
            decode(TreeRequest, version, count + bytes(1000))
        assert refused.value.field == "branches"
        assert "cannot fit into the 1000 bytes that are left" in refused.value.reason

    assert takes_less_than(50_000, refuse)


def elements(value: Any) -> int:
    """The number of elements in all arrays of a message."""
    if isinstance(value, tuple):
        return len(value) + sum(map(elements, value))
    if is_declared(type(value)):
        return sum(elements(getattr(value, name)) for name in schema_of(type(value)).fields)
    return 0


def fewest_elements(vector: Recorded) -> int:
    """The lowest limit that accepts a recorded message."""
    _, position = decode(vector.header, vector.header_version, vector.frame)
    for limit in range(10_000):
        with suppress(DecodeError):
            decode(vector.message, vector.version, vector.frame, position, elements_max=limit)
            return limit
    raise AssertionError(vector.name)


def test_the_element_limit_holds_for_every_recorded_request() -> None:
    """For all APIs and versions."""
    with_elements = 0
    for vector in one_of_each():
        if vector.message is not vector.api.request:
            continue
        _, position = decode(vector.header, vector.header_version, vector.frame)
        message, _ = decode(vector.message, vector.version, vector.frame, position)
        found = elements(message)
        # A tagged field counts as an element too.
        assert found <= fewest_elements(vector) <= found + 2, vector.name
        with_elements += found > 0
    assert with_elements > 50


def test_too_many_elements_are_refused_before_any_is_built() -> None:
    names = encode_bytes(DeleteGroupsRequest(groups_names=("",) * 1_000_000), 2)
    decode(DeleteGroupsRequest, 2, encode_bytes(DeleteGroupsRequest(groups_names=()), 2))

    def refuse() -> None:
        with pytest.raises(DecodeError) as refused:
            decode(DeleteGroupsRequest, 2, names, elements_max=999_999)
        assert refused.value.field == "groups_names"

    assert takes_less_than(2 * len(names), refuse)


def test_elements_of_zero_bytes_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="nothings has elements of zero bytes"):
        decode(NothingsRequest, 0, b"")
    assert decode(NothingsRequest, 1, b"\0\0\0\0")[0] == NothingsRequest(nothings=())


def test_an_array_of_uuids_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="an array of uuids"):
        decode(UuidsRequest, 0, b"")


def test_decoding_a_header_does_not_copy_the_message_after_it() -> None:
    frame = b"\0\0\0\x0b\0\0\0\x07\0\x01c" + bytes(1_000_000)
    header, end = decode(RequestHeader, 1, frame)
    assert (header.client_id, end) == ("c", 11)
    assert takes_less_than(50_000, lambda: decode(RequestHeader, 1, memoryview(frame)))


def test_a_version_that_is_not_declared_has_no_codec() -> None:
    with pytest.raises(ValueError, match="TreeRequest has no version 4, only 0 to 3"):
        encode(_tree(), 4)
    with pytest.raises(ValueError, match="TreeRequest has no version -1"):
        decode(TreeRequest, -1, b"")


def test_messages_are_values() -> None:
    assert _tree(limit=1) == _tree(limit=1)
    assert _tree(limit=1) != _tree(limit=2)
    assert _tree() != object()
    assert repr(Branch(name="n", leaves=(Leaf(index=1),))) == (
        "Branch(name='n', leaves=(Leaf(index=1, note=None),))"
    )
    assert not hasattr(_tree(), "__dict__")
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        Branch(leaves=())  # type: ignore[call-arg]


def test_uuids_print_as_kafka_prints_them() -> None:
    topic_id = Uuid.parse("OPyAHuokQceShla-0_g8kg")
    assert str(topic_id) == "OPyAHuokQceShla-0_g8kg"
    assert repr(topic_id) == "Uuid(OPyAHuokQceShla-0_g8kg)"
    assert str(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    for wrong in ("", "short", "OPyAHuokQceShla-0_g8kgAA", "?PyAHuokQceShla-0_g8kg"):
        with pytest.raises(ValueError):
            Uuid.parse(wrong)


class _FileSlice:
    """A stand-in for bytes in a file."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size
