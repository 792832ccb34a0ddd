"""How fast something may be done: buckets, and the throttle of replication (KIP-73)."""
