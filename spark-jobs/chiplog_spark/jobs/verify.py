"""The job of a `Verification`: `python -m chiplog_spark.jobs.verify REQUEST [RESULT]`."""

from typing import NoReturn

from pyspark.sql import SparkSession

from chiplog_core.model.spark_result import Result
from chiplog_core.spark.requests import JobKind, Request
from chiplog_spark.jobs import entry
from chiplog_spark.jobs.brokers import access_of
from chiplog_spark.jobs.reporting import progress_reporter
from chiplog_spark.refused import Refused
from chiplog_spark.verify.composition import InSpark
from chiplog_spark.verify.job import Job, verify
from chiplog_spark.wire.errors import WireError


def work(session: SparkSession, request: Request) -> Result:
    """Run the requested verification. Raises `Refused` if the brokers cannot be read."""
    job = request.job_as(Job)
    try:
        return verify(InSpark(session, progress_reporter(request)), access_of(request), job)
    except WireError as error:
        raise Refused(error.reason, str(error)) from error


def main() -> NoReturn:
    entry.main(JobKind.VERIFICATION, work)


if __name__ == "__main__":
    main()
