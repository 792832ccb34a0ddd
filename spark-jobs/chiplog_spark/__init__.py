"""Spark jobs on the data of real brokers: verification, export, rebalance, and a data source.

Decisions are pure and need no Spark; code that runs in executors is thin and combines them.
Executors are ordinary clients of the Kafka protocol.
"""
