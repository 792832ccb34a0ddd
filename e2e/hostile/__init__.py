"""Attacks at full size on real brokers, and what another client notices of them: `make hostile`.

Each attack is a function that is given an address and the seconds it has, and says what happened to
it. Beside it a client that behaves measures its longest wait, the broker's memory is watched, and
where the broker is a member of a cluster, its Lease.
"""
