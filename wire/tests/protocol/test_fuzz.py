"""Mutated frames raise `ProtocolViolation` or nothing.

A normal run takes 20,000 frames; `CHIPLOG_FUZZ_FRAMES=1000000` is the long form. Each part
has its own fixed seed, named in the test's id.
"""

import os
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol.apis import APIS
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import FrameReader
from chiplog_wire.protocol.requests import Request, parse_request
from tests.mutations import mutated_frame

FRAMES = int(os.environ.get("CHIPLOG_FUZZ_FRAMES", "20000"))
PARTS = 20


@pytest.fixture(scope="module")
def valid_frames() -> list[bytes]:
    """Filled by `frames`, once for all parts."""
    return []


@pytest.fixture
def frames(
    valid_frames: list[bytes],
    random_messages: Callable[[object], Any],
    kio_bytes: Callable[[Any], bytes],
) -> list[bytes]:
    """A few requests of every version."""
    source = random_messages("fuzz")
    for api in [] if valid_frames else APIS.values():
        for version in range(api.min_served, api.max_version + 1):
            head = struct.pack(">hhih", api.key, version, 7, 6) + b"client"
            if api.is_flexible(version):
                head += b"\x00"
            request_class = schema.request_class(api.key, version)
            valid_frames.extend(head + kio_bytes(source.make(request_class)) for _ in range(3))
    return valid_frames


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_frames(part: int, frames: list[bytes]) -> None:
    chance = random.Random(part)  # noqa: S311 - reproducible, not secret
    refused = 0
    for _ in range(FRAMES // PARTS):
        frame = mutated_frame(chance.choice(frames), chance)
        try:
            request = parse_request(memoryview(frame))
            if isinstance(request, Request):
                codec.decode_request(request)
        except ProtocolViolation:
            refused += 1
    assert refused > FRAMES // PARTS // 2


def test_random_streams_never_break_the_frame_reader() -> None:
    chance = random.Random("streams")  # noqa: S311 - reproducible, not secret
    for _ in range(2000):
        reader = FrameReader(max_frame_bytes=300)
        data = chance.randbytes(chance.randrange(1, 40))
        if chance.random() < 0.8:
            data = struct.pack(">i", chance.choice([1, 5, 200, 300, 301])) + data
        try:
            frames = reader.receive(data)
        except ProtocolViolation:
            continue
        assert sum(len(frame) + 4 for frame in frames) + reader.pending_bytes == len(data)
