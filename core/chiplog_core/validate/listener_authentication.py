"""Rules for how clients of a listener authenticate."""

from collections.abc import Iterator
from typing import Final

from chiplog_core.model.certificates import AuthenticationType
from chiplog_core.model.listener_authentication import WITH_TOKENS, ListenerAuthentication
from chiplog_core.problems import Problem

API_SERVERS_AUDIENCE: Final = "https://kubernetes.default"
"""How the usual audiences of the API server begin."""


def check_authentication(given: ListenerAuthentication, field: str) -> Iterator[Problem]:
    """Problems with the settings for tokens; `field` is the path of the authentication."""
    is_oauth = given.type is AuthenticationType.OAUTH
    settings = (
        ("audience", given.audience, given.type in WITH_TOKENS, True),
        ("validIssuerUri", given.valid_issuer_uri, is_oauth, True),
        ("jwksEndpointUri", given.jwks_endpoint_uri, is_oauth, True),
        ("userNameClaim", given.user_name_claim, is_oauth, False),
        ("tlsTrustedCertificates", given.tls_trusted_certificates, is_oauth, False),
    )
    for name, value, is_used, is_required in settings:
        if value and not is_used:
            message = f"is set, but type {given.type} does not use it"
            yield Problem(f"{field}.{name}", message, "remove it")
        if not value and is_used and is_required:
            message = f"is missing, but type {given.type} needs it"
            yield Problem(f"{field}.{name}", message, "set it")
    is_of_pods = given.type is AuthenticationType.KUBERNETES_TOKEN
    if is_of_pods and (given.audience or "").startswith(API_SERVERS_AUDIENCE):
        yield Problem(
            f"{field}.audience",
            f"is {given.audience}, the API server's own, so every pod would have such a token",
            "choose another one, like the name of the cluster with that of its namespace",
        )
