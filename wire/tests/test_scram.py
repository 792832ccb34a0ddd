"""SCRAM against the RFC's own example and against the client that kafka-python brings."""

import importlib
import warnings
from base64 import b64encode
from typing import Any

import pytest

from chiplog_wire.scram import (
    ITERATIONS,
    MAX_ITERATIONS,
    AuthenticationFailed,
    Mechanism,
    ScramClient,
    ScramCredential,
    ScramServer,
    derived_keys,
    escaped,
    new_nonce,
    salted_password,
    saslprep,
    unescaped,
)

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512

# RFC 7677, section 3: user "user", password "pencil".
CLIENT_NONCE = b"rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
CLIENT_FIRST = b"n,,n=user,r=" + CLIENT_NONCE
SERVER_FIRST = b"r=%b%b,s=%b,i=4096" % (CLIENT_NONCE, SERVER_NONCE, SALT.encode())
CLIENT_FINAL = b"c=biws,r=%b%b,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=" % (
    CLIENT_NONCE,
    SERVER_NONCE,
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
RFC_SALT = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")


def credential(
    mechanism: Mechanism, *passwords: str, salt: bytes = RFC_SALT, iterations: int = ITERATIONS
) -> ScramCredential:
    keys = [
        derived_keys(mechanism, salted_password(mechanism, one, salt, iterations))
        for one in passwords
    ]
    return ScramCredential(salt, iterations, keys)


def server(mechanism: Mechanism, *passwords: str) -> ScramServer:
    known = credential(mechanism, *passwords)
    return ScramServer(mechanism, lambda _: known, SERVER_NONCE)


def test_the_rfcs_example_as_its_server() -> None:
    one = server(SHA_256, "pencil")
    assert one.respond(CLIENT_FIRST) == SERVER_FIRST
    assert one.authenticated_as is None
    assert one.respond(CLIENT_FINAL) == SERVER_FINAL
    assert one.authenticated_as == "user"


def test_the_rfcs_example_as_its_client() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    client.verify(SERVER_FINAL)


def kafka_python(mechanism: Mechanism, user: str, password: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = importlib.import_module("kafka.net.sasl.scram").ScramClient
    return theirs(user, password, mechanism.value)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_kafka_pythons_client_and_our_server_convince_each_other(mechanism: Mechanism) -> None:
    one, theirs = server(mechanism, "pa,ss=word"), kafka_python(mechanism, "chiplog", "pa,ss=word")
    theirs.process_server_first_message(one.respond(theirs.first_message()))
    theirs.process_server_final_message(one.respond(theirs.final_message()))
    assert one.authenticated_as == "chiplog"


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("name", ["chiplog", "a,b", "a=b", "=2C,=3D"])
def test_our_client_and_our_server_convince_each_other(mechanism: Mechanism, name: str) -> None:
    one, client = server(mechanism, "pw"), ScramClient(mechanism, name, "pw", CLIENT_NONCE)
    client.verify(one.respond(client.final(one.respond(client.first()))))
    assert one.authenticated_as == name


@pytest.mark.parametrize("password", ["new", "old"])
def test_two_passwords_may_be_valid_at_once(password: str) -> None:
    one, client = server(SHA_512, "new", "old"), ScramClient(SHA_512, "u", password, CLIENT_NONCE)
    client.verify(one.respond(client.final(one.respond(client.first()))))


def test_a_wrong_password_is_refused() -> None:
    one, client = server(SHA_512, "right"), ScramClient(SHA_512, "user", "wrong", CLIENT_NONCE)
    proof = client.final(one.respond(client.first()))
    with pytest.raises(AuthenticationFailed, match="wrong password"):
        one.respond(proof)
    assert one.authenticated_as is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    """It accepts any proof; its signature gives it away."""
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.final(SERVER_FIRST)
    for signature in (b"v=" + b64encode(bytes(32)), b"v=", b"", b"e=other-error", b"x=1"):
        with pytest.raises(AuthenticationFailed):
            client.verify(signature)


def test_a_signature_before_the_proof_proves_nothing() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    with pytest.raises(AuthenticationFailed):
        client.verify(b"v=")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,b=user,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=user,r=abc,m=ext",
        b"n,,r=abc,n=user",
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2der,r=abc",
        b"n,,n=\xc3\xa9,r=abc",
        b"n,,n=a\x00b,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=" + b"a" * 5000,
        b"n,,n=user,r=abc" + b",x=y" * 20,
        b"n,,n=user=,r=abc",
        b"n,,n==3D=,r=abc",
    ],
)
def test_first_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        server(SHA_256, "pencil").respond(message)


@pytest.mark.parametrize(
    "message", [b"n,a=user,n=user,r=abc", b"y,,n=user,r=abc", b"n,,n=user,r=abc,tokenauth=true"]
)
def test_first_messages_that_are_answered(message: bytes) -> None:
    assert server(SHA_256, "pencil").respond(message).startswith(b"r=abc" + SERVER_NONCE)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"a=3Db=2Cc", "a=b,c"),
        (b"=3D3D", "=3D"),
        (b"=3D2C", "=2C"),
        (b"=2C3D", ",3D"),
        (b"=3D=3D=2C=2C", "==,,"),
    ],
)
def test_names_are_unescaped_once(written: bytes, name: str) -> None:
    assert unescaped(written) == name
    assert escaped(name) == written


@pytest.mark.parametrize(
    ("change", "to", "why"),
    [
        (b"biws", b"eSws", "channel binding"),  # the header of another first message
        (b"biws", b"biw", "base64"),
        (CLIENT_NONCE, b"r0prNGfwEbeRWgbNEkqO", "nonce"),
        (SERVER_NONCE, b"", "nonce"),
        (b"p=dHz", b"p=dHy", "wrong password"),
        (b"p=dHz", b"q=dHz", "proof"),
        (b"dVQ=", b"dVQ", "base64"),
        (b"dVQ=", b"dVR=", "base64"),  # the same bytes
        (b"dVQ=", b"dVQ=,x=1", "proof"),
        (b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b"p=AAAA", "wrong password"),
        (CLIENT_FINAL, b"", "malformed"),
    ],
)
def test_final_messages_that_are_refused(change: bytes, to: bytes, why: str) -> None:
    assert change in CLIENT_FINAL
    one = server(SHA_256, "pencil")
    one.respond(CLIENT_FIRST)
    with pytest.raises(AuthenticationFailed, match=why):
        one.respond(CLIENT_FINAL.replace(change, to))
    assert one.authenticated_as is None


def test_an_exchange_ends_with_its_first_failure_and_with_its_success() -> None:
    one = server(SHA_256, "pencil")
    with pytest.raises(AuthenticationFailed):
        one.respond(b"nonsense")
    with pytest.raises(AuthenticationFailed):
        one.respond(CLIENT_FIRST)
    two = server(SHA_256, "pencil")
    for message in (CLIENT_FIRST, CLIENT_FINAL):
        two.respond(message)
    with pytest.raises(AuthenticationFailed):
        two.respond(CLIENT_FINAL)


@pytest.mark.parametrize(
    "server_first",
    [
        b"",
        b"r=other,s=AAAA,i=4096",
        b"r=" + CLIENT_NONCE + b",s=AAAA,i=4096",  # adds nothing of its own
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=%d" % (MAX_ITERATIONS + 1)),
        SERVER_FIRST.replace(b"i=4096", b"i=-4096"),
        SERVER_FIRST.replace(b"i=4096", b"i=9999999999"),
        SERVER_FIRST.replace(b"s=", b"s=!"),
        b"m=ext," + SERVER_FIRST,
    ],
)
def test_a_client_is_not_led_astray(server_first: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    with pytest.raises(AuthenticationFailed):
        client.final(server_first)


@pytest.mark.parametrize("text", ["", "é", "tab\t", "\x7f", "a\nb"])
def test_what_is_no_name_or_password(text: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        saslprep(text)
    with pytest.raises(ValueError, match="printable ASCII"):
        salted_password(SHA_512, text, b"salt", 4096)


def test_nonces_can_stand_in_a_message() -> None:
    nonce = new_nonce(lambda size_bytes: b"\xff" * size_bytes)
    assert nonce.isascii()
    assert b"," not in nonce
    assert len(nonce) >= 24


def test_secrets_are_not_printed() -> None:
    found = credential(SHA_256, "pencil")
    assert "stored_key" not in repr(found)
