"""Every message in every version, compared with bytes that Kafka wrote."""

import importlib
import json
import pkgutil
import re
from typing import Any

import pytest

from ottla.broker.requests.served_apis import INTER_BROKER
from ottla.errors import ErrorCode
from ottla.protocol import messages
from ottla.protocol.codec import decode, encode, encode_bytes
from ottla.protocol.codec.layout import Array, Layout, Nested, layout_of
from ottla.protocol.messages import APIS, Api
from ottla.protocol.primitives import ZERO_UUID, Fixed, LengthPrefixed
from tests.support.protocol.wire_vectors import Recorded, from_json, pairs, recorded, to_json

EACH_VERSION = [
    (api, version)
    for api in APIS.values()
    for version in range(api.versions[0], api.versions[1] + 1)
]


@pytest.mark.parametrize("key", APIS)
def test_kafkas_bytes_decode_to_kafkas_json(key: int) -> None:
    for vector in _of_key(key):
        header, position = decode(vector.header, vector.header_version, vector.frame)
        message, end = decode(vector.message, vector.version, vector.frame, position)

        assert to_json(header, vector.header_version) == vector.header_json, vector.name
        assert to_json(message, vector.version) == vector.json, vector.name
        assert len(vector.frame) - end == vector.trailing, vector.name


@pytest.mark.parametrize("key", APIS)
def test_decoded_messages_encode_to_the_same_bytes(key: int) -> None:
    for vector in _of_key(key):
        header, position = decode(vector.header, vector.header_version, vector.frame)
        message, _ = decode(vector.message, vector.version, vector.frame, position)

        again = encode_bytes(header, vector.header_version) + encode_bytes(message, vector.version)
        assert (again == vector.frame) is vector.round_trips, vector.name


@pytest.mark.parametrize("key", APIS)
def test_kafkas_json_encodes_to_kafkas_bytes(key: int) -> None:
    for vector in _of_key(key):
        header = from_json(vector.header, vector.header_version, vector.header_json)
        message = from_json(vector.message, vector.version, vector.json)

        built = encode_bytes(header, vector.header_version) + encode_bytes(message, vector.version)
        assert (built == vector.frame) is vector.round_trips, vector.name


def test_the_vectors_have_not_shrunk() -> None:
    covered = {(vector.message, vector.version) for vector in recorded()}
    declared = {
        (message, version)
        for api, version in EACH_VERSION
        for message in (api.request, api.response)
        # The traffic of clients was recorded; `test_inter_broker_messages` has the others.
        if api.key not in INTER_BROKER
    }

    assert len(pairs()) == 1131
    assert len(recorded()) == 2257
    assert sum(vector.round_trips for vector in recorded()) == 2255
    assert covered == declared


@pytest.mark.parametrize(
    ("api", "version"), EACH_VERSION, ids=lambda each: getattr(each, "name", each)
)
def test_every_version_has_a_refusal(api: Api, version: int) -> None:
    request = _smallest(api.request, version)

    refused = api.refuse(request, version, ErrorCode.INVALID_REQUEST, "no")
    again, _ = decode(api.response, version, encode_bytes(refused, version))

    assert encode(again, version) == encode(refused, version)
    says_so = ErrorCode.INVALID_REQUEST in _codes_in(to_json(again, version))
    assert says_so is ((api.name, version) not in WITHOUT_AN_ERROR_CODE)


# Their only possible refusal is an answer without directories, as Kafka does.
WITHOUT_AN_ERROR_CODE = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}


def test_a_refusal_equals_kafkas() -> None:
    """If Kafka refused a whole request with one code, our refusal is equal, except for messages."""
    alike = 0
    for pair in pairs():
        api, version = APIS[pair["key"]], pair["version"]
        if len(pair["errors"]) != 1 or not api.has(version):
            continue
        code = ErrorCode(pair["errors"][0])
        request = from_json(api.request, version, pair["requestJson"])
        refused = to_json(api.refuse(request, version, code), version)
        is_whole = _codes_in(refused) == _codes_in(pair["responseJson"])
        if is_whole and (api.name, code.name) not in SAID_BY_THE_HANDLER:
            assert _comparable(refused) == _comparable(pair["responseJson"]), api.name
            alike += 1
    assert alike == 340


# Fields that Kafka adds to a refusal from its own state.
SAID_BY_THE_HANDLER = {
    ("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER"): "the log start offset",
    ("Produce", "INVALID_PRODUCER_EPOCH"): "the log start offset",
    ("Produce", "INVALID_TIMESTAMP"): "the record, and the log start offset",
    ("Produce", "INVALID_RECORD"): "the record, and the log start offset",
    ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): "the brokers",
    ("Metadata", "INVALID_TOPIC_EXCEPTION"): "the brokers",
    ("Metadata", "TOPIC_AUTHORIZATION_FAILED"): "the brokers",
    ("Metadata", "UNKNOWN_TOPIC_ID"): "the brokers",
    ("JoinGroup", "MEMBER_ID_REQUIRED"): "the member id to come back with",
    ("DescribeGroups", "GROUP_ID_NOT_FOUND"): "the state",
    ("SaslHandshake", "UNSUPPORTED_SASL_MECHANISM"): "the mechanisms there are",
    ("DescribeTopicPartitions", "UNKNOWN_TOPIC_OR_PARTITION"): "the authorized operations",
}


def test_there_is_one_module_per_api_and_no_other() -> None:
    modules = {
        f"{messages.__name__}.{module.name}" for module in pkgutil.iter_modules(messages.__path__)
    }
    assert modules == {api.module for api in APIS.values()}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_module_opens_with_its_promise(api: Api) -> None:
    promise = importlib.import_module(api.module).__doc__ or ""
    paragraph = " ".join(promise.split("\n\n")[0].split())
    first, last = api.versions

    assert re.fullmatch(rf"{api.name} \({api.key}\) v{first}-{last}\. .*Gaps: .+\.", paragraph)


def test_produce_advertises_lower_versions_than_it_declares() -> None:
    assert APIS[0].advertised == (0, 13)
    assert not APIS[0].has(2)
    assert all(api.advertised == api.versions for api in APIS.values() if api.key != 0)


def _of_key(key: int) -> list[Recorded]:
    return [vector for vector in recorded() if vector.api.key == key]


def _smallest(declared: type[Any], version: int) -> Any:
    """The smallest message with one element to refuse in every array."""
    return _smallest_struct(layout_of(declared, version))


def _smallest_struct(layout: Layout) -> Any:
    values = {slot.name: _smallest_value(slot.kind) for slot in layout.plain}
    return layout.declared(**values)


def _smallest_value(kind: Any) -> Any:
    match kind:
        case Fixed(code="16s"):
            return ZERO_UUID
        case Fixed():
            return 0
        case LengthPrefixed.TEXT:
            return "x"
        case LengthPrefixed():
            return b"x"
        case Nested(layout=layout):
            return _smallest_struct(layout)
        case Array(element=element):
            return (_smallest_value(element),)


def _codes_in(document: Any) -> list[int]:
    """All error codes of a response, sorted."""
    if isinstance(document, list):
        return sorted(code for each in document for code in _codes_in(each))
    if not isinstance(document, dict):
        return []
    codes = [code for name, code in document.items() if name.lower().endswith("errorcode")]
    return sorted(codes + [code for held in document.values() for code in _codes_in(held)])


def _comparable(document: Any) -> Any:
    """A response without error messages and array order, which Kafka does not keep."""
    if isinstance(document, list):
        return sorted((_comparable(each) for each in document), key=json.dumps)
    if not isinstance(document, dict):
        return document
    return {name: _comparable(held) for name, held in document.items() if name != "errorMessage"}
