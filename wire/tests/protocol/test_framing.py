"""Frames come out as they went in, however the stream is cut, and memory stays bounded."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import (
    OTHER_REQUEST_MAX_BYTES,
    UNAUTHENTICATED_MAX_BYTES,
    FrameReader,
)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def write(reader: FrameReader, data: bytes) -> int:
    """As a transport does it: one read into the reader's buffer."""
    room = reader.get_buffer(-1)
    taken = min(len(room), len(data))
    room[:taken] = data[:taken]
    reader.buffer_updated(taken)
    return taken


def take(reader: FrameReader) -> bytes | None:
    frame = reader.next_frame()
    return None if frame is None else bytes(frame)


@given(
    st.lists(st.binary(min_size=1, max_size=40_000), max_size=6),
    st.lists(st.integers(1, 30_000), min_size=1, max_size=5),
)
def test_frames_survive_any_cut(payloads: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader()
    stream = b"".join(framed(payload) for payload in payloads)
    position = step = 0
    seen = []
    while position < len(stream):
        size = cuts[step % len(cuts)]
        position += write(reader, stream[position : position + size])
        step += 1
        while (frame := reader.next_frame()) is not None:
            seen.append(bytes(frame))
    assert seen == payloads
    assert reader.pending_bytes == 0


@pytest.mark.parametrize(("trusts_sizes", "capacity_bytes"), [(False, 16_384), (True, 1_000_004)])
def test_memory_for_a_large_frame_comes_with_its_bytes_or_at_once(
    *, trusts_sizes: bool, capacity_bytes: int
) -> None:
    reader = FrameReader()
    reader.trusts_sizes = trusts_sizes
    stream = framed(bytes(1_000_000))
    position = write(reader, stream)
    assert reader.capacity_bytes == position == 4096
    position += write(reader, stream[position:])
    assert reader.capacity_bytes == capacity_bytes
    while position < len(stream):
        position += write(reader, stream[position:])
    assert take(reader) == bytes(1_000_000)


def test_frames_not_taken_wait_in_the_buffer() -> None:
    reader = FrameReader()
    write(reader, framed(b"one") + framed(b"two") + b"\x00")
    assert take(reader) == b"one"
    write(reader, b"\x00\x00\x05three")
    assert [take(reader), take(reader)] == [b"two", b"three"]


def test_a_frame_is_a_writable_view() -> None:
    reader = FrameReader()
    write(reader, framed(b"abc"))
    frame = reader.next_frame()
    assert frame is not None
    frame[0:1] = b"X"
    assert bytes(frame) == b"Xbc"


def test_detached_frames_are_not_overwritten() -> None:
    reader = FrameReader()
    write(reader, framed(b"keep") + b"\x00\x00")
    frame = reader.next_frame()
    assert frame is not None
    reader.detach()
    write(reader, b"\x00\x04next")
    assert bytes(frame) == b"keep"
    assert take(reader) == b"next"


def test_receive_hands_out_lasting_frames() -> None:
    reader = FrameReader()
    frames = reader.receive(framed(b"a" * 5000) + framed(b"b") + b"\x00\x00")
    frames += reader.receive(b"\x00\x01c")
    assert [bytes(frame) for frame in frames] == [b"a" * 5000, b"b", b"c"]


@pytest.mark.parametrize("length", [0, -1, -(2**31), 1001, 2**31 - 1])
def test_bad_lengths_are_violations(length: int) -> None:
    reader = FrameReader(max_frame_bytes=1000)
    write(reader, framed(b"good") + struct.pack(">i", length))
    assert take(reader) == b"good"
    with pytest.raises(ProtocolViolation):
        reader.next_frame()


def test_a_bad_length_is_no_matter_of_get_buffer() -> None:
    """The transport that calls it could not tell the peer's mistake from ours."""
    reader = FrameReader(max_frame_bytes=1000)
    write(reader, framed(b"good") + struct.pack(">i", -1))
    assert take(reader) == b"good"
    assert len(reader.get_buffer(-1)) > 0


def test_other_protocols_are_violations() -> None:
    for greeting in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"SSH-2.0-x\r\n"):
        reader = FrameReader()
        write(reader, greeting)
        with pytest.raises(ProtocolViolation):
            reader.next_frame()


def test_authentication_raises_the_limit() -> None:
    reader = FrameReader(max_frame_bytes=10)
    write(reader, struct.pack(">i", 11))
    with pytest.raises(ProtocolViolation):
        reader.next_frame()
    reader.max_frame_bytes = 11
    assert reader.next_frame() is None


def test_only_a_produce_may_be_large() -> None:
    large = struct.pack(">i", OTHER_REQUEST_MAX_BYTES + 1)
    for key in ApiKey:
        reader = FrameReader(are_requests=True)
        write(reader, large + b"\x00")
        assert reader.next_frame() is None  # of which kind it is nobody knows yet
        write(reader, bytes([key, 0, 0]))
        if key is ApiKey.PRODUCE:
            assert reader.next_frame() is None
        else:
            with pytest.raises(ProtocolViolation, match=f"API key {int(key)}"):
                reader.next_frame()


def test_answers_of_other_brokers_may_be_large() -> None:
    reader = FrameReader()
    write(reader, struct.pack(">ii", OTHER_REQUEST_MAX_BYTES + 1, 2**20))
    assert reader.next_frame() is None


def test_memory_follows_what_arrived_not_what_was_announced() -> None:
    readers = [FrameReader() for _ in range(100)]
    tracemalloc.start()
    for reader in readers:
        write(reader, struct.pack(">i", 100 * 1024 * 1024) + b"x")
        assert reader.next_frame() is None
        write(reader, b"y")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1024 * 1024


def test_a_large_frame_grows_the_buffer_and_gives_it_back() -> None:
    reader = FrameReader()
    payload = bytes(range(256)) * 40_000  # 10 MB
    stream = framed(payload)
    position = 0
    largest = 0
    while position < len(stream):
        position += write(reader, stream[position : position + 65_536])
        largest = max(largest, reader.capacity_bytes)
        assert reader.capacity_bytes <= max(4 * position, 4096)
    assert take(reader) == payload
    assert largest == len(stream)
    write(reader, framed(b"small"))
    assert reader.capacity_bytes < 1024 * 1024
    assert take(reader) == b"small"


def test_bulk_traffic_grows_the_reads() -> None:
    reader = FrameReader()
    frame = framed(b"z" * 96)
    for _ in range(20):
        data = frame * 5000
        while data:
            data = data[write(reader, data) :]
            while reader.next_frame() is not None:
                pass
    assert len(reader.get_buffer(-1)) == 256 * 1024


def test_bulk_traffic_before_authentication_grows_no_buffer_beyond_its_largest_frame() -> None:
    reader = FrameReader(UNAUTHENTICATED_MAX_BYTES)
    data = framed(b"z" * 96) * 50_000
    while data:
        data = data[write(reader, data) :]
        while reader.next_frame() is not None:
            pass
    assert reader.capacity_bytes == UNAUTHENTICATED_MAX_BYTES + 4


def test_trim_gives_memory_back_only_when_nothing_waits() -> None:
    reader = FrameReader()
    write(reader, b"\x00")
    reader.trim()
    assert reader.pending_bytes == 1
    write(reader, b"\x00\x00\x01a")
    assert take(reader) == b"a"
    reader.trim()
    assert reader.capacity_bytes == 0
    write(reader, framed(b"b"))
    assert take(reader) == b"b"


def test_room_in_front_of_waiting_frames_is_used() -> None:
    reader = FrameReader()
    frame = framed(b"x" * 60)
    while reader.capacity_bytes < 256 * 1024:
        write(reader, frame)
        if reader.pending_bytes == reader.capacity_bytes:
            assert take(reader) == b"x" * 60
    while reader.pending_bytes < reader.capacity_bytes:
        write(reader, frame)
    assert take(reader) == b"x" * 60
    assert len(reader.get_buffer(-1)) == len(frame)
    assert take(reader) == b"x" * 60


def test_reading_on_with_a_full_buffer_of_whole_frames_is_our_own_mistake() -> None:
    reader = FrameReader()
    frame = framed(b"x" * 60)
    while reader.pending_bytes < reader.capacity_bytes or not reader.capacity_bytes:
        write(reader, frame)
    with pytest.raises(RuntimeError, match="pause reading"):
        reader.get_buffer(-1)


def large_frame(reader: FrameReader, byte: bytes) -> memoryview:
    """A frame of 3 MB of this byte, which the reader keeps valid."""
    stream = framed(byte * 3_000_000)
    position = 0
    while position < len(stream):
        position += write(reader, stream[position:])
    frame = reader.next_frame()
    assert frame is not None
    reader.detach()
    return frame


def trusting() -> FrameReader:
    reader = FrameReader()
    reader.trusts_sizes = True
    return reader


def test_large_frames_follow_each_other_into_the_same_memory() -> None:
    reader = trusting()
    frame = large_frame(reader, b"a")
    buffer = frame.obj
    frame.release()
    again = large_frame(reader, b"b")
    assert again.obj is buffer
    assert again == b"b" * 3_000_000


def test_a_large_frame_never_fills_its_buffer() -> None:
    """A transport that has filled the buffer asks for the next one before the frame is used."""
    reader = trusting()
    stream = framed(bytes(4 * 2**20 - 4))
    assert len(stream) == 4 * 2**20
    position = 0
    while position < len(stream):
        space = reader.get_buffer()
        count = min(len(space), len(stream) - position)
        space[:count] = stream[position : position + count]
        reader.buffer_updated(count)
        position += count
    assert count < len(space)
    assert take(reader) == stream[4:]


def test_a_large_frame_that_is_still_used_stays_as_it_is() -> None:
    reader = trusting()
    part = large_frame(reader, b"a")[1_000_000:]
    newer = large_frame(reader, b"b")
    assert part == b"a" * 2_000_000
    assert newer == b"b" * 3_000_000


def test_a_small_frame_after_large_ones_releases_their_memory() -> None:
    reader = trusting()
    large_frame(reader, b"a").release()
    write(reader, framed(b"small"))
    assert take(reader) == b"small"
    reader.get_buffer()
    assert reader.capacity_bytes <= 256 * 1024


def test_without_trust_a_large_buffer_is_released() -> None:
    reader = FrameReader()
    large_frame(reader, b"a").release()
    reader.get_buffer()
    assert reader.capacity_bytes <= 256 * 1024


@given(
    st.lists(st.tuples(st.integers(1, 4_000_000), st.booleans()), min_size=1, max_size=5),
    st.integers(100_000, 9_000_000),
)
def test_frames_that_are_kept_survive_others(
    frames: list[tuple[int, bool]], read_bytes: int
) -> None:
    """Frames of any sizes, of which some are kept and some are given back at once."""
    reader = trusting()
    stream = b"".join(framed(bytes([1 + at]) * size) for at, (size, _) in enumerate(frames))
    kept: list[memoryview] = []
    position = seen = 0
    while position < len(stream):
        position += write(reader, stream[position : position + read_bytes])
        while (frame := reader.next_frame()) is not None:
            reader.detach()
            size, is_kept = frames[seen]
            seen += 1
            assert frame == bytes([seen]) * size
            if is_kept:
                kept.append(frame)
            else:
                frame.release()
    assert seen == len(frames)
    wanted = [bytes([1 + at]) * size for at, (size, is_kept) in enumerate(frames) if is_kept]
    assert kept == wanted


def test_a_buffer_that_was_trimmed_after_a_large_frame_is_made_anew() -> None:
    reader = FrameReader()
    reader.trusts_sizes = True
    (large,) = reader.receive(struct.pack(">i", 3 * 2**20) + bytes(3 * 2**20))
    del large
    reader.trim()
    assert [bytes(one) for one in reader.receive(struct.pack(">i", 1) + b"x")] == [b"x"]
