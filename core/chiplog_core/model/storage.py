"""The volume of a broker."""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.model.references import ObjectName
from chiplog_core.quantities import Quantity

MIN_VOLUME_SIZE = Quantity("64Mi")
"""A broker needs this for its own files and its reserve. A smaller size most likely lacks its unit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The volume each broker keeps its data on."""

    size: Annotated[
        Quantity,
        "Size of each broker's volume, like 100Gi; at least 64Mi. It can grow if the "
        "storage class allows volume expansion, and can never be smaller than an "
        "existing volume.",
    ]
    class_: Annotated[
        ObjectName | None,
        "Name of the StorageClass; default: the cluster's default StorageClass. It cannot be "
        "changed later.",
    ] = None
    delete_claim: Annotated[
        bool,
        "Delete the volume of a broker that was removed, and all volumes when the cluster is "
        "deleted. If false, they stay, and a cluster that is created again under this name "
        "continues with its data.",
    ] = False
