"""kio's messages through our reader and in older layouts, and kafka-python as a third voice.

kafka-python builds its codec from Kafka's own schema files and shares nothing with kio.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import generic, schema
from chiplog_wire.protocol.reader import Reader
from chiplog_wire.protocol.requests import Request, RequestHeader

Messages = Callable[[type[Any]], Iterator[Any]]
KioBytes = Callable[[Any], bytes]
Header = Callable[[Api, int], RequestHeader]
SecondCodec = Callable[[ApiKey, str], Any]

# Those with types of our own have tests of their own.
OURS = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
}
NO_SECOND_CODEC: set[str] = set()


def test_requests_are_read_as_kio_wrote_them(
    api: Api, version: int, messages: Messages, kio_bytes: KioBytes
) -> None:
    request_class = schema.request_class(api.key, version)
    if api.key in OURS:
        return
    read = generic.structure_reader(request_class, request_class)
    for theirs in messages(request_class):
        reader = Reader(memoryview(kio_bytes(theirs)), compact=api.is_flexible(version))
        assert read(reader) == theirs
        reader.finish()


def test_handlers_get_the_newest_request(
    api: Api, version: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    if api.key in OURS:
        return
    request_class = schema.request_class(api.key, version)
    newest = schema.request_class(api.key, api.max_version)
    for theirs in messages(request_class):
        request = Request(header(api, version), memoryview(kio_bytes(theirs)))
        lifted = codec.decode_request(request)
        assert type(lifted) is newest
        assert_nothing_lost(theirs, lifted)


def assert_nothing_lost(old: Any, new: Any) -> None:
    for name, shape in schema.shapes(type(old)).items():
        value = getattr(old, name)
        if name == "topic_names":
            assert [(t.name, t.topic_id) for t in new.topics] == [(n, None) for n in value]
        elif name == "key" and hasattr(new, "coordinator_keys"):
            assert new.coordinator_keys == (value,)
        elif name == "member_id" and hasattr(new, "members"):
            assert [(one.member_id, one.group_instance_id) for one in new.members] == [
                (value, None)
            ]
        elif name.startswith(of_one := "v3_and_below_"):
            (only,) = new.transactions
            assert getattr(only, name.removeprefix(of_one)) == value
            assert only.verify_only is False
        elif isinstance(shape.element, str) or value is None:
            assert getattr(new, name) == value
        else:
            lifted = getattr(new, name)
            pairs = (value, lifted) if shape.is_array else ((value,), (lifted,))
            for old_inner, new_inner in zip(*pairs, strict=True):
                assert_nothing_lost(old_inner, new_inner)


def test_responses_are_written_in_every_version(
    api: Api,
    version: int,
    messages: Messages,
    kio_bytes: KioBytes,
    newest_response: Callable[[ApiKey, Any], Any],
    header: Header,
) -> None:
    if api.key in OURS:
        return
    to = header(api, version)
    header_bytes = 4 + 4 + api.response_header_version(version)
    for theirs in messages(schema.response_class(api.key, version)):
        (frame,) = codec.encode_response(to, newest_response(api.key, theirs))
        assert isinstance(frame, bytes)
        assert frame[header_bytes:] == kio_bytes(theirs)


@pytest.mark.parametrize("kind", ["request", "response"])
def test_kafka_python_agrees_with_kio(
    api: Api,
    version: int,
    kind: str,
    messages: Messages,
    kio_bytes: KioBytes,
    second_codec: SecondCodec,
) -> None:
    theirs = second_codec(api.key, kind)
    classes = {"request": schema.request_class, "response": schema.response_class}
    if theirs is None or not theirs.min_version <= version <= theirs.max_version:
        NO_SECOND_CODEC.add(f"{api.key.name} {kind} {version}")
        return
    for message in messages(classes[kind](api.key, version)):
        encoded = kio_bytes(message)
        if api.key is ApiKey.API_VERSIONS and getattr(message, "error_code", False):
            continue  # kafka-python reads an error as version 0 whatever was asked for
        decoded = theirs.decode(encoded, version=version)
        decoded.with_header()  # some of its classes cannot encode without
        assert decoded.encode() == encoded


def test_every_version_has_a_second_codec() -> None:
    for line in sorted(NO_SECOND_CODEC):
        print(f"no second codec for {line}")  # noqa: T201 - the table the Java oracle fills in
    assert {line.split()[0] for line in NO_SECOND_CODEC} <= {"CONSUMER_GROUP_DESCRIBE"}


def test_every_served_api_has_a_kio_message() -> None:
    for api in APIS.values():
        for version in range(api.min_served, api.max_version + 1):
            assert schema.request_class(api.key, version).__api_key__ == api.key
            assert schema.response_class(api.key, version).__version__ == version
