"""A standalone broker with listeners that ask for logins, and clients that log in."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chiplog_broker.first_users import first_user
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.rng import SystemRng
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import Mechanism, ScramClient, salted_password

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

SHA_512, SHA_256 = Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256
ALICE = "SCRAM-SHA-512=[name=alice,password=alice-secret]"
OK, WRONG = ErrorCode.none, ErrorCode.sasl_authentication_failed
SESSION_S = 0.3
EVERY = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


def listener(name: str, *mechanisms: str, session_s: float | None = None) -> Listener:
    return Listener(
        name, "127.0.0.1", 0, "127.0.0.1", 0, mechanisms=mechanisms, session_s=session_s
    )


@asynccontextmanager
async def asking(kit: "Kit", *first_users: str, **config: str) -> AsyncIterator["Client"]:
    """A broker with the listeners `PLAINTEXT`, `sasl` and `timed`, where logins expire; yields a
    client of the first. PLAIN without TLS is possible here only: a configuration that asks for it
    is refused."""
    broker = kit.new_broker(
        {key.replace("_", "."): value for key, value in config.items()},
        [
            listener("PLAINTEXT"),
            listener("sasl", *EVERY),
            listener("timed", *EVERY, session_s=SESSION_S),
        ],
    )
    broker.first_users = [first_user(one, SystemRng()) for one in first_users]
    await broker.start()
    try:
        client = await kit.client()
        await client.metadata()
        yield client
    finally:
        kit.close_clients()
        await broker.stop()


async def handshake(client: "Client", mechanism: str) -> ErrorCode:
    types = client.types(ApiKey.SASL_HANDSHAKE)
    request = types.SaslHandshakeRequest(mechanism=mechanism)
    return ErrorCode((await client.ask(ApiKey.SASL_HANDSHAKE, request)).error_code)


async def authenticate(client: "Client", token: bytes) -> Any:
    types = client.types(ApiKey.SASL_AUTHENTICATE)
    request = types.SaslAuthenticateRequest(auth_bytes=token)
    return await client.ask(ApiKey.SASL_AUTHENTICATE, request)


async def by_scram(
    client: "Client", name: str, password: str, mechanism: Mechanism = SHA_512
) -> ErrorCode:
    assert await handshake(client, mechanism.value) is OK
    scram = ScramClient(mechanism, name, password, b"nonce")
    first = await authenticate(client, scram.first())
    if first.error_code is not OK:
        return ErrorCode(first.error_code)
    last = await authenticate(client, scram.final(first.auth_bytes))
    if last.error_code is OK:
        scram.verify(last.auth_bytes)
    return ErrorCode(last.error_code)


async def by_plain(client: "Client", name: str, password: str) -> ErrorCode:
    assert await handshake(client, "PLAIN") is OK
    answer = await authenticate(client, f"\0{name}\0{password}".encode())
    assert answer.auth_bytes == b""
    return ErrorCode(answer.error_code)


def upsertion(
    client: "Client",
    name: str,
    password: str,
    mechanism: Mechanism = SHA_512,
    iterations: int = 4096,
    **other: Any,
) -> Any:
    """As a client makes it: the broker gets the salted password."""
    fields = {
        "name": name,
        "mechanism": {SHA_256: 1, SHA_512: 2}[mechanism],
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": salted_password(mechanism, password, b"salt", iterations),
        **other,
    }
    return client.types(ApiKey.ALTER_USER_SCRAM_CREDENTIALS).ScramCredentialUpsertion(**fields)


def deletion(client: "Client", name: str, mechanism: int = 2) -> Any:
    types = client.types(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    return types.ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(
    client: "Client", *, store: Sequence[Any] = (), delete: Sequence[Any] = ()
) -> dict[str, tuple[ErrorCode, str | None]]:
    types = client.types(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    request = types.AlterUserScramCredentialsRequest(
        deletions=tuple(delete), upsertions=tuple(store)
    )
    answer = await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    return {one.user: (ErrorCode(one.error_code), one.error_message) for one in answer.results}


async def described(client: "Client", *names: str) -> Any:
    """user -> code, and (mechanism, iterations) of each credential."""
    types = client.types(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
    users = tuple(types.UserName(name=name) for name in names)
    request = types.DescribeUserScramCredentialsRequest(users=users or None)
    answer = await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    assert answer.error_code is OK
    return {
        one.user: (
            ErrorCode(one.error_code),
            [(info.mechanism, info.iterations) for info in one.credential_infos],
        )
        for one in answer.results
    }


async def closes_soon(client: "Client") -> bool:
    """Within the two seconds that a deleted user may stay."""
    async with asyncio.timeout(2):
        return await client.is_closed()
