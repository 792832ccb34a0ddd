"""The new generation takes the name only when every old record is in it."""

from dataclasses import replace

import pytest

from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
)
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.repartition.swap import Fenced, missing_for_swap

ZERO = PartitionIndex(0)
LEADER = ReplicaRef(BrokerId(1), Session(4))
STATE = PartitionState(
    partition=ZERO,
    replicas=(LEADER.broker_id,),
    isr=(LEADER,),
    leader=LEADER,
    leader_epoch=LeaderEpoch(6),
    partition_epoch=PartitionEpoch(9),
)
FENCED = Fenced(
    leader=LEADER,
    leader_epoch=LeaderEpoch(6),
    end_offset=Offset(50),
    high_watermark=Offset(50),
)


def missing(state: PartitionState, answer: Fenced | None, copied_to: int | None) -> list[str]:
    fenced = {} if answer is None else {ZERO: answer}
    copied = {} if copied_to is None else {ZERO: Offset(copied_to)}
    return list(missing_for_swap([state], fenced, copied))


def test_nothing_is_missing_when_all_is_fenced_and_copied() -> None:
    assert missing(STATE, FENCED, 50) == []


@pytest.mark.parametrize(
    ("state", "answer", "copied_to", "expected"),
    [
        pytest.param(replace(STATE, leader=None), FENCED, 50, "has no leader", id="no leader"),
        pytest.param(STATE, None, 50, "is not fenced", id="no answer"),
        pytest.param(
            replace(STATE, leader_epoch=LeaderEpoch(7)),
            FENCED,
            50,
            "is not fenced by its leader 1@4 in leader epoch 7",
            id="an answer of an earlier epoch",
        ),
        pytest.param(
            STATE,
            replace(FENCED, leader=ReplicaRef(BrokerId(1), Session(3))),
            50,
            "is not fenced",
            id="an answer of an earlier session",
        ),
        pytest.param(
            STATE,
            replace(FENCED, high_watermark=Offset(49)),
            50,
            "has records above its high watermark 49",
            id="records that may still be lost",
        ),
        pytest.param(STATE, FENCED, None, "is copied up to 0 of 50", id="no copy"),
        pytest.param(STATE, FENCED, 49, "is copied up to 49 of 50", id="one record is missing"),
        pytest.param(STATE, FENCED, 51, "beyond its end 50", id="a copy of another log"),
    ],
)
def test_one_thing_is_missing(
    state: PartitionState, answer: Fenced | None, copied_to: int | None, expected: str
) -> None:
    (text,) = missing(state, answer, copied_to)
    assert text.startswith("partition 0 ")
    assert expected in text


def test_an_empty_partition_is_copied_from_the_start() -> None:
    empty = replace(FENCED, end_offset=Offset(0), high_watermark=Offset(0))
    assert missing(STATE, empty, 0) == []
