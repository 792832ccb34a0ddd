"""All that a namespace shows, and the secrets in it.

`artefacts` lists what is searched.
"""

import base64
import gzip
from collections.abc import Iterable, Iterator

import yaml

from chiplog_core.naming import names
from e2e.cluster.kubectl import Kubectl
from e2e.main import evidence
from e2e.security.canary import Canary, merged, of_key, of_password, of_verifier

NOT_SECRET = frozenset({"username", "namespace"})
"""Keys of Secrets whose values everybody may know; certificates are not secret, either."""
CERTIFICATE = ".crt"

RELEASES = "helm.sh/release.v1"
"""Secrets of this type hold a whole chart as it was installed, and nothing that is secret."""

CLUSTER_WIDE = "namespaces,nodes,persistentvolumes,clusterroles,clusterrolebindings"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
PORTS = (8080, 9404)
PATHS = ("/metrics", "/readyz", "/livez", "/healthz", "/startupz")
PAGES = f"""
import urllib.error, urllib.request
for port in {PORTS}:
    for path in {PATHS}:
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{{port}}{{path}}", timeout=5)
            print(port, path, answer.read().decode())
        except (urllib.error.URLError, OSError) as error:
            print(port, path, error)
"""
PROCESS = """
for name in ("environ", "cmdline"):
    print(open(f"/proc/1/{name}").read().replace(chr(0), chr(10)))
"""
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/var/lib/chiplog")  # noqa: S108 - they are searched
LARGEST_FILE_BYTES = 2**20
FILES = f"""
import os
paths = [os.path.join(at, name) for top in {FOLDERS} for at, _, names in os.walk(top)
         for name in names] + ["/dev/termination-log"]
for path in paths:
    try:
        data = open(path, "rb").read({LARGEST_FILE_BYTES})
    except OSError as error:
        print(path, error)
        continue
    print(path, data.decode(errors="replace").rstrip(chr(0)), data.rstrip(bytes(1)).hex())
"""


def data_title(secret: str, namespace: str) -> str:
    """The title of a Secret's entries, without its metadata."""
    return f"data of Secret {secret} of {namespace}"


def of_secrets(kubectl: Kubectl) -> Iterator[Canary]:
    """Every value of every Secret in the namespace, and the numbers in private keys."""
    for secret in kubectl.get("secrets")["items"]:
        if secret.get("type") == RELEASES:
            continue
        name = secret["metadata"]["name"]
        homes = frozenset({data_title(name, kubectl.namespace)})
        for key, encoded in (secret.get("data") or {}).items():
            if key not in NOT_SECRET and not key.endswith(CERTIFICATE):
                value = base64.b64decode(encoded)
                title = f"Secret {name}, {key}"
                yield Canary(title, value, homes)
                if b"PRIVATE KEY-----" in value:
                    yield of_key(title, value, homes)


def of_users(kubectl: Kubectl, cluster: str) -> Iterator[Canary]:
    """What brokers have of passwords, and what follows from the passwords."""
    secret = names.scram_credentials(cluster)
    homes = frozenset({data_title(secret, kubectl.namespace)})
    for user, encoded in (kubectl.get("secret", secret).get("data") or {}).items():
        verifier = base64.b64decode(encoded)
        yield from of_verifier(f"verifier of {user}", verifier, homes)
        password = base64.b64decode(kubectl.get("secret", user)["data"]["password"]).decode()
        yield from of_password(f"password of {user}", password, verifier)


def of_tokens(kubectl: Kubectl, pods: Iterable[str]) -> Iterator[Canary]:
    """The signature of each pod's ServiceAccount token: the rest is useless without it."""
    for pod in pods:
        token = kubectl.execute(pod, "python3", "-c", f"print(open('{TOKEN}').read())").strip()
        _, _, signature = token.rpartition(".")
        yield Canary(f"token of pod {pod}", signature.encode())


def all_of(kubectl: Kubectl, cluster: str = "") -> list[Canary]:
    """All that is secret in a namespace, and in it of the users of a cluster."""
    return merged(
        [
            *of_secrets(kubectl),
            *(of_users(kubectl, cluster) if cluster else ()),
            *of_tokens(kubectl, running(kubectl)),
        ]
    )


def running(kubectl: Kubectl) -> list[str]:
    """Names of the pods of the namespace that run."""
    listed = kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name")
    return [name.removeprefix("pod/") for name in listed.split()]


def artefacts(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """(title, text) pairs of all that a namespace shows.

    These are objects with Events and termination messages, pods' logs, HTTP pages, environments and
    files. The entries of each Secret are a text of their own.

    Spark's requests and results are ConfigMaps, hence among the objects.
    """
    kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    assert "configmaps" in kinds
    assert "accesslists.chiplog.dev" in kinds
    for kind in kinds:
        if kind != "secrets":
            found = evidence.said(kubectl, "get", kind, "--show-managed-fields", "-o", "yaml")
            yield f"{kind} of {kubectl.namespace}", found
    yield from secrets(kubectl)
    for pod in kubectl("get", "pods", "-o", "name").split():
        for which in ((), ("--previous",)):  # of the running and of the previous containers
            log = evidence.said(kubectl, "logs", pod, "--all-containers", "--tail=-1", *which)
            yield f"log of {pod} {' '.join(which)}", log
    for pod in running(kubectl):
        yield f"pages of {pod}", kubectl.execute(pod, "python3", "-c", PAGES)
        yield f"process of {pod}", kubectl.execute(pod, "python3", "-c", PROCESS)
        yield f"files of {pod}", kubectl.execute(pod, "python3", "-c", FILES)


def secrets(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """The metadata and the entries of each Secret. Nobody's secret may stand in another Secret, or
    in the release of a chart."""
    for secret in kubectl.get("secrets", "--show-managed-fields")["items"]:
        data = {key: base64.b64decode(one) for key, one in (secret.pop("data", None) or {}).items()}
        name = secret["metadata"]["name"]
        yield f"metadata of Secret {name} of {kubectl.namespace}", yaml.safe_dump(secret)
        if secret.get("type") == RELEASES:
            data = {key: gzip.decompress(base64.b64decode(one)) for key, one in data.items()}
        texts = (f"{key}: {one.decode(errors='replace')} {one.hex()}" for key, one in data.items())
        yield data_title(name, kubectl.namespace), "\n".join(texts)


def cluster_wide(kubectl: Kubectl) -> tuple[str, str]:
    """The title and the text of objects outside of namespaces."""
    found = evidence.said(kubectl, "get", CLUSTER_WIDE, "--show-managed-fields", "-o", "yaml")
    return "objects outside of namespaces", found
