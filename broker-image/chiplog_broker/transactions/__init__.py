"""Transactions as records of `__transaction_state`, in Kafka's own formats.

These modules are pure: they wait for nothing, read no clock and use no socket.

* `key`, `value`: encode and decode single keys and values.
* `fold`: the state that results from the records of one partition.
"""
