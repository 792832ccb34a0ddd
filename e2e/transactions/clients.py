"""The tested clients, in the order in which the tests name them."""

from e2e.transactions.by_aiokafka import TransactionalAiokafka
from e2e.transactions.by_java import TransactionalJava
from e2e.transactions.by_kafka_python import TransactionalKafkaPython
from e2e.transactions.by_librdkafka import TransactionalLibrdkafka
from e2e.transactions.client import TransactionalClient

CLIENTS: tuple[TransactionalClient, ...] = (
    TransactionalJava(),
    TransactionalLibrdkafka(),
    TransactionalKafkaPython(),
    TransactionalAiokafka(),
)
