"""The pictures of the documentation, and of which pages they are: what is drawn, and where."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from chiplog_core.groups.states import TRANSITIONS, GroupEvent
from chiplog_core.model.group_status import GroupState
from chiplog_core.naming import ports
from chiplog_core.transactions.states import TRANSITIONS as TRANSACTION_TRANSITIONS
from chiplog_core.transactions.states import TransactionEvent, TransactionState
from docs.drawing import Arrow, Box, Message, boxes, sequence
from docs.tables import table


def architecture() -> str:
    """The picture of architecture.md: which part reads and writes what."""
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
            f"{ports.HEALTH} of each broker: lives? groups",
            (770, 186),
        ),
        Arrow(((180, 300), (270, 300)), "records", (225, 292), both=True),
        Arrow(((450, 295), (480, 295)), both=True),
        Arrow(((660, 295), (690, 295)), f"{ports.INTERNAL}: copies", (570, 250), both=True),
    ]
    return boxes(900, 405, content)


def acknowledgement() -> str:
    """The sequence of a write with acks=all, min.insync.replicas 2 and three replicas in sync."""
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
    """The sequence of events when the process of a leader ends."""
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


_TRANSACTION_PLACES: Final[Mapping[TransactionState, tuple[int, int]]] = {
    TransactionState.EMPTY: (20, 40),
    TransactionState.ONGOING: (320, 40),
    TransactionState.PREPARE_COMMIT: (620, 40),
    TransactionState.COMPLETE_COMMIT: (620, 200),
    TransactionState.PREPARE_ABORT: (320, 200),
    TransactionState.COMPLETE_ABORT: (320, 360),
    TransactionState.DEAD: (20, 360),
}
_Way = tuple[tuple[tuple[int, int], ...], tuple[int, int]]
"""The points of an arrow, and where its number stands."""
_TRANSACTION_WAYS: Final[Mapping[tuple[TransactionState, TransactionState], _Way]] = {
    (TransactionState.EMPTY, TransactionState.EMPTY): (
        ((70, 40), (70, 14), (160, 14), (160, 40)),
        (115, 30),
    ),
    (TransactionState.EMPTY, TransactionState.ONGOING): (((210, 63), (320, 63)), (265, 56)),
    (TransactionState.ONGOING, TransactionState.ONGOING): (
        ((370, 40), (370, 14), (460, 14), (460, 40)),
        (415, 30),
    ),
    (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT): (
        ((510, 55), (620, 55)),
        (575, 48),
    ),
    (TransactionState.ONGOING, TransactionState.PREPARE_ABORT): (
        ((415, 86), (415, 200)),
        (402, 148),
    ),
    (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT): (
        ((715, 86), (715, 200)),
        (730, 148),
    ),
    (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT): (
        ((395, 246), (395, 360)),
        (382, 308),
    ),
    (TransactionState.EMPTY, TransactionState.PREPARE_ABORT): (
        ((190, 86), (330, 200)),
        (272, 138),
    ),
    (TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_ABORT): (
        ((620, 223), (510, 223)),
        (590, 216),
    ),
    (TransactionState.COMPLETE_ABORT, TransactionState.PREPARE_ABORT): (
        ((435, 360), (435, 246)),
        (450, 308),
    ),
    (TransactionState.COMPLETE_COMMIT, TransactionState.EMPTY): (
        ((810, 223), (825, 223), (825, 6), (40, 6), (40, 40)),
        (265, 20),
    ),
    (TransactionState.COMPLETE_ABORT, TransactionState.EMPTY): (
        ((330, 360), (130, 86)),
        (190, 190),
    ),
    (TransactionState.COMPLETE_COMMIT, TransactionState.ONGOING): (
        ((650, 200), (490, 86)),
        (625, 165),
    ),
    (TransactionState.COMPLETE_ABORT, TransactionState.ONGOING): (
        ((510, 376), (550, 376), (550, 76), (510, 76)),
        (564, 308),
    ),
    (TransactionState.EMPTY, TransactionState.DEAD): (((60, 86), (60, 360)), (46, 228)),
    (TransactionState.COMPLETE_COMMIT, TransactionState.DEAD): (
        ((715, 246), (715, 430), (115, 430), (115, 406)),
        (415, 424),
    ),
    (TransactionState.COMPLETE_ABORT, TransactionState.DEAD): (
        ((320, 388), (210, 388)),
        (265, 381),
    ),
}

_State = TypeVar("_State", bound=StrEnum)
_Event = TypeVar("_Event", bound=StrEnum)


def _arrows(
    transitions: Mapping[tuple[_State, _Event], _State],
) -> dict[tuple[_State, _State], list[_Event]]:
    """The events that lead from one state to another, by both states."""
    found: dict[tuple[_State, _State], list[_Event]] = {}
    for (before, happening), state in transitions.items():
        found.setdefault((before, state), []).append(happening)
    return found


def _arrow_table(found: Mapping[tuple[_State, _State], list[_Event]]) -> str:
    """The table of the transitions that the numbers in a picture of states stand for."""
    rows = [
        (str(number), before.value, after.value, "; ".join(happenings))
        for number, ((before, after), happenings) in enumerate(found.items(), start=1)
    ]
    return table(("", "From", "To", "When"), rows)


def arrows() -> dict[tuple[GroupState, GroupState], list[GroupEvent]]:
    """The arrows between the states of a group, from the coordinator's own table."""
    return _arrows(TRANSITIONS)


def transaction_arrows() -> dict[tuple[TransactionState, TransactionState], list[TransactionEvent]]:
    """The arrows between the states of a transaction, from the coordinator's own table."""
    return _arrows(TRANSACTION_TRANSITIONS)


def group_states() -> str:
    """The picture of a group's states. Its arrows have the numbers of `group_transitions`."""
    content: list[Box | Arrow] = [
        Box(*place, *_SIZE, state.value, fill="ours") for state, place in _PLACES.items()
    ]
    content += [
        Arrow(_PATHS[way], str(number), _NUMBERS_AT[way])
        for number, way in enumerate(arrows(), start=1)
    ]
    return boxes(830, 316, content)


def transaction_states() -> str:
    """The picture of a transaction's states. Its arrows have the numbers of
    `transaction_transitions`."""
    content: list[Box | Arrow] = [
        Box(*place, *_SIZE, state.value, fill="ours")
        for state, place in _TRANSACTION_PLACES.items()
    ]
    for number, way in enumerate(transaction_arrows(), start=1):
        points, number_at = _TRANSACTION_WAYS[way]
        content.append(Arrow(points, str(number), number_at))
    return boxes(840, 446, content)


def group_transitions() -> str:
    """The transitions of a group that the numbers in its picture stand for."""
    return _arrow_table(arrows())


def transaction_transitions() -> str:
    """The transitions of a transaction that the numbers in its picture stand for."""
    return _arrow_table(transaction_arrows())


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "images/architecture.svg": architecture,
    "images/acknowledgement.svg": acknowledgement,
    "images/failover.svg": failover,
    "images/group-states.svg": group_states,
    "images/transaction-states.svg": transaction_states,
}
"""The functions that draw pictures, by the file's path in the docs directory."""
