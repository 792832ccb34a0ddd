"""Mutated messages: refused, never an error of our own, and never a login."""

import random

import pytest

from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramClient,
    ScramCredential,
    ScramServer,
    derived_keys,
    salted_password,
)
from tests.mutations import mutated_token

SHA_256 = Mechanism.SCRAM_SHA_256
SALT = b"0123456789abcdef"


@pytest.fixture(scope="module")
def known() -> ScramCredential:
    salted = salted_password(SHA_256, "pencil", SALT, 4096)
    return ScramCredential(SALT, 4096, [derived_keys(SHA_256, salted)])


@pytest.mark.parametrize("seed", range(10))
def test_a_server_under_mutated_messages(seed: int, known: ScramCredential) -> None:
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    refused = 0
    for _ in range(300):
        server = ScramServer(SHA_256, lambda _: known, b"server")
        client = ScramClient(SHA_256, "user", "pencil", b"client")
        try:
            server.respond(mutated_token(client.first(), chance))
            # Whatever it made of that: this proof was made for something else.
            server.respond(b"c=biws,r=clientserver,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
        except AuthenticationFailed:
            refused += 1
        assert server.authenticated_as is None
    assert refused == 300


@pytest.mark.parametrize("seed", range(10))
def test_a_changed_proof_is_no_proof(seed: int, known: ScramCredential) -> None:
    chance = random.Random(seed)  # noqa: S311
    client = ScramClient(SHA_256, "user", "pencil", b"client")
    first = client.first()
    proof = client.final(ScramServer(SHA_256, lambda _: known, b"server").respond(first))
    for _ in range(300):
        server = ScramServer(SHA_256, lambda _: known, b"server")
        server.respond(first)
        changed = mutated_token(proof, chance)
        if changed == proof:
            continue
        with pytest.raises(AuthenticationFailed):
            server.respond(changed)


@pytest.mark.parametrize("seed", range(4))
def test_a_client_under_mutated_messages(seed: int, known: ScramCredential) -> None:
    chance = random.Random(seed)  # noqa: S311
    went_on = 0
    for _ in range(200):
        client = ScramClient(SHA_256, "user", "pencil", b"client")
        server = ScramServer(SHA_256, lambda _: known, b"server")
        server_first = server.respond(client.first())
        changed = mutated_token(server_first, chance)
        try:
            proof = client.final(changed)
        except AuthenticationFailed:
            continue
        went_on += 1
        with pytest.raises(AuthenticationFailed):
            client.verify(mutated_token(b"v=" + b"A" * 43 + b"=", chance))
        if changed != server_first:
            with pytest.raises(AuthenticationFailed):
                server.respond(proof)
    assert 5 < went_on < 100
