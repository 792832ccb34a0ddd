"""Which copies are throttled, and how fast they may be."""

import pytest

from chiplog_core.throttle.copying import (
    NO_COPYING,
    Copying,
    copying_of,
    follower_rate,
    leader_rate,
)

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER = "leader.replication.throttled.rate"
FOLLOWER = "follower.replication.throttled.rate"
MOVES = "chiplog.moves.throttled.rate"


def copying(own: dict[str, str], *adding: int, partition: int = 0) -> Copying:
    return copying_of(own, partition, leader=1, follower=2, adding=adding)


@pytest.mark.parametrize(
    ("own", "adding", "expected"),
    [
        ({}, (), NO_COPYING),
        ({}, (3,), NO_COPYING),
        ({}, (2,), Copying(is_added=True)),
        ({LEADERS: "*"}, (), Copying(leader_is_listed=True)),
        ({LEADERS: "0:1", FOLLOWERS: "0:2"}, (), Copying(True, True)),
        ({LEADERS: "0:2,1:1", FOLLOWERS: "0:1,1:2"}, (), NO_COPYING),
        ({LEADERS: "", FOLLOWERS: ""}, (), NO_COPYING),
        ({FOLLOWERS: "*"}, (2,), Copying(follower_is_listed=True, is_added=True)),
    ],
)
def test_which_copies_are_named(
    own: dict[str, str], adding: tuple[int, ...], expected: Copying
) -> None:
    found = copying(own, *adding)
    assert found == expected
    assert bool(found) == (expected != NO_COPYING)


@pytest.mark.parametrize(
    ("config", "found", "leader", "follower"),
    [
        ({LEADER: "5", FOLLOWER: "6"}, NO_COPYING, None, None),
        ({LEADER: "5", FOLLOWER: "6"}, Copying(True, True), 5, 6),
        ({LEADER: "5", FOLLOWER: "6"}, Copying(leader_is_listed=True), 5, None),
        ({LEADER: "5", FOLLOWER: "6"}, Copying(is_added=True), None, None),
        ({MOVES: "7"}, Copying(is_added=True), 7, 7),
        ({MOVES: "7"}, Copying(True, True), None, None),
        ({MOVES: "7", LEADER: "5"}, Copying(is_added=True), 5, 7),
        ({MOVES: "7", LEADER: "5"}, Copying(True, True, is_added=True), 5, 7),
        ({}, Copying(True, True, is_added=True), None, None),
    ],
)
def test_how_fast_they_may_be(
    config: dict[str, str], found: Copying, leader: int | None, follower: int | None
) -> None:
    assert leader_rate(config, found) == leader
    assert follower_rate(config, found) == follower
