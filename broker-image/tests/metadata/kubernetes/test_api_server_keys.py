"""The keys for tokens of ServiceAccounts, as the API server publishes them."""

import asyncio
from typing import Any

import pytest

from chiplog_broker.metadata.kubernetes.api_server_keys import DISCOVERY, KEYS, ApiServerKeys
from chiplog_kube.api import Forbidden, Unavailable

ISSUER = "https://kubernetes.default.svc"


def fetched(documents: dict[str, Any]) -> Any:
    async def document(path: str) -> Any:
        found = documents[path]
        if isinstance(found, Exception):
            raise found
        return found

    return asyncio.run(ApiServerKeys(document).fetch())


def test_the_issuer_is_what_the_api_server_says() -> None:
    found = fetched(
        {DISCOVERY: {"issuer": ISSUER, "jwks_uri": "https://other"}, KEYS: {"keys": []}}
    )
    assert found == (ISSUER, {"keys": []})


@pytest.mark.parametrize("error", [Forbidden("no"), Unavailable("no answer")])
def test_what_the_api_server_refuses_is_tried_again(error: Exception) -> None:
    for documents in ({DISCOVERY: error}, {DISCOVERY: {"issuer": ISSUER}, KEYS: error}):
        with pytest.raises(OSError, match=type(error).__name__):
            fetched(documents)


@pytest.mark.parametrize("issuer", [None, "", 7, ["a"]])
def test_without_an_issuer_there_are_no_keys(issuer: object) -> None:
    with pytest.raises(ValueError, match="issuer"):
        fetched({DISCOVERY: {"issuer": issuer}, KEYS: {"keys": []}})
