"""The keys with which the API server signs tokens of ServiceAccounts.

Every ServiceAccount may read them, by Kubernetes' own ClusterRole
`system:service-account-issuer-discovery`.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from chiplog_broker.security.oauth.signing_keys import Published
from chiplog_kube.api import ApiError, Manifest

DISCOVERY: Final = "/.well-known/openid-configuration"
KEYS: Final = "/openid/v1/jwks"


class ApiServerKeys:
    """The `KeySource` of the Kubernetes cluster that the broker runs in."""

    def __init__(self, document: Callable[[str], Awaitable[Manifest]]) -> None:
        """`document` fetches a JSON object from the API server. Raises `ApiError`s."""
        self._document = document

    async def fetch(self) -> Published:
        """As in `KeySource`. The address of the keys in the discovery document is not used: it is
        the one for clients outside of the cluster."""
        try:
            issuer = (await self._document(DISCOVERY)).get("issuer")
            keys = await self._document(KEYS)
        except ApiError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if not isinstance(issuer, str) or not issuer:
            raise ValueError("the API server does not say what its issuer is")
        return Published(issuer, keys)
