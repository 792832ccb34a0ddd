"""One Spark that reads a topic in so many splits: `... BOOTSTRAP TOPIC SPLITS RECORDS`.

Prints a line of JSON: megabytes a second of a verification, of one of its cores, and of the data
source. Spark has been warmed up, as a job that lasts is.
"""

import json
import math
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import count, length
from pyspark.sql.functions import sum as sum_of

from chiplog_spark.source.register import register
from chiplog_spark.verify.composition import InSpark
from chiplog_spark.verify.job import Job, verify
from chiplog_spark.wire.access import Access, addresses_of
from e2e.spark.session import local_session


def main() -> None:
    """Read 1000 records to warm Spark up, then measure a verification and a read."""
    bootstrap, topic, splits, records = sys.argv[1:]
    session = local_session(int(splits))
    register(session)
    per_split = math.ceil(int(records) / int(splits))
    read(session, bootstrap, topic, per_split, f'{{"{topic}":{{"0":1000}}}}')
    began_s = time.monotonic()
    result = verify(
        InSpark(session),
        Access(addresses_of(bootstrap)),
        Job(topics=(topic,), records_per_split=per_split),
    )
    assert not result.violations, result.violations
    verified_s = time.monotonic() - began_s
    megabytes = result.summary["coverage"]["bytes"] / 1e6
    began_s = time.monotonic()
    assert read(session, bootstrap, topic, per_split, "latest") == int(records)
    found = {
        "verified": megabytes / verified_s,
        "core": result.summary["figures"]["megabytesPerSecondPerCore"],
        "read": megabytes / (time.monotonic() - began_s),
    }
    session.stop()
    print(json.dumps(found))


def read(session: SparkSession, bootstrap: str, topic: str, per_split: int, end: str) -> int:
    """Read the topic up to `end` (`endingOffsets`) in Spark; returns the number of records."""
    frame = (
        session.read.format("chiplog")
        .option("bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("recordsPerSplit", str(per_split))
        .option("endingOffsets", end)
        .load()
    )
    (row,) = frame.agg(count("offset"), sum_of(length("value"))).collect()
    return int(row[0])


if __name__ == "__main__":
    main()
