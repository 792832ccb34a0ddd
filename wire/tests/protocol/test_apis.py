"""The table of APIs against Kafka's own schemas, as kafka-python carries them."""

from collections.abc import Callable
from typing import Any

import pytest

from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import schema

WITHOUT_SECOND_CODEC = {ApiKey.CONSUMER_GROUP_DESCRIBE}
"""kafka-python has no next-generation groups. Java's Admin asks for it in `e2e/clients`."""
EACH_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)


@EACH_API
def test_kafka_has_the_versions_we_offer(
    api: Api, second_codec: Callable[[ApiKey, str], Any]
) -> None:
    theirs = second_codec(api.key, "request")
    assert (theirs is None) == (api.key in WITHOUT_SECOND_CODEC)
    if theirs is None:
        return
    low, high = theirs.valid_versions
    assert low <= api.min_served <= api.max_version <= high
    assert int(theirs.API_KEY) == api.key


@EACH_API
def test_flexible_versions_are_kafkas(api: Api, second_codec: Callable[[ApiKey, str], Any]) -> None:
    for version in range(api.min_served, api.max_version + 1):
        for kind in ("request", "response"):
            theirs = second_codec(api.key, kind)
            if api.key not in WITHOUT_SECOND_CODEC:
                assert theirs.flexible_version_q(version) == api.is_flexible(version)


def test_header_versions_are_kios(api: Api, version: int) -> None:
    request = schema.request_class(api.key, version).__header_schema__
    response = schema.response_class(api.key, version).__header_schema__
    assert request.__version__ == api.request_header_version(version)
    assert response.__version__ == api.response_header_version(version)


def test_produce_offers_versions_it_refuses() -> None:
    produce = APIS[ApiKey.PRODUCE]
    assert produce.min_version == 0
    assert [version for version in range(14) if produce.serves(version)] == list(range(3, 13))


def test_api_versions_keeps_the_first_response_header() -> None:
    api = APIS[ApiKey.API_VERSIONS]
    assert {api.response_header_version(version) for version in range(5)} == {0}
    assert api.request_header_version(3) == 2
