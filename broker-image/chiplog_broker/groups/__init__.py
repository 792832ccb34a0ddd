"""Consumer groups as `__consumer_offsets` holds them, in Kafka's own record formats.

Values in, values out: nothing here waits, reads a clock or knows a socket.

* `keys`, `offset_value`, `group_value`, `reset_value`, `retention_value`: single keys and values,
  as bytes and back.
* `fold`: the state that the records of one partition add up to; `transactions`: what it holds back.
* `batches`: the batches that change it.
* `forgetting`: what expires, what is purged, what goes with a deleted group.
* `placement`: which partition a group belongs to.
"""
