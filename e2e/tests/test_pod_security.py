"""Every pod that the operator makes is within `restricted`, and the judge sees what is not."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.spark import SparkLauncher, SparkSettings
from chiplog_core.spark.application import Job, Owner, Volume, VolumeKind
from chiplog_core.spark.choice import launch
from chiplog_core.spark.plain_job import TEMPLATE_KEY
from chiplog_core.spark.settings import PodDefaults, Run, application
from chiplog_operator.resources.build import manifests
from chiplog_operator.resources.settings import BuildSettings
from e2e.cluster.layout import CHECKOUT
from e2e.pod_security import not_ours, not_restricted

Made = dict[str, Any]

CLUSTERS = [CHECKOUT / "examples" / "orders.yaml", *(CHECKOUT / "crds/examples").glob("broker*")]
OWNER = Owner(api_version="chiplog.dev/v1alpha1", kind="Verification", name="proof", uid="1")
RUN = Run(
    name="proof-1",
    namespace="team",
    owner=OWNER,
    job=Job.VERIFY,
    labels={},
    volumes=(Volume(name="key", kind=VolumeKind.SECRET, source="reader", path="/etc/key"),),
)


def broker_pods() -> Iterator[tuple[str, Made]]:
    settings = BuildSettings(
        broker_image="chiplog/broker:1",
        internal_password="a secret word",  # noqa: S106 - of this test
        operator_namespace="chiplog-system",
    )
    for path in CLUSTERS:
        manifest = next(iter(yaml.safe_load_all(path.read_text())))
        manifest["metadata"] |= {"namespace": "team", "uid": "1f3c"}
        for made in manifests(BrokerCluster.from_manifest(manifest), [BrokerId(1)], settings):
            for spec in pods_in(made):
                yield path.stem, spec


def spark_pods() -> Iterator[tuple[str, Made]]:
    asked = application(RUN, SparkSettings(), PodDefaults(image="chiplog/spark:1"))
    for launcher in SparkLauncher:
        if launcher is SparkLauncher.AUTO:
            continue
        made = launch(launcher, asked)
        for one in (*made.before, made.launched):
            for number, spec in enumerate(pods_in(one)):
                yield f"{launcher.value}-{one['kind']}-{number}", spec


def pods_in(value: Any) -> Iterator[Made]:
    """Every pod's spec somewhere inside of an object, also in a ConfigMap as text."""
    if isinstance(value, list):
        for one in value:
            yield from pods_in(one)
    if not isinstance(value, dict):
        return
    if "containers" in value:
        yield value
    for name, inside in value.items():
        yield from pods_in(json.loads(inside) if name == TEMPLATE_KEY else inside)


PODS = dict([*broker_pods(), *spark_pods()])


@pytest.mark.parametrize("spec", PODS.values(), ids=PODS)
def test_every_pod_is_restricted(spec: Made) -> None:
    assert not_restricted(spec) == []
    assert not_ours(spec) == []


def test_no_kind_of_pod_is_left_out() -> None:
    """One of each cluster, and a driver and an executor by each launcher."""
    assert len(PODS) == len(CLUSTERS) + 2 * (len(SparkLauncher) - 1)


GOOD: Made = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "volumes": [{"name": "v", "emptyDir": {}}],
    "containers": [
        {
            "name": "c",
            "ports": [{"containerPort": 1}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 1}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}
BAD: list[tuple[tuple[str | int, ...], Any]] = [
    (("hostNetwork",), True),
    (("hostPID",), True),
    (("hostIPC",), True),
    (("volumes", 0, "hostPath"), {"path": "/"}),
    (("securityContext", "runAsUser"), 0),
    (("securityContext", "runAsNonRoot"), False),
    (("securityContext", "seccompProfile"), {"type": "Unconfined"}),
    (("securityContext", "seccompProfile"), {}),
    (("securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}]),
    (("securityContext", "windowsOptions"), {"hostProcess": True}),
    (("securityContext", "appArmorProfile"), {"type": "Unconfined"}),
    (("securityContext", "seLinuxOptions"), {"type": "spc_t"}),
    (("containers", 0, "securityContext", "privileged"), True),
    (("containers", 0, "securityContext", "allowPrivilegeEscalation"), True),
    (("containers", 0, "securityContext", "capabilities"), {"drop": ["NET_RAW"]}),
    (("containers", 0, "securityContext", "capabilities", "add"), ["SYS_ADMIN"]),
    (("containers", 0, "securityContext", "procMount"), "Unmasked"),
    (("containers", 0, "securityContext", "runAsUser"), 0),
    (("containers", 0, "securityContext", "runAsNonRoot"), False),
    (("containers", 0, "securityContext"), {}),
    (("containers", 0, "ports", 0, "hostPort"), 80),
    (("containers", 0, "livenessProbe", "httpGet", "host"), "169.254.169.254"),
    (("containers", 0, "lifecycle"), {"preStop": {"tcpSocket": {"host": "a", "port": 1}}}),
    (("initContainers",), [{"name": "i"}]),
]
NOT_OURS: list[tuple[tuple[str | int, ...], Any]] = [
    (("automountServiceAccountToken",), True),
    (("containers", 0, "securityContext", "readOnlyRootFilesystem"), False),
    (("containers", 0, "securityContext", "capabilities", "add"), ["NET_BIND_SERVICE"]),
    (
        ("volumes", 0, "projected"),
        {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3607}}]},
    ),
]


def changed(where: tuple[str | int, ...], what: Any) -> Made:
    spec = copy.deepcopy(GOOD)
    place: Any = spec
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = what
    return spec


def test_the_judge_lets_a_restricted_pod_pass() -> None:
    assert not_restricted(GOOD) == []
    assert not_ours(GOOD) == []


@pytest.mark.parametrize(("where", "what"), BAD, ids=[f"{w[-1]}={x}" for w, x in BAD])
def test_the_judge_sees_what_is_not_restricted(where: tuple[str | int, ...], what: Any) -> None:
    assert not_restricted(changed(where, what))


@pytest.mark.parametrize(("where", "what"), NOT_OURS, ids=[str(w[-1]) for w, _ in NOT_OURS])
def test_the_judge_sees_what_is_not_ours(where: tuple[str | int, ...], what: Any) -> None:
    assert not_restricted(changed(where, what)) == []
    assert not_ours(changed(where, what))
