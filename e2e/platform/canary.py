"""Secrets as canaries: their real values, searched for in everything that others may read.

What is read of a cluster is listed in `artefacts`. A finding says where and in which form, never
the value: it ends up in a log itself.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from e2e.cluster.kubectl import Kubectl
from e2e.main import evidence

NOT_SECRET = frozenset({"username", "ca.crt", "namespace"})
"""Keys of Secrets whose values everybody may know."""

RELEASES = "helm.sh/release.v1"
"""Secrets of this type hold a whole chart as it was installed, and nothing that is secret."""

SHORTEST = 8
"""A shorter value would be found by chance, and should not be a secret."""

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
ENVIRONMENT = "print(open('/proc/1/environ').read().replace(chr(0), chr(10)))"


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret value and where it belongs."""

    name: str
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        assert len(self.value) >= SHORTEST, f"{self.name}: too short to be looked for"

    def forms(self) -> Mapping[str, str]:
        """How it may be written down, by the name of the form."""
        raw = self.value.encode()
        found = {"as it is": self.value, "hex": raw.hex(), "URL": quote(self.value, safe="")}
        for shift in range(3):
            found[f"base64, {shift} bytes into it"] = _inside_base64(raw, shift)
        return found

    def found_in(self, text: str) -> str | None:
        """The name of the first form that stands in a text, in capitals or not for hex."""
        for form, written in self.forms().items():
            if written in (text.lower() if form == "hex" else text):
                return form
        return None


def _inside_base64(raw: bytes, shift: int) -> str:
    """The characters that base64 of a longer text has for these bytes, wherever they begin.

    The characters at both ends are made of neighbours' bits as well and are left out.
    """
    encoded = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
    first = (0, 2, 3)[shift]
    return encoded[first:] if (shift + len(raw)) % 3 == 0 else encoded[first:-1]


def of_secrets(kubectl: Kubectl) -> Iterator[Canary]:
    """Every value of every Secret in the namespace."""
    for secret in kubectl.get("secrets")["items"]:
        if secret.get("type") == RELEASES:
            continue
        for key, encoded in (secret.get("data") or {}).items():
            if key not in NOT_SECRET:
                value = base64.b64decode(encoded).decode(errors="replace")
                yield Canary(f"Secret {secret['metadata']['name']}, {key}", value)


def of_tokens(kubectl: Kubectl, pods: Iterable[str]) -> Iterator[Canary]:
    """The signature of each pod's token: the rest of it is no secret, and no use without."""
    for pod in pods:
        token = kubectl.execute(pod, "python3", "-c", f"print(open('{TOKEN}').read())").strip()
        _, _, signature = token.rpartition(".")
        yield Canary(f"token of pod {pod}", signature)


def running(kubectl: Kubectl) -> list[str]:
    """Names of the pods of the namespace that run."""
    listed = kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name")
    return [name.removeprefix("pod/") for name in listed.split()]


def artefacts(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """Title and text of all that a namespace shows: objects, Events, logs, pages, environments.

    Spark's requests and results are ConfigMaps, hence among the objects.
    """
    kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    assert "configmaps" in kinds
    assert "brokerclusters.chiplog.dev" in kinds
    for kind in kinds:
        if kind != "secrets":
            found = evidence.said(kubectl, "get", kind, "--show-managed-fields", "-o", "yaml")
            yield f"{kind} of {kubectl.namespace}", found
    for pod in kubectl("get", "pods", "-o", "name").split():
        for which in ((), ("--previous",)):
            said = evidence.said(kubectl, "logs", pod, "--all-containers", "--tail=-1", *which)
            yield f"log of {pod} {' '.join(which)}", said
    for pod in running(kubectl):
        yield f"pages of {pod}", kubectl.execute(pod, "python3", "-c", PAGES)
        yield f"environment of {pod}", kubectl.execute(pod, "python3", "-c", ENVIRONMENT)


def search(
    canaries: Iterable[Canary], shown: Iterable[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """What was searched, and a line for each secret that was found in it."""
    known = list(canaries)
    searched, found = [], []
    for title, text in shown:
        searched.append(title)
        found += [
            f"{canary.name} stands in {title} ({form})"
            for canary in known
            if (form := canary.found_in(text))
        ]
    return searched, found
