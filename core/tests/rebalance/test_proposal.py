"""The whole proposal: its figures are those of its moves, and its JSON holds what it says."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.documents import (
    key_text,
    leader_move_json,
    proposal_json,
    read_leader_moves,
)
from chiplog_core.rebalance.measured import Broker, HotKey, Measured
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Mode, RebalanceRefused, Settings, read_settings
from tests.rebalance.worlds import (
    World,
    brokers,
    counts,
    executed,
    moved,
    name,
    partition,
    rated,
    rates,
    worlds,
)

FULL = Settings()


@given(worlds())
def test_moves_that_are_carried_out_give_the_figures_that_were_promised(world: World) -> None:
    found = propose(world.brokers, world.partitions, world.measurements, FULL)

    done = moved(
        executed(world.partitions, found.leader_moves), found.replica_changes, world.usable
    )

    ids = [one.broker_id for one in found.after]
    assert {one.broker_id: one.leaders for one in found.after} == counts(done, ids)
    assert {one.broker_id: round(1000 * one.bytes_per_second) for one in found.after} == rates(
        done, world.measurements, ids
    )
    assert sum(one.bytes for one in found.after) == sum(one.bytes for one in found.before)
    again = propose(world.brokers, done, world.measurements, FULL)
    assert again.before == found.after


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.ADD_BROKERS])
def test_a_new_broker_leads_its_share_of_what_moves_to_it(mode: Mode) -> None:
    partitions = [partition(index, (1, 2) if index % 2 else (2, 1)) for index in range(12)]
    measured = {one.name: rated(0, 1_000) for one in partitions}
    only = frozenset({BrokerId(3)}) if mode is Mode.ADD_BROKERS else frozenset()

    found = propose(brokers(3), partitions, measured, Settings(mode=mode, brokers=only))

    assert [(one.leaders, one.bytes) for one in found.after] == [(4, 8_000)] * 3
    assert found.leader_moves == ()
    assert all(set(one.replicas) & {3} for one in found.replica_changes)


@given(worlds())
def test_scores_are_between_0_and_100(world: World) -> None:
    found = propose(world.brokers, world.partitions, world.measurements, FULL)

    assert 0 <= found.score_before <= 100
    assert 0 <= found.score_after <= 100
    assert found.data_to_move_mb * 2**20 >= sum(one.bytes for one in found.replica_moves)


@given(worlds())
def test_leader_moves_are_read_as_they_were_written(world: World) -> None:
    found = propose(world.brokers, world.partitions, world.measurements, FULL)

    document = json.loads(json.dumps(proposal_json(found)))

    assert read_leader_moves(document["leaderMoves"]) == found.leader_moves


def test_a_cluster_with_all_leaders_on_one_broker_and_a_hot_key() -> None:
    found = tuple(partition(index, (1, 2, 3)) for index in range(6))
    measured = {one.name: rated(100.0, 600) for one in found}
    measured[name(4)] = Measured(
        bytes=6000,
        records=60,
        bytes_per_second=110.0,
        records_per_second=2.0,
        sampled_records=60,
        hot_keys=(HotKey(key=b"alice", records=45, records_at_most=47),),
    )

    document = proposal_json(propose(brokers(3), found, measured, FULL))

    assert document["hotKeys"] == [
        {
            "topic": "orders",
            "partition": 4,
            "key": "alice",
            "share": 75,
            "shareAtMost": 79,
            "records": 45,
            "recordsAtMost": 47,
        }
    ]
    assert [one["leaders"] for one in document["figures"]["before"]] == [6, 0, 0]
    assert [one["leaders"] for one in document["figures"]["after"]] == [2, 2, 2]
    assert document["numLeaderMovements"] == 4
    assert document["leaderRateDeviationPercent"] <= 5
    assert document["onDemandBalancednessScoreBefore"] == 50
    assert document["onDemandBalancednessScoreAfter"] > 95
    assert document["monitoredPartitionsPercentage"] == 100
    assert document["advice"][0]["reasons"] == ["HotKey"]
    assert document["skew"][0]["bytes"] == 4.0
    assert document["reassignment"] == {"version": 1, "partitions": []}
    assert document["replicaMoves"] == []


def test_replica_moves_are_proposed_with_what_they_were_found_for() -> None:
    found = tuple(partition(index, (1, 2)) for index in range(30))
    measured = {one.name: rated(1.0, 2**20) for one in found}

    document = proposal_json(propose(brokers(3), found, measured, FULL))

    assert document["dataToMoveMB"] == 19
    assert document["numReplicaMovements"] == 19
    moves = document["replicaMoves"]
    assert len(moves) == len(document["reassignment"]["partitions"]) == 19
    leaders = {one["partition"]: one["replicas"] for one in document["leaderMoves"]}
    for one in moves:
        assert one["expectedReplicas"] == leaders.get(one["partition"], [1, 2])
        assert 3 in one["replicas"]
    ends = [one["bytes"] for one in document["figures"]["after"]]
    assert sorted(ends) == [19 * 2**20, 20 * 2**20, 21 * 2**20]


def test_excluded_and_unmeasured_topics_are_told() -> None:
    found = (partition(0, (1, 2), topic="a"), partition(0, (1, 2), topic="b"))
    measured = {found[0].name: rated(1.0)}

    proposal = propose(brokers(2), found, measured, read_settings(excluded_topics="a"))

    assert proposal.excluded_topics == ("a",)
    assert proposal.monitored_percentage == 50.0
    assert proposal.leader_moves == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "remove-disks"}, "mode: remove-disks is not built yet"),
        ({"mode": "half"}, "mode: 'half' is not one of full, add-brokers, remove-brokers"),
        ({"mode": "add-brokers"}, "brokers: mode add-brokers needs the ids of brokers"),
        ({"goals": ["CpuCapacityGoal"]}, "goals: 'CpuCapacityGoal' is not one of RackAwareGoal"),
        ({"excluded_topics": "("}, "excludedTopics: '(' is not a regular expression"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_field(given: dict[str, object], said: str) -> None:
    with pytest.raises(RebalanceRefused) as refused:
        read_settings(**given)  # type: ignore[arg-type]

    assert str(refused.value).startswith(said)


def test_brokers_that_are_named_have_to_be_there() -> None:
    settings = Settings(mode=Mode.ADD_BROKERS, brokers=frozenset({BrokerId(9)}))

    with pytest.raises(RebalanceRefused, match="there is no broker 9; name only existing ones"):
        propose(brokers(2), [], {}, settings)


def test_not_all_brokers_are_removed() -> None:
    settings = Settings(mode=Mode.REMOVE_BROKERS, brokers=frozenset({BrokerId(1)}))

    with pytest.raises(RebalanceRefused, match="keep at least one"):
        propose(brokers(1), [], {}, settings)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"alice", "alice"),
        ("jürgen".encode(), "jürgen"),
        (b"\xff\x00", "base64:/wA="),
        (b"a\nb", "base64:YQpi"),
        (b"base64:x", "base64:YmFzZTY0Ong="),
        (b"", ""),
        (b"k" * 300, "k" * 199 + "…"),
    ],
)
def test_keys_are_shown_as_text_or_base64(key: bytes, text: str) -> None:
    assert key_text(key) == text


@pytest.mark.parametrize("missing", ["topic", "replicas", "leaderEpoch"])
def test_a_move_without_its_precondition_is_refused(missing: str) -> None:
    found = tuple(partition(index, (1, 2)) for index in range(2))
    moves = propose(brokers(2), found, {one.name: rated(1.0) for one in found}, FULL).leader_moves
    document = leader_move_json(moves[0])
    del document[missing]

    with pytest.raises(ValueError, match=missing):
        read_leader_moves([document])


def test_nothing_is_proposed_while_no_broker_is_ready() -> None:
    gone = tuple(Broker(broker_id=one.broker_id, is_usable=False) for one in brokers(2))

    with pytest.raises(RebalanceRefused, match="no broker is ready: wait until one is"):
        propose(gone, [], {}, FULL)


@pytest.mark.parametrize("pattern", ["(" * 500, "a{99999999999999999999}"])
def test_a_pattern_that_pythons_engine_cannot_hold_is_refused_like_any_other(
    pattern: str,
) -> None:
    with pytest.raises(RebalanceRefused, match="is not a regular expression"):
        read_settings(excluded_topics=pattern)


def test_an_even_load_is_one_without_the_broker_that_is_removed() -> None:
    found = (partition(0, (1, 2)), partition(1, (2, 1)))
    measured = {one.name: rated(1.0, 100) for one in found}
    removing = read_settings(mode="remove-brokers", brokers=[3])

    assert propose(brokers(3), found, measured, FULL).score_before < 100
    without = propose(brokers(3), found, measured, removing)
    assert (without.score_before, without.leader_count_deviation_percent) == (100, 0)


def test_the_only_broker_that_is_ready_is_not_removed() -> None:
    others = (*brokers(1), Broker(broker_id=BrokerId(2), is_usable=False))
    settings = Settings(mode=Mode.REMOVE_BROKERS, brokers=frozenset({BrokerId(1)}))

    with pytest.raises(RebalanceRefused, match="no broker is ready"):
        propose(others, [], {}, settings)


def test_internal_topics_are_excluded_whatever_the_pattern_is() -> None:
    settings = read_settings(excluded_topics="logs-.*")

    assert settings.is_excluded("__consumer_offsets")
    assert settings.is_excluded("logs-eu")
    assert not settings.is_excluded("orders")
    assert not FULL.is_excluded("orders")


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": []},
        {"replicas": [9]},
        {"replicas": None},
        {"partition": "first"},
        {"expectedReplicas": [1, 2, 3]},
    ],
)
def test_a_move_of_another_form_is_refused_with_what_was_given(change: dict[str, object]) -> None:
    found = tuple(partition(index, (1, 2)) for index in range(2))
    moves = propose(brokers(2), found, {one.name: rated(1.0) for one in found}, FULL).leader_moves

    with pytest.raises(ValueError, match=r"leaderMoves: \{'topic': 'orders'"):
        read_leader_moves([{**leader_move_json(moves[0]), **change}])


def test_a_partition_without_a_leader_is_held_and_led_by_nobody() -> None:
    offline = replace(partition(0, (1, 2)), leader=None)

    found = propose(brokers(2), [offline], {offline.name: rated(1.0, 500)}, FULL)

    assert [(one.leaders, one.replicas, one.bytes) for one in found.before] == [(0, 1, 500)] * 2
    assert found.leader_moves == ()
