"""The replicas that are proven to be damaged, for automatic repair.

The list of violations contains only the first ones. This list is by replica, and complete or empty;
its total is always given.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from chiplog_core.model.spark_result import MAX_ACCUSED, REPAIRABLE
from chiplog_spark.verify.facts import UNKNOWN, PartitionFacts
from chiplog_spark.verify.judge import Accusation, Place


def accused(
    accusations: Iterable[Accusation], facts: Mapping[Place, PartitionFacts]
) -> dict[str, Any]:
    """The summary's `accused` and `accusedTotal`: damaged replicas, and their number.

    A violation that is not of a particular replica has an entry without `replica`: it shows a
    repair that no undamaged replica is known.
    """
    checks: dict[tuple[str, int, int], set[str]] = {}
    for check, topic, partition, replica in accusations:
        if check in REPAIRABLE:
            checks.setdefault((topic, partition, replica), set()).add(check.value)
    reported = [
        {
            "topic": topic,
            "topicId": facts[topic, partition].topic_id,
            "partition": partition,
            **({} if replica == UNKNOWN else {"replica": replica}),
            "checks": sorted(of_replica),
        }
        for (topic, partition, replica), of_replica in sorted(checks.items())
    ]
    return {
        "accused": reported if len(reported) <= MAX_ACCUSED else [],
        "accusedTotal": len(reported),
    }
