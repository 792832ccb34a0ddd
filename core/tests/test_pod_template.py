"""Which labels, annotations and priority classes a BrokerCluster may give to its pods."""

import pytest

from chiplog_core.model.pod import PodTemplate
from chiplog_core.validate.pod_template import check_pod_template

RESERVED = (
    "chiplog.dev/cluster",
    "chiplog.dev/broker-id",
    "more.chiplog.dev/x",
    "app.kubernetes.io/name",
    "app.kubernetes.io/component",
    "kubernetes.io/psp",
    "container.apparmor.security.beta.kubernetes.io/broker",
    "seccomp.security.alpha.kubernetes.io/pod",
    "pod-security.kubernetes.io/enforce",
    "batch.kubernetes.io/job-name",
    "scheduling.k8s.io/group-name",
    "io.kubernetes.cri-o.userns-mode",
    "io.kubernetes.cri-o.Devices",
    "seccomp-profile.kubernetes.cri-o.io/broker",
    "io.katacontainers.config.runtime.internetworking_model",
    "run.oci.handler",
)
FREE = (
    "team",
    "example.com/team",
    "prometheus.io/scrape",
    "app.kubernetes.io/version",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "notkubernetes.io/x",
    "sidecar.istio.io/inject",
    "chiplog.dev.example.com/x",
)


@pytest.mark.parametrize("key", RESERVED)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_reserved_key_is_refused_by_its_name(field: str, key: str) -> None:
    keys = {key: "x", "team": "a"}
    template = PodTemplate(labels=keys) if field == "labels" else PodTemplate(annotations=keys)
    (problem,) = check_pod_template(template)
    assert problem.field == f"spec.template.{field}[{key}]"
    assert "example.com/team" in problem.remedy


def test_other_keys_are_free() -> None:
    keys = dict.fromkeys(FREE, "x")
    assert list(check_pod_template(PodTemplate(labels=keys, annotations=keys))) == []


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_kubernetes_own_priorities_are_refused(name: str) -> None:
    (problem,) = check_pod_template(PodTemplate(priority_class_name=name))
    assert problem.field == "spec.template.priorityClassName"
    assert list(check_pod_template(PodTemplate(priority_class_name="high"))) == []
