"""What a job proposes arrives in the status as it was proposed."""

from dataclasses import replace
from typing import Any

from hypothesis import given

from chiplog_core.limits import MAX_REASSIGNMENT_LENGTH
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import Rebalance, RebalanceSpec
from chiplog_core.model.rebalance_status import Proposal, RebalanceState, RebalanceStatus
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark import SparkOverrides
from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.documents import proposal_json
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Settings
from chiplog_core.rebalance.status import moves_of
from chiplog_core.spark.rebalance_proposal import proposal_of, proposal_words
from chiplog_core.spark.rebalance_report import moves_words, verdicts
from chiplog_core.spark.rebalance_request import sends_limits
from tests.planner.objects import cluster
from tests.rebalance.worlds import World, worlds
from tests.spark.rebalances import BROKERS, NOW, measured
from tests.spark.rebalances import World as RunningWorld


@given(worlds())
def test_every_proposal_reads_and_keeps_its_moves(world: World) -> None:
    proposed = propose(world.brokers, world.partitions, world.measurements, Settings())
    answer = Result(
        application="even-1",
        state=ResultState.SUCCEEDED,
        reason="Measured",
        summary=proposal_json(proposed),
    )
    result = Result.from_json(answer.to_json(), application="even-1")

    found = proposal_of(result, NOW)

    assert RebalanceStatus(proposal=found).proposal is found
    assert moves_of(found) == proposed.leader_moves
    assert found.num_replica_movements == len(proposed.replica_moves)
    assert found.executable
    assert found.message == ""
    assert len(found.replica_moves) == len(proposed.replica_changes)
    assert found.figures is not None
    assert len(found.figures.before) == len(proposed.before)
    for shown, figures in (
        (found.figures.before, proposed.before),
        (found.figures.after, proposed.after),
    ):
        assert [one.replicas for one in shown] == [one.replicas for one in figures]
        assert [one.bytes for one in shown] == [one.bytes for one in figures]
    assert proposal_words(found)


def moved(partitions: int, replicas: int) -> dict[str, Any]:
    """The summary of a job that would move this much."""
    return {
        "reassignment": {
            "version": 1,
            "partitions": [
                {"topic": "t" * 249, "partition": index, "replicas": list(range(1, replicas + 1))}
                for index in range(partitions)
            ],
        },
        "replicaMoves": [
            {
                "topic": "t" * 249,
                "partition": index,
                "replicas": list(range(1, replicas + 1)),
                "expectedReplicas": list(range(2, replicas + 2)),
            }
            for index in range(partitions)
        ],
        "numReplicaMovements": partitions,
        "dataToMoveMB": 12,
    }


def test_a_reassignment_that_is_too_long_for_a_status_is_left_out() -> None:
    short = proposal_of(measured("even-1", **moved(100, 3)), NOW)
    long = proposal_of(measured("even-1", **moved(1_000, 16)), NOW)

    assert 0 < len(short.reassignment) <= MAX_REASSIGNMENT_LENGTH
    assert (long.reassignment, long.num_replica_movements) == ("", 1_000)
    assert len(long.replica_moves) == 1_000, "the same moves, which are carried out"
    assert (long.message, long.executable) == ("", True)


def test_replica_moves_that_the_job_could_not_list_are_only_counted() -> None:
    left_out: dict[str, Any] = {"reassignment": {}, "replicaMoves": []}
    found = proposal_of(measured("even-1", **moved(2, 3) | left_out), NOW)

    assert (found.reassignment, found.num_replica_movements) == ("", 2)
    assert not found.executable
    assert found.message == (
        "the list of the 2 replica moves (12 MB) is too long, so they are left out: exclude topics "
        "with spec.excludedTopics"
    )


def test_a_proposal_names_its_scores_where_there_are_any() -> None:
    scored = Proposal(
        id="even-1",
        executable=True,
        on_demand_balancedness_score_before=40,
        on_demand_balancedness_score_after=97,
    )

    assert proposal_words(scored) == (
        "no leadership needs to move; score 40 of 100 before and 97 after"
    )
    assert "3 partitions stay where spec.assignments of their Topics places them" in proposal_words(
        replace(scored, num_pinned_partitions=3)
    )
    unknown = replace(scored, on_demand_balancedness_score_after=None)
    assert proposal_words(unknown) == "no leadership needs to move"


def test_a_status_that_lost_its_proposal_or_its_moves_says_nothing_of_them() -> None:
    """As one that somebody edited."""
    rebalance = Rebalance(
        metadata=Metadata(name="even", namespace="apps"),
        spec=RebalanceSpec(cluster_ref=ClusterRef(name="demo")),
    )

    def ready(state: RebalanceState) -> tuple[str, str]:
        found = verdicts(rebalance, RebalanceStatus(state=state), problems=(), wait_reason=None)
        return found[0].reason, found[0].message

    assert ready(RebalanceState.PROPOSAL_READY) == ("ProposalReady", "")
    assert ready(RebalanceState.REBALANCING) == ("Rebalancing", "")
    assert moves_words(RebalanceStatus()) == ""


def test_replicas_that_are_only_reordered_are_counted_apart_from_leaderships_that_move() -> None:
    moves = proposal_of(measured("even-1", *RunningWorld(2).moves(0, 1)), NOW).leader_moves
    both = Proposal(id="even-1", executable=True, leader_moves=moves, num_leader_movements=1)

    assert proposal_words(both) == (
        "1 leaderships would move; 1 stay, but their replicas must be reordered"
    )


def test_a_job_is_told_what_brokers_may_hold() -> None:
    limit = Capacity(max_replicas=5, total_bytes=1_000)
    world = RunningWorld()
    world.view["brokers"] = (replace(BROKERS[0], capacity=limit), *BROKERS[1:])
    world.look()
    world.look()
    assert world.jobs[0]["capacities"] == {
        str(BROKERS[0].broker_id): {"maxReplicas": 5, "totalBytes": 1_000}
    }


def test_a_job_is_told_nodes_only_if_brokers_share_one() -> None:
    world = RunningWorld()
    world.view["brokers"] = tuple(replace(one, node="n") for one in BROKERS)
    world.look()
    world.look()
    assert world.jobs[0]["nodes"] == {"1": "n", "2": "n", "3": "n"}


def test_an_image_that_may_be_older_is_not_told_default_limits() -> None:
    image = SparkOverrides(image="registry.example/spark:1")
    plain = RebalanceSpec(cluster_ref=ClusterRef(name="demo"))
    own = replace(plain, spark=image)
    default, of_cluster, limited = (
        cluster(),
        cluster(spark={"image": "registry.example/spark:1"}),
        cluster(brokerCapacity={}),
    )
    assert sends_limits(plain, default)
    assert not sends_limits(own, default)
    assert not sends_limits(plain, of_cluster)
    assert sends_limits(own, limited)
    limit = Capacity(total_bytes=1_000)
    world = RunningWorld()
    world.view |= {
        "brokers": tuple(replace(one, capacity=limit) for one in BROKERS),
        "sends_limits": False,
    }
    world.look()
    world.look()
    assert "capacities" not in world.jobs[0]


def test_what_is_left_out_and_what_has_no_room_are_both_told() -> None:
    summary = measured("n", numReplicaMovements=5, capacityMessage="broker 1 is full").summary
    result = Result(
        application="n", state=ResultState.SUCCEEDED, reason="Measured", summary=summary
    )
    message = proposal_of(result, NOW).message
    assert message.startswith("the list of the 5 replica moves")
    assert message.endswith("; broker 1 is full")
