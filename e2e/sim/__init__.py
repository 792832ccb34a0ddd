"""A whole cluster in one thread and on one virtual clock: the real planner, the real operator
loop and the real brokers, with a network, disks, an API server and clients that are simulated.

A seed decides everything that is left to chance, so what it did once it does again.
"""
