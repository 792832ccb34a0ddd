"""Brokers that report the load of the partitions that they lead, as the PartitionMaps say."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chiplog_core.ids import LeaderEpoch, PartitionIndex
from chiplog_core.model.group_exchange import request_from_body, to_body
from chiplog_core.model.load_exchange import (
    LOADS_PATH,
    LoadsAnswer,
    LoadsRequest,
    PartitionLoad,
    TopicLoad,
)
from chiplog_core.naming import names
from chiplog_core.observed.processes import Identity
from chiplog_kube import kinds
from chiplog_operator.groups.loop import GroupPorts
from chiplog_operator.groups.port import Access, NoAnswer, WrongSecret
from chiplog_operator.metrics import Metrics
from chiplog_operator.resources.secret import password_of


@dataclass
class LoadedBrokers:
    """All brokers of the cluster `demo`, for the operator's questions about load."""

    bench: Any
    sizes: Callable[[str, int], int] = lambda _topic, _partition: 1_000
    """The bytes of each partition."""
    bytes_per_second: int = 0
    """What is appended to each partition."""
    away: set[int] = field(default_factory=set)
    a_page: int = 1_000
    asked: Counter[int] = field(default_factory=Counter)
    garbled: bool = False

    def ports(self) -> GroupPorts:
        return GroupPorts(port=self, figures_listener=Metrics().groups)

    async def ask(self, process: Identity, access: Access, path: str, body: bytes) -> bytes:
        assert path == LOADS_PATH
        self.asked[process.broker_id] += 1
        if process.broker_id in self.away:
            raise NoAnswer("it is away")
        if access.secret != password_of(
            self.bench.one(kinds.SECRETS, names.internal_secret("demo"))
        ):
            raise WrongSecret("another secret")
        if self.garbled:
            return b"{"
        asked = request_from_body(LoadsRequest, body)
        topics = [one for one in self._topics(process) if one.topic > (asked.after or "")]
        told = topics[: self.a_page]
        return to_body(
            LoadsAnswer(
                topics=tuple(told),
                next_after=told[-1].topic if len(told) < len(topics) else None,
                ticks_ms=self._ticks_ms(),
            )
        )

    def _ticks_ms(self) -> int:
        return int(self.bench.clock.monotonic_s() * 1000)

    def _topics(self, process: Identity) -> list[TopicLoad]:
        found = []
        for manifest in self.bench.api.all_of(kinds.PARTITION_MAPS):
            topic = manifest["spec"]["topicName"]
            led = [
                PartitionLoad(
                    partition=PartitionIndex(state["partition"]),
                    leader_epoch=LeaderEpoch(state["leaderEpoch"]),
                    bytes=self.sizes(topic, state["partition"]),
                    bytes_in=self.bytes_per_second * self._ticks_ms() // 1000,
                )
                for state in manifest["spec"]["generations"][0]["partitions"]
                if str(state.get("leader", "")).split("@")[0] == str(process.broker_id)
            ]
            if led and not topic.startswith("__"):
                found.append(TopicLoad(topic=topic, partitions=tuple(led)))
        return sorted(found, key=lambda one: one.topic)
