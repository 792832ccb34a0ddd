"""Record batches: Kafka's format with magic 2, as opaque bytes after a header of 61 bytes.

A batch of a client is checked by its header and CRC, patched in place and written as it was sent;
no single record is read on that path. Code that reads records (lookups by timestamp, compaction,
tests) uses `reader`, which trusts no byte.
"""
