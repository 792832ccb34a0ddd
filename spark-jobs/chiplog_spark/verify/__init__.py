"""Proving the data: what must hold of stored batches, and the job that looks whether it does.

What decides is pure: `crc`, `times` and `placement` judge a batch by itself, `continuity` and
`epochs` a replica's batches in the order of their offsets, `peers` the replicas beside each
other, `surviving` the records of a compacted topic key by key, `extent` where replicas begin and
end. None of them accuses a log that is in good order: where what is known does not suffice, it is
said what was left out and why.
"""
