"""Spark jobs on the data of real brokers: proof, export, balance, and the source that they read.

What decides is pure and needs no Spark; what runs in executors is thin and only composes it.
Executors speak to brokers as any client does, by the Kafka protocol.
"""
