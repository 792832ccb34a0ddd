"""What a job proposes arrives in the status as it was proposed."""

from hypothesis import given

from chiplog_core.model.rebalance_status import RebalanceStatus
from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.rebalance.documents import proposal_json
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Settings
from chiplog_core.rebalance.status import moves_of
from chiplog_core.spark.rebalance_proposal import proposal_of, proposal_words
from tests.rebalance.worlds import World, worlds
from tests.spark.rebalances import NOW


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
    assert found.executable is bool(proposed.leader_moves or not proposed.replica_moves)
    assert ("cannot be moved yet" in found.message) is bool(proposed.replica_moves)
    assert found.figures is not None
    assert len(found.figures.before) == len(proposed.before)
    assert proposal_words(found)
