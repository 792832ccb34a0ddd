"""What is kept of a password, as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_wire.scram import Mechanism, ScramCredential, ScramKeys
from chiplog_wire.verifiers import (
    MAX_SALT_BYTES,
    MAX_STORED_ITERATIONS,
    UNREADABLE,
    read_verifier,
    verifier_text,
    why_not_stored,
)

KEYS = st.binary(min_size=1, max_size=64)
CREDENTIALS = st.builds(
    lambda salt, iterations, stored, server: ScramCredential(
        salt, iterations, (ScramKeys(stored, server),)
    ),
    st.binary(min_size=1, max_size=64),
    st.integers(4096, MAX_STORED_ITERATIONS),
    KEYS,
    KEYS,
)
LIMITS = [(4096, 1), (MAX_STORED_ITERATIONS, MAX_SALT_BYTES)]
BEYOND = [(4095, 1), (MAX_STORED_ITERATIONS + 1, 1), (4096, 0), (4096, MAX_SALT_BYTES + 1)]
GOOD = {"salt": "YQ==", "iterations": 4096, "storedKey": "YQ==", "serverKey": "YQ=="}


@given(st.dictionaries(st.sampled_from(Mechanism), CREDENTIALS))
def test_a_verifier_reads_as_it_was_written(
    credentials: dict[Mechanism, ScramCredential],
) -> None:
    assert read_verifier(verifier_text(credentials)) == credentials


@pytest.mark.parametrize(("iterations", "salt_bytes"), LIMITS)
def test_the_limits_are_acceptable(iterations: int, salt_bytes: int) -> None:
    assert why_not_stored(iterations, bytes(salt_bytes)) == ""


@pytest.mark.parametrize(("iterations", "salt_bytes"), BEYOND)
def test_beyond_them_nothing_is(iterations: int, salt_bytes: int) -> None:
    assert why_not_stored(iterations, bytes(salt_bytes))


@pytest.mark.parametrize(
    "changes",
    [
        {"salt": ""},
        {"salt": "no base64"},
        {"storedKey": ""},
        {"serverKey": None},
        {"iterations": "4096"},
        {"iterations": 1e999},
        {"iterations": 4095},
    ],
)
def test_what_no_login_may_use_is_not_read(changes: dict[str, object]) -> None:
    with pytest.raises(UNREADABLE):
        read_verifier(json.dumps({"SCRAM-SHA-512": {**GOOD, **changes}}))
