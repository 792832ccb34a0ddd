"""A volume of the sized class ends where it says, and grows with its claim."""

from functools import partial

import pytest

from e2e.cluster.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

POD = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: small}
spec:
  storageClassName: local-sized
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: SIZE}}
---
apiVersion: v1
kind: Pod
metadata: {name: filler}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001}
  containers:
    - name: filler
      image: IMAGE
      command: [sleep, "3600"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: small}}]
"""
MIB = 2**20
FILL = """
written = 0
try:
    with open('/data/%s', 'wb', buffering=0) as file:
        while written < 2**30:
            written += file.write(bytes(2**20))
except OSError as error:
    print(error.strerror, written)
"""


def fill(kubectl: Kubectl, name: str) -> tuple[str, int]:
    """Write until the volume is full; returns the error's text and the bytes written."""
    printed = kubectl.execute("filler", "python3", "-c", FILL % name)
    reason, _, written = printed.strip().rpartition(" ")
    return reason, int(written)


def claim_bytes(kubectl: Kubectl, expected: str) -> bool:
    return bool(kubectl.get("pvc", "small")["status"]["capacity"]["storage"] == expected)


@pytest.mark.usefixtures("faults")
def test_sized_volume_is_full_then_grows(kubectl: Kubectl, base_image: str) -> None:
    kubectl.apply(POD.replace("IMAGE", base_image).replace("SIZE", "320Mi"))
    kubectl("wait", "pod/filler", "--for=condition=Ready", "--timeout=60s")

    reason, written = fill(kubectl, "first")
    assert reason == "No space left on device"
    assert 250 * MIB < written <= 320 * MIB

    grow = '{"spec": {"resources": {"requests": {"storage": "480Mi"}}}}'
    kubectl("patch", "pvc", "small", "--patch", grow)
    grown_s = eventually("the claim's capacity", partial(claim_bytes, kubectl, "480Mi"), 60)
    reason, more = fill(kubectl, "second")
    print(
        f"\nfull after {written // MIB} MiB; grown within {grown_s:.1f} s; {more // MIB} MiB more"
    )
    assert reason == "No space left on device"
    assert 130 * MIB < more <= 170 * MIB
    # What was there before is still whole.
    assert int(kubectl.execute("filler", "stat", "-c", "%s", "/data/first")) >= written


@pytest.mark.usefixtures("faults")
def test_a_sized_claim_too_small_for_the_file_system_says_so(
    kubectl: Kubectl, base_image: str
) -> None:
    kubectl.apply(POD.replace("IMAGE", base_image).replace("SIZE", "20Mi"))

    def explained() -> bool:
        events = kubectl.get("events", "--field-selector=involvedObject.name=small")["items"]
        return any("300Mi" in event["message"] for event in events)

    eventually("an event names the least size", explained, 30)
