"""DescribeLogDirs: the size of each replica on disk."""

from typing import Any

from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.disk import Disk, DiskUsage
from chiplog_broker.server.call import Call
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

UNKNOWN_BYTES = -1


class LogDirHandlers:
    """Reports the broker's only data directory and the replicas in it."""

    def __init__(self, replicas: Replicas, disk: Disk, path: str, long_work: LongWork) -> None:
        self._replicas = replicas
        self._long_work = long_work
        self._disk = disk
        self._path = path

    async def describe_log_dirs(self, call: Call[Any]) -> object:
        """The sizes of the requested replicas; of all replicas if the request has no topics (null).

        The directory of a broker whose disk has failed is offline: an error without replicas.
        """
        types = answers(ApiKey.DESCRIBE_LOG_DIRS)
        topics = call.message.topics
        requested = topics and {
            (topic.topic, index) for topic in topics for index in topic.partitions
        }
        by_topic: dict[str, list[object]] = {}
        slices = self._long_work.slices()
        # A copy: replicas may be added or removed between slices.
        for partition in list(self._replicas):
            await slices.pause()
            name = partition.name
            if requested is None or (name.topic, name.partition) in requested:
                by_topic.setdefault(name.topic, []).append(described(types, partition))
        offline = self._replicas.is_offline
        usage = DiskUsage(UNKNOWN_BYTES, UNKNOWN_BYTES) if offline else self._disk.usage()
        directory = types.DescribeLogDirsResult(
            error_code=ErrorCode.kafka_storage_error if offline else ErrorCode.none,
            log_dir=self._path,
            topics=tuple(
                types.DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
                for name, partitions in by_topic.items()
                if not offline
            ),
            total_bytes=usage.total_bytes,
            usable_bytes=usage.free_bytes,
            is_cordoned=False,
        )
        return types.DescribeLogDirsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(directory,)
        )


def described(types: Any, partition: Partition) -> object:
    """One replica. In Kafka `offset_lag` is how far the log end is below the high watermark, so it
    is 0 for every replica that is not being moved to another directory."""
    return types.DescribeLogDirsPartition(
        partition_index=partition.name.partition,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )
