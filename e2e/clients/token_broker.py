"""A standalone broker that lets in clients with tokens only."""

from pathlib import Path
from typing import Final

from e2e.clients.issuer import AUDIENCE, TokenIssuer
from e2e.clients.standalone import StandaloneBroker
from e2e.kafka.certificates import Authority
from e2e.kafka.ports import LOOPBACK, free_ports

ADMIN: Final = "admin"
ALICE: Final = "alice"


class TokenBroker(StandaloneBroker):
    """A broker whose only listener accepts tokens. `ADMIN` and `ALICE` may do everything."""

    def __init__(self, directory: Path, issuer: TokenIssuer) -> None:
        super().__init__(directory)
        self.issuer = issuer
        authority = Authority.create("servers")
        self.ca = authority.write(directory / "ca") / "ca.crt"
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        self.settings |= {
            "listeners": f"SASL_SSL://{self.address}",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
            "sasl.oauthbearer.expected.issuer": issuer.url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": "1",
            "ssl.keystore.location": str(authority.server().write(directory / "server")),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{ALICE}",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "true",
        }
