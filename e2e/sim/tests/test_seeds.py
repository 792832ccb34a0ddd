"""Some seeds, whole: nothing goes wrong that must not, and what happened once happens again."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chiplog_broker.partitions import gaps
from chiplog_wire.protocol.errors import ErrorCode
from e2e.lanes import sample
from e2e.sim import run
from e2e.sim.clients import SPARING, Habits
from e2e.sim.faults import (
    FAULT_NAMES,
    LATER,
    OF_MEDIA,
    OF_MOVES,
    OF_STEPS,
    OF_UPKEEP,
    OF_USERS,
    Mix,
    cascades,
    restores,
)
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.run import kept_seeds
from e2e.sim.seed import (
    FIRST_LATER,
    FIRST_MOVING,
    FIRST_STEPPING,
    FIRST_UPKEEP,
    Result,
    mix_from,
    mix_of,
    replicas_of,
    run_seed,
)
from e2e.sim.table import table

pytestmark = pytest.mark.usefixtures("no_log_lines")

ROOT = Path(__file__).parents[3]
SHORT_S = 25.0
HOUR_S = 3600.0
OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number.name


def sound(result: Result) -> bool:
    assert result.anomalies == []
    assert result.acked > 100
    assert result.read >= result.acked
    return True


def test_without_faults() -> None:
    assert sound(run_seed(1, Mix(faults_s=10.0)))


@pytest.mark.parametrize("seed", [2, 9])
def test_whole_seeds(seed: int) -> None:
    result = run_seed(seed, mix_of(seed))
    assert sound(result)
    assert sum(result.faults.values()) > 3


@pytest.mark.parametrize("fault", ["broker killed", "power cut of all", "operator killed"])
def test_one_fault_again_and_again(fault: str) -> None:
    mix = Mix(faults_s=SHORT_S, every_s=3.0, weights={fault: 1.0})
    result = run_seed(1, mix)
    assert sound(result)
    assert result.faults[fault] > 2


def test_changed_base_offsets_make_no_log_longer() -> None:
    """No checksum covers them, and after a power cut of all brokers the longest log leads."""
    weights = {
        "batch header rots": 3.0,
        "power cut of all": 1.5,
        "one after another": 1.0,
        "broker killed": 1.0,
        "any sync fails": 0.3,
    }
    seed = 9000002
    result = run_seed(seed, replace(mix_of(seed, replicas_of(seed)), weights=weights, every_s=4.0))
    assert sound(result)
    assert result.faults["batch header rots"] > 3


def test_readers_in_the_racks_of_followers_see_what_is_acknowledged_and_nothing_else() -> None:
    weights = {"broker killed": 1.0, "broker paused": 1.0, "partition": 1.0}
    mix = Mix(replicas=3, faults_s=SHORT_S, every_s=4.0, weights=weights, reads_in_racks=True)
    result = run_seed(5, mix)
    assert sound(result)
    assert result.read_from_followers > 100
    assert sum(result.faults.values()) > 2


@pytest.mark.sim
@pytest.mark.parametrize("fault", sample(sorted(cascades.ACTS), 4))
def test_one_sequence_again_and_again(fault: str) -> None:
    mix = Mix(replicas=3, faults_s=SHORT_S, every_s=8.0, weights={fault: 1.0})
    result = run_seed(2, mix)
    assert result.anomalies == []
    assert result.faults[fault] > 0


def test_three_replicas_survive_their_leaders() -> None:
    weights = {"broker killed": 1.0, "power cut": 1.0, "partition": 1.0}
    result = run_seed(3, Mix(replicas=3, faults_s=SHORT_S, every_s=4.0, weights=weights))
    assert sound(result)
    assert sum(result.faults.values()) > 2


@pytest.mark.parametrize("left_out", ["restores", "users"])
def test_every_fault_has_a_name_and_an_act(left_out: str) -> None:
    names = set(FAULT_NAMES) - set({"restores": tuple(restores.ACTS), "users": OF_USERS}[left_out])
    mix = Mix(brokers=3, faults_s=40.0, every_s=0.07, weights=dict.fromkeys(sorted(names), 1.0))
    result = run_seed(3, mix)
    # So many at once that not much is acknowledged; nothing of that may be lost.
    assert result.anomalies == []
    assert set(result.faults) >= names


def test_what_came_later_only_later_seeds_draw() -> None:
    """So that each seed before stays what it was."""
    assert not set(LATER) & set(FAULT_NAMES)
    before = [mix_of(seed, 3) for seed in range(FIRST_LATER - 20, FIRST_LATER)]
    later = [mix_of(seed, 3) for seed in range(FIRST_LATER, FIRST_LATER + 20)]
    assert {one.habits for one in before} == {SPARING}
    assert not any(set(LATER) & set(one.weights) or one.topic_config for one in before)
    assert {one.habits.in_flight for one in later} == {1, 2, 5}
    assert {name for one in later for name in one.weights} >= set(LATER)


def test_moves_only_the_last_seeds_draw() -> None:
    before = [mix_of(seed, 3) for seed in range(FIRST_MOVING - 20, FIRST_MOVING)]
    moving = [mix_of(seed, 3) for seed in range(FIRST_MOVING, FIRST_MOVING + 20)]
    assert not any(set(OF_MOVES) & set(one.weights) for one in before)
    assert {name for one in moving for name in one.weights} >= set(OF_MOVES)
    assert {one.brokers for one in moving} == {4, 5}, "more than a partition has replicas"


def test_moves_are_hit_at_their_steps_from_a_seed_on() -> None:
    before = [mix_of(seed, 3) for seed in range(FIRST_STEPPING - 20, FIRST_STEPPING)]
    stepping = [mix_of(seed, 3) for seed in range(FIRST_STEPPING, FIRST_STEPPING + 20)]
    assert not any(set(OF_STEPS) & set(one.weights) for one in before)
    assert {name for one in stepping for name in one.weights} >= {*OF_STEPS, *OF_MOVES}
    assert all("move hit at a step" in one.weights for one in stepping)


def test_upkeep_happens_from_a_seed_on() -> None:
    before = [mix_of(seed, 3) for seed in range(FIRST_UPKEEP - 20, FIRST_UPKEEP)]
    kept_up = [mix_of(seed, 3) for seed in range(FIRST_UPKEEP, FIRST_UPKEEP + 40)]
    assert not any(set(OF_UPKEEP) & set(one.weights) for one in before)
    assert {name for one in kept_up for name in one.weights} >= {*OF_UPKEEP, *OF_STEPS}
    assert not any(
        "volume rebuilt" in one.weights and set(OF_MEDIA) & set(one.weights) for one in kept_up
    )


def test_upkeep_while_replicas_move() -> None:
    """All kinds of it; the one broker that is free makes each move possible."""
    mix = Mix(
        brokers=3,
        replicas=2,
        faults_s=SHORT_S,
        every_s=2.0,
        producers=2,
        consumers=1,
        pause_s=3.0,
        habits=SPARING,
        weights={"partitions reassigned": 1.0, **dict.fromkeys(OF_UPKEEP, 1.0)},
    )
    result = run_seed(3, mix)
    assert result.anomalies == []
    assert len(set(result.faults) & set(OF_UPKEEP)) > 5


def test_a_move_is_hit_at_its_steps() -> None:
    mix = Mix(
        brokers=4, replicas=2, faults_s=SHORT_S, every_s=2.0, weights={"move hit at a step": 1.0}
    )
    result = run_seed(1, mix)
    assert sound(result)
    assert sum(name.startswith("move hit: ") for name in result.faults) > 3


def test_etcd_is_restored_during_moves() -> None:
    mix = Mix(
        brokers=4,
        replicas=2,
        faults_s=SHORT_S,
        every_s=3.0,
        weights={"etcd restored during a move": 1.0},
    )
    result = run_seed(2, mix)
    assert result.anomalies == []
    assert result.faults["etcd went back"] > 1


def test_producers_with_several_batches_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over connections that break, and to leaders that change. The gaps in their sequences are
    closed within seconds: nobody gets OUT_OF_ORDER_SEQUENCE_NUMBER."""
    weights = {"broker killed": 1.0, "connections broken": 1.0}
    mix = Mix(
        replicas=3, faults_s=SHORT_S, every_s=3.0, weights=weights, habits=Habits(in_flight=5)
    )
    # One in four has a gap.
    for seed in range(7, 27):
        with monkeypatch.context() as answered_at_once:
            answered_at_once.setattr(gaps, "DOUBT_S", 0.0)
            result = run_seed(seed, mix)
        assert sound(result)
        assert sum(result.faults.values()) > 2
        if OUT_OF_ORDER in result.errors:
            result = run_seed(seed, mix)
            assert sound(result)
            assert OUT_OF_ORDER not in result.errors
            return
    pytest.fail("no batch ever came after a gap")


def test_a_compacted_topic_while_clocks_are_wrong_by_hours() -> None:
    mix = Mix(
        replicas=3,
        faults_s=40.0,
        every_s=5.0,
        weights=dict.fromkeys(LATER, 1.0),
        habits=Habits(keys=5, event_days=0.5),
        compacted_config={
            "cleanup.policy": "compact",
            "segment.ms": "2000",
            "min.cleanable.dirty.ratio": "0.01",
        },
        cluster_config={"log.cleaner.backoff.ms": "2000"},
    )
    result = run_seed(4, mix)
    assert result.anomalies == []
    assert set(result.faults) == set(LATER)


def test_the_same_seed_does_the_same_in_another_process() -> None:
    """Neither the hash of strings nor the place of objects in memory decides anything."""
    code = (
        "from e2e.sim.tests.test_seeds import everything; from e2e.sim.seed import quiet; quiet();"
        "print(everything().trace)"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = everything()
    assert elsewhere.stdout.strip() == here.trace
    assert len(here.trace) == 16
    assert here.acked > 50


def everything() -> Result:
    """A short seed with all kinds of faults."""
    weights = dict.fromkeys(FAULT_NAMES, 1.0)
    mix = Mix(faults_s=20.0, every_s=2.0, weights=weights, groups=GroupHabits())
    return run_seed(7, mix)


def test_another_seed_does_something_else() -> None:
    mix = Mix(faults_s=5.0)
    assert run_seed(1, mix).trace != run_seed(2, mix).trace


@pytest.mark.sim
@pytest.mark.parametrize(("seed", "mix"), sample(kept_seeds(), 6))
def test_seeds_that_failed_once(seed: int, mix: Mix) -> None:
    assert run_seed(seed, mix).anomalies == []


def test_a_seed_that_ends_by_an_error_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_seed: int, _mix: Mix) -> Result:
        raise LookupError("no such thing")

    monkeypatch.setattr(run, "run_seed", fail)
    result = run.ended(7, mix_of(7))
    assert result.seed == 7
    (anomaly,) = result.anomalies
    assert anomaly.name == "not-finished"
    assert "no such thing" in anomaly.what


def test_what_is_kept_of_a_seed_is_the_same_seed() -> None:
    mix = replace(mix_of(5, 3), faults_s=1.0)
    kept = json.loads(Result(seed=5, mix=mix).to_json())
    assert mix_from(kept["mix"]) == mix


@pytest.mark.sim
@pytest.mark.parametrize("seed", sample(range(1, 101), 10))
def test_one_of_many_seeds(seed: int) -> None:
    """The first of those that `make sim` runs."""
    assert run_seed(seed).anomalies == []


@pytest.mark.sim
@pytest.mark.parametrize(
    "seed",
    [
        *sample(range(FIRST_MOVING, FIRST_MOVING + 6), 3),
        *sample(range(FIRST_STEPPING, FIRST_STEPPING + 20), 6),
        *sample(range(FIRST_UPKEEP, FIRST_UPKEEP + 5), 3),
    ],
)
def test_some_seeds_with_moves(seed: int) -> None:
    assert run_seed(seed).anomalies == []


def test_seeds_are_of_one_replica_or_three() -> None:
    assert {replicas_of(seed) for seed in range(1, 20)} == {1, 3}


def test_the_table_counts_whom_faults_hit() -> None:
    mix = Mix(faults_s=5.0, every_s=1.0, weights={"broker killed": 1.0, "operator killed": 1.0})
    result = run_seed(1, mix)
    hits = sum(count for (fault, _), count in result.hits.items() if fault == "broker killed")
    assert hits == result.faults["broker killed"] > 0
    shown = table([result])
    assert "simulated hours" in shown
    assert "operator leader" in shown


@pytest.mark.sim
def test_an_etcd_that_goes_back_by_an_hour() -> None:
    """While brokers and power come and go; in the seeds above it is a minute at most."""
    faults = ("etcd restored", "broker killed", "power cut", "domino")
    mix = Mix(
        replicas=3,
        faults_s=HOUR_S + 300.0,
        every_s=60.0,
        copy_age_s=HOUR_S,
        pause_s=30.0,
        habits=SPARING,
        weights=dict.fromkeys(faults, 1.0),
    )
    result = run_seed(1, mix)
    assert result.faults["etcd went back"]
    assert result.anomalies == []
