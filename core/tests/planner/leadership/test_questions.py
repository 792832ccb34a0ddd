"""For how long an answer is known, what counts as one, and what people read meanwhile."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, Offset, PartitionEpoch, PartitionIndex, Session
from chiplog_core.model.actions import Replace
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.naming import labels
from chiplog_core.observed.report_requests import Watch
from chiplog_core.planner.leadership.comparison import WAIT_MS
from tests.planner.model import Kubernetes
from tests.planner.objects import topic

WAIT = timedelta(milliseconds=WAIT_MS)


def all_down(replicas: int = 3, **spec: Any) -> Kubernetes:
    """Every broker ended cleanly."""
    kubernetes = Kubernetes(3)
    kubernetes.apply(topic(partitions=1, replicas=replicas, **spec))
    kubernetes.run()
    for broker_id in kubernetes.brokers:
        kubernetes.kill(broker_id)
    kubernetes.settle()
    return kubernetes


def leader(kubernetes: Kubernetes) -> str:
    (generation,) = kubernetes.maps["orders"].spec.generations
    return str(generation.partitions[0].leader)


def ready(kubernetes: Kubernetes) -> tuple[str, str]:
    found = kubernetes.topics["orders"].status.conditions[0]
    return found.reason, found.message


def log_end(kubernetes: Kubernetes, broker_id: int, end: int) -> None:
    key = kubernetes.maps["orders"].spec.current, PartitionIndex(0)
    kubernetes.disks[BrokerId(broker_id)].log_ends[key] = (0, end)  # type: ignore[index]


def consent(kubernetes: Kubernetes, text: str) -> None:
    found = kubernetes.topics["orders"]
    annotations = {labels.UNCLEAN_ELECTION: text}
    metadata = replace(found.metadata, annotations=annotations)
    kubernetes.topics["orders"] = kubernetes.stored(replace(found, metadata=metadata))


# -- the time


def test_a_question_that_nobody_can_answer_gets_no_older() -> None:
    kubernetes = all_down()
    kubernetes.now += 10 * WAIT
    kubernetes.start(1)
    kubernetes.settle()
    assert leader(kubernetes) == "None"
    assert kubernetes.plan().requeue_after_ms == WAIT_MS

    kubernetes.now += WAIT - timedelta(milliseconds=1)
    kubernetes.settle()
    assert leader(kubernetes) == "None"
    assert kubernetes.plan().requeue_after_ms == 1

    kubernetes.now += timedelta(milliseconds=1)
    kubernetes.settle()
    assert leader(kubernetes) == "1@2"


def test_the_time_ends_when_the_last_one_that_answered_is_gone() -> None:
    kubernetes = all_down()
    kubernetes.start(1)
    kubernetes.settle()
    kubernetes.now += WAIT / 2
    kubernetes.kill(1)
    kubernetes.settle()
    assert kubernetes.world().open_questions_ms == {}

    kubernetes.start(2)
    kubernetes.settle()
    kubernetes.now += WAIT / 2
    kubernetes.settle()
    assert leader(kubernetes) == "None"


def test_it_goes_on_while_one_of_them_lives() -> None:
    kubernetes = all_down(config={"min.insync.replicas": 3})
    kubernetes.start(1)
    kubernetes.settle()
    kubernetes.now += WAIT / 2
    kubernetes.start(2)
    kubernetes.settle()
    kubernetes.kill(1)
    kubernetes.settle()
    kubernetes.now += WAIT / 2
    kubernetes.settle()
    assert leader(kubernetes) == "2@2"


def test_an_operator_that_starts_in_between_waits_from_its_start() -> None:
    kubernetes = all_down()
    kubernetes.start(1)
    kubernetes.settle()
    kubernetes.now += WAIT / 2
    kubernetes.questions = Watch()
    kubernetes.settle()
    kubernetes.now += WAIT / 2
    kubernetes.settle()
    assert leader(kubernetes) == "None"

    kubernetes.now += WAIT / 2
    kubernetes.settle()
    assert leader(kubernetes) == "1@2"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"session": None}, id="not of its session"),
        pytest.param({"incarnation": None}, id="of another process"),
        pytest.param({"replica_reports": ()}, id="nothing"),
    ],
)
def test_what_is_no_answer(change: dict[str, Any]) -> None:
    kubernetes = all_down()
    kubernetes.start(1)
    kubernetes.settle()
    assert list(kubernetes.world().open_questions_ms.values()) == [0]

    kubernetes.status(1, replace(kubernetes.brokers[BrokerId(1)].status, **change))

    assert kubernetes.world().open_questions_ms == {}


def test_an_answer_to_an_older_question_is_none() -> None:
    kubernetes = all_down()
    kubernetes.start(1)
    kubernetes.settle()
    status = kubernetes.brokers[BrokerId(1)].status
    reports = tuple(
        replace(one, partition_epoch=PartitionEpoch(0)) for one in status.replica_reports
    )
    kubernetes.status(1, replace(status, replica_reports=reports))

    assert kubernetes.world().open_questions_ms == {}


# -- all were down


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_after_a_clean_stop_two_of_three_are_enough(order: tuple[int, ...]) -> None:
    kubernetes = all_down()
    first, second, _ = order
    kubernetes.start(first)
    kubernetes.settle()
    assert leader(kubernetes) == "None"

    kubernetes.start(second)
    kubernetes.settle()
    assert leader(kubernetes) == f"{min(first, second)}@2"
    assert ready(kubernetes)[0] == "Ready"


def test_a_volume_that_was_put_back_unseen_leads_nothing() -> None:
    kubernetes = all_down()
    for broker_id, end in ((1, 5), (2, 9), (3, 9)):
        log_end(kubernetes, broker_id, end)
    for broker_id in (1, 3):
        kubernetes.start(broker_id)
    kubernetes.settle()

    assert leader(kubernetes) == "3@2"


def test_a_plan_that_elected_a_process_which_was_dead_already_is_made_again() -> None:
    """It answered and died, and the operator hears of it only afterwards."""
    kubernetes = all_down()
    log_end(kubernetes, 1, 9)
    for broker_id in (1, 2):
        kubernetes.start(broker_id)
    kubernetes.settle()
    assert leader(kubernetes) == "1@2"

    kubernetes.kill(1)
    kubernetes.settle()
    assert leader(kubernetes) == "None", "broker 2 has less, and is not in sync again"
    kubernetes.start(1)
    kubernetes.settle()

    assert leader(kubernetes) == "1@3"


def test_an_answer_whose_process_has_ended_is_waited_for_again() -> None:
    kubernetes = all_down()
    kubernetes.start(1)
    kubernetes.settle()
    kubernetes.kill(1)
    kubernetes.start(2)
    kubernetes.settle()

    reason, message = ready(kubernetes)
    assert reason == "RecordsAtRisk"
    assert "Brokers 1, 3 sent no report yet" in message
    assert leader(kubernetes) == "None"


# -- what people read


def test_while_all_are_off_the_partition_is_offline_and_no_more() -> None:
    kubernetes = all_down()

    assert ready(kubernetes)[0] == "PartitionsOffline"
    assert "RecordsAtRisk" not in [one.type for one in kubernetes.cluster.status.conditions]


def test_the_message_says_whom_it_waits_for_and_what_goes_on_without_them() -> None:
    kubernetes = all_down(config={"min.insync.replicas": 3})
    log_end(kubernetes, 3, 7)
    for broker_id in (2, 3):
        kubernetes.start(broker_id)
    kubernetes.settle()
    reason, message = ready(kubernetes)
    (generation,) = kubernetes.maps["orders"].spec.generations
    epoch = generation.partitions[0].partition_epoch

    assert reason == "RecordsAtRisk"
    assert message == (
        f"partition 0 (partitionEpoch {epoch}): every in-sync replica was restarted, and the one "
        "with the longest log will lead. Broker 1 sent no report yet; after a minute the election "
        "proceeds without it if another replica can prove that its disk lost nothing. If no report "
        f'ever comes, set the annotation chiplog.dev/unclean-election to "0@{epoch}/1" to '
        "continue without it"
    )

    for stale in (f"0@{epoch - 1}/1", f"0@{epoch + 1}/1", f"0@{epoch}/2"):
        consent(kubernetes, stale)
        kubernetes.settle()
        assert leader(kubernetes) == "None"

    consent(kubernetes, f"0@{epoch}/1")
    kubernetes.settle()
    assert leader(kubernetes) == "3@2"
    assert kubernetes.announced == [], "those that returned vouch, so nothing is lost"


def test_those_who_may_know_of_a_later_leader_are_named() -> None:
    """They died before the operator started, and one ISR of one came back alone."""
    kubernetes = all_down()
    kubernetes.maps_check = "one"
    kubernetes.start(1)
    kubernetes.settle()
    kubernetes.now += 2 * WAIT
    kubernetes.settle()
    assert leader(kubernetes) == "None"
    reason, message = ready(kubernetes)
    (generation,) = kubernetes.maps["orders"].spec.generations
    text = f"0@{generation.partitions[0].partition_epoch}/2+3"
    assert reason == "RecordsAtRisk"
    assert "brokers 2, 3 may know of a later leader" in message
    assert f'"{text}"' in message

    consent(kubernetes, text)
    kubernetes.settle()
    assert leader(kubernetes) == "1@2"


def test_a_message_speaks_of_some_partitions_only() -> None:
    kubernetes = Kubernetes(3)
    kubernetes.apply(topic(partitions=25, replicas=3))
    kubernetes.run()
    for broker_id in kubernetes.brokers:
        kubernetes.kill(broker_id)
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.settle()

    _, message = ready(kubernetes)
    assert message.count("partitionEpoch") == 10
    assert message.endswith("; and 15 more partitions")


# -- nothing is written again and again


def test_a_question_that_stays_open_is_written_once() -> None:
    kubernetes = all_down()
    for broker_id in (1, 2, 3):
        kubernetes.start(broker_id, went_back=True)
    kubernetes.settle()
    for _ in range(5):
        kubernetes.now += WAIT
        planned = kubernetes.plan()
        assert not [one for one in planned.actions if isinstance(one, Replace)]
        assert planned.requeue_after_ms is None
    assert ready(kubernetes)[0] == "RecordsAtRisk"


def test_brokers_that_say_nothing_are_named() -> None:
    kubernetes = all_down()
    for broker_id in (1, 2, 3):
        kubernetes.start(broker_id)
    kubernetes.execute(kubernetes.plan().actions)
    for broker_id, broker in kubernetes.brokers.items():
        status = BrokerStatus(
            incarnation=broker.status.incarnation, directories=broker.status.directories
        )
        kubernetes.status(broker_id, status)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.execute(kubernetes.plan().actions)

    assert leader(kubernetes) == "None"
    assert "Brokers 1, 2, 3 sent no report yet" in ready(kubernetes)[1]


def test_the_end_of_a_log_is_below_what_was_committed() -> None:
    kubernetes = all_down()
    topic_id = kubernetes.maps["orders"].spec.current
    assert topic_id is not None
    for broker_id in (1, 2, 3):
        log_end(kubernetes, broker_id, 5)
        disk = kubernetes.disks[BrokerId(broker_id)]
        disk.committed[topic_id, PartitionIndex(0)] = Offset(9)
        kubernetes.start(broker_id, is_cut=True)
    kubernetes.settle()

    assert leader(kubernetes) == "None"
    assert "acknowledged records may be missing" in ready(kubernetes)[1]
    assert kubernetes.brokers[BrokerId(1)].spec.session == Session(2)


def test_the_message_says_what_speaks_against_the_longest_log() -> None:
    """Two vouch; the third knows that more was committed than any of them has."""
    kubernetes = all_down()
    key = kubernetes.maps["orders"].spec.current, PartitionIndex(0)
    for broker_id in (1, 2, 3):
        log_end(kubernetes, broker_id, 7)
    kubernetes.disks[BrokerId(1)].committed[key] = 9  # type: ignore[index]
    for broker_id in (1, 2, 3):
        kubernetes.start(broker_id)
    kubernetes.settle()

    (generation,) = kubernetes.maps["orders"].spec.generations
    epoch = generation.partitions[0].partition_epoch
    reason, message = ready(kubernetes)
    assert reason == "RecordsAtRisk"
    assert message == (
        f"partition 0 (partitionEpoch {epoch}): the longest log ends at 7, and records up to 9 "
        "were committed, so acknowledged records may be missing; broker 1 has records up to "
        "offset 7, broker 2 has records up to offset 7, broker 3 has records up to offset 7. To "
        f'continue with what is left, set the annotation {labels.UNCLEAN_ELECTION} to "0@{epoch}"'
    )
