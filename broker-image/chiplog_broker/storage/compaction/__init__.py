"""Compaction: of each key the latest value stays, at the offset it always had.

`rewrite` decides which records of a batch stay, `key_map` knows the keys; neither waits or touches
a file. `cleaning` carries one pass out, and `cleaner` takes one log after the other. What a log
itself needs is beside the log: `compaction_plan` decides which log and which segments,
`log_compaction` puts cleaned segments in the place of others, and `compaction_swap` does so after
a crash.

The rules are Apache Kafka's (KIP-58, KIP-354, KIP-534 and its log cleaner), so that either can
take over the other's files:

* a batch keeps its first and last offset, its epoch and its codec, whatever becomes of its
  records, so offsets never change and a reader goes on behind a gap;
* a batch without records goes, except the last of each producer, which says what sequence
  number comes next, and the last of a segment, so that a segment still leads up to the next one;
* a tombstone stays for `delete.retention.ms` after the first pass that had nothing older left
  of its key: that pass writes the time into the batch;
* the newest segment is never touched, nor is what is not safe yet.
"""
