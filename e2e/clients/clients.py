"""All clients, in the order the tests name them."""

from e2e.clients.by_aiokafka import Aiokafka
from e2e.clients.by_java import JavaConsole
from e2e.clients.by_kafka_python import KafkaPython
from e2e.clients.by_kcat import Kcat
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Client

CLIENTS: tuple[Client, ...] = (KafkaPython(), Librdkafka(), Aiokafka(), Kcat(), JavaConsole())
