"""Record batches: Kafka's format with magic 2, as opaque bytes after a header of 61 bytes.

A client's batch is checked by its header and CRC, patched in place and written as it was sent,
without reading single records. Code that reads records (lookups by timestamp, tests) uses `reader`,
compaction uses `scan`; both accept any bytes, and raise errors for invalid ones.
"""
