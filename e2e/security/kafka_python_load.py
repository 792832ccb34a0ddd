"""A load by kafka-python that runs while certificates change."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from e2e.clients.by_kafka_python import KafkaConsumer, KafkaProducer

READ_LIMIT_S = 60


class KafkaPythonLoad:
    """Produces and consumes with two connected clients, until it is stopped: idempotently, with
    acks=all."""

    def __init__(self, settings: Mapping[str, Any], topic: str, *, pause_s: float) -> None:
        self._producer = KafkaProducer(enable_idempotence=True, acks="all", linger_ms=5, **settings)
        self._consumer = KafkaConsumer(
            topic, group_id="kafka-python", auto_offset_reset="earliest", **settings
        )
        self._topic = topic
        self._pause_s = pause_s
        self.acknowledged: list[bytes] = []
        self.read: list[bytes] = []
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]

    def __enter__(self) -> "KafkaPythonLoad":
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for one in self._threads:
            one.join(READ_LIMIT_S + 30)

    def _produce(self) -> None:
        number = 0
        try:
            while not self._stopping.wait(self._pause_s):
                value = b"%08d" % number
                sent = self._producer.send(self._topic, value)
                sent.add_callback(lambda _, value=value: self.acknowledged.append(value))
                sent.add_errback(lambda error: self.errors.append(repr(error)))
                number += 1
            self._producer.flush(30)
        except Exception as error:  # noqa: BLE001 - the test asserts that there is none
            self.errors.append(repr(error))
        finally:
            self._producer.close(timeout=10)

    def _consume(self) -> None:
        deadline_s = time.monotonic() + READ_LIMIT_S
        try:
            while time.monotonic() < deadline_s:
                for records in self._consumer.poll(timeout_ms=500).values():
                    self.read += [one.value for one in records]
                if self._threads[0].is_alive():
                    deadline_s = time.monotonic() + READ_LIMIT_S
                elif len(self.read) >= len(self.acknowledged):
                    break
        except Exception as error:  # noqa: BLE001 - the test asserts that there is none
            self.errors.append(repr(error))
        finally:
            self._consumer.close()
