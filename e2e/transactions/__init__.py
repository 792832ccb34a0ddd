"""Transactions with three brokers, by unmodified clients and Kafka's own programs.

The brokers are processes on loopback (`e2e.loopback`). With REFERENCE=kafka in the environment the
same tests run against three brokers of Apache Kafka, which proves that they demand nothing that
Kafka itself does not do.
"""
