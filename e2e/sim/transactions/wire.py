"""The requests of one transactional producer, in the versions that its client uses."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from chiplog_wire.protocol.apis import ApiKey
from e2e.sim.wire import PRODUCE_TIMEOUT_MS, TopicPartition, Wire

OF_GROUP: Final = 0
OF_TRANSACTION: Final = 1
"""Key types of FindCoordinator."""
SUPPORTED: Final = {
    ApiKey.FIND_COORDINATOR: (1, 4),
    ApiKey.INIT_PRODUCER_ID: (3, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 3),
    ApiKey.TXN_OFFSET_COMMIT: (0, 3),
    ApiKey.END_TXN: (0, 3),
    ApiKey.PRODUCE: (3, 11),
    ApiKey.OFFSET_FETCH: (7, 9),
}
"""(oldest, newest) version of the first generation. InitProducerId names a producer from 3 on."""
SECOND_SUPPORTED: Final = {
    ApiKey.FIND_COORDINATOR: (4, 6),
    ApiKey.INIT_PRODUCER_ID: (5, 5),
    ApiKey.TXN_OFFSET_COMMIT: (5, 5),
    ApiKey.END_TXN: (5, 5),
    ApiKey.PRODUCE: (12, 12),
    ApiKey.OFFSET_FETCH: (7, 9),
}
"""(oldest, newest) version of the second generation (KIP-890), whose requests add partitions and
offsets to the transaction themselves."""


class Identity(NamedTuple):
    """A producer id with its epoch; (-1, -1) for none."""

    producer_id: int = -1
    epoch: int = -1


class TransactionWire:
    """The requests about one transactional id. All of them raise one of `UNREACHED`."""

    def __init__(
        self,
        transactional_id: str,
        bootstrap: Sequence[str],
        chance: random.Random,
        name: str,
        *,
        is_second: bool = False,
    ) -> None:
        """`is_second`: the requests are those of the second generation."""
        self.transactional_id = transactional_id
        self.bootstrap = bootstrap
        self.chance = chance
        self.group = f"group-of-{transactional_id}"
        self.wire = Wire(bootstrap, chance, name)
        supported = SECOND_SUPPORTED if is_second else SUPPORTED
        self._versions = {
            key: chance.randint(oldest, newest) for key, (oldest, newest) in supported.items()
        }

    async def _send(self, at: tuple[str, int], key: ApiKey, values: Mapping[str, Any]) -> Any:
        return await self.wire.say(at, key, self._versions[key], values)

    async def coordinator(self, key_type: int) -> tuple[int, tuple[str, int]]:
        """Find the coordinator of the transactional id or of its group: (error code, address)."""
        key = self.transactional_id if key_type == OF_TRANSACTION else self.group
        values = {"key": key, "coordinator_keys": [key], "key_type": key_type}
        answer = await self._send(self.wire.anybody(), ApiKey.FIND_COORDINATOR, values)
        found = answer.coordinators[0] if hasattr(answer, "coordinators") else answer
        return int(found.error_code), (str(found.host), int(found.port))

    async def init(
        self, at: tuple[str, int], who: Identity, timeout_s: float
    ) -> tuple[int, Identity]:
        """Initialize the producer; returns (error code, its identity from now on)."""
        values = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": int(timeout_s * 1000),
            "producer_id": who.producer_id,
            "producer_epoch": who.epoch,
        }
        answer = await self._send(at, ApiKey.INIT_PRODUCER_ID, values)
        found = Identity(int(answer.producer_id), int(answer.producer_epoch))
        return int(answer.error_code), found

    async def add(
        self, at: tuple[str, int], who: Identity, partitions: Iterable[TopicPartition]
    ) -> int:
        """Add partitions to the transaction; returns the first error code."""
        topics: dict[str, list[int]] = {}
        for one in partitions:
            topics.setdefault(one.topic, []).append(one.number)
        named = [{"name": name, "partitions": numbers} for name, numbers in topics.items()]
        values = {
            "transactional_id": self.transactional_id,
            "v3_and_below_transactional_id": self.transactional_id,
            "producer_id": who.producer_id,
            "v3_and_below_producer_id": who.producer_id,
            "producer_epoch": who.epoch,
            "v3_and_below_producer_epoch": who.epoch,
            "topics": named,
            "v3_and_below_topics": named,
        }
        answer = await self._send(at, ApiKey.ADD_PARTITIONS_TO_TXN, values)
        codes = [
            int(one.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
        return next((code for code in codes if code), 0)

    async def produce(
        self, at: tuple[str, int], partition: TopicPartition, batch: bytes
    ) -> tuple[int, int]:
        """Send one batch; returns (error code, base offset)."""
        one = {"index": partition.number, "records": batch}
        values = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout": PRODUCE_TIMEOUT_MS,
            "topic_data": [{"name": partition.topic, "partition_data": [one]}],
        }
        answer = await self._send(at, ApiKey.PRODUCE, values)
        found = answer.responses[0].partition_responses[0]
        return int(found.error_code), int(found.base_offset)

    async def add_offsets(self, at: tuple[str, int], who: Identity) -> int:
        """Add the group's offsets to the transaction; returns the error code."""
        values = {**self._who(who), "group_id": self.group}
        return int((await self._send(at, ApiKey.ADD_OFFSETS_TO_TXN, values)).error_code)

    async def commit_offset(
        self, at: tuple[str, int], who: Identity, place: TopicPartition, offset: int, mark: str
    ) -> int:
        """Commit an offset of the group in the transaction; returns the error code."""
        one = {
            "partition_index": place.number,
            "committed_offset": offset,
            "committed_metadata": mark,
        }
        topics = [{"name": place.topic, "partitions": [one]}]
        values = {**self._who(who), "group_id": self.group, "topics": topics}
        answer = await self._send(at, ApiKey.TXN_OFFSET_COMMIT, values)
        return int(answer.topics[0].partitions[0].error_code)

    async def end(
        self, at: tuple[str, int], who: Identity, *, is_commit: bool
    ) -> tuple[int, Identity]:
        """Commit or abort the transaction; returns (error code, the producer's identity from now
        on). In the first generation that is the same."""
        values = {**self._who(who), "committed": is_commit}
        answer = await self._send(at, ApiKey.END_TXN, values)
        if answer.error_code or not hasattr(answer, "producer_epoch"):
            return int(answer.error_code), who
        return 0, Identity(int(answer.producer_id), int(answer.producer_epoch))

    async def committed(self, at: tuple[str, int], place: TopicPartition) -> tuple[int, int, str]:
        """The group's stable offset of a partition: (error code, offset, mark)."""
        topics = [{"name": place.topic, "partition_indexes": [place.number]}]
        group = {"group_id": self.group, "topics": topics}
        values = group | {"groups": [group], "require_stable": True}
        answer = await self._send(at, ApiKey.OFFSET_FETCH, values)
        found = answer.groups[0] if hasattr(answer, "groups") else answer
        if found.error_code:
            return int(found.error_code), -1, ""
        one = found.topics[0].partitions[0]
        return int(one.error_code), int(one.committed_offset), str(one.metadata or "")

    def _who(self, who: Identity) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": who.producer_id,
            "producer_epoch": who.epoch,
        }
