"""The properties of Kafka's clients, and what is said of those that cannot be used."""

from dataclasses import replace

import pytest

from chiplog_cli.bad_property import BadProperty
from chiplog_cli.client_config import ClientConfig, client_config
from chiplog_cli.jaas import parse_jaas
from chiplog_cli.security import (
    PLAINTEXT,
    Login,
    SaslMechanism,
    Security,
    TokenEndpoint,
    TokenFile,
    TokenLogin,
)
from e2e.kafka.certificates import Authority

SECRET = "not-to-be-seen"  # noqa: S105 - of a test
SCRAM = f'a.b.ScramLoginModule required username="ada" password="{SECRET}";'
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": SCRAM,
}
TLS = {"security.protocol": "SSL"}
TOKENS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
ID = "sasl.oauthbearer.client.credentials.client.id"
ID_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
ISSUER = TOKENS | {URL: "https://a/b", ID: "ada", ID_SECRET: SECRET}
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


def test_a_token_in_a_file() -> None:
    found = client_config(TOKENS | {URL: "file:///var/run/a%20token"}, read)
    login = TokenLogin(source=TokenFile("/var/run/a token"))
    assert found == ClientConfig(Security(login=login), ())


def test_client_credentials() -> None:
    endpoint = TokenEndpoint(
        url="https://login.example:8443/token?a=b", client_id="ada", client_secret=SECRET
    )
    url = {URL: endpoint.url}
    by_keys = client_config(TOKENS | url | {ID: "ada", ID_SECRET: SECRET}, read).security
    assert by_keys == Security(login=TokenLogin(source=endpoint))
    assert SECRET not in repr(by_keys)
    options = f'a.OAuthBearerLoginModule required clientId="ada" clientSecret="{SECRET}"'
    by_options = {**TOKENS, **url, "sasl.jaas.config": f"{options};"}
    assert client_config(by_options, read).security == by_keys
    # A key wins over the option that it replaces, as in Kafka.
    both = client_config(by_options | {ID: "bob", "sasl.oauthbearer.scope": "x"}, read).security
    other = replace(endpoint, client_id="bob", scope="x")
    assert both == Security(login=TokenLogin(source=other))


def test_options_for_the_issuer() -> None:
    options = (
        "a.OAuthBearerLoginModule required scope='x y' extension_cluster=one "
        "ssl.truststore.type=PEM ssl.truststore.location=ca.pem;"
    )
    given = {URL: "http://localhost/token", ID: "ada", ID_SECRET: SECRET}
    encoded = {"sasl.oauthbearer.header.urlencode": "TRUE", "sasl.jaas.config": options}
    login = client_config({**TOKENS, **given, **encoded}, read).security.login
    assert isinstance(login, TokenLogin)
    assert login.extensions == (("cluster", "one"),)
    assert isinstance(login.source, TokenEndpoint)
    assert (login.source.scope, login.source.encodes_header) == ("x y", True)
    assert login.source.tls.authorities == FILES["ca.pem"].decode()


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
        (TOKENS, URL, "it is missing: set it to file:///PATH"),
        (TOKENS | {URL: "file://host/a"}, URL, "it names no file: set it to file:///PATH"),
        (TOKENS | {URL: "file:a"}, URL, "it names no file"),
        (TOKENS | {URL: "file:///a#1"}, URL, "it has a ? or #"),
        (TOKENS | {URL: "file:///a?b"}, URL, "it has a ? or #"),
        (TOKENS | {URL: "https://[a"}, URL, "it is no URL"),
        (TOKENS | {URL: "https://a:x/"}, URL, "it is no URL"),
        (ISSUER | {URL: "http://a/b"}, URL, "http is for this machine only"),
        (ISSUER | {URL: "ftp://a/b"}, URL, "neither file:/// nor https://HOST"),
        (ISSUER | {URL: "https:///b"}, URL, "neither file:/// nor https://HOST"),
        (ISSUER | {URL: f"https://a:{SECRET}@a/b"}, URL, f"set {ID} and {ID_SECRET}"),
        (ISSUER | {URL: "https://a/b c"}, URL, "escape the character"),
        (TOKENS | {URL: "https://a/b"}, ID, "set it, or option clientId of sasl.jaas.config"),
        (ISSUER | {ID_SECRET: ""}, ID_SECRET, "set it, or option clientSecret of"),
        (
            ISSUER | {"sasl.oauthbearer.header.urlencode": "yes"},
            "sasl.oauthbearer.header.urlencode",
            "it is neither true nor false",
        ),
        (
            ISSUER | {"sasl.oauthbearer.assertion.file": "jwt"},
            "sasl.oauthbearer.assertion.file",
            f"it is not supported: remove it, and set {ID} and {ID_SECRET}",
        ),
        (
            ISSUER | {"sasl.oauthbearer.assertion.claim.iss": "app"},
            "sasl.oauthbearer.assertion.claim.iss",
            "it is not supported",
        ),
        (ISSUER | {RETRIEVER: "a.JwtBearerJwtRetriever"}, RETRIEVER, "is not supported: remove it"),
        (
            ISSUER | {"sasl.login.callback.handler.class": "a.OwnHandler"},
            "sasl.login.callback.handler.class",
            "a.OwnHandler is not supported",
        ),
        (ISSUER | {"sasl.jaas.config": SCRAM}, "sasl.jaas.config", "the login module OAuthBearer"),
        (ISSUER | {"sasl.jaas.config": SECRET}, "sasl.jaas.config", "OAuthBearerLoginModule requ"),
        (
            ISSUER | {"sasl.jaas.config": "OAuthBearerLoginModule required extension_auth=b;"},
            "sasl.jaas.config",
            "option extension_auth is no extension",
        ),
        (
            ISSUER | {"sasl.jaas.config": "OAuthBearerLoginModule required extension_a='\x01';"},
            "sasl.jaas.config",
            "option extension_a is no extension",
        ),
        (
            ISSUER
            | {"sasl.jaas.config": "OAuthBearerLoginModule required ssl.truststore.location=x;"},
            "sasl.jaas.config",
            "option ssl.truststore.location: x: No such file",
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
