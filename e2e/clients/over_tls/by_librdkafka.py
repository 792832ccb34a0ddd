"""kcat and librdkafka, in processes whose OpenSSL is configured."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from ssl import TLSVersion
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from e2e.clients.by_kcat import Kcat
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import WRITE_LIMIT_S, Client, Record
from e2e.clients.over_tls.client import ByClient, OverTls, Tls
from e2e.clients.over_tls.files import openssl_conf
from e2e.cluster.shell import CommandFailed, run
from e2e.kafka import debian


class KcatOverTls(ByClient):
    name = Kcat.name

    def client(self, tls: Tls) -> Client:
        return Kcat(tls.files.librdkafka())

    def produce(self, tls: Tls, topic: str, values: Sequence[bytes]) -> None:
        with openssl(tls.version, self.directory):
            super().produce(tls, topic, values)

    def consume(self, tls: Tls, topic: str, count: int) -> list[bytes]:
        with openssl(tls.version, self.directory):
            return super().consume(tls, topic, count)

    def refusal(self, tls: Tls, limit_s: int) -> str:
        # With its log, which has the reason.
        options = Kcat({**tls.files.librdkafka(), "log_level": 3}).options()
        listing = ("-L", "-m", str(limit_s), "-b", tls.bootstrap, *options)
        with openssl(tls.version, self.directory):
            try:
                run(debian.program("kcat"), *listing)
            except CommandFailed as failed:
                return failed.output
        return ""


class LibrdkafkaOverTls(OverTls):
    """A call with a version of TLS has a process of its own: OpenSSL is configured once."""

    name = Librdkafka.name

    def produce(self, tls: Tls, topic: str, values: Sequence[bytes]) -> None:
        self._call(produce_by_librdkafka, tls, topic, values)

    def consume(self, tls: Tls, topic: str, count: int) -> list[bytes]:
        found: list[bytes] = self._call(consume_by_librdkafka, tls, topic, count)
        return found

    def refusal(self, tls: Tls, limit_s: int) -> str:
        return str(self._call(refusal_of_librdkafka, tls, limit_s))

    def _call(self, function: Callable[..., Any], tls: Tls, *arguments: object) -> Any:
        if tls.version is None:
            return function(tls, *arguments)
        with (
            openssl(tls.version, self.directory),
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        ):
            return pool.submit(function, tls, *arguments).result(timeout=WRITE_LIMIT_S)


def produce_by_librdkafka(tls: Tls, topic: str, values: Sequence[bytes]) -> None:
    """See `OverTls.produce`."""
    client = Librdkafka(tls.files.librdkafka())
    client.produce(tls.bootstrap, topic, [Record(value) for value in values])


def consume_by_librdkafka(tls: Tls, topic: str, count: int) -> list[bytes]:
    """See `OverTls.consume`."""
    found = Librdkafka(tls.files.librdkafka()).consume(tls.bootstrap, topic, 0, count)
    return [one.record.value or b"" for one in found]


def refusal_of_librdkafka(tls: Tls, limit_s: int) -> str:
    """See `OverTls.refusal`."""
    errors: list[str] = []
    settings: dict[str, Any] = {
        **tls.files.librdkafka(),
        "bootstrap.servers": tls.bootstrap,
        "error_cb": lambda error: errors.append(str(error)),
    }
    admin = AdminClient(settings)
    deadline_s = time.monotonic() + limit_s
    while not any("handshake" in one for one in errors):
        try:
            admin.list_topics(timeout=0.1)
        except KafkaException as error:
            admin.poll(0)  # which reports errors
            if time.monotonic() > deadline_s:
                return " ".join([str(error), *errors])
        else:
            return ""
    return " ".join(errors)


@contextmanager
def openssl(version: TLSVersion | None, directory: Path) -> Iterator[None]:
    """Programs that start while the block runs use this version of TLS only."""
    if version is None:
        yield
        return
    path = directory / "openssl.cnf"
    path.write_text(openssl_conf(version))
    before = os.environ.get("OPENSSL_CONF")
    os.environ["OPENSSL_CONF"] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["OPENSSL_CONF"]
        else:
            os.environ["OPENSSL_CONF"] = before
