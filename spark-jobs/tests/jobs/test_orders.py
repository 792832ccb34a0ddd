"""A driver does what the operator has told it, and nothing that somebody else has written there."""

from pathlib import Path

import pytest

from chiplog_core.spark.plain_job import TEMPLATE_KEY
from chiplog_core.spark.requests import REQUEST_KEY, JobKind, Request, ResultPlace
from chiplog_core.spark.signing import signature_of, signed
from chiplog_spark.jobs import entry
from chiplog_spark.jobs.orders import TEMPLATE_CONF, read_request, template_conf
from chiplog_spark.refused import Refused

KEY = "of this run"
REQUEST = Request(
    kind=JobKind.VERIFICATION,
    application="all-1",
    namespace="shop",
    bootstrap="demo-kafka-bootstrap.shop.svc:9092",
    result=ResultPlace(config_map="all-1-result"),
)
POD = '{"kind": "Pod"}'


def mounted(
    directory: Path, files: dict[str, str], key: str = KEY, application: str = "all-1"
) -> Path:
    """As the kubelet shows the ConfigMap that the operator has made."""
    for name, text in signed(key, application, files).items():
        (directory / name).write_text(text)
    return directory


def test_what_the_operator_has_written_is_read(tmp_path: Path) -> None:
    directory = mounted(tmp_path, {REQUEST_KEY: REQUEST.to_json(), TEMPLATE_KEY: POD})
    own = tmp_path / "own"
    own.mkdir()

    assert read_request(directory / REQUEST_KEY, KEY) == REQUEST
    conf = template_conf("all-1", KEY, directory / TEMPLATE_KEY, own)
    (directory / TEMPLATE_KEY).write_text("later")
    assert Path(conf[TEMPLATE_CONF]).read_text() == POD


def test_a_changed_request_is_not_done(tmp_path: Path) -> None:
    path = mounted(tmp_path, {REQUEST_KEY: REQUEST.to_json()}) / REQUEST_KEY
    path.write_text(path.read_text().replace("demo-kafka-bootstrap.shop.svc", "theirs.shop.svc"))

    def never(*_: object) -> None:
        raise AssertionError("it is done all the same")

    context = entry.JobContext(never, never, KEY)  # type: ignore[arg-type]
    assert entry.run(JobKind.VERIFICATION, never, path, context) == entry.REFUSED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "application", "file", "is_there"),
    [
        ("of another run", "all-1", TEMPLATE_KEY, True),
        (KEY, "all-2", TEMPLATE_KEY, True),
        (KEY, "all-1", REQUEST_KEY, True),  # of another file
        (KEY, "all-1", TEMPLATE_KEY, False),
    ],
)
def test_pods_that_somebody_else_wants_are_not_made(
    tmp_path: Path, key: str, application: str, file: str, is_there: bool
) -> None:
    mounted(tmp_path, {file: POD}, key, application)
    template = tmp_path / TEMPLATE_KEY
    template.write_text(POD)
    said = tmp_path / signature_of(file)
    said.rename(said.with_name(signature_of(TEMPLATE_KEY)))
    if not is_there:
        said.with_name(signature_of(TEMPLATE_KEY)).unlink()

    with pytest.raises(Refused, match="somebody else changed it"):
        template_conf("all-1", KEY, template, tmp_path)


def test_without_a_key_nothing_is_known_and_all_is_taken(tmp_path: Path) -> None:
    directory = mounted(tmp_path, {REQUEST_KEY: REQUEST.to_json()}, key="")

    assert read_request(directory / REQUEST_KEY, "") == REQUEST
    assert [one.name for one in directory.iterdir()] == [REQUEST_KEY]


def test_spark_operators_have_the_template_elsewhere(tmp_path: Path) -> None:
    assert template_conf("all-1", KEY, tmp_path / TEMPLATE_KEY, tmp_path) == {}
