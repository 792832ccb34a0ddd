"""Codecs: Kafka's own frames, and no input that makes us allocate what we did not allow."""

import gzip
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_wire.records.batch import Codec
from chiplog_wire.records.compression import MAX_RATIO, UNJUDGED_BYTES, compress, decompress
from chiplog_wire.records.errors import DecompressionError

PLAIN = b"A log is an append-only sequence of records. " * 3_000
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
LIMIT_BYTES = 4 * 2**20


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("plain", [b"", b"x", PLAIN, bytes(70_000)])
def test_round_trip(codec: Codec, plain: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, plain), LIMIT_BYTES)) == plain


@given(plain=st.binary(max_size=2_000), codec=st.sampled_from(COMPRESSED))
def test_round_trip_of_anything(plain: bytes, codec: Codec) -> None:
    assert bytes(decompress(codec, compress(codec, plain), LIMIT_BYTES)) == plain


def test_lz4_is_a_frame_of_independent_blocks() -> None:
    """Kafka's reader refuses linked blocks; the header's checksum byte is fixed for ours."""
    frame = bytes(compress(Codec.LZ4, PLAIN))
    assert frame[:7] == bytes.fromhex("04224d18604082")
    assert frame[-4:] == bytes(4)
    assert bytes(cramjam.lz4.decompress(frame)) == PLAIN


def test_lz4_of_other_writers_is_read() -> None:
    assert bytes(decompress(Codec.LZ4, bytes(cramjam.lz4.compress(PLAIN)), LIMIT_BYTES)) == PLAIN


def test_snappy_has_the_xerial_header() -> None:
    framed = bytes(compress(Codec.SNAPPY, b"hello"))
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert int.from_bytes(framed[16:20], "big") == len(framed) - 20
    assert bytes(cramjam.snappy.decompress_raw(framed[20:])) == b"hello"


def test_bare_snappy_is_read() -> None:
    """librdkafka writes one block without a frame."""
    assert (
        bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN)), 10**6)) == PLAIN
    )


def test_gzip_of_other_writers_is_read() -> None:
    assert bytes(decompress(Codec.GZIP, gzip.compress(PLAIN), LIMIT_BYTES)) == PLAIN


@pytest.mark.parametrize("codec", COMPRESSED)
def test_output_is_bounded(codec: Codec) -> None:
    bomb = bytes(compress(codec, bytes(2**20)))
    with pytest.raises(DecompressionError):
        decompress(codec, bomb, 2**19)
    assert len(decompress(codec, bomb, 2**20)) == 2**20


def test_ratio_is_bounded() -> None:
    bomb = bytes(compress(Codec.ZSTD, bytes(UNJUDGED_BYTES * 4)))
    assert len(bomb) < UNJUDGED_BYTES // MAX_RATIO
    with pytest.raises(DecompressionError):
        decompress(Codec.ZSTD, bomb, 2**40)


@pytest.mark.parametrize("codec", COMPRESSED)
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=300))
def test_garbage_is_a_typed_error(codec: Codec, data: bytes) -> None:
    with suppress(DecompressionError):
        decompress(codec, data, 10_000)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_cut_stream_is_a_typed_error(codec: Codec) -> None:
    whole = bytes(compress(codec, PLAIN))
    with pytest.raises(DecompressionError):
        decompress(codec, whole[: len(whole) // 2], LIMIT_BYTES)
