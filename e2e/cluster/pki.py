"""The cluster's certificates and kubeconfigs, made once and kept with its state.

All keys are RSA: Spark's Kubernetes client cannot read elliptic-curve client keys
in PKCS#8 form.
"""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.cluster import layout

DIRECTORY = layout.STATE / "pki"
LIFETIME = datetime.timedelta(days=3650)

# File name of a client certificate -> (common name, group), which are the user and the group that
# RBAC grants permissions to; "" is no group.
CLIENTS = {
    "admin": ("admin", "system:masters"),
    "agent": ("chiplog:cluster-agent", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "coredns": ("system:coredns", ""),
    "kubelet-client": ("kube-apiserver-kubelet-client", ""),
    "proxy": ("system:kube-proxy", ""),
    "scheduler": ("system:kube-scheduler", ""),
    **{node.name: (f"system:node:{node.name}", "system:nodes") for node in layout.NODES},
}


def certificate(name: str) -> Path:
    return DIRECTORY / f"{name}.crt"


def key(name: str) -> Path:
    return DIRECTORY / f"{name}.key"


@dataclass(frozen=True, slots=True)
class Authority:
    """The cluster's certificate authority: its signing key and its self-signed certificate."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate


def ensure() -> None:
    """Make all keys, certificates and kubeconfigs that do not exist yet."""
    # Written last: a directory without it was left by an interrupted call and is filled again.
    done = DIRECTORY / "complete"
    if done.exists():
        return
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    DIRECTORY.chmod(0o700)
    authority = make_authority()
    write("ca", authority.key, authority.certificate)
    issue_server(authority, "apiserver", [layout.CONTROL_PLANE_IP, layout.API_SERVER_SERVICE_IP])
    for node in layout.NODES:
        issue_server(authority, f"kubelet-{node.name}", [node.ip])
    service_accounts = new_key()
    write("service-accounts", service_accounts, self_signed("service-accounts", service_accounts))
    for user, (common_name, group) in CLIENTS.items():
        client = new_key()
        usage = ExtendedKeyUsageOID.CLIENT_AUTH
        signed = sign(authority, client, subject(common_name, group), usage, [])
        write(user, client, signed)
        write_kubeconfig(user)
    done.touch()


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def subject(common_name: str, group: str = "") -> x509.Name:
    """An X.509 name as Kubernetes reads it: CN is the user, O a group."""
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if group:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def self_signed(common_name: str, signing_key: rsa.RSAPrivateKey) -> x509.Certificate:
    """A CA certificate for the key, signed with that key."""
    name = subject(common_name)
    return (
        unsigned(name, name, signing_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(signing_key, hashes.SHA256())
    )


def make_authority() -> Authority:
    signing_key = new_key()
    return Authority(signing_key, self_signed("chiplog-local-ca", signing_key))


def issue_server(authority: Authority, name: str, ips: list[str]) -> None:
    """Write a TLS server certificate and its key, valid for these addresses.

    The API server's certificate is also valid for the DNS names that pods use.
    """
    alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
    if name == "apiserver":
        service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        names = (*service, f"kubernetes.default.svc.{layout.CLUSTER_DOMAIN}")
        alternatives += [x509.DNSName(one) for one in names]
    server = new_key()
    usage = ExtendedKeyUsageOID.SERVER_AUTH
    write(name, server, sign(authority, server, subject(name), usage, alternatives))


def sign(
    authority: Authority,
    holder: rsa.RSAPrivateKey,
    name: x509.Name,
    usage: x509.ObjectIdentifier,
    alternatives: list[x509.GeneralName],
) -> x509.Certificate:
    """A certificate for the holder's key, signed by the authority.

    `usage` is the extended key usage; `alternatives` are the subject alternative names.
    """
    builder = unsigned(name, authority.certificate.subject, holder.public_key()).add_extension(
        x509.ExtendedKeyUsage([usage]), critical=False
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def unsigned(
    name: x509.Name, issuer: x509.Name, public_key: rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    """The part that all our certificates have in common, still to be extended and signed."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        # An hour back: clocks of virtual machines are corrected after their start.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def write(name: str, private_key: rsa.RSAPrivateKey, signed: x509.Certificate) -> None:
    """Write a key and its certificate as PEM; only root may read the key."""
    key(name).write_bytes(
        private_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    key(name).chmod(0o600)
    certificate(name).write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def write_kubeconfig(user: str) -> None:
    """Write a user's kubeconfig, which refers to the key files and so contains no secret itself."""
    server = f"https://{layout.API_SERVER.ip}:{layout.API_SERVER.number}"
    context = layout.CONTEXT
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": context,
                "cluster": {"server": server, "certificate-authority": str(certificate("ca"))},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate": str(certificate(user)),
                    "client-key": str(key(user)),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
        "current-context": context,
    }
    path = layout.kubeconfig(user)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    path.chmod(0o600)
