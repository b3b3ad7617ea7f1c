"""Recorded wire traffic of Apache Kafka, and our messages in the form of its JSON."""

import base64
import functools
import gzip
import json
from typing import Any, NamedTuple

from ottla.protocol.codec.layout import BOOL, UUID, Array, Kind, Layout, Nested, layout_of
from ottla.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from ottla.protocol.messages import APIS, Api
from ottla.protocol.primitives import Fixed, LengthPrefixed, Uuid
from tests.support.paths import VECTORS

# Small enough for tests that truncate at every byte.
SMALL_BYTES_MAX = 600
WIRE = VECTORS / "wire"


class Recorded(NamedTuple):
    """One frame: a request or a response."""

    api: Api
    version: int
    message: type[Any]
    header: type[Any]
    header_version: int
    frame: bytes
    trailing: int
    round_trips: bool
    header_json: dict[str, Any]
    json: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.message.__name__} v{self.version}"


@functools.cache
def pairs() -> tuple[dict[str, Any], ...]:
    """Every recorded pair of request and response."""
    return tuple(
        json.loads(line)
        for path in sorted(WIRE.glob("*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    )


@functools.cache
def recorded() -> tuple[Recorded, ...]:
    """Every frame of an API and a version that we declare."""
    frames = []
    for pair in pairs():
        api = APIS[pair["key"]]
        if api.has(pair["version"]):
            frames.append(_recorded(pair, api, "request", pair["version"]))
        if pair["response"] is not None:
            frames.append(_recorded(pair, api, "response", pair["responseVersion"]))
    return tuple(frames)


@functools.cache
def one_of_each() -> tuple[Recorded, ...]:
    """One frame per message and version: the largest small one, or the smallest large one."""
    chosen: dict[str, Recorded] = {}
    for candidate in recorded():
        best = chosen.setdefault(candidate.name, candidate)
        chosen[candidate.name] = max(best, candidate, key=_telling)
    return tuple(chosen.values())


def _telling(vector: Recorded) -> tuple[bool, int]:
    size = len(vector.frame)
    is_small = size <= SMALL_BYTES_MAX
    return is_small, size if is_small else -size


def _recorded(pair: dict[str, Any], api: Api, side: str, version: int) -> Recorded:
    is_request = side == "request"
    header_version = (request_header_version if is_request else response_header_version)(
        api, version
    )
    if header_version != pair[f"{side}HeaderVersion"]:
        raise ValueError(f"{api.name} v{version}: header v{pair[f'{side}HeaderVersion']}")
    return Recorded(
        api=api,
        version=version,
        message=api.request if is_request else api.response,
        header=RequestHeader if is_request else ResponseHeader,
        header_version=header_version,
        frame=base64.b64decode(pair[side]),
        trailing=pair[f"{side}Trailing"],
        round_trips=pair[f"{side}RoundTrip"],
        header_json=pair[f"{side}Header"],
        json=pair[f"{side}Json"],
    )


def to_json(message: Any, version: int) -> Any:
    """Like Kafka's converters: without fields that the version lacks and tags at their default."""
    return _struct_to_json(message, layout_of(type(message), version))


def from_json(message: type[Any], version: int, document: dict[str, Any]) -> Any:
    """A message built from the JSON of Kafka's converters."""
    return _struct_from_json(document, layout_of(message, version))


def _struct_to_json(message: Any, layout: Layout) -> dict[str, Any]:
    document = {}
    for slot in layout.plain + layout.tagged:
        value = getattr(message, slot.name)
        if slot.tag is None or value != slot.default:
            document[_camel_case(slot.name)] = _value_to_json(value, slot.kind)
    return document


def _struct_from_json(document: dict[str, Any], layout: Layout) -> Any:
    slots = {_camel_case(slot.name): slot for slot in layout.plain + layout.tagged}
    values = {
        slots[name].name: _value_from_json(value, slots[name].kind)
        for name, value in document.items()
    }
    return layout.declared(**values)


def _value_to_json(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case LengthPrefixed.BLOB | LengthPrefixed.RECORDS:
            return base64.b64encode(value).decode()
        case Nested(layout=layout):
            return _struct_to_json(value, layout)
        case Array(element=element):
            return [_value_to_json(each, element) for each in value]
        case _:
            return str(value) if kind is UUID else value


def _value_from_json(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case LengthPrefixed.BLOB | LengthPrefixed.RECORDS:
            return base64.b64decode(value)
        case Nested(layout=layout):
            return _struct_from_json(value, layout)
        case Array(element=element):
            return tuple(_value_from_json(each, element) for each in value)
        case Fixed(code="d"):
            return float(value)
        case _:
            return Uuid.parse(value) if kind is UUID else bool(value) if kind is BOOL else value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
