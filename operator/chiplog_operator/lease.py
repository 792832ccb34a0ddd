"""The Lease of an operator, from its manifest and back. Who holds it is decided in
`chiplog_core.operator_lease`.
"""

from chiplog_core.naming import labels
from chiplog_core.operator_lease.lease import Claim, LeaseRecord
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import annotations_of, uid_of, version_of


def read(manifest: Manifest) -> LeaseRecord:
    """The Lease in a manifest. Missing fields are empty or 0."""
    spec = manifest.get("spec") or {}
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        renew_time=spec.get("renewTime") or "",
        duration_s=int(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
        acquire_time=spec.get("acquireTime") or "",
        uid=uid_of(manifest),
        resource_version=version_of(manifest),
        claim=Claim(
            watches=annotations_of(manifest).get(labels.WATCHES, ""),
            account=annotations_of(manifest).get(labels.WATCHES_AS, ""),
        ),
    )


def write(record: LeaseRecord, namespace: str, name: str) -> Manifest:
    """The Lease as a manifest, to create it or to replace the version that was read."""
    metadata: dict[str, object] = {"namespace": namespace, "name": name}
    # Other operators read there which namespaces the holder watches, and as whom.
    claim = {labels.WATCHES: record.claim.watches, labels.WATCHES_AS: record.claim.account}
    if annotations := {name: text for name, text in claim.items() if text}:
        metadata["annotations"] = annotations
    if record.resource_version:
        metadata |= {"uid": record.uid, "resourceVersion": record.resource_version}
    spec: dict[str, object] = {
        "renewTime": record.renew_time,
        "leaseDurationSeconds": record.duration_s,
        "leaseTransitions": record.transitions,
    }
    if record.holder:
        spec["holderIdentity"] = record.holder
    if record.acquire_time:
        spec["acquireTime"] = record.acquire_time
    return {
        "apiVersion": kinds.LEASES.api_version,
        "kind": kinds.LEASES.kind,
        "metadata": metadata,
        "spec": spec,
    }
