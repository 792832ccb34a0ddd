"""Record batches: Kafka's magic-2 format as opaque bytes behind a 61-byte header.

A batch a client sent is checked by its header and its CRC, patched in place and written
as it came; nothing on that path looks at a single record. What does (a lookup by
timestamp, the tests, compaction) uses `reader`, which trusts nothing it reads.
"""
