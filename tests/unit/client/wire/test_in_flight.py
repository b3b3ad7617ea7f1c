"""Requests and responses of one connection, against recorded responses of Apache Kafka."""

import base64
from typing import Any

import pytest

from ottla.client.wire.in_flight import InFlightRequests, UnexpectedResponse, api_of
from ottla.client.wire.versions import Versions, agree
from ottla.errors import PeerError
from ottla.protocol.exchange import decode_request, encode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest
from tests.support.protocol.wire_vectors import pairs, recorded, to_json

ALL_OFFERED = Versions({api.key: api.advertised for api in APIS.values()})


def new_wire(in_flight_max: int = 5, response_bytes_max: int = 1 << 24) -> InFlightRequests:
    wire = InFlightRequests(
        client_id="tester", response_bytes_max=response_bytes_max, in_flight_max=in_flight_max
    )
    wire.versions = ALL_OFFERED
    return wire


def framed(payload: bytes, correlation_id: int) -> bytes:
    """A recorded response with the correlation id of a request."""
    answer = correlation_id.to_bytes(4, "big") + payload[4:]
    return len(answer).to_bytes(4, "big") + answer


def answered_pairs() -> list[dict[str, Any]]:
    return [
        pair
        for pair in pairs()
        if pair["response"] is not None
        and APIS[pair["key"]].has(pair["version"])
        and pair["responseVersion"] == pair["version"]
        and pair["requestRoundTrip"]
        and pair["key"] != 18
    ]


def recorded_requests() -> dict[tuple[int, int], Any]:
    """A request of each API and version, as a real client sent it."""
    found: dict[tuple[int, int], Any] = {}
    for vector in recorded():
        if vector.message is vector.api.request:
            request = decode_request(vector.frame).message
            if getattr(request, "acks", None) != 0:
                found.setdefault((vector.api.key, vector.version), request)
    return found


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_every_recorded_response_is_decoded_however_it_is_split(step: int) -> None:
    requests = recorded_requests()
    read = 0
    for pair in answered_pairs():
        key, version = pair["key"], pair["version"]
        payload = base64.b64decode(pair["response"])
        if (key, version) not in requests or len(payload) > 4_000:
            continue
        wire = new_wire()
        sent = wire.send(requests[key, version], version=version)
        stream = framed(payload, sent.correlation_id)
        answers = [
            answer
            for at in range(0, len(stream), step)
            for answer in wire.receive(stream[at : at + step])
        ]
        assert [answer.correlation_id for answer in answers] == [sent.correlation_id]
        assert to_json(answers[0].response, version) == pair["responseJson"]
        assert wire.in_flight == 0
        read += 1
    assert read > 200


def test_a_request_has_the_highest_common_version_and_the_client_id() -> None:
    wire = new_wire()
    wire.versions = Versions({3: (0, 9)})
    sent = wire.send(MetadataRequest(topics=None))
    header, api, request = decode_request(b"".join(sent.parts)[4:])
    assert (api.name, header.request_api_version, header.client_id) == ("Metadata", 9, "tester")
    assert request.topics is None


def test_responses_that_arrive_together_are_in_order() -> None:
    wire = new_wire()
    empty = [api_answer(wire, number) for number in range(3)]
    answers = list(wire.receive(b"".join(empty)))
    assert [answer.correlation_id for answer in answers] == [0, 1, 2]


def api_answer(wire: InFlightRequests, correlation_id: int) -> bytes:
    """Sends a Metadata request; the bytes of an empty response to it."""
    assert wire.send(MetadataRequest(topics=()), version=1).correlation_id == correlation_id
    response = MetadataResponse(brokers=(), topics=())
    return b"".join(encode_response(correlation_id, APIS[3], 1, response))


def test_a_response_out_of_order_is_an_error() -> None:
    wire = new_wire()
    api_answer(wire, 0)
    second = api_answer(wire, 1)
    with pytest.raises(UnexpectedResponse, match="request 1"):
        list(wire.receive(second))


def test_a_response_without_a_request_is_an_error() -> None:
    other = new_wire()
    unasked = api_answer(other, 0)
    with pytest.raises(UnexpectedResponse):
        list(new_wire().receive(unasked))


def test_requests_in_flight_are_bounded() -> None:
    wire = new_wire(in_flight_max=2)
    for number in range(2):
        api_answer(wire, number)
    with pytest.raises(RuntimeError, match="2 requests wait"):
        wire.send(MetadataRequest(topics=()))


def test_a_response_above_the_limit_is_refused_by_its_length() -> None:
    wire = new_wire(response_bytes_max=1000)
    api_answer(wire, 0)
    with pytest.raises(PeerError, match="1001 bytes"):
        list(wire.receive((1001).to_bytes(4, "big")))


def test_a_produce_without_acks_expects_no_response() -> None:
    wire = new_wire(in_flight_max=1)
    for _ in range(3):
        sent = wire.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=()))
        assert not sent.expects_response
    assert wire.in_flight == 0
    assert wire.send(ProduceRequest(acks=1, timeout_ms=1, topic_data=())).expects_response


def test_a_request_before_negotiation_gives_its_own_version() -> None:
    wire = new_wire()
    wire.versions = None
    with pytest.raises(RuntimeError, match="not known yet"):
        wire.send(MetadataRequest(topics=()))
    assert wire.send(ApiVersionsRequest(), version=4).expects_response


def test_kafkas_response_to_an_unknown_apiversions_version_leads_to_a_lower_one() -> None:
    (refused,) = [
        pair for pair in pairs() if pair["key"] == 18 and pair["responseJson"]["errorCode"] == 35
    ][:1]
    wire = new_wire()
    sent = wire.send(ApiVersionsRequest(), version=4)
    payload = base64.b64decode(refused["response"])
    (answer,) = wire.receive(framed(payload, sent.correlation_id))
    assert answer.response.error_code == 35
    assert agree(answer.response, asked=4) == 3


def test_kafkas_api_versions_are_understood() -> None:
    offers = [
        pair
        for pair in pairs()
        if pair["key"] == 18 and pair["version"] == 4 and pair["responseJson"]["errorCode"] == 0
    ]
    wire = new_wire()
    sent = wire.send(ApiVersionsRequest(), version=4)
    payload = base64.b64decode(offers[0]["response"])
    (answer,) = wire.receive(framed(payload, sent.correlation_id))
    versions = agree(answer.response, asked=4)
    assert isinstance(versions, Versions)
    assert [versions.highest(APIS[key]) for key in (0, 1, 3, 19)] == [13, 18, 13, 7]


def test_a_message_that_is_no_request_has_no_api() -> None:
    with pytest.raises(TypeError, match="MetadataResponse"):
        api_of(MetadataResponse(brokers=(), topics=()))
