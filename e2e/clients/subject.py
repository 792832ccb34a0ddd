"""The broker that the tests run against: Chiplog, or Apache Kafka with REFERENCE=kafka."""

import os

from e2e.clients.standalone import StandaloneBroker
from e2e.cluster.console import Refused
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.process import BrokerProcess

SUBJECTS: dict[str, type[BrokerProcess]] = {"": StandaloneBroker, "kafka": KafkaBroker}


def subject() -> type[BrokerProcess]:
    """The class of the tested broker. Raises `Refused` for an unknown value of REFERENCE."""
    name = os.environ.get("REFERENCE", "")
    if name not in SUBJECTS:
        raise Refused(f"REFERENCE={name} is unknown: use REFERENCE=kafka, or unset it for Chiplog")
    return SUBJECTS[name]
