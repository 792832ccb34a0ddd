"""Settings for TLS: certificate authorities, and how a listener uses certificates."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.limits import MAX_CERTIFICATE_LENGTH, MAX_NAME_LENGTH
from chiplog_core.manifest.constraints import Length, Pattern, Range
from chiplog_core.model.references import ObjectName

MAX_VALIDITY_DAYS = 36_500

SecretKey = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern("[-._a-zA-Z0-9]+", "the key of an entry in a Secret, like tls.crt"),
]

CertificateText = Annotated[str, Length(MAX_CERTIFICATE_LENGTH)]
"""A certificate in PEM format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAuthority:
    """How the operator handles one of the two certificate authorities (CAs) of a cluster."""

    generate_certificate_authority: Annotated[
        bool,
        "Whether the operator creates and renews this CA. If false, create its Secrets yourself; "
        "the operator never changes them.",
    ] = True
    validity_days: Annotated[
        int,
        "For how many days certificates are valid: that of the CA, and those issued by it.",
        Range(1, MAX_VALIDITY_DAYS),
    ] = 365
    renewal_days: Annotated[
        int,
        "How many days before a certificate expires it is renewed. Must be less than validityDays.",
        Range(1, MAX_VALIDITY_DAYS),
    ] = 30


class AuthenticationType(StrEnum):
    """How clients of a listener authenticate."""

    TLS = "tls"
    SCRAM_SHA_512 = "scram-sha-512"
    OAUTH = "oauth"
    KUBERNETES_TOKEN = "kubernetes-token"  # noqa: S105 - the name of a type


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAndKey:
    """A certificate with its private key in a Secret."""

    secret_name: Annotated[
        ObjectName,
        "Name of the Secret in the cluster's namespace. A Secret that cert-manager writes can be "
        "used as it is, with certificate tls.crt and key tls.key.",
    ]
    certificate: Annotated[
        SecretKey,
        "Key of the Secret's entry with the certificate in PEM format, followed by the "
        "intermediate certificates, if there are any.",
    ]
    key: Annotated[SecretKey, "Key of the Secret's entry with the private key in PEM format."]
