"""How clients of a listener authenticate."""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.limits import MAX_NAME_LENGTH, MAX_TRUSTED_CERTIFICATES, MAX_URI_LENGTH
from chiplog_core.manifest.constraints import Items, Length, Pattern
from chiplog_core.model.certificates import AuthenticationType, SecretKey
from chiplog_core.model.references import ObjectName

WITH_TOKENS = (AuthenticationType.OAUTH, AuthenticationType.KUBERNETES_TOKEN)

# Neither blanks nor commas nor backslashes: they have a meaning in server.properties.
Audience = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern("[A-Za-z0-9][A-Za-z0-9._:/@?=&#%+~-]*", "the name of a client, or a URI"),
]
HttpsUri = Annotated[
    str,
    Length(MAX_URI_LENGTH, minimum=1),
    Pattern("https://[A-Za-z0-9][A-Za-z0-9._:/?=&#%+~-]*", "a URI that begins with https://"),
]
ClaimName = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern("[A-Za-z0-9_][A-Za-z0-9_.:/-]*", "the name of a claim, like sub"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedCertificate:
    """Certificates of CAs in a Secret."""

    secret_name: Annotated[ObjectName, "Name of the Secret in the cluster's namespace."]
    certificate: Annotated[
        SecretKey, "Key of the Secret's entry with certificates in PEM format, like ca.crt."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAuthentication:
    """How clients of a listener must authenticate."""

    type: Annotated[
        AuthenticationType,
        "tls: with a certificate that the clients CA issued. Needs tls: true. scram-sha-512: with "
        "the password of a User; use it with tls: true, unless the network is trusted. oauth: with "
        "a token (OAUTHBEARER) that an issuer has signed. kubernetes-token: with the token of a "
        "ServiceAccount of this Kubernetes cluster (OAUTHBEARER). Both need tls: true.",
    ]
    audience: Annotated[
        Audience | None,
        "Required for oauth and kubernetes-token: the audience that tokens must be for. Tokens for "
        "other audiences are refused, because their receivers could use them here. Choose one that "
        "no other service has.",
    ] = None
    valid_issuer_uri: Annotated[
        HttpsUri | None, "Required for oauth: the issuer of tokens, as in their claim iss."
    ] = None
    jwks_endpoint_uri: Annotated[
        HttpsUri | None, "Required for oauth: where the public keys of the issuer are."
    ] = None
    user_name_claim: Annotated[
        ClaimName | None,
        "Only for oauth: the claim with the name of the user. Default: sub. Choose one that users "
        "cannot change at the issuer.",
    ] = None
    tls_trusted_certificates: Annotated[
        tuple[TrustedCertificate, ...],
        "Only for oauth: the CAs of the server of jwksEndpointUri. Default: those that the image "
        "of the brokers trusts.",
        Items(MAX_TRUSTED_CERTIFICATES),
    ] = ()
