"""A blocking client: what an executor needs to read one range of one partition.

It uses one thread and one request at a time for each connection. Memory is limited by the size that
a request allows, and every wait has a deadline. Errors are `WireError`s that name topic, partition
and remedy.
"""
