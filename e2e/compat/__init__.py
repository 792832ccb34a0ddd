"""Apache Kafka's own integration tests, run against brokers of Chiplog.

The tests are Kafka's classes from Maven Central, unchanged. They get their clusters from two of
their own interfaces, which `sources` implements: `ClusterInstance` (the tests of the clients), and
`EmbeddedKafkaCluster` (those of Kafka Streams). Both ask `brokers.py` for brokers.
"""
