"""The credentials of a cluster on Kubernetes in which nobody logs in: none."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from chiplog_broker.security.refusal import Refusal
from chiplog_broker.security.scram_store import CredentialChange
from chiplog_broker.security.users import Verifiers
from chiplog_wire.protocol.errors import ErrorCode

NO_PASSWORDS: Final = Refusal(
    ErrorCode.policy_violation,
    "no listener of this cluster has authentication.type scram-sha-512: add one to the "
    "BrokerCluster",
)


class NoLogins:
    """A `ScramStore` that stores nothing."""

    verifiers: Verifiers = MappingProxyType({})

    async def alter(
        self, changes: Sequence[CredentialChange], _principal: str
    ) -> Mapping[str, Refusal]:
        return {change.username: NO_PASSWORDS for change in changes}
