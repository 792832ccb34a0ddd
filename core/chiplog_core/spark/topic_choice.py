"""Which topics of the cluster a Verification reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_core.model.verification import VerificationSpec
from chiplog_core.problems import nearest

MOST_NAMES = 5

Topics = Mapping[str, Mapping[str, str]]
"""Every topic of the cluster: its name, and the labels of its Topic object."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why a run cannot begin yet, with the reason and message of the condition."""

    reason: str
    message: str


def choose_topics(spec: VerificationSpec, topics: Topics) -> tuple[str, ...] | WaitReason:
    """The sorted names of the topics to verify, at least one; or why the run cannot begin."""
    if spec.topics:
        missing = [name for name in spec.topics if name not in topics]
        if missing:
            return WaitReason("TopicNotFound", _missing(missing, topics))
        return tuple(sorted(spec.topics))
    selector = spec.topic_selector
    if selector is None:
        chosen = sorted(topics)
    else:
        wanted = selector.match_labels.items()
        chosen = sorted(name for name, labels in topics.items() if wanted <= labels.items())
    if chosen:
        return tuple(chosen)
    what = (
        "the cluster has no topics"
        if selector is None
        else "no Topic of the cluster has the labels of spec.topicSelector"
    )
    return WaitReason("NoTopics", f"{what}: the run starts when there is one")


def _missing(missing: list[str], topics: Topics) -> str:
    """The message for names in spec.topics that are not topics of the cluster."""
    named = ", ".join(missing[:MOST_NAMES])
    more = f" and {len(missing) - MOST_NAMES} more" if len(missing) > MOST_NAMES else ""
    guess = nearest(missing[0], topics)
    hint = f" (did you mean {guess}?)" if guess else ""
    return (
        f"spec.topics contains {named}{more}, which the cluster does not have{hint}: correct it, "
        "or create the topic; the run starts when the topic exists"
    )
