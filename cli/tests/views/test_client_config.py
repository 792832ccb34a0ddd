"""The properties of Kafka's clients, and what is said of those that cannot be used."""

import pytest

from chiplog_cli.client_config import BadProperty, ClientConfig, client_config
from chiplog_cli.jaas import parse_jaas
from chiplog_cli.security import PLAINTEXT, Login, SaslMechanism, Security
from e2e.kafka.certificates import Authority

SECRET = "not-to-be-seen"  # noqa: S105 - of a test
SCRAM = f'a.b.ScramLoginModule required username="ada" password="{SECRET}";'
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": SCRAM,
}
TLS = {"security.protocol": "SSL"}
FILES = {
    "ca.pem": Authority.create().pem,
    "user.pem": Authority.create().client("ada").both,
    "jks": bytes.fromhex("feedfeed00000002"),
    "garbage": bytes(range(128, 256)),
    "text": b"nothing",
}


def read(location: str) -> bytes:
    if location not in FILES:
        raise FileNotFoundError(2, "No such file or directory", location)
    return FILES[location]


def test_nothing_is_plain_text() -> None:
    assert client_config({}, read) == ClientConfig(PLAINTEXT, ())
    # What is only for TLS is not even read.
    without = client_config({"ssl.truststore.location": "none", "acks": "1"}, read)
    assert without == ClientConfig(PLAINTEXT, ("acks",))


def test_a_login() -> None:
    login = Login(mechanism=SaslMechanism.SCRAM_SHA_512, username="ada", password=SECRET)
    found = client_config(SASL, read).security
    assert found == Security(login=login)
    assert SECRET not in repr(found)


def test_stores_in_pem() -> None:
    stores = {
        "ssl.truststore.type": "pem",
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "user.pem",
    }
    tls = client_config(TLS | stores, read).security.tls
    assert tls is not None
    assert tls.authorities == FILES["ca.pem"].decode()
    assert tls.certificate is not None
    assert tls.certificate.key + tls.certificate.chain == FILES["user.pem"].decode()
    assert "PRIVATE" not in repr(tls)


@pytest.mark.parametrize(
    ("properties", "key", "what"),
    [
        ({"security.protocol": "TLS"}, "security.protocol", "set it to one of PLAINTEXT, SSL"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "GSSAPI is not supported: set it"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism", "it is missing: set it to one of"),
        (SASL | {"sasl.mechanism": "PLAIN"}, "sasl.jaas.config", "needs the login module Plain"),
        (SASL | {"sasl.jaas.config": SECRET}, "sasl.jaas.config", "no entry that ends with"),
        (
            SASL | {"sasl.jaas.config": f"ScramLoginModule required username={SECRET};"},
            "sasl.jaas.config",
            "option password is missing",
        ),
        (
            {key: one for key, one in SASL.items() if "jaas" not in key},
            "sasl.jaas.config",
            "it is missing: set it like",
        ),
        (
            TLS | {"ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm",
            "set it to https, or remove it",
        ),
        (TLS | {"ssl.truststore.type": "BKS"}, "ssl.truststore.type", "BKS is not supported"),
        (TLS | {"ssl.truststore.location": "none"}, "ssl.truststore.location", "none: No such"),
        (
            TLS | {"ssl.truststore.location": "ca.pem"},
            "ssl.truststore.type",
            "ca.pem: the file is of type PEM: set it to PEM",
        ),
        (
            TLS | {"ssl.truststore.location": "garbage", "ssl.truststore.type": "PEM"},
            "ssl.truststore.type",
            "set it to PKCS12",
        ),
        (
            TLS | {"ssl.truststore.location": "text", "ssl.truststore.type": "PEM"},
            "ssl.truststore.location",
            "there is no certificate in it",
        ),
        (TLS | {"ssl.truststore.location": "jks"}, "ssl.truststore.location", "keytool -import"),
        (
            TLS | {"ssl.keystore.location": "garbage", "ssl.keystore.password": SECRET},
            "ssl.keystore.location",
            "garbage: it is no PKCS #12 file, or its password is another one",
        ),
        (
            TLS | {"ssl.keystore.location": "ca.pem", "ssl.keystore.type": "PEM"},
            "ssl.keystore.location",
            "there is no private key in it",
        ),
        (
            TLS | {"ssl.truststore.certificates": "text"},
            "ssl.truststore.type",
            "ssl.truststore.certificates is only for type PEM",
        ),
        (TLS | {"ssl.keystore.key": SECRET}, "ssl.keystore.type", "ssl.keystore.key is only for"),
        (
            TLS | {"ssl.keystore.key": SECRET, "ssl.keystore.type": "PEM"},
            "ssl.keystore.certificate.chain",
            "there is no certificate in it",
        ),
    ],
)
def test_what_cannot_be_used(properties: dict[str, str], key: str, what: str) -> None:
    with pytest.raises(BadProperty) as refused:
        client_config(properties, read)
    assert refused.value.key == key
    assert str(refused.value).startswith(f"{key}: ")
    assert what in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("comment", [b"\xef\xbb\xbf", "# NetLock Arany Főtanúsítvány\n".encode()])
def test_files_in_pem_may_have_comments_in_any_encoding(comment: bytes) -> None:
    """Bundles of operating systems name their CAs so."""
    given = TLS | {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}
    bundle = comment + FILES["ca.pem"] + comment + FILES["ca.pem"]
    tls = client_config(given, lambda _: bundle).security.tls
    assert tls is not None
    assert tls.authorities == 2 * FILES["ca.pem"].decode()


def test_a_key_that_is_encrypted_needs_its_password() -> None:
    encrypted = FILES["user.pem"].decode().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
    key, _, chain = encrypted.partition("-----BEGIN CERTIFICATE")
    given = TLS | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE{chain}",
    }
    with pytest.raises(BadProperty, match=r"is encrypted: set ssl\.key\.password"):
        client_config(given, read)
    tls = client_config(given | {"ssl.key.password": SECRET}, read).security.tls
    assert tls is not None
    assert tls.certificate is not None
    assert tls.certificate.key_password == SECRET


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required;", {}),
        ("a.B REQUIRED x=1 y='2 3';", {"x": "1", "y": "2 3"}),
        (' a.B\nsufficient\n  x = "a;b=\\"c\\\\"\n;\n', {"x": 'a;b="c\\'}),
    ],
)
def test_entries_of_jaas(text: str, options: dict[str, str]) -> None:
    found = parse_jaas(text)
    assert (found.module, found.options) == ("a.B", options)
    assert repr(found) == "JaasEntry(a.B)"


@pytest.mark.parametrize(
    "text", ["", "a.B;", "a.B required", "a.B required x;", 'a.B required x="1;']
)
def test_what_is_no_entry_of_jaas(text: str) -> None:
    with pytest.raises(ValueError, match="ScramLoginModule required"):
        parse_jaas(text)
