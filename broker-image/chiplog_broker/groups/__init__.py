"""Consumer groups as records of `__consumer_offsets`, in Kafka's own formats.

These modules are pure: they wait for nothing, read no clock and use no socket.

* `keys`, `offset_value`, `group_value`, `reset_value`, `retention_value`: encode and decode single
  keys and values.
* `fold`: the state that results from the records of one partition; `transactions`: offsets of open
  transactions.
* `batches`: the batches that change this state.
* `forgetting`: expired offsets, and the keys that are deleted with a topic or a group.
* `placement`: which partition a group belongs to.
"""
