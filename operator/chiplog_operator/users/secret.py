"""The Secret of a user: its entries have the names that Strimzi's users know."""

import base64
import secrets
from collections.abc import Mapping
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import PrivateFormat, load_pem_private_key, pkcs12

from chiplog_core.model.user import VERIFIER_ENTRY, SecretMetadata, User
from chiplog_core.naming import labels, taken_names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import annotations_of, labels_of, metadata
from chiplog_operator.certificates.secrets import bytes_of, text_of
from chiplog_operator.resources.build import with_hash
from chiplog_operator.resources.certificate_entries import CA_CERTIFICATE
from chiplog_operator.resources.objects import owner_of

CERTIFICATE: Final = "user.crt"
KEY: Final = "user.key"
KEYSTORE: Final = "user.p12"
KEYSTORE_PASSWORD: Final = "user.password"  # noqa: S105 - the name of an entry
PASSWORD: Final = "password"  # noqa: S105 - the name of an entry
JAAS_CONFIG: Final = "sasl.jaas.config"
ENTRIES: Final = frozenset(
    {CA_CERTIFICATE, CERTIFICATE, KEY, KEYSTORE, KEYSTORE_PASSWORD, PASSWORD, JAAS_CONFIG}
)

KEYSTORE_ROUNDS: Final = 2_048
"""How often the password of a keystore is hashed: it is random, so more would only cost time."""

Entries = Mapping[str, bytes]


def password_entries(user: str, password: str) -> Entries:
    """The entries for a user with a password; `user` is its name."""
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{_quoted(user)}" password="{_quoted(password)}";'
    )
    return {PASSWORD: password.encode(), JAAS_CONFIG: jaas.encode()}


def _quoted(text: str) -> str:
    """A text as it stands between quotes in a JAAS configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def certificate_entries(
    user: str, authorities: str, certificate: str, key: str, found: Manifest | None
) -> Entries:
    """The entries for a user with a certificate, all in PEM format. `authorities` are the
    published certificates of the clients CA. The keystore in the Secret `found` is kept if it is of
    this certificate: the same content gives other bytes each time."""
    keystore, password = bytes_of(found, KEYSTORE), text_in(found, KEYSTORE_PASSWORD)
    if not keystore or not password or text_in(found, CERTIFICATE) != certificate:
        password = password or secrets.token_urlsafe(24)
        keystore = _keystore(user, certificate, key, password)
    return {
        CA_CERTIFICATE: authorities.encode(),
        CERTIFICATE: certificate.encode(),
        KEY: key.encode(),
        KEYSTORE: keystore,
        KEYSTORE_PASSWORD: password.encode(),
    }


def text_in(secret: Manifest | None, entry: str) -> str:
    """The text of an entry; empty if there is none, or it is no text."""
    try:
        return text_of(secret, entry)
    except ValueError:
        return ""


def verifiers_in(secret: Manifest | None) -> Entries:
    """The entries with verifiers of passwords that clients have set."""
    names = [name for name in (secret or {}).get("data") or {} if name.startswith(VERIFIER_ENTRY)]
    return {name: text_in(secret, name).encode() for name in names}


def _keystore(user: str, certificate: str, key: str, password: str) -> bytes:
    """The certificate with its key in PKCS #12, under the user's name."""
    private_key = load_pem_private_key(key.encode(), password=None)
    assert isinstance(private_key, ec.EllipticCurvePrivateKey), "the operator made it"
    encryption = (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(KEYSTORE_ROUNDS)
        .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
        .hmac_hash(SHA256())
        .build(password.encode())
    )
    return pkcs12.serialize_key_and_certificates(
        user.encode(),
        private_key,
        x509.load_pem_x509_certificate(certificate.encode()),
        None,
        encryption,
    )


def secret_of_user(user: User, cluster: str, entries: Entries) -> Manifest:
    """The manifest of the user's Secret, which the User owns. Its hash is of its metadata only: a
    hash of a weak password would help to find it out."""
    template = user.spec.template
    wanted = SecretMetadata()
    if template is not None and template.secret is not None:
        wanted = template.secret.metadata or wanted
    of_user = {
        "name": user.metadata.name,
        "namespace": user.metadata.namespace,
        "labels": {**wanted.labels, **labels.of_cluster(cluster)},
        "annotations": dict(wanted.annotations),
        "ownerReferences": [owner_of(user)],
    }
    bare = {"apiVersion": "v1", "kind": kinds.SECRETS.kind, "metadata": of_user, "type": "Opaque"}
    data = {name: base64.b64encode(value).decode() for name, value in sorted(entries.items())}
    return {**with_hash(bare), "data": data}


def needs_write(found: Manifest | None, wanted: Manifest) -> bool:
    """Whether the Secret has to be created or changed."""
    if found is None:
        return True
    data = found.get("data") or {}
    stale = ENTRIES & data.keys() - wanted["data"].keys()
    hashes = [annotations_of(one).get(labels.MANIFEST_HASH) for one in (found, wanted)]
    differs = any(data.get(name) != value for name, value in wanted["data"].items())
    lacks = labels_of(wanted).items() - labels_of(found).items()
    return differs or bool(stale) or bool(lacks) or hashes[0] != hashes[1]


def why_taken(user: User, found: Manifest, cluster: str) -> str:
    """Why the Secret with the user's name is somebody else's; empty if it is ours."""
    wanted = secret_of_user(user, cluster, {})
    return taken_names.why_not_ours(metadata(found), metadata(wanted), label=labels.CLUSTER)


def is_of(user: User, found: Manifest) -> bool:
    """Whether the Secret was made for this very User, and not for an earlier one with its name,
    whose password must not come back. One without an owner was left behind on purpose."""
    owners = [one for one in metadata(found).get("ownerReferences") or () if one.get("controller")]
    return all(one.get("uid") == user.metadata.uid for one in owners)
