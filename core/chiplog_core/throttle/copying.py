"""Which copies of replicas the throttle applies to (KIP-73).

A copy is the fetching of a follower outside the ISR. A throttle never applies to a member of the
ISR, since producers wait for it.

Two sources name copies. Kafka's tools list replicas in the topic's configuration, for the rates
that they set for single brokers. And every replica that a move adds to its partition is a copy for
the rate of `spec.replicationThrottle`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from chiplog_core.config import broker_keys as keys
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.topic_keys import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS
from chiplog_core.config.value_types import ALL_REPLICAS


@dataclass(frozen=True, slots=True)
class Copying:
    """Why the fetching of a follower outside the ISR may be throttled."""

    leader_is_listed: bool = False
    """Whether the topic lists the leader as throttled."""
    follower_is_listed: bool = False
    """Whether the topic lists the follower as throttled."""
    is_added: bool = False
    """Whether a move adds the follower to the partition."""

    def __bool__(self) -> bool:
        """Whether any throttle could apply."""
        return self.leader_is_listed or self.follower_is_listed or self.is_added


NO_COPYING: Final = Copying()
"""Of a replica in the ISR, or one that nothing names."""


def copying_of(
    own_config: Mapping[str, str],
    partition: int,
    *,
    leader: int,
    follower: int,
    adding: Collection[int],
) -> Copying:
    """How the fetching of a follower outside the ISR is named. `own_config` is the topic's own
    configuration; `adding` are the brokers that a move adds to the partition."""
    return Copying(
        leader_is_listed=_lists(own_config, LEADER_THROTTLED_REPLICAS, partition, leader),
        follower_is_listed=_lists(own_config, FOLLOWER_THROTTLED_REPLICAS, partition, follower),
        is_added=follower in adding,
    )


def leader_rate(broker_config: Mapping[str, str], copying: Copying) -> int | None:
    """The limit of a leader for a copy, in bytes per second; None for no limit."""
    return _rate(
        broker_config,
        keys.LEADER_THROTTLED_RATE,
        is_listed=copying.leader_is_listed,
        is_added=copying.is_added,
    )


def follower_rate(broker_config: Mapping[str, str], copying: Copying) -> int | None:
    """The limit of a follower for a copy, in bytes per second; None for no limit."""
    return _rate(
        broker_config,
        keys.FOLLOWER_THROTTLED_RATE,
        is_listed=copying.follower_is_listed,
        is_added=copying.is_added,
    )


def _rate(
    broker_config: Mapping[str, str], key: ConfigKey[int], *, is_listed: bool, is_added: bool
) -> int | None:
    """The limit for a copy. A broker has one limit for each side: the rate that a client has set
    under `key`, else that of moves."""
    of_clients = broker_config.get(key.name)
    of_moves = broker_config.get(keys.MOVES_THROTTLED_RATE.name)
    applies = (is_listed and of_clients is not None) or (is_added and of_moves is not None)
    rate = of_clients or of_moves
    return int(rate) if applies and rate is not None else None


def _lists(
    own_config: Mapping[str, str], key: ConfigKey[tuple[str, ...]], partition: int, broker: int
) -> bool:
    """Whether the topic's list under `key` has the replica."""
    text = own_config.get(key.name)
    if not text:
        return False
    return text == ALL_REPLICAS or (partition, broker) in _replicas(text)


@lru_cache(maxsize=256)
def _replicas(text: str) -> frozenset[tuple[int, int]]:
    """The listed replicas, each as partition and broker."""
    pairs = (word.split(":") for word in text.split(","))
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)
