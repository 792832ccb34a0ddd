"""The entries of the Secrets with CAs and certificates, as pods mount them."""

from typing import Final

from chiplog_core.ids import BrokerId

CA_CERTIFICATE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CA_TRUSTSTORE: Final = "ca.p12"
CA_PASSWORD: Final = "ca.password"  # noqa: S105 - the name of an entry


OPERATOR_CERTIFICATE: Final = "operator.crt"
"""The operator's own, in the same Secret as those of brokers. No pod mounts it."""
OPERATOR_KEY: Final = "operator.key"


def certificate_entry(broker_id: BrokerId) -> str:
    """The entry with a broker's certificate in the Secret of `names.broker_certificates`."""
    return f"{broker_id}.crt"


def key_entry(broker_id: BrokerId) -> str:
    """The entry with the private key of a broker's certificate."""
    return f"{broker_id}.key"
