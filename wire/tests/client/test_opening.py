"""The first requests of a connection: versions, then a login."""

from collections.abc import Callable
from typing import Any

import pytest

from chiplog_wire.client.connection import ClientConnection
from chiplog_wire.client.errors import NoCommonVersion, OpeningRefused
from chiplog_wire.client.opening import OpeningRequest, opening
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramClient,
    ScramCredential,
    ScramServer,
    derived_keys,
    salted_password,
)

SHA_512 = Mechanism.SCRAM_SHA_512
SALT = b"salt"
SECRET, OTHER = "of this cluster", "of another one"
SPOKEN = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.API_VERSIONS: (0, 4), ApiKey.FETCH: (4, 17)}


class Broker:
    """Answers what an opening asks; `code` is the error with which it answers `refused`."""

    def __init__(self, password: str = SECRET, **options: Any) -> None:
        keys = derived_keys(SHA_512, salted_password(SHA_512, password, SALT, 4096))
        credential = ScramCredential(SALT, 4096, [keys])
        self._server = ScramServer(SHA_512, lambda _: credential, b"theirs")
        self._refused: ApiKey | None = options.get("refused")
        self._tokens: tuple[int, int] | None = options.get("tokens", (0, 2))
        self.asked: list[tuple[ApiKey, int]] = []

    def answer(self, ask: OpeningRequest) -> Any:
        self.asked.append(ask[:2])
        response = schema.response_class(ask.key, ask.version)
        values = schema.defaults(response) | self._values(ask)
        values["error_code"] = (
            ErrorCode.cluster_authorization_failed if ask.key is self._refused else ErrorCode.none
        )
        return response(**values)

    def _values(self, ask: OpeningRequest) -> dict[str, Any]:
        response = schema.response_class(ask.key, ask.version)
        match ask.key:
            case ApiKey.API_VERSIONS:
                one = schema.element(response, "api_keys")
                spoken = SPOKEN | ({ApiKey.SASL_AUTHENTICATE: self._tokens} if self._tokens else {})
                return {
                    "api_keys": tuple(
                        one(api_key=key, min_version=low, max_version=high)
                        for key, (low, high) in spoken.items()
                    )
                }
            case ApiKey.SASL_HANDSHAKE:
                assert ask.message.mechanism == SHA_512.value
                return {"mechanisms": (SHA_512.value,)}
            case _:
                return {"auth_bytes": self._server.respond(ask.message.auth_bytes)}


def opened(broker: Broker, new_scram: Callable[[], ScramClient] | None) -> ClientConnection:
    client = ClientConnection("tester")
    steps, answer = opening(client, new_scram), None
    while True:
        try:
            answer = broker.answer(steps.send(answer))
        except StopIteration:
            return client


def user() -> ScramClient:
    return ScramClient(SHA_512, "ada", SECRET, b"ours")


def test_versions_alone() -> None:
    broker = Broker()
    client = opened(broker, None)
    assert client.versions[ApiKey.FETCH] == (4, 17)
    assert broker.asked == [(ApiKey.API_VERSIONS, 0)]


@pytest.mark.parametrize(("tokens", "version"), [((0, 0), 0), ((0, 2), 2), ((1, 9), 2)])
def test_a_login_in_the_newest_version_that_both_speak(
    tokens: tuple[int, int], version: int
) -> None:
    broker = Broker(tokens=tokens)
    opened(broker, user)
    assert broker.asked == [
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.SASL_HANDSHAKE, 1),
        (ApiKey.SASL_AUTHENTICATE, version),
        (ApiKey.SASL_AUTHENTICATE, version),
    ]


@pytest.mark.parametrize(
    "key", [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
)
def test_an_error_says_to_which_request_it_was_the_answer(key: ApiKey) -> None:
    broker = Broker(refused=key)
    with pytest.raises(OpeningRefused, match="cluster_authorization_failed") as refused:
        opened(broker, user)
    assert refused.value.key is key
    assert refused.value.code is ErrorCode.cluster_authorization_failed
    assert broker.asked[-1][0] is key


def test_a_broker_without_logins() -> None:
    with pytest.raises(NoCommonVersion, match="SaslAuthenticate"):
        opened(Broker(tokens=None), user)


class Impostor(Broker):
    """Lets everybody in without knowing the password."""

    def _values(self, ask: OpeningRequest) -> dict[str, Any]:
        tokens = [key for key, _ in self.asked].count(ApiKey.SASL_AUTHENTICATE)
        if tokens == 2:
            return {"auth_bytes": b"v=" + b"A" * 86 + b"=="}
        return super()._values(ask)


@pytest.mark.parametrize(
    "broker", [lambda: Broker(OTHER), Impostor], ids=["other password", "impostor"]
)
def test_both_ends_have_to_know_the_password(broker: Callable[[], Broker]) -> None:
    with pytest.raises(AuthenticationFailed):
        opened(broker(), user)
