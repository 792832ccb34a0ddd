"""Entries of the Secret with verifiers that cannot be read: their users cannot log in, and the
others can."""

import json
from base64 import b64encode

import pytest

from chiplog_broker.metadata.kubernetes.access import decoded_verifiers
from chiplog_wire.scram import Mechanism

FIELD = b64encode(b"12345678").decode()
GOOD = {"salt": FIELD, "iterations": 4096, "storedKey": FIELD, "serverKey": FIELD}


def entry(iterations: str) -> str:
    text = json.dumps({"SCRAM-SHA-512": {**GOOD, "iterations": "N"}})
    return b64encode(text.replace('"N"', iterations).encode()).decode()


@pytest.mark.parametrize(
    "bad", ["1e999", "NaN", "9" * 5_000, "null", "[" * 50_000], ids=lambda bad: bad[:5]
)
def test_a_broken_entry_keeps_nobody_else_out(bad: str) -> None:
    found = decoded_verifiers({"eve": entry(bad), "alice": entry("4096")})
    assert set(found) == {(Mechanism.SCRAM_SHA_512, "alice")}
