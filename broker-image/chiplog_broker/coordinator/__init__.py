"""The group coordinator: the partitions of `__consumer_offsets` that this broker leads.

What is decided is decided in `chiplog_core.groups` (members) and `chiplog_broker.groups` (what is
stored); here it is loaded, appended, waited for and given up.
"""
