"""Measuring what a rebalance is proposed from, from the records themselves.

`sketch`, `tally` and `window` are values in, values out; `planning` asks the brokers, `reading`
composes Spark.
"""
