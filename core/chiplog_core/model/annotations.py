"""Reads the annotations of users' objects.

An annotation has no schema. A value that is not known is taken for the valid value with which
nothing is changed and nothing is lost, and is reported with the valid values. An unknown key with
Chiplog's prefix is most likely a typo, and is reported, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels
from chiplog_core.naming.api import GROUP
from chiplog_core.problems import Problem, nearest

MAX_UNKNOWN = 5
"""How many unknown keys of an object are reported, because comparing them with known keys takes
time."""
MAX_SHOWN_LENGTH = 60
"""How many characters of a value a message quotes; a value may be as long as a file."""


@dataclass(frozen=True, slots=True)
class Switch:
    """An annotation with two valid values: one switches something on, the other is like no
    annotation."""

    key: str
    is_set_by: str
    """The value that switches it on."""
    is_unset_by: str
    """The value that is like no annotation."""
    effect: str
    """What any other value does, as the end of a sentence after "so"."""
    is_wary: bool = True
    """Whether any other value switches it on, because that is the safe side."""

    def is_set(self, annotations: Mapping[str, str]) -> bool:
        """Whether the switch is on. If it is wary, an unknown value switches it on, too."""
        value = annotations.get(self.key)
        if value is None or value == self.is_unset_by:
            return False
        return self.is_wary or value == self.is_set_by

    def problem(self, annotations: Mapping[str, str], of: str = "") -> Problem | None:
        """The problem that the value is neither of the two valid ones; None if there is no problem.
        `of` names the object in the message, if that is not clear otherwise."""
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
DELETE_POD_AND_PVC: Final = Switch(
    labels.DELETE_POD_AND_PVC, "true", "false", "no volume is deleted", is_wary=False
)
REBALANCE_AUTO_APPROVAL: Final = Switch(
    labels.REBALANCE_AUTO_APPROVAL, "true", "false", "no proposal is approved", is_wary=False
)
REBALANCE_TEMPLATE: Final = Switch(
    labels.REBALANCE_TEMPLATE, "true", "false", "the Rebalance is treated as a template"
)

USERS_KEYS: Final = frozenset(
    {
        labels.PAUSE,
        labels.MANAGED,
        labels.UNCLEAN_ELECTION,
        labels.REBALANCE,
        labels.REBALANCE_AUTO_APPROVAL,
        labels.REBALANCE_TEMPLATE,
    }
)
"""Keys of annotations that users set."""
OPERATORS_KEYS: Final = frozenset({labels.ADMIN_REQUEST, labels.MANIFEST_HASH, labels.REVISION})
"""Keys of annotations that the operator sets."""
CLUSTERS_KEYS: Final = frozenset(
    {labels.MANUAL_ROLLING_UPDATE, labels.APPROVED_REVISION, labels.REMOVE_BROKER_IDS}
)
"""Keys of annotations that users set on a BrokerCluster only."""
CLUSTERS_KEY_REMEDY: Final = "annotate the BrokerCluster"


def field_of(key: str) -> str:
    """The path of an annotation with this key, as messages show it."""
    return f"metadata.annotations[{key}]"


def shown(value: str) -> str:
    """The value as messages show it, shortened if it is long."""
    is_long = len(value) > MAX_SHOWN_LENGTH
    return repr(value[:MAX_SHOWN_LENGTH] + "…" if is_long else value)


def unknown_keys(metadata: Metadata, also_known: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """Problems for unknown annotations with Chiplog's prefix on a BrokerCluster or a Topic, at
    most `MAX_UNKNOWN`. `also_known` are keys that only this kind of object has."""
    known_keys = USERS_KEYS | OPERATORS_KEYS | also_known
    chiplog_keys = [key for key in metadata.annotations if key.startswith(f"{GROUP}/")]
    for key in sorted(key for key in chiplog_keys if key not in known_keys)[:MAX_UNKNOWN]:
        if key == labels.DELETE_POD_AND_PVC:  # known, but only on pods
            message, remedy = "deletes nothing on this object", "annotate the pod of a broker"
        elif key in CLUSTERS_KEYS:  # known, but not on Topics
            message, remedy = "has no effect on this object", CLUSTERS_KEY_REMEDY
        else:
            likely = nearest(key, USERS_KEYS | also_known)
            message = "is unknown"
            remedy = f"write {likely}, or remove it" if likely else "remove it"
        yield Problem(field_of(key), message, remedy)
