"""kafka-python and aiokafka, which take a context of Python's ssl."""

import asyncio
import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaConnectionError  # type: ignore[import-untyped]

from e2e.clients.by_aiokafka import Aiokafka
from e2e.clients.by_kafka_python import KafkaConsumer, KafkaError, KafkaPython
from e2e.clients.client import Client
from e2e.clients.over_tls.client import ByClient, Tls


class KafkaPythonOverTls(ByClient):
    name = KafkaPython.name

    def client(self, tls: Tls) -> Client:
        return KafkaPython(tls.files.python(tls.version))

    def refusal(self, tls: Tls, limit_s: int) -> str:
        with logged("kafka") as lines, warnings.catch_warnings():
            # It never closes the sockets of refused connections: they are collected here.
            warnings.simplefilter("ignore", ResourceWarning)
            try:
                KafkaConsumer(
                    bootstrap_servers=tls.bootstrap,
                    bootstrap_timeout_ms=limit_s * 1000,
                    **tls.files.python(tls.version),
                ).close()
            except KafkaError as error:
                return " ".join([str(error), *lines])
            finally:
                gc.collect()
        return ""


class AiokafkaOverTls(ByClient):
    name = Aiokafka.name

    def client(self, tls: Tls) -> Client:
        return Aiokafka(tls.files.python(tls.version))

    def refusal(self, tls: Tls, limit_s: int) -> str:
        async def connect() -> None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=tls.bootstrap, **tls.files.python(tls.version)
            )
            try:
                await consumer.start()
            finally:
                await consumer.stop()

        with logged("aiokafka") as lines:
            try:
                asyncio.run(connect())
            except KafkaConnectionError as error:
                return " ".join([str(error), *lines])
        return ""


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """What a library logs while the block runs, from warnings on, with the causes of errors."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            values = record.args if isinstance(record.args, tuple) else ()
            raised = record.exc_info[1] if record.exc_info else None
            for one in (*values, raised):
                lines.extend(map(str, chain_of(one)))

    handler, logger = Keep(logging.WARNING), logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def chain_of(error: object) -> Iterator[BaseException]:
    """An error and its causes; nothing if it is none."""
    while isinstance(error, BaseException):
        yield error
        error = error.__cause__
