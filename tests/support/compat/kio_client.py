"""A client that speaks by kio's codec alone: nothing of it was written here but the socket."""

import dataclasses
import datetime
import io
import math
import random
import socket
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

TIMEOUT_S = 30.0


class KioClient:
    """One connection: a request, its answer, the next request."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, key: int, version: int, request: Any) -> Any:
        """The answer. AssertionError unless it is all of the frame, and to this request."""
        self._correlation_id += 1
        self._socket.sendall(_framed(key, version, self._correlation_id, request))
        size = int.from_bytes(self._receive(4), "big")
        frame = self._receive(size)
        schema = load_response_schema(key, version)
        header, position = entity_reader(schema.__header_schema__)(frame, 0)
        assert header.correlation_id == self._correlation_id
        response, body_bytes = entity_reader(schema)(frame, position)
        assert position + body_bytes == size, f"{size - position - body_bytes} bytes are left"
        return response

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            received += piece
        return received


def _framed(key: int, version: int, correlation_id: int, request: Any) -> bytes:
    header_schema = load_request_schema(key, version).__header_schema__
    fields = {
        "request_api_key": i16(key),
        "request_api_version": i16(version),
        "correlation_id": i32(correlation_id),
        "client_id": "kio",
    }
    known = {field.name for field in dataclasses.fields(header_schema)}
    header = header_schema(**{name: value for name, value in fields.items() if name in known})
    buffer = io.BytesIO()
    entity_writer(header_schema)(buffer, header)
    entity_writer(type(request))(buffer, request)
    frame = buffer.getvalue()
    return len(frame).to_bytes(4, "big") + frame


def error_codes(answer: Any) -> set[str]:
    """The names of all error codes that stand anywhere in an answer."""
    found: set[str] = set()
    if isinstance(answer, ErrorCode):
        found.add(answer.name)
    elif isinstance(answer, tuple):
        for element in answer:
            found |= error_codes(element)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            found |= error_codes(getattr(answer, field.name))
    return found


# What stands in a field: a value, or what makes one.
Filling = Mapping[str, Any]


def filled(schema: Any, filling: Filling, rng: random.Random, path: str = "") -> Any:
    """A request with every field filled: as `filling` says by its path, else by its type.

    An array of structs has one element. A path names fields without the indices between them.
    """
    hints = typing.get_type_hints(schema)
    values = {}
    for field in dataclasses.fields(schema):
        where, hint = path + field.name, hints[field.name]
        nested = _nested_in(hint)
        if where in filling:
            value = filling[where]
            values[field.name] = value(rng) if callable(value) else value
        elif nested is None:
            value = _RANDOM[field.metadata["kafka_type"]](rng)
            values[field.name] = (value,) if _is_array(hint) else value
        else:
            value = filled(nested, filling, rng, f"{where}.")
            values[field.name] = (value,) if _is_array(hint) else value
    return schema(**values)


def _is_array(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or any(map(_is_array, typing.get_args(hint)))


def _nested_in(hint: Any) -> Any:
    """The dataclass in a type such as `tuple[Topic, ...] | None`, if there is one."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next(filter(None, map(_nested_in, typing.get_args(hint))), None)


def _integer(bits: int) -> Callable[[random.Random], int]:
    most = (1 << bits - 1) - 1
    return lambda rng: rng.choice((0, 1, 7, -1, most, -most - 1, rng.randrange(most)))


def _milliseconds(rng: random.Random) -> datetime.timedelta:
    """Short, since the test waits for it."""
    return datetime.timedelta(milliseconds=rng.randrange(200))


_RANDOM: dict[str, Callable[[random.Random], Any]] = {
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "float64": lambda rng: rng.choice((-1.0, 0.0, 0.5, 1.0, 1e300, math.inf)),
    "bool": lambda rng: rng.random() < 0.5,
    "string": lambda rng: rng.choice(("", "a", "no such name", "\N{BEETLE}", "x" * 300)),
    "bytes": lambda rng: rng.randbytes(rng.choice((0, 1, 200))),
    "records": lambda rng: rng.randbytes(rng.choice((1, 61, 200))),
    "uuid": lambda rng: uuid.UUID(bytes=rng.randbytes(16), version=4),
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _milliseconds,
}
