"""Our codec beside an unrelated one, kio: each reads what the other wrote, in every version.

Random messages, the same in every run. kio refuses some values that Kafka allows (a timestamp of
-1, an error code without a name, a time too far away), so those are left out here; the recorded
vectors have them.
"""

import dataclasses
import datetime
import enum
import io
import random
import typing
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from ottla.errors import ErrorCode
from ottla.protocol.codec import decode, encode_bytes
from ottla.protocol.codec.layout import BOOL, UUID, Array, Kind, Layout, Nested, Slot, layout_of
from ottla.protocol.messages import APIS, Api
from ottla.protocol.primitives import Fixed, LengthPrefixed, Uuid

MESSAGES_PER_VERSION = 4
MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
TEXTS = ("", "a", "topic-1", "ärger", "\N{BEETLE}", "x" * 126, "y" * 127, "z" * 200)


# APIs from this key on are ours, and between brokers only.
OWN_KEYS_MIN = 20_000
KAFKA_APIS = [api for api in APIS.values() if api.key < OWN_KEYS_MIN]


@pytest.mark.parametrize("api", KAFKA_APIS, ids=lambda api: api.name)
def test_kio_reads_what_we_write_and_writes_what_we_read(api: Api) -> None:
    rng = random.Random(api.key)
    for version in range(api.versions[0], api.versions[1] + 1):
        for declared, foreign in (
            (api.request, load_request_schema(api.key, version)),
            (api.response, load_response_schema(api.key, version)),
        ):
            layout = layout_of(declared, version)
            for _ in range(MESSAGES_PER_VERSION):
                ours = _random_struct(rng, layout, foreign)
                _compare(ours, layout, version, foreign)


def _compare(ours: Any, layout: Layout, version: int, foreign: Any) -> None:
    written = encode_bytes(ours, version)

    theirs, size = entity_reader(foreign)(written, 0)
    assert size == len(written)
    assert _differences(ours, layout, theirs) == []

    buffer = io.BytesIO()
    entity_writer(foreign)(buffer, theirs)
    assert buffer.getvalue() == written
    assert decode(layout.declared, version, buffer.getvalue()) == (ours, len(written))


def _side_by_side(layout: Layout, foreign: Any) -> list[tuple[Slot, dataclasses.Field[Any]]]:
    """Our fields in this version and kio's, one by one; kio takes the unit out of some names."""
    slots = [slot for slot in layout.slots if slot.is_present]
    pairs = list(zip(slots, dataclasses.fields(foreign), strict=True))
    for slot, field in pairs:
        assert slot.name.removesuffix("_ms") == field.name.removesuffix("_ms")
    return pairs


def _differences(ours: Any, layout: Layout, theirs: Any) -> list[str]:
    """Fields that the two hold differently."""
    different = []
    for slot, field in _side_by_side(layout, type(theirs)):
        mine, other = getattr(ours, slot.name), getattr(theirs, field.name)
        if mine is None and slot.tag is not None and isinstance(slot.kind, Nested):
            # kio fills in for an absent tag a struct at its defaults.
            same = other == type(other)()
        else:
            same = _is_same(mine, slot.kind, other)
        different += [] if same else [slot.name]
    return different


def _is_same(ours: Any, kind: Kind, theirs: Any) -> bool:
    match kind:
        case Array(element=element) if ours is not None and theirs is not None:
            pairs = zip(ours, theirs, strict=True)
            return all(_is_same(mine, element, other) for mine, other in pairs)
        case Nested(layout=layout) if ours is not None and theirs is not None:
            return _differences(ours, layout, theirs) == []
        case _:
            return bool(ours == _plain(theirs, kind))


def _plain(theirs: Any, kind: Kind) -> Any:
    """kio's richer types, as what they are on the wire."""
    match theirs:
        case None if kind is UUID:
            return bytes(16)
        case enum.Enum():
            return theirs.value
        case datetime.timedelta():
            return theirs // MILLISECOND
        case datetime.datetime():
            return (theirs - EPOCH) // MILLISECOND
        case uuid.UUID():
            return theirs.bytes
        case _:
            return theirs


def _random_struct(rng: random.Random, layout: Layout, foreign: Any) -> Any:
    hints = typing.get_type_hints(foreign)
    values = {}
    for slot, field in _side_by_side(layout, foreign):
        if slot.tag is None or rng.random() < 0.5:
            nested = _nested_in(hints[field.name])
            values[slot.name] = _random_slot(rng, slot, field.metadata.get("kafka_type"), nested)
    return layout.declared(**values)


def _nested_in(hint: Any) -> Any:
    """The dataclass in a type such as `tuple[Topic, ...] | None`, if there is one."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next(filter(None, map(_nested_in, typing.get_args(hint))), None)


def _random_slot(rng: random.Random, slot: Slot, kafka_type: str | None, nested: Any) -> Any:
    if slot.is_nullable and rng.random() < 0.3:
        return None
    if slot.tag is not None and isinstance(slot.kind, Nested):
        # At its defaults a tagged struct is not written by kio.
        return _random_struct_unlike_default(rng, slot.kind.layout, nested)
    return _random_value(rng, slot.kind, kafka_type, nested)


def _random_struct_unlike_default(rng: random.Random, layout: Layout, foreign: Any) -> Any:
    while (value := _random_struct(rng, layout, foreign)) == layout.declared():
        pass
    return value


def _random_value(rng: random.Random, kind: Kind, kafka_type: str | None, nested: Any) -> Any:
    match kind:
        case Nested(layout=layout):
            return _random_struct(rng, layout, nested)
        case Array(element=element):
            size = (
                rng.choice((0, 1, 2, 3, 20))
                if not isinstance(element, Nested)
                else rng.randrange(4)
            )
            return tuple(_random_value(rng, element, kafka_type, nested) for _ in range(size))
        case LengthPrefixed.TEXT:
            return rng.choice(TEXTS)
        case LengthPrefixed():
            return rng.randbytes(rng.choice((0, 1, 200)))
        case Fixed():
            return _random_fixed(rng, kind, kafka_type)


def _random_fixed(rng: random.Random, kind: Fixed, kafka_type: str | None) -> Any:
    if kind == BOOL:
        return rng.random() < 0.5
    if kind == UUID:
        return Uuid(rng.randbytes(16))
    if kind.code == "d":
        return rng.uniform(-1e9, 1e9)
    chosen = _BOUNDED.get(kafka_type or "")
    if chosen is not None:
        return chosen(rng)
    bits = 8 * kind.size
    signed = rng.choice(
        (0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1), rng.getrandbits(bits - 1))
    )
    return signed if kind.code.islower() else signed & (1 << bits) - 1


# What kio's types allow of a number.
_BOUNDED: dict[str, Callable[[random.Random], int]] = {
    "error_code": lambda rng: rng.choice([code.value for code in ErrorCode if code <= 100]),
    "datetime_i64": lambda rng: rng.randrange(1 << 40),
    "timedelta_i32": lambda rng: rng.randrange(1 << 31),
    "timedelta_i64": lambda rng: rng.randrange(1 << 40),
}
