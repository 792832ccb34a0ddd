"""In which words clients say that they cannot connect: those of OpenSSL, or else those of Java."""

from typing import Final

from e2e.clients.over_tls.client import OverTls, Tls

UNTRUSTED: Final = ("certificate verify failed", "pkix path building failed")
OTHER_NAME: Final = ("certificate verify failed", "name matching localhost found")
NO_CERTIFICATE: Final = ("certificate required",)
OLD_VERSION: Final = ("protocol version",)
LIMITS_S: Final = (1, 2, 4, 8, 16)
"""How long each attempt may take: on a busy machine a client gives up before the handshake."""


def check_refused(client: OverTls, tls: Tls, words: tuple[str, ...]) -> None:
    """Raise `AssertionError` if the client can connect, or cannot for another reason."""
    said = []
    for limit_s in LIMITS_S:
        refusal = client.refusal(tls, limit_s)
        assert refusal, f"{client.name} can connect to {tls}"
        said.append(refusal.lower().replace("_", " "))
        if any(one in said[-1] for one in words):
            return
    raise AssertionError(f"{client.name} has not said {' or '.join(words)}, but: {said}")
