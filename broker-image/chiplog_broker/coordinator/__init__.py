"""The group coordinator: the partitions of `__consumer_offsets` that this broker leads.

The rules are in `chiplog_core.groups` (members) and `chiplog_broker.groups` (stored records). These
modules load and append the records, and answer clients once the records are safe.
"""
