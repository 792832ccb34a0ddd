"""What becomes of the broker properties that Kafka's tests set."""

from collections.abc import Mapping

from chiplog_core.config.broker_keys import broker_key

ALONE = {"default.replication.factor": "1"}
"""A standalone broker has one replica of each partition."""
NEVER = {"unclean.leader.election.enable": "false"}
"""No broker accepts another value. Tests set it to get a leader soon."""
QUICK = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
"""Smaller than the defaults, as in Kafka's own test clusters: hundreds of brokers are started."""
RENAMED = {"producer.id.expiration.check.interval.ms": "log.retention.check.interval.ms"}
"""Properties of Kafka, and the ones that do the same in Chiplog."""
KAFKAS_DEFAULTS = {"auto.create.topics.enable": "true"}
"""Kafka's defaults where ours differ."""


def adapted(properties: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """The properties that our broker gets, and the names of those that it does not have.

    A property that Chiplog does not know would stop the broker. Most of them belong to features
    that it does not have (share groups, KRaft); a test that needs one of them then fails.
    """
    properties = {RENAMED.get(key, key): value for key, value in properties.items()}
    known = {key: value for key, value in properties.items() if broker_key(key) is not None}
    return {**QUICK, **KAFKAS_DEFAULTS, **known, **ALONE, **NEVER}, properties.keys() - known.keys()
