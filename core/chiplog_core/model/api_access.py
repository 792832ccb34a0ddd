"""Credentials of a pod for the API server: a token that expires soon, the CA, and the namespace.

Chiplog's pods turn off the credentials that Kubernetes would mount automatically, and mount these
at the same path. Their clients read the token again after the kubelet has replaced it:
`chiplog_kube.connection` does, and so does the Kubernetes client of Spark.
"""

from typing import Any

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path

TOKEN_LIFETIME_S = 3_600
"""Lifetime of a token; the kubelet replaces it after four fifths of that. It must not be 3,607: the
API server takes a request for exactly that for Kubernetes' own mount and extends the lifetime to a
year (`--service-account-extend-token-expiration`, which is on by default)."""


def projected_volume() -> dict[str, Any]:
    """The pod's volume with the credentials for the API server, without its name. The token becomes
    invalid when the pod is deleted."""
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "projected": {
            # Only the pod's fsGroup may read it.
            "defaultMode": 0o440,
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFETIME_S}},
                {"configMap": authority},
                {"downwardAPI": {"items": [namespace]}},
            ],
        }
    }
