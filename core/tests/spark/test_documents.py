"""Requests and results read as they were written, and nothing that is wrong is acted upon."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.manifest.constraints import Range
from chiplog_core.manifest.documents import Flaw, UnreadableDocument
from chiplog_core.model import spark_result
from chiplog_core.model.spark_result import Check, Result, ResultState, Violation, failed
from chiplog_core.spark import requests
from chiplog_core.spark.requests import Connection, JobKind, Request, ResultPlace, ScramLogin

REQUEST = Request(
    kind=JobKind.VERIFICATION,
    application="nightly-1",
    namespace="shop",
    bootstrap="demo-kafka-bootstrap.shop.svc:9092",
    result=ResultPlace(config_map="nightly-1-result"),
    job={"topics": ["orders"]},
)
VIOLATION = Violation(
    check=Check.REPLICA_MISMATCH,
    topic="orders",
    partition=PartitionIndex(3),
    offset=Offset(17),
    replica=BrokerId(2),
    message="not as on broker 1",
)
SECURED = replace(
    REQUEST,
    connection=Connection(
        tls=True,
        ca_file="/ca/ca.crt",
        login=ScramLogin(username="ada", password_file="/user/password"),  # noqa: S106 - a path
    ),
)
RESULT = Result(
    application="nightly-1",
    state=ResultState.SUCCEEDED,
    reason="Checked",
    message="3 topics",
    summary={"records": 5, "coverage": {"orders": [1, 2.5, None]}},
    violations=(VIOLATION, replace(VIOLATION, offset=None, replica=None)),
    violations_total=7,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Fields of one kind of job."""

    records: Annotated[int, "How many.", Range(0, 100)] = 3


def wrong_request(**changes: Any) -> UnreadableDocument:
    value = json.loads(REQUEST.to_json())
    value.update(changes)
    with pytest.raises(UnreadableDocument) as raised:
        Request.from_json(json.dumps({name: v for name, v in value.items() if v is not ...}))
    return raised.value


def wrong_result(text: str | bytes | None = None, **changes: Any) -> UnreadableDocument:
    value = json.loads(RESULT.to_json())
    value.update(changes)
    given_text = json.dumps(value) if text is None else text
    with pytest.raises(UnreadableDocument) as raised:
        Result.from_json(given_text, application="nightly-1")
    return raised.value


def test_what_was_written_is_read() -> None:
    assert Request.from_json(REQUEST.to_json()) == REQUEST
    assert Result.from_json(RESULT.to_json(), application="nightly-1") == RESULT


def test_the_words_are_those_that_operator_and_jobs_agreed_on() -> None:
    assert json.loads(REQUEST.to_json()) == {
        "version": 1,
        "kind": "Verification",
        "application": "nightly-1",
        "namespace": "shop",
        "bootstrap": "demo-kafka-bootstrap.shop.svc:9092",
        "result": {"configMap": "nightly-1-result"},
        "job": {"topics": ["orders"]},
    }
    told = json.loads(RESULT.to_json())
    assert told["violationsTotal"] == 7
    assert told["violations"][0] == {
        "check": "ReplicaMismatch",
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "replica": 2,
        "message": "not as on broker 1",
    }


# ---- what is wrong with a request ----


def test_a_field_that_is_not_known_is_refused_by_name() -> None:
    wrong = wrong_request(bootstrp="x:1")
    assert wrong.flaw is Flaw.INVALID
    assert "bootstrp" in str(wrong)
    assert "did you mean bootstrap?" in str(wrong)


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"kind": "Verify"}, Flaw.INVALID),
        ({"application": ...}, Flaw.INVALID),
        ({"application": "A b"}, Flaw.INVALID),
        ({"bootstrap": "no port"}, Flaw.INVALID),
        ({"result": {}}, Flaw.INVALID),
        ({"job": []}, Flaw.INVALID),
        ({"version": 2}, Flaw.WRONG_VERSION),
        ({"version": True}, Flaw.WRONG_VERSION),
        ({"version": "1"}, Flaw.WRONG_VERSION),
        ({"job": {"filler": "x" * requests.MAX_REQUEST_BYTES}}, Flaw.TOO_LARGE),
    ],
)
def test_a_wrong_request(changes: dict[str, Any], flaw: Flaw) -> None:
    assert wrong_request(**changes).flaw is flaw


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", "[" * 100_000, '{"job": {"a": NaN}}', b"\xff"]
)
def test_what_is_no_json_object(text: str | bytes) -> None:
    with pytest.raises(UnreadableDocument) as raised:
        Request.from_json(text)
    assert raised.value.flaw is Flaw.NOT_JSON
    assert wrong_result(text).flaw is Flaw.NOT_JSON


def test_a_connection_is_read_as_it_was_written() -> None:
    assert Request.from_json(SECURED.to_json()) == SECURED
    assert "connection" not in json.loads(REQUEST.to_json()), "images that do not know it refuse it"
    assert wrong_request(connection={"tls": "perhaps"}).flaw is Flaw.INVALID


def test_no_request_is_written_that_no_job_would_take() -> None:
    with pytest.raises(UnreadableDocument):
        replace(REQUEST, bootstrap="no port").to_json()
    with pytest.raises(UnreadableDocument):
        replace(REQUEST, job={"filler": "x" * requests.MAX_REQUEST_BYTES}).to_json()


def test_a_kinds_own_fields_are_read_as_strictly() -> None:
    assert replace(REQUEST, job={"records": 5}).job_as(Own) == Own(records=5)
    assert replace(REQUEST, job={}).job_as(Own) == Own()
    with pytest.raises(UnreadableDocument, match=r"job.recrds .*did you mean records"):
        replace(REQUEST, job={"recrds": 5}).job_as(Own)
    with pytest.raises(UnreadableDocument, match=r"job.records is 101"):
        replace(REQUEST, job={"records": 101}).job_as(Own)


# ---- what is wrong with a result ----


def test_a_result_of_another_application_does_not_count() -> None:
    wrong = wrong_result(application="nightly-0")
    assert wrong.flaw is Flaw.OF_ANOTHER
    assert "'nightly-0'" in str(wrong)


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"version": 2}, Flaw.WRONG_VERSION),
        ({"state": "Done"}, Flaw.INVALID),
        ({"reason": "two words"}, Flaw.INVALID),
        ({"summary": 3}, Flaw.INVALID),
        ({"violationsTotal": 1}, Flaw.INVALID),
        ({"violationsTotal": -1}, Flaw.INVALID),
        ({"violations": [{"check": "Crc"}]}, Flaw.INVALID),
        ({"violations": [{}] * (spark_result.MAX_VIOLATIONS + 1)}, Flaw.INVALID),
        ({"summary": {"filler": "x" * spark_result.MAX_RESULT_BYTES}}, Flaw.TOO_LARGE),
    ],
)
def test_a_wrong_result(changes: dict[str, Any], flaw: Flaw) -> None:
    assert wrong_result(**changes).flaw is flaw


def test_what_a_newer_job_tells_more_is_ignored() -> None:
    value = json.loads(RESULT.to_json())
    value["colour"] = "blue"
    value["violations"][0]["colour"] = "blue"
    assert Result.from_json(json.dumps(value), application="nightly-1") == RESULT
    assert replace(RESULT, summary={"records": 5, "colour": "blue"}).summary_as(Own) == Own(
        records=5
    )
    with pytest.raises(UnreadableDocument, match=r"summary.records"):
        replace(RESULT, summary={"records": "many"}).summary_as(Own)


def test_figures_are_rounded_where_they_are_read_for_a_status() -> None:
    assert replace(RESULT, summary={"records": 4.6}).summary_as(Own) == Own(records=5)
    with pytest.raises(UnreadableDocument, match=r"summary.records is 101"):
        replace(RESULT, summary={"records": 100.6}).summary_as(Own)


def test_a_figure_too_large_for_any_number_is_a_wrong_one() -> None:
    text = RESULT.to_json().replace('"records":5', '"records":1e999')
    found = Result.from_json(text, application="nightly-1")
    with pytest.raises(UnreadableDocument, match=r"summary.records"):
        found.summary_as(Own)


def test_a_result_fits_and_says_how_many_violations_there_are() -> None:
    many = replace(RESULT, violations=(VIOLATION,) * 250, violations_total=0)
    found = Result.from_json(many.to_json(), application="nightly-1")
    assert len(found.violations) == spark_result.MAX_VIOLATIONS
    assert found.violations_total == 250


def test_long_texts_make_room_by_telling_of_fewer_violations() -> None:
    long = replace(VIOLATION, message="ü" * 100_000)
    text = replace(RESULT, violations=(long,) * 100, message="m" * 100_000).to_json()
    assert len(text.encode()) <= spark_result.MAX_RESULT_BYTES
    found = Result.from_json(text, application="nightly-1")
    assert 10 < len(found.violations) < 100
    assert found.violations_total == 100
    assert found.violations[0].message.endswith("ü…")
    assert len(found.message) == spark_result.MAX_MESSAGE_LENGTH


@pytest.mark.parametrize(
    "summary", [{"at": float("nan")}, {"what": object()}, {"filler": "x" * 600_000}]
)
def test_a_summary_that_cannot_be_told_is_an_error_of_the_job(summary: dict[str, Any]) -> None:
    with pytest.raises(UnreadableDocument):
        replace(RESULT, summary=summary).to_json()


def test_a_failure_of_any_length_can_be_told() -> None:
    told = failed("nightly-1", "TopicUnknown", "x" * 1_000_000)
    assert Result.from_json(told.to_json(), application="nightly-1") == told


# ---- properties ----

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=9), JSON, max_size=5)
VIOLATIONS = st.builds(
    Violation,
    check=st.sampled_from(Check),
    topic=st.from_regex(r"[a-z0-9._-]{1,20}x", fullmatch=True),
    partition=st.integers(0, 1_999).map(PartitionIndex),
    offset=st.none() | st.integers(0, 2**63 - 1).map(Offset),
    replica=st.none() | st.integers(1, 1_000).map(BrokerId),
    message=st.text(max_size=50),
)


@given(
    state=st.sampled_from(ResultState),
    message=st.text(max_size=200),
    summary=OBJECTS,
    violations=st.lists(VIOLATIONS, max_size=120),
    more=st.integers(0, 10**9),
)
def test_any_result_reads_as_it_was_written(
    state: ResultState, message: str, summary: Any, violations: list[Violation], more: int
) -> None:
    given_result = Result(
        application="a-1",
        state=state,
        reason="Why",
        message=message,
        summary=summary,
        violations=tuple(violations),
        violations_total=len(violations) + more,
    )
    assert Result.from_json(given_result.to_json(), application="a-1") == given_result.fitted()


@given(job=OBJECTS)
def test_any_job_reads_as_it_was_written(job: Any) -> None:
    given_request = replace(REQUEST, job=job)
    assert Request.from_json(given_request.to_json()) == given_request


@given(st.binary(max_size=200) | JSON.map(json.dumps) | OBJECTS.map(json.dumps))
def test_anything_else_is_refused_and_never_an_accident(text: str | bytes) -> None:
    for read in (Request.from_json, lambda given: Result.from_json(given, application="a")):
        with pytest.raises(UnreadableDocument):
            read(text)
