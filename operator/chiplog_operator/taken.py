"""Objects of somebody else that have the name of one of ours: they are left as they are."""

from chiplog_core.naming import labels, taken_names
from chiplog_core.naming.api import BROKER_CLUSTER
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import key_of, metadata


class Taken(Exception):  # noqa: N818 - named for what it says
    """An object of somebody else has the name of one of ours. `str()` is for the user."""

    @classmethod
    def by(cls, found: Manifest, kind: Kind, why: str) -> "Taken":
        """The exception for an existing object (`found`) that has a name which the cluster needs;
        `why` says why it does not belong to the cluster."""
        return cls(
            taken_names.taken_message(kind.kind, key_of(found).name, BROKER_CLUSTER.kind, why)
        )


def check_ours(kind: Kind, live: Manifest, wanted: Manifest) -> None:
    """Check by owner and labels that an existing object is ours. Raises `Taken`."""
    why = taken_names.why_not_ours(metadata(live), metadata(wanted), label=labels.CLUSTER)
    if why:
        raise Taken.by(live, kind, why)
