"""What every job does around its work: exit codes, and that a result is told however it ends."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from chiplog_core.manifest.documents import Flaw, UnreadableDocument
from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_spark.jobs import entry
from chiplog_spark.jobs.reporting import NotReported
from chiplog_spark.refused import Refused

REQUEST = Request(
    kind=JobKind.EXPORT,
    application="daily-1",
    namespace="shop",
    bootstrap="demo:9092",
    result=ResultPlace(config_map="daily-1-result"),
)
DONE = Result(application="?", state=ResultState.SUCCEEDED, reason="Exported")


@dataclass
class Stage:
    """A job's surroundings, and what was seen of it there."""

    directory: Path
    cannot_start: Exception | None = None
    cannot_stop: Exception | None = None
    cannot_report: bool = False
    stopped: int = 0
    told: list[Result] = field(default_factory=list)

    def stop(self) -> None:
        self.stopped += 1
        if self.cannot_stop is not None:
            raise self.cannot_stop

    def session(self, _request: Request) -> SparkSession:
        if self.cannot_start is not None:
            raise self.cannot_start
        return cast("SparkSession", self)  # of a session nothing but `stop` is used here

    def report(self, _request: Request, result: Result) -> None:
        result.to_json()  # as the real ones do
        if self.cannot_report:
            raise NotReported("gone")
        self.told.append(result)

    def run(self, work: Any, text: str | None = None, kind: JobKind = JobKind.EXPORT) -> int:
        path = self.directory / "request.json"
        if text != "":
            path.write_text(REQUEST.to_json() if text is None else text)
        return entry.run(kind, work, path, entry.JobContext(self.session, self.report))

    def told_of(self) -> tuple[str, str, str]:
        (result,) = self.told
        assert result.application == "daily-1"
        return result.state.value, result.reason, result.message


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def answering(result: Result) -> entry.Work:
    return lambda _session, _request: result


def raising(error: Exception) -> entry.Work:
    def work(_session: SparkSession, _request: Request) -> Result:
        raise error

    return work


def test_a_job_that_succeeds(stage: Stage) -> None:
    assert stage.run(answering(DONE)) == 0
    assert stage.told_of() == ("Succeeded", "Exported", "")
    assert stage.stopped == 1


def test_a_job_gets_its_request(stage: Stage) -> None:
    seen = []

    def work(_session: SparkSession, request: Request) -> Result:
        seen.append(request)
        return DONE

    stage.run(work)
    assert seen == [REQUEST]


@pytest.mark.parametrize(
    ("work", "reason", "message"),
    [
        (raising(Refused("TopicUnknown", "no topic a: name one")), "TopicUnknown", "no topic a"),
        (raising(UnreadableDocument(Flaw.INVALID, "job.x is")), "InvalidRequest", "job.x is"),
        (
            answering(Result(application="", state=ResultState.FAILED, reason="No", message="so")),
            "No",
            "so",
        ),
    ],
)
def test_what_a_person_has_to_correct_is_reported_and_not_retried(
    stage: Stage, work: entry.Work, reason: str, message: str
) -> None:
    assert stage.run(work) == 3
    state, told_reason, told_message = stage.told_of()
    assert (state, told_reason) == ("Failed", reason)
    assert message in told_message
    assert stage.stopped == 1


def test_a_crash_is_reported_and_may_be_tried_again(stage: Stage) -> None:
    assert stage.run(raising(ZeroDivisionError("x" * 10_000))) == 1
    state, reason, message = stage.told_of()
    assert (state, reason) == ("Failed", "JobCrashed")
    assert message.startswith("ZeroDivisionError: xxx")
    assert stage.stopped == 1


def test_of_an_error_of_javas_the_causes_are_reported_without_the_calls(stage: Stage) -> None:
    text = (
        "failed.\n: a.SparkException: no\n\tat b.c(D.scala:1)\nCaused by: refused\n\t... 15 more\n"
    )
    assert stage.run(raising(RuntimeError(text))) == 1
    assert stage.told_of()[2] == (
        "RuntimeError: failed.\n: a.SparkException: no\nCaused by: refused"
    )


def test_a_session_that_does_not_start_is_a_crash(stage: Stage) -> None:
    stage.cannot_start = RuntimeError("no JVM")
    assert stage.run(answering(DONE)) == 1
    assert stage.told_of() == ("Failed", "JobCrashed", "RuntimeError: no JVM")


def test_a_session_that_does_not_stop_changes_nothing(stage: Stage) -> None:
    stage.cannot_stop = RuntimeError("no JVM any more")
    assert stage.run(answering(DONE)) == 0
    assert stage.run(raising(Refused("TopicUnknown", "no topic"))) == 3
    assert [result.reason for result in stage.told] == ["Exported", "TopicUnknown"]


@pytest.mark.parametrize(
    "summary", [{"share": float("nan")}, {"keys": "x" * 600_000}, {"what": object()}]
)
def test_a_result_that_cannot_be_reported_is_a_crash(
    stage: Stage, summary: Mapping[str, Any]
) -> None:
    unspeakable = Result(
        application="", state=ResultState.SUCCEEDED, reason="Exported", summary=summary
    )
    assert stage.run(answering(unspeakable)) == 1
    assert stage.told_of()[1] == "JobCrashed"


def test_a_result_that_nobody_takes_is_no_success(stage: Stage) -> None:
    stage.cannot_report = True
    assert stage.run(answering(DONE)) == 1


def test_what_cannot_be_reported_stands_in_the_pods_status(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where rights are missing, the result cannot be written either."""
    log = tmp_path / "termination-log"
    monkeypatch.setattr(entry, "TERMINATION_LOG", log)
    stage.cannot_report = True
    assert stage.run(raising(RuntimeError("pods is forbidden" + "x" * 10_000))) == 1
    assert not log.exists(), "outside of a pod there is none"
    log.touch()
    assert stage.run(raising(RuntimeError("pods is forbidden" + "x" * 10_000))) == 1
    told = log.read_text()
    assert told.startswith("JobCrashed: RuntimeError: pods is forbiddenxxx")
    assert told.endswith("; the result could not be written: gone")
    assert len(told) <= 1_000


@pytest.mark.parametrize("text", ["", "{", json.dumps({"version": 2})])
def test_a_request_that_does_not_read_is_not_tried_again(stage: Stage, text: str) -> None:
    assert stage.run(answering(DONE), text) == 3
    assert stage.told == []


def test_a_request_of_another_kind_is_refused(stage: Stage) -> None:
    assert stage.run(answering(DONE), kind=JobKind.REBALANCE) == 3
    assert stage.told_of()[1] == "InvalidRequest"


@pytest.mark.parametrize("arguments", [[], ["a", "b", "c"]])
def test_a_wrong_command_line_is_not_tried_again(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["job", *arguments])
    monkeypatch.setattr(entry, "set_up_logging", lambda: None)  # pytest has its own
    with pytest.raises(SystemExit) as ended:
        entry.main(JobKind.EXPORT, answering(DONE))
    assert ended.value.code == 3


def test_a_reason_is_one_word() -> None:
    with pytest.raises(AssertionError):
        Refused("no topic", "")
