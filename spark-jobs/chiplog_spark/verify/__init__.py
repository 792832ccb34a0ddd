"""Verifies stored data: the rules for stored batches, and the job that checks them.

The checks are pure: `crc`, `times` and `placement` check a single batch, `continuity` and `epochs`
the batches of a replica in the order of their offsets, `peers` compares the replicas, `surviving`
the records of a compacted topic by key, `extent` the start and end of replicas. No check reports an
intact log: if the known facts are not sufficient, the check is skipped, and the result says which
and why.
"""
