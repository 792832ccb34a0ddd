"""A whole cluster in one thread and on one virtual clock: the real planner, the real operator
loop and the real brokers, with a network, disks, an API server and clients that are simulated.

The seed decides everything that is random, so a run with the same seed repeats exactly.
"""
