"""Attacks at full size on real brokers, and what another client notices of them: `make hostile`.

Each attack is a function that is given an address and a duration in seconds, and returns what
happened as a text. During the attack, a well-behaved client measures its longest wait. The broker's
memory is measured, too, and so is the age of its Lease if the broker is a member of a cluster.
"""
