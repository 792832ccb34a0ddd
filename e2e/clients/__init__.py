"""What users run against a broker: five client libraries and Kafka's own tools.

Every test here runs against a standalone Chiplog broker. With REFERENCE=kafka in the
environment the same tests run against Apache Kafka, which proves that they demand nothing
that Kafka itself does not do.
"""
