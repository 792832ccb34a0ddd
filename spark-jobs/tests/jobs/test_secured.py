"""Jobs of a cluster with TLS, logins and rules: each reads as the user of its request."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from pyspark.sql import SparkSession

from chiplog_core.ids import BrokerId
from chiplog_core.manifest.writing import write
from chiplog_core.model.spark_result import Result
from chiplog_core.rebalance.job import RebalanceJob
from chiplog_core.spark.requests import Connection, JobKind, Request, ResultPlace, ScramLogin
from chiplog_spark.export.request import ExportJob
from chiplog_spark.jobs import export, rebalance, verify
from chiplog_spark.jobs.brokers import access_of, source_options
from chiplog_spark.refused import Refused
from chiplog_spark.source.options import parsed
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import NotAuthorized, Unreachable
from e2e.clients.secured import ADMIN, MTLS, OPEN, PASSWORD, SCRAM, SecuredBroker

pytestmark = [pytest.mark.spark]

TOPIC = "orders"
RECORDS = 40


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as one:
        one.fill(TOPIC, [b"%d" % number for number in range(RECORDS)])
        yield one


@pytest.fixture
def connections(secured: SecuredBroker, tmp_path: Path) -> dict[str, Connection]:
    """How to connect to each listener; the files are as a pod mounts them."""
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    login = ScramLogin(username=ADMIN, password_file=str(password))
    encrypted = Connection(tls=True, ca_file=str(secured.ca))
    return {
        SCRAM: replace(encrypted, login=login),
        MTLS: replace(
            encrypted,
            certificate_file=str(secured.client_files / "tls.crt"),
            key_file=str(secured.client_files / "tls.key"),
        ),
        OPEN: encrypted,
    }


def request(
    secured: SecuredBroker, listener: str, connection: Connection, kind: JobKind, job: object
) -> Request:
    """A request, as the driver reads it from its file."""
    made = Request(
        kind=kind,
        application="nightly",
        namespace="shop",
        bootstrap=secured.address(listener),
        connection=connection,
        result=ResultPlace(config_map="nightly-result"),
        job=job,  # type: ignore[arg-type]
    )
    return Request.from_json(made.to_json())


@pytest.mark.parametrize("listener", [SCRAM, MTLS])
def test_every_job_reads_as_its_user(
    secured: SecuredBroker,
    connections: dict[str, Connection],
    spark: SparkSession,
    tmp_path: Path,
    listener: str,
) -> None:
    def done(kind: JobKind, job: object, work: Callable[[SparkSession, Request], Result]) -> Result:
        return work(spark, request(secured, listener, connections[listener], kind, job))

    verified = done(JobKind.VERIFICATION, {"topics": [TOPIC]}, verify.work)
    assert verified.violations == ()
    assert verified.summary["coverage"]["records"] == RECORDS

    measuring = write(RebalanceJob(topics=(TOPIC,), brokers=(BrokerId(1),)))
    measured = done(JobKind.REBALANCE, measuring, rebalance.work)
    assert [one["records"] for one in measured.summary["partitions"]] == [RECORDS]

    exporting = {"topics": [TOPIC], "target": (tmp_path / "exports").as_uri()}
    exported = done(JobKind.EXPORT, exporting, export.work)
    assert [one["records"] for one in exported.summary["topics"]] == [RECORDS]


def test_who_is_nobody_may_not_read(
    secured: SecuredBroker, connections: dict[str, Connection], spark: SparkSession
) -> None:
    asked = request(secured, OPEN, connections[OPEN], JobKind.VERIFICATION, {"topics": [TOPIC]})
    with pytest.raises(Refused) as refused:
        verify.work(spark, asked)
    assert refused.value.reason == NotAuthorized.reason


@pytest.mark.parametrize(
    ("listener", "change", "what"),
    [
        (OPEN, {"ca_file": None}, "CERTIFICATE_VERIFY_FAILED"),
        (OPEN, {"ca_file": "/none/ca.crt"}, "/none/ca.crt: No such file"),
        (MTLS, {"key_file": "/none/tls.key"}, "/none/tls.key: No such file"),
        (MTLS, {"certificate_file": None, "key_file": None}, "CERTIFICATE_REQUIRED"),
    ],
)
def test_what_tls_refuses_is_said(
    secured: SecuredBroker,
    connections: dict[str, Connection],
    listener: str,
    change: dict[str, str | None],
    what: str,
) -> None:
    connection = replace(connections[listener], **change)  # type: ignore[arg-type]
    asked = request(secured, listener, connection, JobKind.VERIFICATION, {})
    access = replace(access_of(asked), patience_ms=200)
    with Client(access) as client, pytest.raises(Unreachable, match=what) as refused:
        client.topic(TOPIC)
    assert "ssl.ca.location" in str(refused.value)


def test_nobody_is_asked_for_the_password_of_a_key(
    secured: SecuredBroker, connections: dict[str, Connection], tmp_path: Path
) -> None:
    """OpenSSL would ask at the terminal, and wait."""
    key = serialization.load_pem_private_key(secured.client.key, None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"of-the-key"),
        )
    )
    connection = replace(connections[MTLS], key_file=str(encrypted))
    access = access_of(request(secured, MTLS, connection, JobKind.VERIFICATION, {}))
    program = (
        "from chiplog_spark.wire.access import *\n"
        "from chiplog_spark.wire.client import Client\n"
        f"Client({replace(access, patience_ms=200)!r}).topic({TOPIC!r})\n"
    )
    primary, terminal = os.openpty()
    try:
        done = subprocess.run(  # its terminal is one at which nobody answers
            [sys.executable, "-c", program],
            stdin=terminal,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(primary)
        os.close(terminal)
    assert "must not be encrypted" in done.stderr


@pytest.mark.parametrize("listener", [SCRAM, MTLS, OPEN])
def test_the_data_source_connects_as_the_job(
    secured: SecuredBroker, connections: dict[str, Connection], listener: str
) -> None:
    asked = request(secured, listener, connections[listener], JobKind.EXPORT, {})
    access = access_of(asked)
    needed = {"bootstrap.servers": asked.bootstrap, "topic": TOPIC}
    assert parsed(needed | source_options(access), is_streaming=False).access == access


def test_an_export_with_two_logins_is_refused(
    secured: SecuredBroker, connections: dict[str, Connection]
) -> None:
    sasl = {"username": ADMIN, "passwordFile": "/secrets/ada"}
    job = {"topics": [TOPIC], "target": "file:///exports", "sasl": sasl}
    asked = request(secured, SCRAM, connections[SCRAM], JobKind.EXPORT, job)
    with pytest.raises(Refused, match=r"connection\.login and job\.sasl"):
        export.access_for(asked, asked.job_as(ExportJob))
    one = request(secured, SCRAM, connections[OPEN], JobKind.EXPORT, job)
    found = export.access_for(one, one.job_as(ExportJob))
    assert (found.login, found.tls) == (one.job_as(ExportJob).login, access_of(one).tls)
