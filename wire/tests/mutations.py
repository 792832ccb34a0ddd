"""Changes of messages, as an attacker or a broken client would make them."""

import random

HOSTILE = [
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00",
    b"\xc3\x28",
]
"""Lengths and counts at the edges of their types, and text that is not UTF-8."""
PIECES_OF_TOKENS = [
    b",",
    b"=",
    b"=2C",
    b"=3D",
    b"=",
    b"m=x,",
    b"\x00",
    b"\xff",
    b"a=",
    b"p=",
    b"r=",
    b"999999",
]
"""What has a meaning in messages of SCRAM and PLAIN."""
EXPENSIVE = [
    *PIECES_OF_TOKENS,
    b"a=,",
    b"a=b,",
    b"\0\0",
    b"(((",
    b"a.a-",
    "😀".encode(),
    "é".encode(),
    b"\x01",
    b"\x7f",
]
"""Short pieces that become many objects, or wide text, if a parser takes them as they are."""


def mutated_frame(frame: bytes, chance: random.Random) -> bytes:
    """A frame of the Kafka protocol with one change or a few."""
    data = bytearray(frame)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 8])):
        position = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0:
                data[position : position + 1] = chance.randbytes(1)
            case 1:
                hostile = chance.choice(HOSTILE)
                data[position : position + len(hostile)] = hostile
            case 2:
                data[position:position] = chance.choice(HOSTILE)
            case 3:
                del data[position : position + chance.choice([1, 2, 4, 16])]
            case 4:
                del data[position:]
            case 5:
                data[position:position] = data[: chance.randrange(64)]
    return bytes(data)


def mutated_token(token: bytes, chance: random.Random) -> bytes:
    """A message of SCRAM or PLAIN with one change or a few."""
    data = bytearray(token)
    for _ in range(chance.choice([1, 1, 2, 5])):
        position = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[position : position + 1] = chance.randbytes(1)
            case 1:
                data[position:position] = chance.choice(PIECES_OF_TOKENS)
            case 2:
                del data[position : position + chance.choice([1, 3, 20])]
            case 3:
                data[position:position] = data[: chance.randrange(40)]
    return bytes(data)


def inflated(data: bytes, chance: random.Random, size_bytes: int) -> bytes:
    """The data with one short piece so often somewhere in it that it has `size_bytes`."""
    position = chance.randrange(len(data) + 1)
    piece = chance.choice(EXPENSIVE)
    times = max(size_bytes - len(data), 0) // len(piece)
    return data[:position] + piece * times + data[position:]
