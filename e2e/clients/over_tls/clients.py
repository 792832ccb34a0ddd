"""All clients, in the order the tests name them."""

from e2e.clients.over_tls.by_java import JavaOverTls
from e2e.clients.over_tls.by_librdkafka import KcatOverTls, LibrdkafkaOverTls
from e2e.clients.over_tls.by_python import AiokafkaOverTls, KafkaPythonOverTls
from e2e.clients.over_tls.client import OverTls

OVER_TLS: tuple[type[OverTls], ...] = (
    KafkaPythonOverTls,
    LibrdkafkaOverTls,
    AiokafkaOverTls,
    KcatOverTls,
    JavaOverTls,
)
