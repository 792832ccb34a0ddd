"""What a member of kafka-python has still to commit when its partitions are shared again."""

from types import SimpleNamespace

import pytest

from e2e.chaos.group_worker import KafkaPythonWorker, RebalanceListener
from e2e.clients.by_kafka_python import TopicPartition


class Member(KafkaPythonWorker):
    """One that processes what the test says; its commits are kept here."""

    def __init__(self) -> None:
        super().__init__(0, "nowhere:9092", "topic", "group")
        self.consumer = SimpleNamespace(_coordinator=SimpleNamespace(_offset_fetch_futures={}))
        self.sent: list[dict[int, int]] = []

    def commit_sync(self, offsets: dict[int, int]) -> None:
        self.sent.append(dict(offsets))


def assigned(*partitions: int) -> list[TopicPartition]:
    return [TopicPartition("topic", number) for number in partitions]


@pytest.fixture
def member() -> Member:
    return Member()


def test_what_it_keeps_it_commits_after_the_rebalance(member: Member) -> None:
    """kafka-python goes on behind these records: nobody would ever commit them."""
    listener = RebalanceListener(member)
    listener.on_partitions_assigned(assigned(0, 1))
    member.process(0, 41)
    member.process(1, 7)
    listener.on_partitions_revoked(assigned(0, 1))
    listener.on_partitions_assigned(assigned(0))
    member.commit()
    assert member.sent == [{0: 42}]


def test_what_it_lost_it_does_not_commit(member: Member) -> None:
    listener = RebalanceListener(member)
    listener.on_partitions_assigned(assigned(0))
    member.process(0, 41)
    listener.on_partitions_lost(assigned(0))
    listener.on_partitions_assigned(assigned(0))
    member.commit()
    assert member.sent == []
