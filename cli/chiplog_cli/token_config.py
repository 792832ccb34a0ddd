"""The properties of Kafka's clients for logins with tokens (KIP-255, 768, 1139 and 1258)."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from chiplog_cli.bad_property import BadProperty
from chiplog_cli.jaas import SASL_JAAS_CONFIG
from chiplog_cli.security import TokenEndpoint, TokenFile, TokenLogin
from chiplog_cli.tls_config import Read, tls_config

ENDPOINT_URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key
SCOPE: Final = "sasl.oauthbearer.scope"
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
HANDLER: Final = "sasl.login.callback.handler.class"
ASSERTION_FILE: Final = "sasl.oauthbearer.assertion.file"
ASSERTION_ISSUER: Final = "sasl.oauthbearer.assertion.claim.iss"
KEYS: Final = frozenset(
    {ENDPOINT_URL, CLIENT_ID, CLIENT_SECRET, SCOPE, URL_ENCODE, RETRIEVER, HANDLER}
)
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    HANDLER: frozenset({"OAuthBearerLoginCallbackHandler"}),
    RETRIEVER: frozenset(
        {"DefaultJwtRetriever", "FileJwtRetriever", "ClientCredentialsJwtRetriever"}
    ),
}
"""Kafka's classes that do what this program does. Which one is used follows from the URL. Since
Kafka 4.3 the last one sends an assertion in place of the secret if there is one."""
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile("[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\t\n\r -~]+")


def token_login(
    properties: Mapping[str, str], options: Mapping[str, str], read: Read
) -> TokenLogin:
    """Where the token is. `options` are those of the login module. Raises `BadProperty`."""
    for key, known in _CLASSES.items():
        given = properties.get(key, "")
        if given and given.rpartition(".")[2] not in known:
            raise BadProperty(
                key, f"{given} is not supported: remove it, or set it to {', '.join(sorted(known))}"
            )
    url, parts = _endpoint_url(properties)
    if parts.scheme == "file":
        source: TokenFile | TokenEndpoint = _token_file(parts)
    else:
        source = _token_endpoint(url, parts, properties, options, read)
    return TokenLogin(source=source, extensions=_extensions(options))


def _endpoint_url(properties: Mapping[str, str]) -> tuple[str, SplitResult]:
    """Where tokens come from. Raises `BadProperty`."""
    url = properties.get(ENDPOINT_URL, "")
    if not url:
        raise BadProperty(
            ENDPOINT_URL,
            "it is missing: set it to file:///PATH of a file with a token, or to the https URL at "
            "which an issuer gives tokens",
        )
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises an error if it is no number
    except ValueError:
        raise BadProperty(ENDPOINT_URL, "it is no URL: correct it") from None
    return url, parts


def _token_file(parts: SplitResult) -> TokenFile:
    """The file that a file URL names. Raises `BadProperty`."""
    path = unquote(parts.path)
    if parts.query or parts.fragment:
        raise BadProperty(ENDPOINT_URL, "it has a ? or #: write %3F or %23 for one in a path")
    if parts.netloc not in {"", "localhost"} or not path.startswith("/") or "\0" in path:
        raise BadProperty(ENDPOINT_URL, "it names no file: set it to file:///PATH, with three /")
    return TokenFile(path)


def _token_endpoint(
    url: str,
    parts: SplitResult,
    properties: Mapping[str, str],
    options: Mapping[str, str],
    read: Read,
) -> TokenEndpoint:
    """The issuer with what it wants to know. The stores for its TLS are options of the login
    module, as in Kafka. Raises `BadProperty`."""
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not parts.hostname or not is_safe:
        raise BadProperty(
            ENDPOINT_URL,
            "it begins with neither file:/// nor https://HOST: use one of them, since anybody on "
            "the way could read the secret otherwise; http is for this machine only",
        )
    if parts.username is not None or not re.fullmatch("[!-~]+", url):
        raise BadProperty(
            ENDPOINT_URL,
            f"it contains a user or a character that URLs do not have: set {CLIENT_ID} and "
            f"{CLIENT_SECRET}, or escape the character",
        )
    for key in (ASSERTION_FILE, ASSERTION_ISSUER):
        if properties.get(key):
            # Kafka's clients would not send the secret then.
            raise BadProperty(
                key, f"it is not supported: remove it, and set {CLIENT_ID} and {CLIENT_SECRET}"
            )
    try:
        tls = tls_config(options, read)
    except BadProperty as error:
        raise BadProperty(SASL_JAAS_CONFIG, f"option {error}") from None
    return TokenEndpoint(
        url=url,
        client_id=_required(properties, CLIENT_ID, options, "clientId"),
        client_secret=_required(properties, CLIENT_SECRET, options, "clientSecret"),
        scope=properties.get(SCOPE) or options.get("scope", ""),
        encodes_header=_encodes_header(properties),
        tls=tls,
    )


def _encodes_header(properties: Mapping[str, str]) -> bool:
    """Whether id and secret are percent-encoded. Raises `BadProperty`."""
    given = properties.get(URL_ENCODE, "").lower()
    if given not in {"true", "false", ""}:
        raise BadProperty(URL_ENCODE, "it is neither true nor false: set it to one of them")
    return given == "true"


def _required(
    properties: Mapping[str, str], key: str, options: Mapping[str, str], option: str
) -> str:
    """The value of a key, or of the option that it replaces. Raises `BadProperty`."""
    found = properties.get(key) or options.get(option)
    if not found:
        what = f"it is missing: set it, or option {option} of {SASL_JAAS_CONFIG}"
        raise BadProperty(key, what)
    return found


def _extensions(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The options that are sent with the token. Raises `BadProperty`."""
    found = []
    for option, value in options.items():
        if option.startswith(_EXTENSION):
            name = option.removeprefix(_EXTENSION)
            is_name = _EXTENSION_NAME.fullmatch(name) is not None and name.lower() != "auth"
            if not is_name or not _EXTENSION_VALUE.fullmatch(value):
                raise BadProperty(
                    SASL_JAAS_CONFIG,
                    f"option {option} is no extension (RFC 7628): use letters for its name, not "
                    "auth, and printable ASCII for its value",
                )
            found.append((name, value))
    return tuple(found)
