"""What the annotations of users' objects say.

An annotation has no schema, so a value that means nothing must not be taken for one that does: it
keeps the side on which nothing is changed and nothing lost, and is reported with the values that
there are. A key of Chiplog's group that nobody reads is most likely a typo, and is reported, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels
from chiplog_core.naming.api import GROUP
from chiplog_core.problems import Problem, nearest

MAX_UNKNOWN = 5
"""This many unknown keys are reported: each is compared with all known ones."""
MAX_SHOWN_LENGTH = 60
"""Characters of a value that a message repeats: it may be a file."""


@dataclass(frozen=True, slots=True)
class Switch:
    """An annotation that says yes or no."""

    key: str
    is_set_by: str
    """The value that sets it; so does every other that is not `is_unset_by`, if `is_wary`."""
    is_unset_by: str
    effect: str
    """What it is taken for where it says something else; continues from "so"."""
    is_wary: bool = True

    def is_set(self, annotations: Mapping[str, str]) -> bool:
        """Whether the annotation switches on. A wary switch is also on if its value is unknown."""
        value = annotations.get(self.key)
        if value is None or value == self.is_unset_by:
            return False
        return self.is_wary or value == self.is_set_by

    def problem(self, annotations: Mapping[str, str], of: str = "") -> Problem | None:
        """The problem with a value that is neither of the two. `of` names the object, where that
        is not clear."""
        value = annotations.get(self.key)
        if value is None or value in {self.is_set_by, self.is_unset_by}:
            return None
        return Problem(
            f"{of} {field_of(self.key)}".strip(),
            f"is {shown(value)}, so {self.effect}",
            f"set it to {self.is_set_by} or {self.is_unset_by}, or remove it",
        )


PAUSE: Final = Switch(labels.PAUSE, "true", "false", "the object is treated as paused")
MANAGED: Final = Switch(labels.MANAGED, "false", "true", "the operator does not manage the topic")
MANUAL_ROLLING_UPDATE: Final = Switch(
    labels.MANUAL_ROLLING_UPDATE, "true", "false", "no broker is restarted", is_wary=False
)

USERS_KEYS: Final = frozenset(
    {labels.PAUSE, labels.MANAGED, labels.UNCLEAN_ELECTION, labels.REBALANCE}
)
OPERATORS_KEYS: Final = frozenset({labels.ADMIN_REQUEST, labels.MANIFEST_HASH, labels.REVISION})
ROLLING_UPDATE_REMEDY: Final = (
    "annotate the StatefulSet or the pod of a broker; for all brokers: kubectl annotate "
    f"statefulset --selector {labels.CLUSTER}=NAME {labels.MANUAL_ROLLING_UPDATE}=true"
)


def field_of(key: str) -> str:
    """The annotation's path, as messages show it."""
    return f"metadata.annotations[{key}]"


def shown(value: str) -> str:
    """The value as messages show it, shortened if it is long."""
    is_long = len(value) > MAX_SHOWN_LENGTH
    return repr(value[:MAX_SHOWN_LENGTH] + "…" if is_long else value)


def unknown_keys(metadata: Metadata) -> Iterator[Problem]:
    """Problems for unknown annotations with Chiplog's prefix on a BrokerCluster or a Topic, at
    most `MAX_UNKNOWN`."""
    known = USERS_KEYS | OPERATORS_KEYS
    ours = [key for key in metadata.annotations if key.startswith(f"{GROUP}/")]
    for key in sorted(key for key in ours if key not in known)[:MAX_UNKNOWN]:
        if key == labels.MANUAL_ROLLING_UPDATE:
            message, remedy = "restarts nothing on this object", ROLLING_UPDATE_REMEDY
        else:
            likely = nearest(key, USERS_KEYS)
            message = "is unknown"
            remedy = f"write {likely}, or remove it" if likely else "remove it"
        yield Problem(field_of(key), message, remedy)
