"""Every message in every version decodes to the value that was encoded."""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.codec import decode, encode, encode_bytes
from ottla.protocol.codec.layout import BOOL, UUID, Array, Kind, Layout, Nested, Slot, layout_of
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import RequestHeader, ResponseHeader
from ottla.protocol.messages import APIS, Api
from ottla.protocol.primitives import Fixed, LengthPrefixed, Uuid

SEARCH = settings(
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Each example has a message of every version, so a few examples suffice.
FEW = settings(SEARCH, max_examples=max(4, settings.default.max_examples // 25))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
@FEW
@given(data=st.data())
def test_every_version_of_a_message_survives_the_wire(api: Api, data: st.DataObject) -> None:
    for version in range(api.versions[0], api.versions[1] + 1):
        for declared in (api.request, api.response):
            message = data.draw(_messages(declared, version))
            _assert_survives(message, version)


@SEARCH
@given(data=st.data())
def test_headers_survive_the_wire(data: st.DataObject) -> None:
    for declared, version in ((RequestHeader, 1), (RequestHeader, 2), (ResponseHeader, 1)):
        _assert_survives(data.draw(_messages(declared, version)), version)


@SEARCH
@given(
    frames=st.lists(st.binary(max_size=300), max_size=20),
    cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=40),
)
def test_frames_do_not_depend_on_how_they_were_cut(frames: list[bytes], cuts: list[int]) -> None:
    sent = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    reader, received = FrameReader(300), []
    for begin, end in itertools.pairwise(edges):
        reader.feed(sent[begin:end])
        received += [bytes(frame) for frame in iter(reader.next_frame, None)]
    assert received == frames


def _assert_survives(message: Any, version: int) -> None:
    sent = encode_bytes(message, version)
    received, end = decode(type(message), version, sent)
    assert (received, end) == (message, len(sent))
    # The result must not depend on the position or the type of the buffer.
    assert decode(type(message), version, memoryview(bytearray(b"***" + sent)), 3)[0] == message
    assert sum(map(len, encode(message, version))) == len(sent)


_STRATEGIES: dict[tuple[type[Any], int], st.SearchStrategy[Any]] = {}


def _messages(declared: type[Any], version: int) -> st.SearchStrategy[Any]:
    """All messages of a version, derived from the declaration."""
    key = (declared, version)
    if key not in _STRATEGIES:
        _STRATEGIES[key] = _structs(layout_of(declared, version))
    return _STRATEGIES[key]


def _structs(layout: Layout) -> st.SearchStrategy[Any]:
    required = {slot.name: _slots(slot) for slot in layout.plain}
    optional = {slot.name: _slots(slot) for slot in layout.tagged}
    return st.fixed_dictionaries(required, optional=optional).map(
        lambda values: layout.declared(**values)
    )


def _slots(slot: Slot) -> st.SearchStrategy[Any]:
    values = _values(slot.kind)
    return st.none() | values if slot.is_nullable else values


def _values(kind: Kind) -> st.SearchStrategy[Any]:
    match kind:
        case Nested(layout=layout):
            return _structs(layout)
        case Array(element=Fixed() as element):
            return st.lists(_values(element), max_size=20).map(tuple)
        case Array(element=element):
            return st.lists(_values(element), max_size=2).map(tuple)
        case LengthPrefixed.TEXT:
            return st.text(st.characters(codec="utf-8"), max_size=8) | st.just("long " * 40)
        case LengthPrefixed():
            return st.binary(max_size=8) | st.just(bytes(200))
        case Fixed():
            return _fixed(kind)


def _fixed(kind: Fixed) -> st.SearchStrategy[Any]:
    if kind == BOOL:
        return st.booleans()
    if kind == UUID:
        return st.binary(min_size=16, max_size=16).map(Uuid)
    if kind.code == "d":
        return st.floats(allow_nan=False)
    bits = 8 * kind.size
    if kind.code.isupper():
        return st.integers(0, (1 << bits) - 1)
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
