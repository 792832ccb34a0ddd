"""The job `Export`: topics to a raw zone of Parquet files or Delta tables.

python -m chiplog_spark.jobs.export REQUEST [RESULT]
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.spark.requests import JobKind, Request
from chiplog_spark.export.delta import CONF, DeltaTable
from chiplog_spark.export.hadoop import HadoopFiles
from chiplog_spark.export.plan import Held
from chiplog_spark.export.request import ExportJob, Format
from chiplog_spark.export.runs import Exported, Exporter, Topic
from chiplog_spark.export.writing import SparkWriter, prepare
from chiplog_spark.jobs import entry
from chiplog_spark.jobs.brokers import access_of, source_options
from chiplog_spark.refused import Refused
from chiplog_spark.source.options import BOOTSTRAP_SERVERS
from chiplog_spark.wire.access import Access
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import EARLIEST, LATEST, Isolation

MAX_REPORTED_LOST = 100


def work(session: SparkSession, request: Request) -> Result:
    """Export every topic that the request names. Raises `Refused`."""
    job = request.job_as(ExportJob)
    access = access_for(request, job)
    prepare(session)
    exporter = Exporter(
        files=HadoopFiles(session),
        write=SparkWriter(
            session,
            {BOOTSTRAP_SERVERS: request.bootstrap, **source_options(access)},
            job.compression.value,
        ),
        bounds=job.bounds,
        fail_on_data_loss=job.fail_on_data_loss,
        table=DeltaTable(session, job.compression.value) if job.format is Format.DELTA else None,
    )
    done = [
        exporter.run(job.target, name, lambda topic: describe(access, topic)) for name in job.topics
    ]
    return result_of(done)


def access_for(request: Request, job: ExportJob) -> Access:
    """How the job connects. Its login may also be in the job's own field `sasl`, which is older
    than `connection`. Raises `Refused` if both are set."""
    access = access_of(request)
    if access.login is not None and job.login is not None:
        raise Refused(
            "InvalidRequest", "both connection.login and job.sasl have a login: remove one of them"
        )
    return replace(access, login=access.login or job.login)


def describe(access: Access, name: str) -> Topic:
    """The id of a topic, and the offsets of its partitions that can be exported now: records of
    open transactions cannot. Raises `Refused`."""
    try:
        with Client(access) as client:
            facts = client.topic(name)
            starts, ends = (
                client.offsets(
                    facts,
                    dict.fromkeys(facts.partitions, position),
                    isolation=Isolation.READ_COMMITTED,
                )
                for position in (EARLIEST, LATEST)
            )
    except WireError as error:
        raise Refused(error.reason, str(error)) from error
    held = {number: Held(starts[number], ends[number]) for number in starts}
    return Topic(name, str(facts.topic_id), held)


def result_of(done: list[Exported]) -> Result:
    """The result of a job that has exported these topics."""
    records = sum(exported.records for exported in done)
    files = sum(exported.files for exported in done)
    lost = sum(len(exported.lost) for exported in done)
    lost_note = f"; {lost} ranges of offsets were deleted before they were exported" if lost else ""
    return Result(
        application="export",  # `entry` replaces it by the name in the request
        state=ResultState.SUCCEEDED,
        reason="Exported",
        message=f"exported {records} records in {files} files{lost_note}",
        summary={"topics": [summary_of(exported) for exported in done]},
    )


def summary_of(exported: Exported) -> dict[str, Any]:
    """The summary's entry of one topic; `lost` lists the first ranges, `lostTotal` counts all."""
    return {
        "topic": exported.topic,
        "commits": exported.commits,
        "records": exported.records,
        "files": exported.files,
        "bytes": exported.size_bytes,
        "lostTotal": len(exported.lost),
        "lost": [
            {
                "partition": lost_range.partition,
                "firstOffset": lost_range.first,
                "lastOffset": lost_range.end - 1,
            }
            for lost_range in exported.lost[:MAX_REPORTED_LOST]
        ],
    }


def conf_for(request: Request) -> Mapping[str, str]:
    """The Spark configuration of the session: only Delta tables need one.

    The request is not validated yet. If its `job` is invalid, `work` reports that.
    """
    return CONF if request.job.get("format") == Format.DELTA.value else {}


def main() -> NoReturn:
    entry.main(JobKind.EXPORT, work, conf_for)


if __name__ == "__main__":
    main()
