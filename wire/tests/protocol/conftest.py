"""Random messages of kio's types, and the codecs ours are compared with.

Normal runs take `CHIPLOG_CODEC_MESSAGES` messages of every version (30), the long form
1,000; the generators are seeded, so a failure comes back.
"""

import importlib
import io
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_writer

from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.codec.schema import Shape
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.requests import RequestHeader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MESSAGES = int(os.environ.get("CHIPLOG_CODEC_MESSAGES", "30"))

ALL_VERSIONS = [
    pytest.param(api, version, id=f"{api.key.name}-v{version}")
    for api in APIS.values()
    for version in range(api.min_served, api.max_version + 1)
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that take `api` and `version` run for all we serve."""
    if {"api", "version"} <= set(metafunc.fixturenames):
        metafunc.parametrize(("api", "version"), ALL_VERSIONS)


class RandomMessages:
    """Fills kio's dataclasses, with a liking for the edges of each type."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))  # noqa: S311 - reproducible, not secret

    def make(self, message_class: type[Any]) -> Any:
        """One message."""
        by_name = schema.shapes(message_class)
        return message_class(
            **{
                field.name: self._value(by_name[field.name])
                for field in fields(message_class)
                # Written by KRaft's own log only, never in an answer of ours.
                if field.name != "snapshot_id"
            }
        )

    def _value(self, shape: Shape) -> Any:
        if shape.is_nullable and self.random.random() < 0.25:
            return None
        if shape.is_array:
            count = self.random.choice([0, 1, 1, 2, 3])
            if isinstance(shape.element, str) and self.random.random() < 0.05:
                count = 130  # the count takes two bytes in a compact array
            return tuple(self._element(shape.element) for _ in range(count))
        return self._element(shape.element)

    def _element(self, element: str | type[Any]) -> Any:
        if isinstance(element, str):
            return getattr(self, f"_{element}")()
        return self.make(element)

    def _bits(self, bits: int) -> int:
        low, high = -1 << (bits - 1), (1 << (bits - 1)) - 1
        edges = [0, -1, 1, low, high, self.random.randint(-300, 300)]
        edges.append(self.random.randint(low, high))
        return max(low, min(high, self.random.choice(edges)))

    def _int8(self) -> int:
        return self._bits(8)

    def _int16(self) -> int:
        return self._bits(16)

    def _int32(self) -> int:
        return self._bits(32)

    def _int64(self) -> int:
        return self._bits(64)

    def _float64(self) -> float:
        return self.random.choice([0.0, -1.5, 1e300, self.random.random()])

    def _bool(self) -> bool:
        return self.random.random() < 0.5

    def _uuid(self) -> UUID | None:
        return self.random.choice([None, UUID(int=self.random.getrandbits(128) | 1)])

    def _string(self) -> str:
        length = self.random.choice([0, 1, 5, 20, 126, 127, 128, 300])
        return "".join(self.random.choices("abcXYZ._-0189é√𝄞", k=length))

    def _bytes(self) -> bytes:
        return self.random.randbytes(self.random.choice([0, 1, 61, 127, 128, 300, 20_000]))

    _records = _bytes

    def _error_code(self) -> ErrorCode:
        return self.random.choice(list(ErrorCode))

    def _timedelta_i32(self) -> timedelta:
        return timedelta(milliseconds=self._bits(32))

    def _timedelta_i64(self) -> timedelta:
        return timedelta(milliseconds=self._bits(40))  # kio counts in floats: more is not exact

    def _datetime_i64(self) -> datetime:
        return EPOCH + timedelta(milliseconds=self.random.randrange(2**41))


def _messages(message_class: type[Any]) -> Iterator[Any]:
    source = RandomMessages(f"{message_class.__module__}.{message_class.__name__}")
    for _ in range(MESSAGES):
        yield source.make(message_class)


def _kio_bytes(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def _lift(message: Any, target: type[Any]) -> Any:
    """The same message in a newer class, absent fields at their defaults."""
    values = schema.defaults(target)
    wanted = schema.shapes(target)
    for name in set(wanted) & set(schema.shapes(type(message))):
        element = wanted[name].element
        value = getattr(message, name)
        if isinstance(element, str) or value is None:
            values[name] = value
        elif wanted[name].is_array:
            values[name] = tuple(_lift(inner, element) for inner in value)
        else:
            values[name] = _lift(value, element)
    return target(**values)


def _newest_response(key: ApiKey, message: Any) -> Any:
    newest = schema.response_class(key, APIS[key].max_version)
    if key is ApiKey.LEAVE_GROUP and not hasattr(message, "members"):
        member = schema.element(newest, "members")
        values = schema.defaults(newest) | {
            name: getattr(message, name) for name in schema.shapes(type(message))
        }
        # The code of the only member stands where that of the group is.
        values["error_code"], code = ErrorCode.none, message.error_code
        only = member(member_id="", group_instance_id=None, error_code=code)
        return newest(**values | {"members": (only,)})
    if key is ApiKey.ADD_PARTITIONS_TO_TXN and not hasattr(message, "error_code"):
        result = schema.element(newest, "results_by_transaction")
        topics = message.results_by_topic_v3_and_below
        values = schema.defaults(newest) | {"throttle_time": message.throttle_time}
        only = result(transactional_id="", topic_results=topics)
        return newest(**values | {"results_by_transaction": (only,)})
    if hasattr(message, "coordinators") or key is not ApiKey.FIND_COORDINATOR:
        return _lift(message, newest)
    coordinator = schema.shapes(newest)["coordinators"].element
    assert not isinstance(coordinator, str)
    lifted = _lift(message, newest)
    values = {field: getattr(lifted, field) for field in schema.shapes(newest)}
    values["coordinators"] = (_lift(message, coordinator),)
    return newest(**values)


@pytest.fixture
def messages() -> Callable[[type[Any]], Iterator[Any]]:
    """Random messages of a class, the same in every run."""
    return _messages


@pytest.fixture
def kio_bytes() -> Callable[[Any], bytes]:
    """kio's encoding of one of its messages."""
    return _kio_bytes


@pytest.fixture
def newest_response() -> Callable[[ApiKey, Any], Any]:
    """A response of some version in the class of the newest."""
    return _newest_response


@pytest.fixture
def header() -> Callable[[Api, int], RequestHeader]:
    """The header of a request with correlation id 7."""
    return lambda api, version: RequestHeader(api, version, 7, "client")


@pytest.fixture
def random_messages() -> Callable[[object], RandomMessages]:
    """A generator of messages from a seed."""
    return RandomMessages


@pytest.fixture(scope="session")
def second_codec() -> Callable[[ApiKey, str], Any]:
    """kafka-python's class for a message, or None where it has none."""
    names = ("producer", "consumer", "metadata", "admin", "sasl")
    with warnings.catch_warnings():
        # It reads its schemas through an interface that Python 3.11 calls deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        modules = [importlib.import_module(f"kafka.protocol.{name}") for name in names]

    def find(key: ApiKey, kind: str) -> Any:
        name = APIS[key].name + kind.title()
        return next((getattr(m, name) for m in modules if hasattr(m, name)), None)

    return find
