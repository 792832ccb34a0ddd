"""The common part of all jobs: read the request, start Spark, report the result.

    python -m chiplog_spark.jobs.verify REQUEST [RESULT]
    python -m chiplog_spark.jobs.verify --version

REQUEST is the path of the request file. The result is written to the ConfigMap that the request
names, or, outside of Kubernetes, to the file RESULT.

The exit code says what a launcher may do next. 0: done, and the result was reported. 3: the job
cannot be _outcome_of as requested, and that was reported (or the request cannot be parsed): another
attempt would end in the same way. 1: an error of ours or of the machines; the result says
`JobCrashed` if it could be reported.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from pyspark.sql import SparkSession

from chiplog_core.manifest.documents import UnreadableDocument
from chiplog_core.model.spark_result import CRASHED, Result, ResultState, failed
from chiplog_core.spark.requests import JobKind, Request
from chiplog_core.telemetry.log_lines import JsonFormatter
from chiplog_core.version import VERSION
from chiplog_spark.jobs import orders, reporting
from chiplog_spark.refused import Refused

log = logging.getLogger(__name__)

DONE: Final = 0
BROKEN: Final = 1
REFUSED: Final = 3

TERMINATION_LOG: Final = Path("/dev/termination-log")
"""Its content appears in the status of the ended pod (`terminationMessagePath`)."""

INVALID_REQUEST: Final = "InvalidRequest"
"""Reason if the request cannot be parsed: operator and image have different versions."""

Work: TypeAlias = Callable[[SparkSession, Request], Result]
"""A job. Raises `Refused` or `UnreadableDocument` if a user must act; any other error is a crash.
The result's `application` is set by the caller."""

Conf: TypeAlias = Callable[[Request], Mapping[str, str]]
"""The Spark configuration of a session, from the request."""


def no_conf(_request: Request) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class JobContext:
    """The functions that `run` needs to start Spark and to report a result; tests replace them."""

    session: Callable[[Request], SparkSession]
    report: Callable[[Request, Result], None]
    key: str = field(default="", repr=False)
    """The secret key with which the driver checks that its orders come from the operator; empty if
    the operator does not sign them."""


def main(kind: JobKind, work: Work, conf: Conf = no_conf) -> NoReturn:
    """Run a job from the command line, and exit with its exit code.

    `conf` returns the Spark configuration that this kind of job needs.
    """
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"chiplog-spark {VERSION}\n")
        sys.exit(DONE)
    set_up_logging()
    if len(arguments) not in {1, 2}:
        log.error("usage: REQUEST [RESULT], paths of files")
        sys.exit(REFUSED)
    report = to_file(Path(arguments[1])) if len(arguments) == 2 else to_config_map
    try:
        key = reporting.own_key()
    except reporting.NotReported as error:
        log.error("the key of this run cannot be parsed", extra={"why": str(error)})
        sys.exit(BROKEN)

    def session(request: Request) -> SparkSession:
        template_conf = orders.template_conf(request.application, key)
        return session_for(request, {**conf(request), **template_conf})

    sys.exit(run(kind, work, Path(arguments[0]), JobContext(session, report, key)))


def run(kind: JobKind, work: Work, path: Path, context: JobContext) -> int:
    """Run the job of the request file `path`, and report its result; returns the exit code."""
    try:
        request = orders.read_request(path, context.key)
    except (OSError, UnreadableDocument, Refused) as error:
        log.error("the request cannot be parsed", extra={"path": str(path), "why": str(error)})
        return REFUSED
    about = {"application": request.application, "kind": request.kind.value}
    log.info("begun", extra=about)
    result, code = _outcome_of(kind, work, request, context)
    log.info("ended", extra={**about, **facts(result)})
    try:
        context.report(request, result)
    except reporting.NotReported as error:
        log.error("the result could not be written", extra={**about, "why": str(error)})
        write_termination_message(result, error)
        return BROKEN
    return code


def _outcome_of(
    kind: JobKind, work: Work, request: Request, context: JobContext
) -> tuple[Result, int]:
    """Run a job; returns its result and the exit code. An error becomes a result, too."""
    if request.kind is not kind:
        message = (
            f"the request is for a {request.kind}, but this job runs a {kind}; use the same version"
            " of operator and Spark image"
        )
        return failed(request.application, INVALID_REQUEST, message), REFUSED
    try:
        session = context.session(request)
        try:
            result = work(session, request)
        finally:
            stop(session)
    except Refused as refused:
        return failed(request.application, refused.reason, str(refused)), REFUSED
    except UnreadableDocument as unreadable:
        return failed(request.application, INVALID_REQUEST, str(unreadable)), REFUSED
    except Exception as error:
        log.exception("crashed")
        return crashed(request, error), BROKEN
    try:
        result = replace(result, application=request.application)
        result.to_json()
    except UnreadableDocument as error:  # the job's own result is invalid
        log.exception("the result cannot be written")
        return crashed(request, error), BROKEN
    return result, DONE if result.state is ResultState.SUCCEEDED else REFUSED


def crashed(request: Request, error: Exception) -> Result:
    """The result of a job that ended with an unexpected error."""
    return failed(request.application, CRASHED, f"{type(error).__name__}: {without_calls(error)}")


def without_calls(error: Exception) -> str:
    """The text of an error, without the lines of a Java stack trace, which begin with a tab."""
    lines = str(error).splitlines()
    return "\n".join(line for line in lines if not line.startswith("\t"))


def stop(session: SparkSession) -> None:
    """End a session; a failure does not change the result."""
    try:
        session.stop()
    except Exception:
        log.exception("the session did not stop")


def write_termination_message(result: Result, error: reporting.NotReported) -> None:
    """Write the result, and why it could not be reported, to the status of this pod.

    Each text is shortened, because Kubernetes limits the size. Outside of a pod nothing is written.
    """
    text = f"{result.reason}: {result.message}"[:500]
    text += f"; the result could not be written: {error}"[:500]
    with suppress(OSError), TERMINATION_LOG.open("r+", encoding="utf-8") as file:
        file.write(text)


def facts(result: Result) -> dict[str, object]:
    """The fields of a result that the log shows."""
    return {
        "state": result.state.value,
        "reason": result.reason,
        "why": result.message,
        "violations": result.violations_total,
    }


def session_for(request: Request, conf: Mapping[str, str]) -> SparkSession:
    """A Spark session with the configuration of `spark-submit`, and `conf` in addition."""
    builder = SparkSession.builder.appName(request.application)
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def to_config_map(request: Request, result: Result) -> None:
    asyncio.run(reporting.to_config_map(request, result))


def to_file(path: Path) -> Callable[[Request, Result], None]:
    """A function for `JobContext.report` that writes the result to this file."""

    def report(_request: Request, result: Result) -> None:
        reporting.to_file(path, result)

    return report


def set_up_logging() -> None:
    """Log JSON lines to standard error. Below warnings py4j is silent: it would log every call."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)
