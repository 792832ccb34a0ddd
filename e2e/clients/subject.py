"""Which broker the tests are about: Chiplog, or Apache Kafka where REFERENCE=kafka."""

import os

from e2e.clients.standalone import StandaloneBroker
from e2e.cluster.console import Refused
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.process import BrokerProcess

SUBJECTS: dict[str, type[BrokerProcess]] = {"": StandaloneBroker, "kafka": KafkaBroker}


def subject() -> type[BrokerProcess]:
    name = os.environ.get("REFERENCE", "")
    if name not in SUBJECTS:
        raise Refused(f"REFERENCE={name}: only `kafka` is known")
    return SUBJECTS[name]
