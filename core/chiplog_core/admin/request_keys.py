"""The keys of admin requests, and for whom the credential in one is encrypted."""

from chiplog_core.ids import Incarnation


def request_key(incarnation: Incarnation | None, request_id: str) -> str:
    """A key that is unique among the requests of all brokers and all their processes."""
    return f"{incarnation}.{request_id}"


def credential_place(namespace: str, cluster: str, key: str, username: str) -> tuple[str, ...]:
    """The place of a credential in the request with this key (`chiplog_wire.sealing`): in another
    request, of another broker or for another user, it cannot be opened."""
    return "AlterUserScramCredentials", namespace, cluster, key, username
