"""Requests and responses as frames, for clients and for brokers."""

import base64

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.codec import encode_bytes
from ottla.protocol.exchange import (
    UnsupportedVersion,
    decode_correlation_id,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.primitives import DecodeError
from tests.support.protocol.wire_vectors import pairs, recorded, to_json

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_recorded_requests_are_decoded_by_their_headers_alone() -> None:
    requests = [vector for vector in recorded() if vector.message is vector.api.request]
    for vector in requests:
        received = decode_request(vector.frame)
        assert received.api is vector.api
        assert to_json(received.header, vector.header_version) == vector.header_json
        assert to_json(received.message, vector.version) == vector.json
    assert len(requests) == 1129


def test_recorded_responses_are_encoded_to_the_byte() -> None:
    responses = [vector for vector in recorded() if vector.message is vector.api.response]
    for vector in responses:
        message = decode_response(vector.frame, vector.api, vector.version)
        parts = encode_response(
            decode_correlation_id(vector.frame), vector.api, vector.version, message
        )
        assert b"".join(parts) == len(vector.frame).to_bytes(4, "big") + vector.frame
    assert len(responses) == 1128


def test_fifty_pipelined_requests_keep_their_order() -> None:
    sent = b"".join(
        b"".join(encode_request(number, APIS[12], 4, HEARTBEAT, "client")) for number in range(50)
    )
    reader = FrameReader(1000)
    reader.feed(sent)
    frames = list(iter(reader.next_frame, None))
    received = [decode_request(each) for each in frames]
    assert [each.header.correlation_id for each in received] == list(range(50))
    assert all(each.message == HEARTBEAT for each in received)


@pytest.mark.parametrize("client_id", ["client", "", None])
@pytest.mark.parametrize("version", [3, 4])
def test_the_client_id_keeps_its_legacy_length_in_flexible_headers(
    version: int, client_id: str | None
) -> None:
    (sent,) = encode_request(7, APIS[12], version, HEARTBEAT, client_id)
    legacy = b"\xff\xff" if client_id is None else b"\0" + bytes([len(client_id)])
    assert sent[12:14] == legacy
    assert decode_request(sent[4:]).header.client_id == client_id


@pytest.mark.parametrize("client_id", ["client", "", None, "größer"])
@pytest.mark.parametrize("correlation_id", [0, 7, 2**31 - 1, -1])
@pytest.mark.parametrize("version", [3, 4])
def test_a_request_begins_with_its_declared_header(
    version: int, correlation_id: int, client_id: str | None
) -> None:
    (sent,) = encode_request(correlation_id, APIS[12], version, HEARTBEAT, client_id)
    header = RequestHeader(
        request_api_key=12,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    declared = encode_bytes(header, request_header_version(APIS[12], version))
    assert sent[4 : 4 + len(declared)] == declared
    assert decode_request(sent[4:]).header == header


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("size", range(5))
def test_a_response_too_short_for_its_header_is_refused(version: int, size: int) -> None:
    frame = bytes(size)
    if size < 4:
        with pytest.raises(DecodeError):
            decode_correlation_id(frame)
    with pytest.raises(DecodeError):
        decode_response(frame, APIS[12], version)


def test_unknown_tags_in_the_header_of_a_response_are_skipped() -> None:
    response = HeartbeatResponse(error_code=5)
    (sent,) = encode_response(7, APIS[12], 4, response)
    plain, tagged = sent[4:], sent[4:8] + b"\x01\x63\x02ab" + sent[9:]
    assert decode_response(plain, APIS[12], 4) == response
    assert decode_response(tagged, APIS[12], 4) == response
    assert decode_correlation_id(tagged) == 7


@pytest.mark.parametrize("version", range(5))
def test_the_response_to_api_versions_always_has_header_version_0(version: int) -> None:
    assert response_header_version(APIS[18], version) == 0
    (sent,) = encode_response(7, APIS[18], version, ApiVersionsResponse(error_code=0, api_keys=()))
    assert decode_correlation_id(sent[4:]) == 7
    assert sent[8:10] == b"\0\0"  # the error code, with no tag section before it


def test_flexible_responses_have_a_tag_section_in_their_header() -> None:
    assert [response_header_version(APIS[12], version) for version in (3, 4)] == [0, 1]
    assert ResponseHeader(correlation_id=1) == ResponseHeader(correlation_id=1)


def test_api_versions_of_an_unknown_version_can_still_be_answered() -> None:
    unknown = [pair for pair in pairs() if pair["key"] == 18 and pair["version"] > 4]
    for pair in unknown:
        with pytest.raises(UnsupportedVersion) as refused:
            decode_request(base64.b64decode(pair["request"]))
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert refused.value.header.request_api_version == pair["version"]
        assert refused.value.header.correlation_id == pair["responseHeader"]["correlationId"]
    assert len(unknown) == 2


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (3, -1), (4, 0), (999, 0)])
def test_an_unknown_key_or_version_is_refused(key: int, version: int) -> None:
    head = b"".join(number.to_bytes(2, "big", signed=True) for number in (key, version))
    with pytest.raises(UnsupportedVersion) as refused:
        decode_request(head + b"\0\0\0\x07\xff\xff")
    assert refused.value.header.correlation_id == 7


@pytest.mark.parametrize("size", range(14))
def test_a_frame_too_short_for_its_header_is_refused(size: int) -> None:
    (sent,) = encode_request(7, APIS[12], 4, HEARTBEAT, "cli")
    with pytest.raises(DecodeError) as refused:
        decode_request(sent[4 : 4 + size])
    assert refused.value.position <= size


def test_stray_bytes_after_a_request_are_ignored() -> None:
    (sent,) = encode_request(7, APIS[12], 4, HEARTBEAT)
    assert decode_request(sent[4:] + b"\0\0\0").message == HEARTBEAT
