"""The messages between brokers, compared with the bytes of a codec that was generated from Kafka's
schemas. No traffic between brokers was recorded.
"""

import dataclasses
import io
import random
import uuid
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData
from kio.schema.errors import ErrorCode as ForeignCode
from kio.serial import entity_writer

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.codec import decode, encode_bytes
from ottla.protocol.messages import APIS
from ottla.protocol.principal_data import decode_principal, encode_principal
from tests.support.compat.kio_client import filled

ROUNDS = 20
MESSAGES = [
    (key, version, is_request)
    for key, versions in {56: (2, 3), 58: (0,), 67: (0,)}.items()
    for version in versions
    for is_request in (True, False)
]


def written(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def a_code(rng: random.Random) -> ForeignCode:
    return rng.choice(
        (ForeignCode.none, ForeignCode.not_controller, ForeignCode.unknown_server_error)
    )


def plain(value: Any) -> Any:
    """A message of either codec as plain values."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, ForeignCode):
        return value.value
    if hasattr(type(value), "__slots__") and not isinstance(value, bytes | int | str):
        return {name: plain(getattr(value, name)) for name in type(value).__slots__}
    return value


@pytest.mark.parametrize(("key", "version", "is_request"), MESSAGES)
def test_a_foreign_codec_writes_and_reads_the_same_bytes(
    key: int, version: int, is_request: bool
) -> None:
    api = APIS[key]
    declared = api.request if is_request else api.response
    load = load_request_schema if is_request else load_response_schema
    rng = random.Random(key)
    codes = {"error_code": a_code, "topics.partitions.error_code": a_code}
    for _ in range(ROUNDS):
        foreign = filled(load(key, version), codes, rng)
        sent = written(foreign)
        ours, end = decode(declared, version, sent)
        assert end == len(sent)
        assert encode_bytes(ours, version) == sent
        told = plain(foreign)
        # kio gives durations a type of their own.
        told.pop("throttle_time", None)
        assert _only(plain(ours), told) == told


def _only(ours: Any, told: Any) -> Any:
    """The fields that the foreign message of this version has."""
    if isinstance(told, dict):
        return {name: _only(ours[name], held) for name, held in told.items()}
    if isinstance(told, list):
        assert len(ours) == len(told)
        return [_only(*pair) for pair in zip(ours, told, strict=True)]
    return ours


def test_no_other_version_is_declared() -> None:
    assert {key: APIS[key].versions for key in (56, 58, 67)} == {56: (2, 3), 58: (0, 0), 67: (0, 0)}


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    kafkas = DefaultPrincipalData(type_="User", name="alice", token_authenticated=False)
    sent = b"\0\0" + written(kafkas)
    assert encode_principal("User", "alice") == sent
    principal = decode_principal(sent)
    assert (principal.type, principal.name) == ("User", "alice")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\1" + encode_principal("User", "alice")[2:],
        b"\xff\xff" + encode_principal("User", "alice")[2:],
        encode_principal("User", "alice")[:-1],
        encode_principal("User", "alice") + b"\0",
    ],
)
def test_other_bytes_are_no_principal(content: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        decode_principal(content)
    assert caught.value.code in (ErrorCode.INVALID_REQUEST, ErrorCode.CORRUPT_MESSAGE)
