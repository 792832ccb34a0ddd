"""Searches for the real values of Secrets in everything else that a cluster shows.

`artefacts` lists what is searched. A finding names the place and the encoding, never the value:
findings are logged themselves.
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
        """The value in each encoding that is searched for, by the encoding's name.

        Base64 has three: the same bytes look different at each position modulo 3 in a longer text.
        """
        raw = self.value.encode()
        found = {"as it is": self.value, "hex": raw.hex(), "URL": quote(self.value, safe="")}
        for shift in range(3):
            found[f"base64, {shift} bytes into it"] = _inside_base64(raw, shift)
        return found

    def found_in(self, text: str) -> str | None:
        """The name of the first encoding that the text contains; None if it contains none.

        Upper and lower case are the same for hex only.
        """
        for form, written in self.forms().items():
            if written in (text.lower() if form == "hex" else text):
                return form
        return None


def _inside_base64(raw: bytes, shift: int) -> str:
    """The base64 characters for `raw` inside longer data, where it begins at `shift` modulo 3.

    Characters at both ends that also encode bits of neighbouring bytes are left out.
    """
    encoded = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
    # Each character has 6 bits: `shift` bytes before reach into the first 0, 2 or 3 characters.
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
    """The signature of each pod's ServiceAccount token: the rest is useless without it."""
    for pod in pods:
        token = kubectl.execute(pod, "python3", "-c", f"print(open('{TOKEN}').read())").strip()
        _, _, signature = token.rpartition(".")
        yield Canary(f"token of pod {pod}", signature)


def running(kubectl: Kubectl) -> list[str]:
    """Names of the pods of the namespace that run."""
    listed = kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name")
    return [name.removeprefix("pod/") for name in listed.split()]


def artefacts(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """(title, text) pairs of all that a namespace shows but its Secrets.

    These are objects with Events, pods' logs, HTTP pages, and environment variables.

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
        for which in ((), ("--previous",)):  # of the running and of the previous containers
            log = evidence.said(kubectl, "logs", pod, "--all-containers", "--tail=-1", *which)
            yield f"log of {pod} {' '.join(which)}", log
    for pod in running(kubectl):
        yield f"pages of {pod}", kubectl.execute(pod, "python3", "-c", PAGES)
        yield f"environment of {pod}", kubectl.execute(pod, "python3", "-c", ENVIRONMENT)


def search(
    canaries: Iterable[Canary], shown: Iterable[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """Search (title, text) pairs for secret values.

    Returns the titles of what was searched, and a line for each secret found in one of them.
    """
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
