"""A cluster's metadata as clients get it, read with kcat: brokers, partitions, leaders."""

import json
from collections import Counter
from dataclasses import dataclass

from e2e.cluster.shell import run
from e2e.kafka import debian

LIMIT_S = 30


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """One answer to a Metadata request."""

    brokers: dict[int, str]
    """Broker id -> the address that is advertised to clients."""
    leaders: dict[str, dict[int, int]]
    """Topic -> partition -> id of its leader, -1 where there is none."""
    in_sync: dict[str, dict[int, tuple[int, ...]]]
    """Topic -> partition -> ids of the replicas in sync."""

    def led(self, topic: str) -> Counter[int]:
        """How many partitions of a topic each broker leads."""
        return Counter(self.leaders.get(topic, {}).values())

    def is_whole(self, topic: str, partitions: int) -> bool:
        """Whether the topic has this number of partitions, each led by a broker of the answer."""
        leaders = self.leaders.get(topic, {})
        return sorted(leaders) == [*range(partitions)] and set(leaders.values()) <= {*self.brokers}


def client_metadata(bootstrap: str, topic: str | None = None) -> ClientMetadata:
    """The cluster's answer about all topics, or about one; topics with an error are left out."""
    one = () if topic is None else ("-t", topic)
    printed = run(
        *(debian.program("kcat"), "-b", bootstrap, "-L", "-J", *one),
        *("-X", "socket.timeout.ms=5000", "-m", "5"),
        timeout_s=LIMIT_S,
    )
    # Warnings may come before the JSON.
    answer = json.loads(printed[printed.index("{") :])
    topics = [one for one in answer["topics"] if not one.get("error")]
    return ClientMetadata(
        brokers={int(one["id"]): str(one["name"]) for one in answer["brokers"]},
        leaders={
            str(one["topic"]): {int(p["partition"]): int(p["leader"]) for p in one["partitions"]}
            for one in topics
        },
        in_sync={
            str(one["topic"]): {
                int(p["partition"]): tuple(int(each["id"]) for each in p["isrs"])
                for p in one["partitions"]
            }
            for one in topics
        },
    )
