"""What a pod gets to speak to the API server: a token that expires soon, the CA, the namespace.

Pods of ours turn off what Kubernetes would mount on its own and mount this at the same place. Their
clients read the token again when the kubelet has replaced it: `chiplog_kube.connection` does, and
so does the client of Spark, which finds the token on its own.
"""

from typing import Any

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path

TOKEN_LIFETIME_S = 3_600
"""Of one token; the kubelet replaces it after four fifths of that. Never 3,607: the API server
takes a request for exactly that for Kubernetes' own mount and lets the token live for a year
(its `--service-account-extend-token-expiration`, which is on)."""


def projected_volume() -> dict[str, Any]:
    """The source of the volume with the credentials for the API server. Its token is invalid
    once the pod is gone."""
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
