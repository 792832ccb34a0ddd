"""CRC32C of a batch, from its attributes on (Kafka's record batch format, magic 2)."""

from collections.abc import Iterator

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import Batch, PartitionFacts
from chiplog_spark.verify.findings import Finding


def check_crc(facts: PartitionFacts, batch: Batch) -> Iterator[Finding]:
    """Yields a finding if the stored checksum differs from the computed one."""
    if batch.stored_crc != batch.computed_crc:
        yield Finding(
            Check.CRC,
            facts.topic,
            facts.partition,
            batch.base_offset,
            batch.replica,
            f"the batch of offsets {batch.base_offset} to {batch.last_offset} has CRC"
            f" {batch.computed_crc:#010x}, its header says {batch.stored_crc:#010x}",
        )
