"""The size and the traffic of each partition that this broker leads, for the operator."""

from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.metadata.view import ClusterView, TopicView
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import Clock
from chiplog_core.ids import LeaderEpoch, PartitionIndex
from chiplog_core.model.load_exchange import (
    PARTITIONS_PER_PAGE,
    LoadsAnswer,
    LoadsRequest,
    PartitionLoad,
    TopicLoad,
)


class Loads:
    """Answers the operator for the partitions that this broker leads."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        clock: Clock,
        *,
        partitions_per_page: int = PARTITIONS_PER_PAGE,
    ) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._clock = clock
        self._long_work = LongWork(clock)
        self._partitions_per_page = partitions_per_page

    async def answer(self, request: LoadsRequest) -> LoadsAnswer:
        """The partitions that this broker leads, in the topics after `request.after`. A partition
        that it cannot lead now, for example because its log is damaged, is left out."""
        ticks_ms = int(self._clock.monotonic_s() * 1000)
        after = request.after or ""
        views = {view.name: view for view in self._cluster if not view.is_internal}
        found: list[TopicLoad] = []
        listed = 0
        slices = self._long_work.slices()
        for name in sorted(name for name in views if name > after):
            await slices.pause()
            partitions = self._of_topic(views[name])
            if partitions:
                found.append(TopicLoad(topic=name, partitions=partitions))
            listed += len(partitions)
            if listed >= self._partitions_per_page:
                return LoadsAnswer(topics=tuple(found), next_after=name, ticks_ms=ticks_ms)
        return LoadsAnswer(topics=tuple(found), ticks_ms=ticks_ms)

    def _of_topic(self, view: TopicView) -> tuple[PartitionLoad, ...]:
        """The partitions of a topic that this broker leads."""
        found = []
        for state in view.partitions:
            if state.leader_id != self._cluster.broker_id:
                continue
            try:
                partition = self._replicas.leader(view.name, state.index, state.leader_epoch)
            except PartitionError:
                continue
            found.append(
                PartitionLoad(
                    partition=PartitionIndex(state.index),
                    leader_epoch=LeaderEpoch(state.leader_epoch),
                    bytes=partition.log.size_bytes,
                    bytes_in=partition.counters.bytes_in,
                    records_in=partition.counters.records_in,
                )
            )
        return tuple(found)
