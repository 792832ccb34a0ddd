"""Metadata that went back, maps that are gone, tails that cannot vouch for themselves."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, PartitionEpoch, PartitionIndex
from chiplog_core.model.broker_status import Tail
from chiplog_core.model.conditions import ConditionStatus
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.naming import labels
from chiplog_core.planner.leadership.regression import accepted_losses, unread_losses
from tests.planner.model import Kubernetes
from tests.planner.objects import of_users, topic

PAGE_CACHE = {"chiplog.durability": "PageCache"}


def applied(replicas: int = 1, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=1, replicas=replicas, **spec))
    kubernetes.run()
    return kubernetes


def state(kubernetes: Kubernetes) -> PartitionState:
    return kubernetes.maps["orders"].spec.generations[0].partitions[0]


def shown(kubernetes: Kubernetes) -> tuple[str, str]:
    found = state(kubernetes)
    return str(found.leader), " ".join(map(str, found.isr))


def restore(kubernetes: Kubernetes, backup: PartitionMap) -> None:
    """The map as it was, in a new version: what a restored etcd looks like."""
    now = kubernetes.maps["orders"].metadata if "orders" in kubernetes.maps else backup.metadata
    kubernetes.maps["orders"] = replace(backup, metadata=replace(now, resource_version="restored"))


def ready(kubernetes: Kubernetes) -> tuple[ConditionStatus, str, str]:
    found = kubernetes.topics["orders"].status.conditions[0]
    return found.status, found.reason, found.message


def log_end(kubernetes: Kubernetes, broker_id: int, epoch: int, end: int) -> None:
    topic_id = kubernetes.maps["orders"].spec.current
    assert topic_id is not None
    disk = kubernetes.disks[BrokerId(broker_id)]
    disk.log_ends[topic_id, PartitionIndex(0)] = (epoch, end)


# -- R6: the map went back


def test_a_map_restored_from_a_backup_goes_on_above_every_epoch_ever_used() -> None:
    kubernetes = applied()
    backup = kubernetes.maps["orders"]
    for _ in range(3):
        kubernetes.start(1)
        kubernetes.settle()
    before = state(kubernetes)

    restore(kubernetes, backup)
    kubernetes.settle()

    after = state(kubernetes)
    assert (str(after.leader), str(after.isr[0])) == ("1@4", "1@4")
    assert after.leader_epoch > before.leader_epoch
    assert after.partition_epoch > before.partition_epoch
    assert not after.reports_wanted
    assert ready(kubernetes)[0] is ConditionStatus.TRUE


def test_an_isr_that_the_backup_does_not_know_is_adopted() -> None:
    kubernetes = applied(3)
    backup = kubernetes.maps["orders"]
    kubernetes.kill(1)
    kubernetes.settle()
    assert shown(kubernetes) == ("2@1", "2@1 3@1")

    kubernetes.start(1)
    restore(kubernetes, backup)
    kubernetes.settle()

    assert shown(kubernetes) == ("2@1", "2@1 3@1"), "broker 1 missed what came after"


def test_nothing_is_decided_until_all_replicas_have_reported() -> None:
    kubernetes = applied(3)
    backup = kubernetes.maps["orders"]
    kubernetes.kill(1)
    kubernetes.settle()

    restore(kubernetes, backup)
    kubernetes.obey()
    kubernetes.settle()

    asked = state(kubernetes)
    assert asked.reports_wanted
    _, reason, message = ready(kubernetes)
    assert reason == "RecordsAtRisk"
    assert "waits for broker 1 to report its log" in message
    assert 'chiplog.dev/unclean-election to "0@0/1"' in message
    regressed = [one.type for one in kubernetes.topics["orders"].status.conditions]
    assert "MetadataRegressed" in regressed
    of_cluster = {one.type: one.message for one in kubernetes.cluster.status.conditions}
    assert "newer metadata of topic orders than" in of_cluster["MetadataRegressed"]

    kubernetes.start(1)
    kubernetes.settle()
    assert shown(kubernetes) == ("2@1", "2@1 3@1")
    regressed = [one.type for one in kubernetes.topics["orders"].status.conditions]
    assert "MetadataRegressed" not in regressed


def test_asking_never_reaches_the_epochs_that_brokers_know() -> None:
    """Else a broker that knows more would take the restored map for news and forget it."""
    kubernetes = applied()
    backup = kubernetes.maps["orders"]
    kubernetes.start(1)
    kubernetes.settle()
    restore(kubernetes, backup)
    kubernetes.obey()

    kubernetes.execute(kubernetes.plan().actions)

    assert state(kubernetes).reports_wanted
    assert (
        state(kubernetes).partition_epoch
        == backup.spec.generations[0].partitions[0].partition_epoch
    )


# -- R6: the map is gone


def test_a_map_that_is_gone_is_rebuilt_with_its_topic_id() -> None:
    kubernetes = applied(config={"retention.ms": 5})
    before = kubernetes.maps.pop("orders")
    kubernetes.settle()

    after = kubernetes.maps["orders"]
    assert after.spec.current == before.spec.current
    assert after.spec.config == before.spec.config
    assert shown(kubernetes) == ("1@1", "1@1")
    assert state(kubernetes).leader_epoch > before.spec.generations[0].partitions[0].leader_epoch


def test_a_map_that_is_gone_is_never_made_fresh() -> None:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=3))
    kubernetes.run()
    kubernetes.kill(2)
    kubernetes.settle()
    del kubernetes.maps["orders"]
    kubernetes.settle()

    assert of_users(kubernetes.maps) == {}
    assert ready(kubernetes)[1] == "MetadataMissing"
    assert "not every replica of partition 1 has been reported yet" in ready(kubernetes)[2]

    kubernetes.start(2)
    kubernetes.settle()
    spec = kubernetes.maps["orders"].spec
    assert [str(one.leader) for one in spec.generations[0].partitions] == ["1@1", "2@2", "3@1"]


def test_a_new_topic_object_does_not_start_over_what_is_gone() -> None:
    """It has no status yet, so it is the brokers that keep the old data apart, by its id."""
    kubernetes = applied()
    before = kubernetes.maps.pop("orders").spec.current
    kubernetes.topics.pop("orders")
    kubernetes.apply(topic(partitions=1))
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.execute(kubernetes.plan().actions)

    assert kubernetes.maps["orders"].spec.current != before


# -- suspect tails


def test_a_page_cache_topic_goes_on_with_the_longest_log_and_says_so() -> None:
    kubernetes = applied(3, config=PAGE_CACHE)
    for broker_id, epoch, end in ((1, 0, 90), (2, 1, 80), (3, 1, 70)):
        log_end(kubernetes, broker_id, epoch, end)
        kubernetes.kill(broker_id)
    kubernetes.settle()
    for broker_id in (1, 2):
        kubernetes.start(broker_id, tail=Tail.SUSPECT)
    kubernetes.settle()
    assert shown(kubernetes) == ("None", "1@1 2@1 3@1")

    kubernetes.start(3, tail=Tail.SUSPECT)
    kubernetes.settle()

    assert shown(kubernetes) == ("2@2", "2@2")
    assert state(kubernetes).unclean_epoch == state(kubernetes).leader_epoch
    (event,) = kubernetes.announced
    assert event.reason == "UncleanElection"
    assert event.message.endswith(
        "partition 0: no in-sync replica could prove that its disk lost nothing; broker 2 leads "
        "with log end offset 80, and acknowledged records from that offset on are lost"
    )
    assert ready(kubernetes)[0] is ConditionStatus.TRUE


def test_one_that_comes_back_intact_is_elected_without_a_loss() -> None:
    kubernetes = applied(3, config=PAGE_CACHE)
    for broker_id in (1, 2, 3):
        kubernetes.kill(broker_id)
    kubernetes.settle()
    for broker_id in (1, 2):
        kubernetes.start(broker_id, tail=Tail.SUSPECT)
    kubernetes.settle()

    kubernetes.start(3)
    kubernetes.settle()

    assert shown(kubernetes)[0] == "3@2"
    assert state(kubernetes).unclean_epoch is None
    assert kubernetes.announced == []


def test_an_accepted_loss_is_known_after_later_elections_and_a_restored_map() -> None:
    """Else a replica that was away could not cut back what it alone has."""
    kubernetes = applied(config=PAGE_CACHE)
    backup = kubernetes.maps["orders"]
    kubernetes.start(1, tail=Tail.SUSPECT)
    kubernetes.settle()
    unclean_epoch = state(kubernetes).unclean_epoch
    assert unclean_epoch == state(kubernetes).leader_epoch

    kubernetes.start(1)
    kubernetes.settle()
    assert state(kubernetes).leader_epoch > unclean_epoch
    assert state(kubernetes).unclean_epoch == unclean_epoch

    restore(kubernetes, backup)
    kubernetes.settle()
    assert state(kubernetes).unclean_epoch == unclean_epoch

    del kubernetes.maps["orders"]
    kubernetes.settle()
    assert state(kubernetes).unclean_epoch == unclean_epoch


def test_a_page_cache_topic_on_a_new_disk_needs_leave() -> None:
    kubernetes = applied(config=PAGE_CACHE)
    kubernetes.start(1, new_disk=True)
    kubernetes.settle()

    assert shown(kubernetes) == ("None", "1@1")
    assert kubernetes.announced == []


def test_a_topic_that_became_fsync_counts_as_page_cache_until_it_is_flushed() -> None:
    kubernetes = applied(config=PAGE_CACHE)
    kubernetes.apply(topic(partitions=1, replicas=1))
    kubernetes.execute(kubernetes.plan().actions)
    assert kubernetes.maps["orders"].spec.unflushed == (1,)

    kubernetes.start(1, tail=Tail.SUSPECT)
    kubernetes.settle()

    assert shown(kubernetes)[0] == "1@2"
    assert [event.reason for event in kubernetes.announced] == ["UncleanElection"]


def test_an_fsync_topic_goes_on_only_with_leave_for_this_very_epoch() -> None:
    kubernetes = applied()
    log_end(kubernetes, 1, 0, 42)
    kubernetes.start(1, went_back=True)
    kubernetes.settle()
    assert "broker 1 has records up to offset 42" in ready(kubernetes)[2]
    epoch = state(kubernetes).partition_epoch

    for wrong in (f"0@{epoch - 1}", f"1@{epoch}", "0", "all"):
        allow(kubernetes, wrong)
        kubernetes.settle()
        assert shown(kubernetes)[0] == "None"

    allow(kubernetes, f"0@{epoch}")
    kubernetes.settle()
    assert shown(kubernetes) == ("1@2", "1@2")
    assert "log end offset 42" in kubernetes.announced[0].message

    kubernetes.start(1, went_back=True)
    kubernetes.settle()
    assert shown(kubernetes)[0] == "None", "one decision, made once"


def allow(kubernetes: Kubernetes, text: str) -> None:
    annotations = {labels.UNCLEAN_ELECTION: text}
    kubernetes.apply(topic(partitions=1, replicas=1, annotations=annotations))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3@17", {(3, 17)}),
        ("3@17, 4@9", {(3, 17), (4, 9)}),
        ("", set()),
        ("3@x,@4,3@,²@1,-1@2", set()),
    ],
)
def test_what_an_annotation_accepts(text: str, expected: set[tuple[int, int]]) -> None:
    wanted = {(PartitionIndex(one), PartitionEpoch(epoch)) for one, epoch in expected}

    assert set(accepted_losses(text)) == wanted


def test_a_report_from_before_the_question_does_not_count() -> None:
    kubernetes = applied(config=PAGE_CACHE)
    log_end(kubernetes, 1, 0, 10)
    kubernetes.start(1, tail=Tail.SUSPECT)
    for _ in range(2):
        kubernetes.execute(kubernetes.plan().actions)
    assert state(kubernetes).reports_wanted
    early = deepcopy(kubernetes)
    early.obey()
    topic_id = kubernetes.maps["orders"].spec.current
    reports = early.brokers[BrokerId(1)].status.replica_reports
    (report,) = (one for one in reports if one.topic_id == topic_id)
    stale = replace(report, partition_epoch=PartitionEpoch(0))
    status = replace(kubernetes.brokers[BrokerId(1)].status, replica_reports=(stale,))
    kubernetes.status(1, status)

    kubernetes.execute(kubernetes.plan().actions)

    assert shown(kubernetes)[0] == "None"


@pytest.mark.parametrize(
    ("annotation", "unread"),
    [
        ("", ()),
        ("0@3/1", ()),
        ("0@3/1, 1@2/0+2,", ()),
        ("0@3/1, yes, 1@2", ("yes",)),
        (" 0 @ x ,all", ("0@x", "all")),
    ],
)
def test_entries_of_an_acceptance_that_cannot_be_read_are_named(
    annotation: str, unread: tuple[str, ...]
) -> None:
    assert unread_losses(annotation) == unread
