"""Compaction: the latest value of each key stays, at its offset.

`rewrite` decides which records of a batch stay, `key_map` knows the keys, and `transactions` which
transactions were aborted; none of them waits or accesses files. `cleaning` carries out one pass,
and `cleaner` compacts one log after the other.
Three modules belong to the log itself: `compaction_plan` decides which log and which segments are
compacted, `log_compaction` replaces segments by cleaned ones, and `compaction_swap` completes a
replacement after a crash.

The rules are those of Apache Kafka (KIP-58, KIP-354, KIP-534 and its log cleaner), so either can
continue with the other's files:

* a batch keeps its first and last offset, its epoch and its codec, whatever records are removed, so
  offsets never change and a reader continues after a gap;
* a batch without records is removed, except the last one of each producer, which holds the next
  sequence number, and the last one of a segment, so that the end offset of the segment stays the
  same;
* a tombstone stays for `delete.retention.ms` after the first pass that found no older value of its
  key: that pass writes the time into the batch;
* records of aborted transactions do not stay, and the end marker of a transaction stays for
  `delete.retention.ms` after the first pass that found no batch of it;
* the active segment is never compacted, nor are records above the last stable offset or not yet
  durable on this broker.
"""
