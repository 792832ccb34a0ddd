"""Labels, annotations and priority classes that a BrokerCluster must not give the brokers' pods.

Kubernetes, its add-ons and admission controllers decide by labels and annotations how a pod is
treated. A user who may write BrokerClusters need not have the permission to create pods. So such a
user must not set labels or annotations that affect a pod's security or its ownership.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from chiplog_core.model.pod import PodTemplate
from chiplog_core.naming.api import GROUP
from chiplog_core.problems import Problem

DOMAINS: Final = (GROUP, "kubernetes.io", "k8s.io", "cri-o.io")
"""Keys in these domains and their subdomains are reserved."""
RUNTIMES: Final = ("io.kubernetes.", "io.katacontainers.", "run.oci.")
"""Prefixes of container runtimes' annotations: https://github.com/cri-o/cri-o, /containers/crun"""
ALLOWED: Final = ("app.kubernetes.io/version", "cluster-autoscaler.kubernetes.io/safe-to-evict")
"""Keys in reserved domains that users may set nevertheless."""

RESERVED_PATTERN: Final = (
    f"^(([^/]*[.])?({'|'.join(one.replace('.', '[.]') for one in DOMAINS)})/.*"
    f"|({'|'.join(one.replace('.', '[.]') for one in RUNTIMES)}).*)$"
)
"""Matches reserved keys, and those in `ALLOWED`, too. It means the same in Python and in RE2."""
SYSTEM_PRIORITY: Final = "system-"
"""Prefix of Kubernetes' own priority classes, whose pods preempt all others."""

KEY_REMEDY: Final = "remove it, or use a domain of your own, like example.com/team"
PRIORITY_REMEDY: Final = "create your own PriorityClass and use its name"


def check_pod_template(template: PodTemplate) -> Iterator[Problem]:
    """Problems with `spec.template`."""
    yield from check_keys("spec.template.labels", template.labels)
    yield from check_keys("spec.template.annotations", template.annotations)
    name = template.priority_class_name
    if name is not None and name.startswith(SYSTEM_PRIORITY):
        message = f"is {name}, one of Kubernetes' own classes"
        field = "spec.template.priorityClassName"
        yield Problem(field, message, PRIORITY_REMEDY)


def check_keys(field: str, keys: Iterable[str]) -> Iterator[Problem]:
    """Problems with reserved keys of labels or annotations."""
    for key in keys:
        if key not in ALLOWED and re.match(RESERVED_PATTERN, key, re.DOTALL):
            yield Problem(f"{field}[{key}]", "is reserved", KEY_REMEDY)
