"""Measures a cluster from its records, for the proposal of a rebalance.

`sketch`, `tally` and `window` are pure; `planning` sends requests to the brokers, `reading` uses
Spark.
"""
