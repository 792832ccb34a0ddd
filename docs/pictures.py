"""The pictures of the documentation: functions that return them as SVG, and their files."""

from collections.abc import Callable, Mapping
from typing import Final

from chiplog_core.groups.states import TRANSITIONS, GroupEvent
from chiplog_core.model.group_status import GroupState
from chiplog_core.naming import ports
from docs.drawing import Arrow, Box, Message, boxes, sequence
from docs.tables import table


def architecture() -> str:
    """Operator, brokers and API server, and what each reads and writes; for architecture.md."""
    content: list[Box | Arrow] = [
        Box(10, 20, 170, 66, "People, GitOps, CI", ("kubectl, helm",)),
        Box(
            *(270, 10, 330, 104, "Kubernetes API server"),
            (
                "wanted: BrokerCluster, Topic, ConsumerGroup",
                "decided: PartitionMap, Broker",
                "alive: Leases",
                "every write is compare-and-set",
            ),
            fill="kubernetes",
        ),
        Box(
            *(690, 20, 200, 84, "Operator"),
            ("two replicas, one active", "observes, plans, writes", "elects leaders"),
            fill="ours",
        ),
        Box(10, 262, 170, 84, "Kafka clients", ("producers, consumers", "groups, admin tools")),
        Arrow(((180, 52), (270, 52)), "manifests", (225, 44)),
        Arrow(((690, 52), (600, 52)), "decisions", (645, 44)),
        Arrow(((600, 84), (690, 84)), "watch", (645, 100)),
    ]
    for number in (1, 2, 3):
        x = 270 + 210 * (number - 1)
        content += [
            Box(
                x,
                262,
                180,
                66,
                f"Broker {number}",
                ("leads some partitions,", "follows others"),
                "ours",
            ),
            Box(x + 30, 358, 120, 34, "volume", fill="disk"),
            Arrow(((x + 90, 328), (x + 90, 358)), both=True),
        ]
    content += [
        Arrow(((340, 114), (340, 262)), "maps, sessions: watched", (425, 186)),
        Arrow(((312, 262), (312, 114)), "status, Lease", (262, 220)),
        Arrow(
            ((790, 104), (790, 262)),
            f"{ports.HEALTH} of each broker: health, groups",
            (770, 186),
        ),
        Arrow(((180, 300), (270, 300)), "records", (225, 292), both=True),
        Arrow(((450, 295), (480, 295)), both=True),
        Arrow(((660, 295), (690, 295)), f"{ports.INTERNAL}: copies", (570, 250), both=True),
    ]
    return boxes(900, 405, content)


def acknowledgement() -> str:
    """How a record with acks=all is acknowledged: three replicas in sync, min.insync.replicas=2."""
    producer, leader, first, second = range(4)
    return sequence(
        ("Producer", "Leader", "Follower", "Follower"),
        (
            Message(producer, leader, "record"),
            Message(leader, leader, "in its log, synced to disk"),
            Message(first, leader, "fetch from here on"),
            Message(second, leader, "fetch from here on"),
            Message(leader, first, "the record"),
            Message(leader, second, "the record"),
            Message(first, first, "in its log, synced"),
            Message(second, second, "in its log, synced"),
            Message(first, leader, "fetch: I have it"),
            Message(second, leader, "fetch: I have it"),
            Message(leader, leader, "all in sync have it"),
            Message(leader, producer, "acknowledged"),
        ),
    )


def failover() -> str:
    """What happens when the process of a leader ends."""
    client, old, operator, server, new = range(5)
    return sequence(
        ("Client", "Old leader", "Operator", "API server", "In-sync replica"),
        (
            Message(old, old, "its process ends"),
            Message(old, operator, "connection ends"),
            Message(operator, old, "two attempts: refused"),
            Message(operator, server, "new leader, epoch + 1"),
            Message(server, new, "the map: you lead"),
            Message(client, new, "who leads?"),
            Message(new, client, "I do"),
            Message(client, new, "records"),
            Message(old, server, "starts: a new session"),
            Message(old, new, "follows, copies the rest"),
        ),
    )


# Hand-placed parts of the picture of group states, in pixels: the upper left corner of each state's
# box, the points of each transition's arrow, and the middle of the number beside it.
_PLACES: Final[Mapping[GroupState, tuple[int, int]]] = {
    GroupState.EMPTY: (20, 40),
    GroupState.PREPARING_REBALANCE: (300, 40),
    GroupState.COMPLETING_REBALANCE: (620, 40),
    GroupState.STABLE: (620, 230),
    GroupState.DEAD: (20, 230),
}
_SIZE: Final = (190, 46)
_PATHS: Final[Mapping[tuple[GroupState, GroupState], tuple[tuple[int, int], ...]]] = {
    (GroupState.EMPTY, GroupState.PREPARING_REBALANCE): ((210, 55), (300, 55)),
    (GroupState.PREPARING_REBALANCE, GroupState.EMPTY): ((300, 73), (210, 73)),
    (GroupState.PREPARING_REBALANCE, GroupState.PREPARING_REBALANCE): (
        *((350, 40), (350, 14), (440, 14), (440, 40)),
    ),
    (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE): ((490, 55), (620, 55)),
    (GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE): ((620, 73), (490, 73)),
    (GroupState.COMPLETING_REBALANCE, GroupState.STABLE): ((715, 86), (715, 230)),
    (GroupState.STABLE, GroupState.PREPARING_REBALANCE): ((640, 230), (455, 86)),
    (GroupState.STABLE, GroupState.STABLE): ((670, 276), (670, 302), (760, 302), (760, 276)),
    (GroupState.EMPTY, GroupState.DEAD): ((80, 86), (80, 230)),
    (GroupState.PREPARING_REBALANCE, GroupState.DEAD): ((340, 86), (160, 230)),
    (GroupState.COMPLETING_REBALANCE, GroupState.DEAD): ((650, 86), (210, 240)),
    (GroupState.STABLE, GroupState.DEAD): ((620, 260), (210, 260)),
}
_NUMBERS_AT: Final[Mapping[tuple[GroupState, GroupState], tuple[int, int]]] = {
    (GroupState.EMPTY, GroupState.PREPARING_REBALANCE): (255, 48),
    (GroupState.PREPARING_REBALANCE, GroupState.EMPTY): (255, 88),
    (GroupState.PREPARING_REBALANCE, GroupState.PREPARING_REBALANCE): (395, 30),
    (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE): (555, 48),
    (GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE): (555, 88),
    (GroupState.COMPLETING_REBALANCE, GroupState.STABLE): (730, 165),
    (GroupState.STABLE, GroupState.PREPARING_REBALANCE): (525, 165),
    (GroupState.STABLE, GroupState.STABLE): (715, 296),
    (GroupState.EMPTY, GroupState.DEAD): (66, 165),
    (GroupState.PREPARING_REBALANCE, GroupState.DEAD): (225, 165),
    (GroupState.COMPLETING_REBALANCE, GroupState.DEAD): (395, 178),
    (GroupState.STABLE, GroupState.DEAD): (415, 276),
}


def arrows() -> dict[tuple[GroupState, GroupState], list[GroupEvent]]:
    """(state before, state after) -> the events that lead from one to the other.

    Made from the coordinator's own table; each entry is one arrow of the picture.
    """
    found: dict[tuple[GroupState, GroupState], list[GroupEvent]] = {}
    for (before, event), after in TRANSITIONS.items():
        found.setdefault((before, after), []).append(event)
    return found


def group_states() -> str:
    """A group's states and transitions; the arrows have the row numbers of `group_transitions`."""
    content: list[Box | Arrow] = [
        Box(*place, *_SIZE, state.value, fill="ours") for state, place in _PLACES.items()
    ]
    content += [
        Arrow(_PATHS[transition], str(number), _NUMBERS_AT[transition])
        for number, transition in enumerate(arrows(), start=1)
    ]
    return boxes(830, 316, content)


def group_transitions() -> str:
    """The table of transitions that the numbers in the picture `group_states` refer to."""
    rows = [
        (str(number), before.value, after.value, "; ".join(events))
        for number, ((before, after), events) in enumerate(arrows().items(), start=1)
    ]
    return table(("", "From", "To", "When"), rows)


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "images/architecture.svg": architecture,
    "images/acknowledgement.svg": acknowledgement,
    "images/failover.svg": failover,
    "images/group-states.svg": group_states,
}
"""Path of a picture below docs/ -> function that returns it as SVG."""
