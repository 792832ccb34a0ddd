"""What a BrokerCluster's author may not say about pods that the operator makes for them.

Labels and annotations are how Kubernetes, its add-ons and admission controllers learn what a pod
is. The author of a BrokerCluster need not have the right to make pods, so what decides about a
pod's security, or whose it is, is not theirs to say.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from chiplog_core.model.pod import PodTemplate
from chiplog_core.naming.api import GROUP
from chiplog_core.problems import Problem

DOMAINS: Final = (GROUP, "kubernetes.io", "k8s.io", "cri-o.io")
"""Theirs, and of what is below them."""
RUNTIMES: Final = ("io.kubernetes.", "io.katacontainers.", "run.oci.")
"""How container runtimes' annotations begin: https://github.com/cri-o/cri-o, /containers/crun"""
ALLOWED: Final = ("app.kubernetes.io/version", "cluster-autoscaler.kubernetes.io/safe-to-evict")

RESERVED_PATTERN: Final = (
    f"^(([^/]*[.])?({'|'.join(one.replace('.', '[.]') for one in DOMAINS)})/.*"
    f"|({'|'.join(one.replace('.', '[.]') for one in RUNTIMES)}).*)$"
)
"""Of keys that are reserved, unless they are `ALLOWED`. Python and RE2 read it alike."""
SYSTEM_PRIORITY: Final = "system-"
"""Kubernetes' own classes begin so; their pods preempt all others."""

KEY_REMEDY: Final = "remove it, or use a domain of your own, like example.com/team"
PRIORITY_REMEDY: Final = "create your own PriorityClass and use its name"


def check_pod_template(template: PodTemplate) -> Iterator[Problem]:
    """Problems with `spec.template`."""
    yield from _keys("spec.template.labels", template.labels)
    yield from _keys("spec.template.annotations", template.annotations)
    name = template.priority_class_name
    if name is not None and name.startswith(SYSTEM_PRIORITY):
        message = f"is {name}, one of Kubernetes' own classes"
        field = "spec.template.priorityClassName"
        yield Problem(field, message, PRIORITY_REMEDY)


def _keys(field: str, keys: Iterable[str]) -> Iterator[Problem]:
    """Problems with reserved labels or annotations."""
    for key in keys:
        if key not in ALLOWED and re.match(RESERVED_PATTERN, key, re.DOTALL):
            yield Problem(f"{field}[{key}]", "is reserved", KEY_REMEDY)
