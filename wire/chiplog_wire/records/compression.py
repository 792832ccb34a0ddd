"""Compresses and decompresses the records of batches, with limits.

A few bytes can decompress to gigabytes, so the size of the output buffer is limited here instead of
taken from the input. The formats are those of Apache Kafka's clients:

* gzip and zstd as usual;
* lz4 as one frame of independent 64 KiB blocks without checksums (Kafka's reader refuses linked
  blocks, which lz4 libraries write by default);
* snappy in the framing of the xerial library (32 KiB blocks after a 16-byte header); a single bare
  snappy block is read, too, because librdkafka writes it.
"""

import mmap
import struct
from collections.abc import Callable
from struct import Struct

import cramjam

from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import Codec
from chiplog_wire.records.errors import DecompressionError

MAX_RATIO = 1_000
UNJUDGED_BYTES = 4 * 2**20
"""Up to this size any ratio is accepted (a batch of equal records); above it, at most 1000."""

_FIRST_GUESS_RATIO = 8
_SMALLEST_BUFFER_BYTES = 4096
_MAPPED_FROM_BYTES = 2**20

_SNAPPY_HEADER = b"\x82SNAPPY\x00" + bytes.fromhex("00000001 00000001")
_SNAPPY_MAGIC = _SNAPPY_HEADER[:8]
_SNAPPY_BLOCK_BYTES = 32 * 1024
_SNAPPY_LENGTH = Struct(">i")

# Magic, version 01 with independent blocks, 64 KiB blocks, and the header checksum that
# these two bytes always have.
_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_LENGTH = Struct("<I")
_LZ4_STORED = 0x8000_0000
_LZ4_END = _LZ4_LENGTH.pack(0)


def decompress(codec: Codec, data: Buffer, max_output_bytes: int) -> Buffer:
    """The decompressed records. Raises `DecompressionError`, also if they exceed `max_output_bytes`
    or a suspicious ratio (`MAX_RATIO`)."""
    if codec is Codec.NONE:
        return data
    cap_bytes = min(max_output_bytes, max(len(data) * MAX_RATIO, UNJUDGED_BYTES))
    if codec is Codec.SNAPPY:
        return _inflate_snappy(data, cap_bytes)
    return _inflate(_INFLATERS[codec], data, cap_bytes)


def compress(codec: Codec, data: Buffer) -> Buffer:
    """The compressed records in the format that Kafka's readers expect."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data))
        case Codec.LZ4:
            return _deflate_lz4(memoryview(data))
        case Codec.SNAPPY:
            return _deflate_snappy(memoryview(data))


_INFLATERS: dict[Codec, Callable[[Buffer, bytearray | mmap.mmap], int]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _inflate(
    inflate_into: Callable[[Buffer, bytearray | mmap.mmap], int], data: Buffer, cap_bytes: int
) -> Buffer:
    """Decompress with a small output buffer, and with larger ones up to `cap_bytes` if it is too
    small.

    The formats do not contain the decompressed size.
    """
    size_bytes = max(len(data) * _FIRST_GUESS_RATIO, _SMALLEST_BUFFER_BYTES)
    while True:
        size_bytes = min(size_bytes, cap_bytes)
        output = _output_buffer(size_bytes)
        try:
            written = inflate_into(data, output)
        except (cramjam.DecompressionError, ValueError) as error:
            if size_bytes == cap_bytes:
                raise DecompressionError(
                    f"{len(data)} bytes are damaged or inflate past {cap_bytes}: {error}"
                ) from None
            size_bytes *= 4
        else:
            return memoryview(output)[:written]


def _output_buffer(size_bytes: int) -> bytearray | mmap.mmap:
    """A buffer for output. A large bytearray would be filled with zeros first, which takes longer
    than decompressing, and blocks other threads."""
    is_large = size_bytes >= _MAPPED_FROM_BYTES
    return mmap.mmap(-1, size_bytes) if is_large else bytearray(size_bytes)


def _inflate_snappy(data: Buffer, cap_bytes: int) -> Buffer:
    """Decompress blocks in xerial's framing, or a single bare block; at most `cap_bytes`."""
    view = memoryview(data)
    if bytes(view[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        return _inflate_snappy_block(view, cap_bytes)
    output = bytearray()
    position = len(_SNAPPY_HEADER)
    while position < len(view):
        try:
            (length,) = _SNAPPY_LENGTH.unpack_from(view, position)
        except struct.error:
            raise DecompressionError("snappy: a block's length is cut short") from None
        position += _SNAPPY_LENGTH.size
        if length < 0 or position + length > len(view):
            raise DecompressionError(
                f"snappy: a block of {length} bytes does not fit into the rest of the buffer"
            )
        block = view[position : position + length]
        output += _inflate_snappy_block(block, cap_bytes - len(output))
        position += length
    return output


def _inflate_snappy_block(block: memoryview, cap_bytes: int) -> Buffer:
    """Decompress one snappy block, which contains its decompressed size."""
    try:
        size_bytes = cramjam.snappy.decompress_raw_len(block)
        if size_bytes > cap_bytes:
            raise DecompressionError(f"snappy: {size_bytes} bytes, {cap_bytes} are allowed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except (cramjam.DecompressionError, ValueError) as error:
        raise DecompressionError(f"snappy: {error}") from None


def _deflate_snappy(data: memoryview) -> Buffer:
    """Compress to blocks in xerial's framing."""
    output = bytearray(_SNAPPY_HEADER)
    for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
        output += _SNAPPY_LENGTH.pack(len(block))
        output += block
    return output


def _deflate_lz4(data: memoryview) -> Buffer:
    """Compress to one frame. A block that would not become smaller is stored as it is."""
    output = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            output += _LZ4_LENGTH.pack(len(block))
            output += block
        else:
            output += _LZ4_LENGTH.pack(len(plain) | _LZ4_STORED)
            output += plain
    output += _LZ4_END
    return output
