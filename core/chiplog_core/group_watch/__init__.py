"""How the operator observes consumer groups: which brokers it asks, what it publishes, and how
often.

Coordinators report a group's members and committed offsets, leaders the end offsets of their
partitions. From both, and from the published status, this package derives the new status of each
ConsumerGroup and the objects for discovered groups. Pure: no clock, no network; times are passed in
as milliseconds.
"""
