"""A client that blocks: what an executor needs to read one range of one partition.

One thread, one request under way on a connection, memory bounded by what a request allows, and a
deadline on whatever waits. Failures are `WireError`s that name topic, partition and remedy.
"""
