"""What all writes of an operator have in common: who may, how many at once, over what."""

from typing import Protocol

from chiplog_core.model.metadata import Metadata
from chiplog_kube.api import AlreadyExists, ApiError, Conflict, NotFound, Unavailable

IN_FLIGHT = 16
"""Requests to the API server at the same time. With more, it gets slower, not faster."""

AGAIN = (Unavailable, Conflict, AlreadyExists, NotFound)
"""Errors after which another attempt is enough."""

ENDING_NAMESPACE = "because it is being terminated"
"""How the API server says that a namespace takes nothing new. It is no fault, and soon over."""


class Authority(Protocol):
    """Whether this process still is the active operator."""

    def is_held(self) -> bool: ...


class NameTaken(ApiError):  # noqa: N818 - named for what it says
    """Somebody else's object has the name of one of ours. `str()` is for the user."""


class UnsoundMap(Exception):  # noqa: N818 - named for what it says
    """A PartitionMap that breaks rules (`chiplog_core.validate.partition_map`) is not written.
    `str()` is for the user."""

    def __init__(self, topic_name: str, rules: tuple[str, ...]) -> None:
        """`rules` are the broken rules, in words."""
        self.rules = rules
        super().__init__(f"PartitionMap of topic {topic_name} is not written: {'; '.join(rules)}")


class NotActive(Exception):  # noqa: N818 - named for what it says
    """Another operator may be active by now: nothing more is written."""


def same_version(meta: Metadata) -> dict[str, str]:
    """The metadata that makes a patch a compare-and-set: it changes exactly this version."""
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}
