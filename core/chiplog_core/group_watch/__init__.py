"""What the operator does about consumer groups: which brokers to ask, what to publish, and how
often.

Coordinators say who is in a group and what it committed, leaders where their partitions end. From
both, and from what was published last, come the status of each ConsumerGroup and the objects of
groups that were discovered. Pure: no clock, no network; times come in as milliseconds.
"""
